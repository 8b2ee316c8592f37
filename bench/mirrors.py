#!/usr/bin/env python3
"""What keeping mirrors of many upstreams costs, on this machine, beside a loop of git fetch and
grokmirror.

usage: bench/mirrors.py [--upstreams N] [--sample N] [--rounds N]

Makes N small repositories (1000), served by one refrelay node, and mirrors them
  - by refrelay serve (build/refrelay, or $REFRELAY), polling each once an interval,
  - by `git fetch` into a clone each, one after the other (a sample of them),
  - by grok-pull, which asks for one manifest; $GROK_PULL, else it is left out,
and measures CPU, children included, of
  unchanged   a round in which no upstream has changed, for each mirror
  changed     a round in which some have one commit more, for each of these
Ratios of one run are what counts. Needs git and python3; not run in CI.
"""

import argparse
import contextlib
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))
TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def git(*args, cwd=None, **options):
    return subprocess.run(["git", *map(str, args)], cwd=cwd, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **options).stdout


def wait_for(what, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(0.2)


class Node:
    """A site of its own, with what the configuration says besides."""

    def __init__(self, folder, port, more=""):
        self.folder, self.port = folder, port
        self.git = folder / "git"
        self.git.mkdir(parents=True)
        self.conf = folder / "refrelay.conf"
        self.conf.write_text(
            f"[site]\nname = {folder.name}\nrole = standalone\nrepositories = {self.git}\n"
            f"data = {folder}/data\n[http]\nlisten = 127.0.0.1:{port}\nanonymousRead = true\n"
            f"[sync]\nscanInterval = 1h\n{more}")
        self.process = None

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([REFRELAY, "-c", self.conf, "serve"], stderr=log)
        wait_for("the node", lambda: self.answers("/healthz"), 30)

    def answers(self, path):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5).read()
        return b""

    def metric(self, pattern):
        found = re.search(rb"^" + pattern + rb" (\S+)$", self.answers("/metrics"), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def cpu(self):
        """Seconds, its children's included once they have ended."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1]
        return sum(map(int, fields.split()[11:15])) / TICKS

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()


def add_commit(path):
    tree = git("rev-parse", "main^{tree}", cwd=path).decode().strip()
    commit = git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit-tree", "-p",
                 "main", "-m", str(time.time_ns()), tree, cwd=path).decode().strip()
    git("update-ref", "refs/heads/main", commit, cwd=path)


def make_upstreams(upstream, count):
    model = upstream.git / "r0.git"
    git("init", "-q", "--bare", "--initial-branch=main", model)
    (model / "a").write_text("text\n")
    blob = git("hash-object", "-w", model / "a", cwd=model).decode().strip()
    tree = git("mktree", cwd=model, input=f"100644 blob {blob}\ta\n".encode()).decode().strip()
    commit = git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit-tree", "-m", "x",
                 tree, cwd=model).decode().strip()
    git("update-ref", "refs/heads/main", commit, cwd=model)
    for number in range(1, count):
        shutil.copytree(model, upstream.git / f"r{number}.git")


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fetch_round(clones):
    before = children_cpu()
    for clone in clones:
        git("-c", "core.fsync=all", "fetch", "-q", "--prune", "origin", cwd=clone)
    return (children_cpu() - before) / len(clones)


def polls(mirror, state):
    return mirror.metric(rb'refrelay_mirror_polls_total\{state="' + state + rb'"\}')


def unchanged_round(mirror, count):
    """CPU a poll, over at least one round."""
    begun, cpu = polls(mirror, b"unchanged"), mirror.cpu()
    wait_for("a round", lambda: polls(mirror, b"unchanged") - begun >= count, 10 * INTERVAL)
    return (mirror.cpu() - cpu) / (polls(mirror, b"unchanged") - begun)


def is_there(upstream, mirror, name):
    return git("rev-parse", "main", cwd=upstream.git / name) == \
        git("rev-parse", "main", cwd=mirror.git / name)


def changed_round(upstream, mirror, names, idle):
    """CPU a change: what a round without changes costs is taken off."""
    for name in names:
        add_commit(upstream.git / name)
    begun, cpu = polls(mirror, b"unchanged"), mirror.cpu()
    wait_for("the changes", lambda: all(is_there(upstream, mirror, name) for name in names),
             10 * INTERVAL)
    time.sleep(1)
    idle_cpu = idle * (polls(mirror, b"unchanged") - begun)
    return (mirror.cpu() - cpu - idle_cpu) / len(names)


class Grokmirror:
    def __init__(self, work, upstream):
        self.program = os.environ.get("GROK_PULL")
        self.conf = work / "grokmirror.conf"
        tree = work / "grokmirror"
        tree.mkdir()
        self.conf.write_text(
            f"[core]\ntoplevel = {tree}\nmanifest = {tree}/manifest.js.gz\nlog = {work}/grok.log\n"
            f"[remote]\nsite = http://127.0.0.1:{upstream.port}\n"
            f"manifest = http://127.0.0.1:{upstream.port}/manifest.js.gz\n"
            "[pull]\ninclude = *\nrefresh = 1\npurge = no\nprojectslist =\n"
            "[fsck]\nfrequency = 30\n")

    def round(self):
        before = children_cpu()
        subprocess.run([self.program, "-o", "-c", self.conf], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return children_cpu() - before


def show(what, ours, fetch, grok):
    line = f"{what:<12}{1000 * ours:>12.3f}{1000 * fetch:>12.3f}{fetch / ours:>9.1f}x"
    print(line + (f"{1000 * grok:>12.3f}{grok / ours:>9.1f}x" if grok is not None else ""),
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstreams", type=int, default=1000)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="refrelay-bench.") as folder:
        run(pathlib.Path(folder), args)


def run(work, args):
    upstream = Node(work / "upstream", free_port())
    make_upstreams(upstream, args.upstreams)
    sections = "".join(f'[mirror "r{i}"]\nurl = http://127.0.0.1:{upstream.port}/r{i}.git\n'
                       f"interval = {INTERVAL}s\n" for i in range(args.upstreams))
    mirror = Node(work / "mirror", free_port(), sections)
    sample = [f"r{i}.git" for i in range(args.sample)]
    try:
        upstream.start()
        mirror.start()
        wait_for("the first copies", lambda: len(list(mirror.git.glob("r*.git"))) >= args.upstreams
                 and polls(mirror, b"unchanged") >= args.upstreams, 600)
        clones = [work / "clones" / name for name in sample]
        for clone in clones:
            git("clone", "-q", "--mirror", f"http://127.0.0.1:{upstream.port}/{clone.name}", clone)
        measure(args, upstream, mirror, sample, clones, Grokmirror(work, upstream))
    finally:
        mirror.stop()
        upstream.stop()


def measure(args, upstream, mirror, sample, clones, grok):
    ours, fetch, groks = [], [], []
    if grok.program:
        grok.round()
    for _ in range(args.rounds):
        ours.append(unchanged_round(mirror, args.upstreams))
        fetch.append(fetch_round(clones))
        groks.append(grok.round() / args.upstreams if grok.program else None)
    print(f"{args.upstreams} upstreams; CPU in ms for each, medians of {args.rounds}")
    print(f"{'':<12}{'refrelay':>12}{'git fetch':>12}{'':>10}" +
          (f"{'grokmirror':>12}" if grok.program else ""))
    idle = statistics.median(ours)
    show("unchanged", idle, statistics.median(fetch),
         statistics.median(groks) if grok.program else None)
    changed, fetched, grokked = [], [], []
    for _ in range(args.rounds):
        changed.append(changed_round(upstream, mirror, sample, idle))
        fetched.append(fetch_round(clones))
        grokked.append(grok.round() / len(sample) if grok.program else None)
    show("changed", statistics.median(changed), statistics.median(fetched),
         statistics.median(grokked) if grok.program else None)


main()
