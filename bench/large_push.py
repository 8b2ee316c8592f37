#!/usr/bin/env python3
"""What a large push costs, on this machine: to the primary, and through the secondary, beside
`git push` to a path and to nginx with Git's own CGI program.

usage: bench/large_push.py [--megabytes N] [--rounds N]

Makes a repository of so many MB of random blobs (2048) in a temporary directory, starts on
loopback
  - two sites of build/refrelay (or $REFRELAY),
  - nginx + fcgiwrap + git http-backend,
and pushes it to a new repository each time, one way after the other, as many rounds. Each time is
from the start of git push to its end. Said as well: the most memory that the processes of refrelay
ever had (VmHWM; what git itself takes at the primary is as with any server), how long it takes
until the secondary has the copy and has verified it by its own disk, and that git fsck finds
nothing there. Ratios of one run are what counts. Needs git, python3, nginx and fcgiwrap, and about
six times the megabytes on the disk of $TMPDIR; not run in CI.
"""

import argparse
import json
import pathlib
import re
import secrets
import statistics
import subprocess
import tempfile
import time

from serve import REFRELAY, Backend, Server, git, make_big, wait_for


class Site(Server):
    def __init__(self, work, name):
        super().__init__(work, name)
        self.root = self.folder / "git"
        self.conf = self.folder / "refrelay.conf"

    def start(self, role, peer, secret, token):
        lines = ["[site]", f"name = {self.name}", f"role = {role}",
                 f"repositories = {self.root}", f"data = {self.folder}/data",
                 "[http]", f"listen = 127.0.0.1:{self.port}", "anonymousRead = true"]
        if role == "primary":
            self.root.mkdir()
            lines += ["[token \"pusher\"]", f"file = {token}", "rights = push",
                      f"[secondary \"{peer.name}\"]", f"secretFile = {secret}"]
        else:
            lines += ["[primary]", f"url = http://127.0.0.1:{peer.port}",
                      f"secretFile = {secret}"]
        self.conf.write_text("\n".join(lines) + "\n")
        self.run(REFRELAY, "-c", self.conf, "serve")
        self.ready()

    def ask(self, *command):
        return subprocess.run([REFRELAY, "-c", self.conf, *command], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def is_verified(self, name):
        row = json.loads(self.ask("repository", "show", "--json", name) or "{}")
        copy = pathlib.Path(self.root / f"{name}.git")
        return (row.get("state") == "synced" and row.get("verification_state") == "succeeded"
                and bool(git("for-each-ref", cwd=copy)))

    def most_memory_mb(self):
        text = pathlib.Path(f"/proc/{self.processes[0].pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def make_secret(path):
    path.touch(0o600)
    path.write_text(secrets.token_hex(24) + "\n")
    return path


def spare_deltas(path):
    """What is random is not searched for what is alike: that would be most of the time."""
    git("config", "core.bigFileThreshold", "512k", cwd=path)


def make_target(root, name):
    path = root / f"{name}.git"
    root.mkdir(exist_ok=True)
    git("init", "-q", "--bare", "-b", "main", path)
    git("config", "http.receivepack", "true", cwd=path)
    spare_deltas(path)
    return path


def push(source, url):
    began = time.monotonic()
    git("push", "-q", url, "main", cwd=source)
    return time.monotonic() - began


def timed(what, condition):
    began = time.monotonic()
    wait_for(what, condition, 3600)
    return time.monotonic() - began


class Bench:
    def __init__(self, work, options):
        self.work, self.options = work, options
        self.source = work / "source.git"
        self.results = {}
        make_big(self.source, options.megabytes)
        spare_deltas(self.source)

    def note(self, what, seconds):
        self.results.setdefault(what, []).append(seconds)
        print(f"{what:44} {seconds:8.1f} s", flush=True)

    def drop(self, path):
        subprocess.run(["rm", "-rf", path], check=True)

    def to_path(self):
        target = make_target(self.work / "path", "r")
        self.note("to a path", push(self.source, target))
        self.drop(target)

    def to_backend(self, backend):
        target = make_target(self.work / "backend", "r")
        self.note("to nginx, git http-backend", push(self.source, backend.url("r", "")[:-1]))
        self.drop(target)

    def to_site(self, what, site, primary, secondary, token):
        """`site` is one of the two that follow."""
        name = f"{site.name}-{len(self.results.get(what, []))}"
        target = make_target(primary.root, name)
        primary.ask("changed", name)
        wait_for("the empty copy", (secondary.root / f"{name}.git").is_dir)
        url = f"http://any:{token}@127.0.0.1:{site.port}/{name}.git"
        self.note(what, push(self.source, url))
        self.note(f"{what}: copied, verified", timed(
            "the copy", lambda: secondary.is_verified(name)))
        git("fsck", "--no-dangling", "--connectivity-only", cwd=secondary.root / f"{name}.git")
        tips = [git("rev-parse", "main", cwd=path)
                for path in (self.source, target, secondary.root / f"{name}.git")]
        if len(set(tips)) != 1:
            raise SystemExit(f"{what}: the repositories differ: {tips}")


def run(bench, sites, backend, token):
    primary, secondary = sites
    for _ in range(bench.options.rounds):
        bench.to_path()
        bench.to_backend(backend)
        bench.to_site("to refrelay, the primary", primary, *sites, token)
        bench.to_site("to refrelay, through the secondary", secondary, *sites, token)
    print("\nmedians")
    for what, seconds in bench.results.items():
        print(f"{what:44} {statistics.median(seconds):8.1f} s")
    for site in sites:
        print(f"{'most memory of ' + site.name:44} {site.most_memory_mb():8.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="refrelay-bench.") as folder:
        work = pathlib.Path(folder)
        bench = Bench(work, options)
        sites = [Site(work, "london"), Site(work, "paris")]
        backend = Backend(work)
        try:
            secret, token = make_secret(work / "secret"), make_secret(work / "token")
            sites[0].start("primary", sites[1], secret, token)
            sites[1].start("secondary", sites[0], secret, token)
            (work / "backend").mkdir()
            backend.start(work / "backend")
            run(bench, sites, backend, token.read_text().strip())
        finally:
            for server in (backend, *sites):
                server.stop()


if __name__ == "__main__":
    main()
