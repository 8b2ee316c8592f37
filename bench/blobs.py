#!/usr/bin/env python3
"""What bringing files from a primary to a secondary takes, on this machine, beside other programs.

usage: bench/blobs.py [--rounds N] [--small N] [--medium N] [--large N] [--large-megabytes N] [PART]...

Makes files of random bytes in a temporary directory (--directory; it should be on the disk that is
asked about, and needs ten times what the largest part has), and measures, each round one program
after the other, medians of the rounds:
  small    10,000 files of 4 KB
  medium   1,000 files of 1 MB
  large    3 files of 1 GB
from the start of the program until all files are there:
  refrelay      two sites on loopback (build/refrelay, or $REFRELAY): durable, and proved: each file
                read again from disk, its SHA-256 that of the primary. The primary knows its files
                and their checksums, as it does when a secondary comes
  rsync-daemon  rsync --fsync from a daemon on loopback: durable, not read again
  rsync-local   rsync -a from directory to directory: neither
  rclone        rclone copy from nginx by HTTP: neither
  curl          curl -Z from nginx, sync, then sha256sum -c: durable and proved (from the page cache)
  cp            cp -r, sync, then sha256sum -c: likewise
Programs that are not installed are left out (Debian: the packages of these names). Without a PART:
all. At the end of each measurement all files are compared. Before each, as much memory as it may need
is touched, so that none has to wait for the host of a virtual machine. Ratios of one run are what
counts. Not run in CI.
"""

import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
PARTS = ("small", "medium", "large")
BLOCK = 1 << 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, condition, seconds=600, pause=0.02):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(pause)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(*args, **options):
    subprocess.run([str(arg) for arg in args], check=True, stdout=subprocess.DEVNULL, **options)


@contextlib.contextmanager
def process(log, *args):
    with open(log, "ab") as out:
        child = subprocess.Popen([str(arg) for arg in args], stdout=out, stderr=out,
                                 env={**os.environ, "PATH": PATH})
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def make_files(folder, count, size):
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number // 256:02x}" / f"file-{number}"
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as out:
            for at in range(0, size, BLOCK):
                out.write(os.urandom(min(BLOCK, size - at)))


def files_below(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*")
                  if path.is_file() and ".refrelay" not in path.parts)


def check_equal(source, dest, names):
    if files_below(dest) != names:
        raise SystemExit(f"{dest} has other files than {source}")
    _, wrong, failed = filecmp.cmpfiles(source, dest, names, shallow=False)
    if wrong or failed:
        raise SystemExit(f"{dest} differs: {(wrong + failed)[0]}")


class Site:
    def __init__(self, folder, name, blobs, **sections):
        self.folder, self.port = folder / name, free_port()
        for part in (self.folder / "git", blobs):
            part.mkdir(parents=True, exist_ok=True)
        self.conf = self.folder / "refrelay.conf"
        self.set("site.name", name)
        self.set("site.repositories", self.folder / "git")
        self.set("site.data", self.folder / "data")
        self.set("http.listen", f"127.0.0.1:{self.port}")
        self.set("blob.files.path", blobs)
        for key, value in sections.items():
            self.set(key.replace("__", "."), value)

    def set(self, key, value):
        run("git", "config", "--file", self.conf, key, value)

    def start(self):
        return process(self.folder / "log", REFRELAY, "-c", self.conf, "serve")

    def files(self):
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.port}/api/v1/status"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["blobs"].get("files", {})
        return {}

    def proved(self):
        return self.files().get("verification", {}).get("succeeded", 0)


@contextlib.contextmanager
def refrelay(folder, source, names):
    """The primary, which has read its files; each call is a secondary from nothing."""
    secret = folder / "secret"
    secret.write_text(os.urandom(24).hex())
    secret.chmod(0o600)
    london = Site(folder, "london", source, site__role="primary",
                  secondary__paris__secretFile=secret)

    def bring(dest):
        paris = Site(folder, "paris", dest, site__role="secondary", primary__secretFile=secret,
                     primary__url=f"http://127.0.0.1:{london.port}/")
        begun = time.monotonic()
        with paris.start():
            wait_for("the secondary", lambda: paris.proved() == len(names), pause=0.05)
            took = time.monotonic() - begun
        shutil.rmtree(paris.folder)
        return took

    with london.start():
        wait_for("the primary's checksums", lambda: london.proved() == len(names), pause=0.2)
        yield bring
    shutil.rmtree(london.folder)


def timed(work):
    def bring(dest):
        begun = time.monotonic()
        work(dest)
        return time.monotonic() - begun
    return bring


