#!/usr/bin/env python3
"""What push replication costs, on this machine, everything by local paths.

usage: bench/push.py [--changes N] [--burst N] [--tasks N] [--uris N]

Makes repositories in a temporary directory and measures
  - a change until it is at the destination, with no delay set, beside `git push --mirror` in a
    post-receive hook;
  - a burst of changes to one repository: how many pushes the destination gets, and how long the
    pushing person waits for each, without a delay and with Gerrit's usual 15 s, beside the same
    hook;
  - tasks a second through the task store, with one node and with two on one store, beside as many
    `git push` one after another.
Ratios of one run are what counts. Needs git and python3; the program is build/refrelay.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))


def git(*args, cwd=None, **options):
    return subprocess.run(["git", *map(str, args)], cwd=cwd, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, condition, seconds=600, step=0.05):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(step)


NAMES = ("refrelay", "refrelay, replicationDelay 15 s", "push --mirror in a hook")


class Node:
    """A standalone site that pushes what is below `source` to `backup`."""

    def __init__(self, work, name, source, backup, store, extra="", threads=4,
                 delay=0):
        self.folder = work / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.conf = self.folder / "refrelay.conf"
        self.conf.write_text(
            f"[site]\nname = {name}\nrole = standalone\nrepositories = {source}\n"
            f"data = {self.folder}/data\n[http]\nlisten = 127.0.0.1:{free_port()}\n"
            f"[replication]\neventsDirectory = {store}\nrandomDelay = 0\n{extra}"
            f"[remote \"backup\"]\nurl = {backup}/${{name}}.git\nreplicationDelay = {delay}\n"
            f"threads = {threads}\n")
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([REFRELAY, "-c", self.conf, "serve"], stderr=log)
        wait_for("the node", lambda: "node.started" in self.log.read_text())

    def run(self, *args):
        return subprocess.run([REFRELAY, "-c", self.conf, *args], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
            self.process = None


def make_repository(path):
    git("init", "-q", "--bare", "-b", "main", path)
    return path


def make_clone(bare, clone):
    git("init", "-q", "-b", "main", clone)
    git("remote", "add", "origin", bare, cwd=clone)
    return clone


def commit(clone, number):
    (clone / "file").write_text(f"change {number}\n")
    git("add", "file", cwd=clone)
    git("-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-qm",
        f"change {number}", cwd=clone)
    return git("rev-parse", "HEAD", cwd=clone).strip()


def witness(bare, count):
    """The destination's own word: a line for each push that it received."""
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho >>{count}\n")
    hook.chmod(0o755)


def lines(path):
    return path.read_text().count("\n") if path.exists() else 0


def has(bare, commit_id):
    try:
        return (bare / "refs" / "heads" / "main").read_text().strip() == commit_id
    except FileNotFoundError:
        return False


def push_one(clone, bare, commit_id):
    """Seconds that git push took, and until the commit stood at `bare`."""
    start = time.monotonic()
    git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=clone)
    pushed = time.monotonic() - start
    wait_for("a change", lambda: has(bare, commit_id), 60, 0.0005)
    return pushed, time.monotonic() - start


def changes(clone, bare, count):
    times = []
    for number in range(count):
        times.append(push_one(clone, bare, commit(clone, number)))
        time.sleep(0.05)
    return [statistics.median(column) * 1000 for column in zip(*times)]


def burst(clone, bare, count, seen):
    before, pushed = lines(seen), []
    start = time.monotonic()
    for number in range(count):
        last = commit(clone, f"burst {number}")
        begin = time.monotonic()
        git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=clone)
        pushed.append(time.monotonic() - begin)
    wait_for("the last change", lambda: has(bare, last))
    took = time.monotonic() - start
    time.sleep(1)
    return lines(seen) - before, statistics.median(pushed) * 1000, took


