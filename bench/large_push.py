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
import pathlib
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

from account import Account
from machine import git, make_big, use_no_configuration, wait_for
from servers import Backend
from sites import Pair


def most_memory_mb(site):
    text = pathlib.Path(f"/proc/{site.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def make_token(path):
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
        self.note("to nginx, git http-backend", push(self.source, backend.url("r.git")))
        self.drop(target)

    def to_site(self, what, site, pair, token):
        """`site` is one of the pair."""
        name = f"{site.folder.name}-{len(self.results.get(what, []))}"
        target = make_target(pair.primary.git, name)
        copy = pair.secondary.git / f"{name}.git"
        pair.primary.run("changed", name)
        wait_for("the empty copy", copy.is_dir)
        url = f"http://any:{token}@127.0.0.1:{site.port}/{name}.git"
        self.note(what, push(self.source, url))
        self.note(f"{what}: copied, verified", timed(
            "the copy", lambda: git("for-each-ref", cwd=copy) and
            pair.secondary.is_verified(name)))
        git("fsck", "--no-dangling", "--connectivity-only", cwd=copy)
        tips = [git("rev-parse", "main", cwd=path) for path in (self.source, target, copy)]
        if len(set(tips)) != 1:
            raise SystemExit(f"{what}: the repositories differ: {tips}")


def run(bench, pair, backend, token):
    for _ in range(bench.options.rounds):
        bench.to_path()
        bench.to_backend(backend)
        bench.to_site("to refrelay, the primary", pair.primary, pair, token)
        bench.to_site("to refrelay, through the secondary", pair.secondary, pair, token)
    print("\nmedians")
    for what, seconds in bench.results.items():
        print(f"{what:44} {statistics.median(seconds):8.1f} s")
    for site in (pair.primary, pair.secondary):
        print(f"{'most memory of ' + site.folder.name:44} {most_memory_mb(site):8.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    use_no_configuration()
    with tempfile.TemporaryDirectory(prefix="refrelay-bench.") as folder:
        work = pathlib.Path(folder)
        bench = Bench(work, options)
        account, other = Account("refrelay"), Account("backend")
        try:
            token = make_token(work / "token")
            pair = Pair(account, work / "pair")
            pair.primary.set("token \"pusher\"", f"file = {token}\nrights = push")
            pair.primary.start()
            pair.secondary.start()
            (work / "backend").mkdir()
            backend = Backend(other, work / "nginx")
            backend.start(work / "backend")
            run(bench, pair, backend, token.read_text().strip())
        finally:
            other.close()
            account.close()


if __name__ == "__main__":
    main()