@contextlib.contextmanager
def rsync_daemon(folder, source, names):
    port, conf = free_port(), folder / "rsyncd.conf"
    owner = "uid = 0\ngid = 0\n" if os.getuid() == 0 else ""
    conf.write_text(f"use chroot = no\n{owner}[files]\npath = {source}\nread only = yes\n")
    with process(folder / "log", "rsync", "--daemon", "--no-detach", f"--port={port}",
                 "--address=127.0.0.1", f"--config={conf}"):
        wait_for("rsync", lambda: answers(port))
        yield timed(lambda dest: run("rsync", "-a", "--fsync", "--whole-file",
                                     f"rsync://127.0.0.1:{port}/files/", f"{dest}/"))


@contextlib.contextmanager
def rsync_local(folder, source, names):
    yield timed(lambda dest: run("rsync", "-a", f"{source}/", f"{dest}/"))


@contextlib.contextmanager
def nginx(folder, source):
    port, conf = free_port(), folder / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""
    conf.write_text(f"""{user} daemon off; pid {folder}/nginx.pid; error_log {folder}/log;
events {{ worker_connections 512; }}
http {{ access_log off; sendfile on; keepalive_requests 100000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {source}; autoindex on; }} }}
""")
    with process(folder / "log", shutil.which("nginx", path=PATH), "-c", conf):
        wait_for("nginx", lambda: answers(port))
        yield f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def rclone(folder, source, names):
    with nginx(folder, source) as url:
        yield timed(lambda dest: run("rclone", "copy", "--config", "/dev/null", "--transfers", 10,
                                     "--checkers", 10, "--http-url", url, ":http:", dest,
                                     stderr=subprocess.DEVNULL))


def write_sums(folder, source, names):
    sums = folder / "sums"
    with sums.open("wb") as out:
        subprocess.run(["xargs", "-0", "sha256sum"], cwd=source, check=True, stdout=out,
                       input="\0".join(map(str, names)).encode())
    return sums


def sync_and_check(dest, sums):
    run("sync", "-f", dest)
    run("sha256sum", "--quiet", "-c", sums, cwd=dest)


@contextlib.contextmanager
def curl(folder, source, names):
    sums, listed = write_sums(folder, source, names), folder / "curl.conf"

    def work(dest):
        listed.write_text("".join(f'url = "{url}{name}"\noutput = "{dest}/{name}"\n'
                                  for name in names))
        run("curl", "-sSf", "-Z", "--no-progress-meter", "--parallel-max", 10, "--create-dirs", "-K", listed)
        sync_and_check(dest, sums)

    with nginx(folder, source) as url:
        yield timed(work)


@contextlib.contextmanager
def copy(folder, source, names):
    sums = write_sums(folder, source, names)

    def work(dest):
        run("cp", "-r", f"{source}/.", dest)
        sync_and_check(dest, sums)

    yield timed(work)


PROGRAMS = {"refrelay": (refrelay, REFRELAY), "rsync-daemon": (rsync_daemon, "rsync"),
            "rsync-local": (rsync_local, "rsync"), "rclone": (rclone, "rclone"),
            "curl": (curl, "nginx"), "cp": (copy, "cp")}


def touch_memory(size):
    """A virtual machine gives memory back to its host when it is free for some seconds, and
    is slow when it has to ask for it again: whoever comes first would pay for all."""
    run(sys.executable, "-c", f"b'x' * {2 * size + (256 << 20)}")


def measure_part(name, count, size, options, folder):
    source = folder / "source"
    make_files(source, count, size)
    names = files_below(source)
    times = {}
    programs = {key: value for key, value in PROGRAMS.items()
                if shutil.which(value[1], path=PATH)}
    for _ in range(options.rounds):
        for key, (start, _) in programs.items():
            dest = folder / "dest"
            dest.mkdir()
            with start(folder, source, names) as bring:
                os.sync()
                touch_memory(count * size)
                times.setdefault(key, []).append(bring(dest))
            check_equal(source, dest, names)
            shutil.rmtree(dest)
    print(f"{name}: {count} files of {size / 1e6:g} MB")
    ours = statistics.median(times["refrelay"])
    for key, taken in times.items():
        median = statistics.median(taken)
        print(f"  {key:14}{median:9.2f} s {count * size / median / 1e6:9.1f} MB/s"
              f"{count / median:10.0f} files/s   refrelay / it: {ours / median:.2f}", flush=True)
    for key in PROGRAMS.keys() - programs.keys():
        print(f"  {key:14} not installed")
    shutil.rmtree(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", type=int, default=10000)
    parser.add_argument("--medium", type=int, default=1000)
    parser.add_argument("--large", type=int, default=3)
    parser.add_argument("--large-megabytes", type=int, default=1000)
    parser.add_argument("--directory")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    sizes = {"small": (options.small, 4000), "medium": (options.medium, 1000000),
             "large": (options.large, options.large_megabytes * 1000000)}
    for name in options.parts:
        if name not in PARTS:
            parser.error(f"{name} is none of {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="refrelay-bench.", dir=options.directory) as folder:
        for name in options.parts or PARTS:
            measure_part(name, *sizes[name], options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