def one_repository(work, arguments):
    results = []
    for kind, delay in (("refrelay", 0), ("delayed", 15), ("hook", 0)):
        folder = work / kind
        (folder / "source").mkdir(parents=True)
        (folder / "backup").mkdir()
        bare = make_repository(folder / "source" / "r.git")
        copy = make_repository(folder / "backup" / "r.git")
        seen, node = folder / "seen", None
        if kind == "hook":
            hook = bare / "hooks" / "post-receive"
            hook.write_text(f"#!/bin/sh\nexec git push -q --mirror {copy}\n")
            hook.chmod(0o755)
        else:
            node = Node(folder, "node", folder / "source", folder / "backup", folder / "store",
                        delay=delay)
            node.start()
            node.run("hooks", "install", "--all")
        clone = make_clone(bare, folder / "clone")
        push_one(clone, copy, commit(clone, "first"))
        latency = changes(clone, copy, arguments.changes) if delay == 0 else None
        witness(copy, seen)  # a destination with a hook is pushed to by git
        results.append((latency, burst(clone, copy, arguments.burst, seen)))
        if node:
            node.stop()
    ours, _, hook = results
    print(f"git push until the destination has it, median of {arguments.changes}: refrelay "
          f"{ours[0][1]:.0f} ms (git push itself {ours[0][0]:.0f}), push --mirror in a hook "
          f"{hook[0][1]:.0f} ms (git push waits for it: {hook[0][0]:.0f})")
    for name, (_, (pushes, pushed, took)) in zip(NAMES, results):
        print(f"{arguments.burst} changes one after another, {name}: {pushes} pushes received, "
              f"git push takes {pushed:.0f} ms, all there after {took:.1f} s")


def write_task(store, project, ref, uri):
    key = hashlib.sha1(f"{project}\n[{ref}]\n{uri}\nbackup".encode()).hexdigest()
    task = {"project": project, "refs": [ref], "uri": uri, "remote": "backup"}
    text = json.dumps(task, separators=(",", ":")) + "\n"
    (store / "ref-updates" / "waiting" / key).write_text(text)


def fill(work, arguments):
    source, backup, store = work / "source", work / "backup", work / "store"
    (store / "ref-updates" / "waiting").mkdir(parents=True)
    backup.mkdir()
    first = make_repository(source / "r0.git")
    clone = make_clone(first, work / "clone")
    commit_id = commit(clone, "first")
    git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=clone)
    each = arguments.tasks // arguments.uris
    for number in range(each):
        git("update-ref", f"refs/heads/b{number}", commit_id, cwd=first)
    for number in range(1, arguments.uris):
        shutil.copytree(first, source / f"r{number}.git")
    for number in range(arguments.uris):
        make_repository(backup / f"r{number}.git")
        for branch in range(each):
            write_task(store, f"r{number}", f"refs/heads/b{branch}", f"{backup}/r{number}.git")
    return source, backup, store, each * arguments.uris


def through_store(work, arguments, count):
    work.mkdir()
    source, backup, store, tasks = fill(work, arguments)
    waiting = store / "ref-updates" / "waiting"
    running = store / "ref-updates" / "running"
    nodes = [Node(work, f"node{number}", source, backup, store, "distributionInterval = 0\n",
                  threads=4 // count) for number in range(count)]
    start = time.monotonic()
    for node in nodes:
        node.start()
    wait_for("the tasks", lambda: not any(waiting.iterdir()) and
             not any(files for _, _, files in os.walk(running)), 600, 0.02)
    took = time.monotonic() - start
    for node in nodes:
        node.stop()
    for number in range(arguments.uris):
        heads = git("for-each-ref", "--format=%(refname)", "refs/heads/b*",
                    cwd=backup / f"r{number}.git")
        if heads.count("\n") != tasks // arguments.uris:
            raise SystemExit(f"r{number}.git has not all refs")
    return tasks / took


def one_by_one(work, arguments):
    """A push a ref, as a hook on each would make them; of a sample."""
    work.mkdir()
    source, backup, _, tasks = fill(work, arguments)
    each, pushes = tasks // arguments.uris, 0
    start = time.monotonic()
    for number in range(min(10, arguments.uris)):
        for branch in range(each):
            git("push", "-q", f"{backup}/r{number}.git",
                f"refs/heads/b{branch}:refs/heads/b{branch}", cwd=source / f"r{number}.git")
            pushes += 1
    return pushes / (time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--burst", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--uris", type=int, default=200)
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="refrelay-bench."))
    try:
        one_repository(work, arguments)
        one = through_store(work / "one", arguments, 1)
        two = through_store(work / "two", arguments, 2)
        plain = one_by_one(work / "plain", arguments)
        print(f"{arguments.tasks} tasks of {arguments.uris} URIs: one node {one:.0f}/s, two "
              f"{two:.0f}/s; a git push for each ref {plain:.0f}/s ({one / plain:.1f}x)")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
