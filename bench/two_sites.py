#!/usr/bin/env python3
"""What following a primary costs, on this machine, both sites on loopback.

usage: bench/two_sites.py [--repositories N] [--pushes N] [--idle SECONDS]

Makes two sites with N small repositories in a temporary directory and measures
  - the first copy of all, beside one `git clone --mirror` over the same HTTP after another;
  - a push until its copy is verified, beside the `git fetch` (core.fsync=all) that a perfect
    poller would have to start at the same moment;
  - what a minute of nothing costs both nodes: CPU, memory, processes started.
Ratios of one run are what counts. Needs git and python3; the program is build/refrelay.
"""

import argparse
import base64
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))
TICKS = os.sysconf("SC_CLK_TCK")


def git(*args, cwd=None, **options):
    return subprocess.run(["git", *map(str, args)], cwd=cwd, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Site:
    def __init__(self, work, name, port, extra):
        self.folder = work / name
        self.folder.mkdir()
        self.git = self.folder / "git"
        self.git.mkdir()
        self.log = self.folder / "log"
        self.conf = self.folder / "refrelay.conf"
        self.conf.write_text(
            f"[site]\nname = {name}\nrepositories = {self.git}\ndata = {self.folder}/data\n"
            f"[http]\nlisten = 127.0.0.1:{port}\nanonymousRead = true\n{extra}")
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([REFRELAY, "-c", self.conf, "serve"], stderr=log)

    def run(self, *args):
        return subprocess.run([REFRELAY, "-c", self.conf, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def cost(self):
        """CPU seconds, its reaped children's included; resident MB."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1]
        fields = stat.split()
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024
        return sum(map(int, fields[11:15])) / TICKS, resident

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()


def wait_for(what, condition, seconds=1800, step=0.1):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(step)


def verified(log):
    """Names and lags of all syncs that ended well, in order."""
    return re.findall(r" ev=sync\.done .*?repo=(\S+).* lag_ms=(\d+)", log.read_text())


def first_copy(london, paris, port, count):
    start = time.monotonic()
    paris.start()
    wait_for("the first copy", lambda: paris.run("status").returncode == 0)
    took = time.monotonic() - start
    sample = sorted(london.git.iterdir())[:50]
    clones = paris.folder / "clones"
    begin = time.monotonic()
    for path in sample:
        git("clone", "-q", "--mirror", f"http://127.0.0.1:{port}/{path.name}",
            clones / path.name)
    one = (time.monotonic() - begin) / len(sample)
    print(f"first copy of {count}: {took:.1f} s, {count / took:.0f}/s; git clone --mirror one "
          f"after another {1 / one:.0f}/s: {one * count / took:.1f}x")


def pushes(london, paris, port, work, count):
    bare = sorted(london.git.iterdir())[0]
    clone, mirror = work / "clone", work / "mirror.git"
    git("clone", "-q", bare, clone)
    git("clone", "-q", "--mirror", f"http://127.0.0.1:{port}/{bare.name}", mirror)
    arrived, fetched, lags, pushed = [], [], [], []
    for number in range(count):
        (clone / "file").write_text(f"change {number}\n")
        git("add", "file", cwd=clone)
        git("commit", "-qm", f"change {number}", cwd=clone)
        before = len(verified(paris.log))
        start = time.monotonic()
        git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=clone)
        end = time.monotonic()
        wait_for("a pushed change", lambda: len(verified(paris.log)) > before, 60, 0.001)
        arrived.append(time.monotonic() - start)
        pushed.append(end - start)
        lags.append(int(verified(paris.log)[-1][1]))
        begin = time.monotonic()
        git("-c", "core.fsync=all", "fetch", "-q", cwd=mirror)
        fetched.append(time.monotonic() - begin)
        time.sleep(0.1)
    lag, fetch = statistics.median(lags), statistics.median(fetched) * 1000
    print(f"change committed at the primary until its copy is verified: median {lag:.0f} ms, "
          f"worst of {count} {max(lags)} ms")
    print(f"start of git push until then: median {statistics.median(arrived) * 1000:.0f} ms, of "
          f"which git push itself {statistics.median(pushed) * 1000:.0f} ms")
    print(f"git fetch of the same change, started by hand: median {fetch:.0f} ms "
          f"({fetch / lag:.1f}x)")


def idle(sites, seconds):
    time.sleep(5)
    processes = int(re.search(r"processes (\d+)", pathlib.Path("/proc/stat").read_text())[1])
    before = [site.cost() for site in sites]
    time.sleep(seconds)
    after = [site.cost() for site in sites]
    processes = int(re.search(r"processes (\d+)",
                              pathlib.Path("/proc/stat").read_text())[1]) - processes
    for site, was, now in zip(sites, before, after):
        print(f"idle {site.folder.name}: {100 * (now[0] - was[0]) / seconds:.2f} % of a core, "
              f"{now[1]:.0f} MB")
    print(f"processes and threads started on the whole machine meanwhile: {processes}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repositories", type=int, default=1000)
    parser.add_argument("--pushes", type=int, default=30)
    parser.add_argument("--idle", type=int, default=60)
    options = parser.parse_args()
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1",
                      GIT_AUTHOR_NAME="Bench", GIT_AUTHOR_EMAIL="bench@example.com",
                      GIT_COMMITTER_NAME="Bench", GIT_COMMITTER_EMAIL="bench@example.com")
    work = pathlib.Path(tempfile.mkdtemp(prefix="refrelay-bench."))
    secret = work / "secret"
    secret.touch(0o600)
    secret.write_bytes(base64.b64encode(os.urandom(24)))
    port = free_port()
    london = Site(work, "london", port, f"[secondary \"paris\"]\nsecretFile = {secret}\n")
    paris = Site(work, "paris", free_port(),
                 f"[primary]\nurl = http://127.0.0.1:{port}/\nsecretFile = {secret}\n")
    for site, role in ((london, "primary"), (paris, "secondary")):
        git("config", "--file", site.conf, "site.role", role)
    try:
        git("init", "-q", "--bare", "-b", "main", work / "template.git")
        tree = git("hash-object", "-t", "tree", "-w", "/dev/null", cwd=work / "template.git")
        commit = git("commit-tree", "-m", "first", tree.strip(), cwd=work / "template.git")
        git("update-ref", "refs/heads/main", commit.strip(), cwd=work / "template.git")
        for number in range(options.repositories):
            shutil.copytree(work / "template.git", london.git / f"r{number:05}.git")
        london.start()
        wait_for("the first scan", lambda: london.run("repository", "list", "--json").stdout
                 .count('"name"') == options.repositories)
        london.run("hooks", "install", "--all")
        first_copy(london, paris, port, options.repositories)
        pushes(london, paris, port, work, options.pushes)
        idle([london, paris], options.idle)
    finally:
        london.stop()
        paris.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
