#!/usr/bin/env python3
"""What serving clients costs, on this machine, beside nginx with Git's own CGI program and nginx
with files.

usage: bench/serve.py [--seconds N] [--rounds N] [--refs N] [--megabytes N] [PART]...

Makes repositories in a temporary directory, starts on loopback
  - refrelay serve (build/refrelay, or $REFRELAY),
  - nginx + fcgiwrap -c 4 + git http-backend,
  - nginx serving the same bytes from files (gzip beside them),
and measures, each round one server after the other, medians of the rounds:
  ls-refs  protocol 2, 100,000 refs: one prefix, and all
  clone    a repository of 200 MB of random blobs: its pack to /dev/null, and git clone
  equal    20 equal clones at once: the packs to /dev/null
  beside   latency of GET info/refs of 2 KB while three clients fetch that pack again and again
           (for files: from refrelay; that tells what this machine lets anybody reach)
Without a PART: all. Every status is checked, and before each measurement the answer itself.

Ratios of one run are what counts. CPU is that of a control group, since the children of fcgiwrap
are in nobody's account; where none can be made (it takes root, or a delegated cgroup v2) it is
left out. The cost of one answer is in the table of bench/run. Needs git, python3, curl, nginx, fcgiwrap and wrk (Debian: the packages of these names);
not run in CI.
"""

import argparse
import concurrent.futures
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

from account import Account, read_text
from machine import REFRELAY, Skip, find, git, make_big, make_repository, use_no_configuration
from servers import Backend, Files
from sites import Site

REQUEST = "application/x-git-upload-pack-request"
SERVICE = "service=git-upload-pack"
PARTS = ("ls-refs", "clone", "equal", "beside")


@contextlib.contextmanager
def one_group(servers):
    """Puts the servers and all clients into one group of the scheduler: else the kernel may give
    each session (a server, each child of it, or the clients together) an equal share, and the
    latency of a server tells how busy its clients are."""
    root = pathlib.Path("/sys/fs/cgroup/cpu")
    group = root / f"refrelay-bench-{os.getpid()}"

    def move(pids, where):
        for pid in pids:
            with contextlib.suppress(OSError):
                (where / "cgroup.procs").write_text(str(pid))

    try:
        group.mkdir()
    except OSError:
        if "1" in read_text("/proc/sys/kernel/sched_autogroup_enabled"):
            print("each session has a share of its own here: kernel.sched_autogroup_enabled = 1")
        yield
        return
    try:
        pids = [pid for server in servers for pid in server.account.pids()]
        move([os.getpid(), *pids], group)
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            move(pids, root)
        group.rmdir()


def packets(*lines):
    """pkt-lines; a word of four digits stands for itself."""
    return "".join(line if line.isdigit() else f"{len(line) + 4:04x}{line}"
                   for line in lines).encode()


WRK = """
wrk.method = "{method}"
wrk.body = {body}
{headers}
{delay}
function done(summary, latency, requests)
    print(string.format('\\n{{"requests": %d, "seconds": %f, "bytes": %d, "p50": %f, "p99": %f, '
        .. '"failed": %d}}', summary.requests, summary.duration / 1e6, summary.bytes,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        summary.errors.status + summary.errors.connect + summary.errors.read
        + summary.errors.write + summary.errors.timeout))
end
"""


class Question:
    """A request that can be asked once, or as often as it goes."""

    def __init__(self, work, name, repository, headers=(), body=None):
        self.name, self.repository, self.body = name, repository, body
        self.headers = dict(headers)
        self.work = work
        if body:
            self.headers["Content-Type"] = REQUEST
            self.file = work / f"body-{name}".replace(" ", "-")
            self.file.write_bytes(body)

    def url(self, server):
        if self.body:
            return server.url(f"{self.repository}.git/git-upload-pack")
        return server.url(f"{self.repository}.git/info/refs?{SERVICE}")

    def once(self, server, into=os.devnull):
        """(bytes, seconds)"""
        command = ["curl", "-sS", "-o", into, "-w", "%{http_code} %{size_download} %{time_total}"]
        for key, value in self.headers.items():
            command += ["-H", f"{key}: {value}"]
        if self.body:
            command += ["--data-binary", f"@{self.file}"]
        said = subprocess.run([*command, self.url(server)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.split()
        if said[0] != "200":
            raise SystemExit(f"{server.name}, {self.name}: status {said[0]}")
        return int(said[1]), float(said[2])

    def answer(self, server):
        path = self.work / "answer"
        self.once(server, path)
        answer = path.read_bytes()
        return gzip.decompress(answer) if answer[:2] == b"\x1f\x8b" else answer

    def often(self, server, seconds, connections=4, delay_ms=0):
        script = self.work / "wrk.lua"
        body = "".join(f"\\{byte:03}" for byte in self.body or b"")
        headers = "\n".join(f'wrk.headers["{key}"] = "{value}"'
                            for key, value in self.headers.items())
        delay = f"function delay() return {delay_ms} end" if delay_ms else ""
        script.write_text(WRK.format(method="POST" if self.body else "GET", delay=delay,
                                     body=f'"{body}"' if body else "nil", headers=headers))
        said = subprocess.run([find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s",
                               script, self.url(server)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        result = json.loads(said[said.rindex("\n{"):])
        if result["failed"] or not result["requests"]:
            raise SystemExit(f"{server.name}, {self.name}: {result}")
        return result


def median_of(rounds):
    return {key: statistics.median(result[key] for result in rounds) for key in rounds[0]}


def in_turn(servers, count, measure):
    """Each server's medians of `count` rounds."""
    rounds = {server: [] for server in servers}
    for _ in range(count):
        for server in servers:
            rounds[server].append(measure(server))
    return {server: median_of(results) for server, results in rounds.items()}


def ratios(results, key):
    """Of refrelay's to the others'."""
    (first, ours), *others = results.items()
    return ", ".join(f"{ours[key] / theirs[key]:.3g}x {server.name}"
                     for server, theirs in others if theirs[key])


def show(title, results, **columns):
    if not all(server.account.group for server in results):
        columns.pop("CPU", None)
    print(f"\n{title}")
    for server, result in results.items():
        cells = "  ".join(text.format(result[key]) for key, text in columns.items())
        print(f"  {server.name:18}{cells}")
    for key in columns:
        if ratios(results, key):
            print(f"  {key + ':':18}refrelay is {ratios(results, key)}", flush=True)


class Bench:
    def __init__(self, work, arguments):
        self.work, self.arguments = work, arguments
        self.repositories = work / "git"
        self.repositories.mkdir()
        make_repository(self.repositories / "small.git", 28)
        make_repository(self.repositories / "large.git", arguments.refs)
        make_big(self.repositories / "big.git", arguments.megabytes)
        self.servers, self.stack = [], contextlib.ExitStack()
        self.tip = git("rev-parse", "main", cwd=self.repositories / "big.git").decode().strip()

    def server(self, server, name, has_git=True):
        server.name, server.has_git = name, has_git
        self.servers.append(server)
        return server

    def account(self, name):
        account = Account(name)
        self.stack.callback(account.close)
        return account

    def start(self):
        self.server(Site(self.account("refrelay"), self.work / "refrelay", "standalone", "",
                         self.repositories), "refrelay").start()
        self.server(Backend(self.account("backend"), self.work / "backend"),
                    "git http-backend").start(self.repositories)
        self.server(Files(self.account("files"), self.work / "files"), "nginx with files",
                    False).start_refs(self.repositories)

    def with_git(self):
        return [server for server in self.servers if server.has_git]

    def rate(self, question, servers, title):
        """Requests a second, and CPU of each, as often as it goes."""
        if len({question.answer(server) for server in servers}) != 1:
            raise SystemExit(f"{title}: the servers' answers differ")

        def measure(server):
            question.often(server, 1)
            before = server.account.cpu()
            result = question.often(server, self.arguments.seconds)
            used = server.account.cpu() - before
            return {"requests a second": result["requests"] / result["seconds"],
                    "CPU": used / result["requests"] * 1e6, "p99": result["p99"]}

        results = in_turn(servers, self.arguments.rounds, measure)
        show(title, results, **{"requests a second": "{:10.0f} requests/s",
                                "CPU": "{:10.1f} us CPU each", "p99": "{:8.2f} ms p99"})

    def ls_refs(self):
        version = {"Git-Protocol": "version=2"}
        start = ("command=ls-refs\n", "agent=git/2.39.5", "object-format=sha1", "0001", "peel\n",
                 "symrefs\n")
        for name, rest in (("one prefix", ["ref-prefix refs/heads/t001/b001001\n"]), ("all", [])):
            question = Question(self.work, name, "large", version,
                                packets(*start, *rest, "0000"))
            self.rate(question, self.with_git(),
                      f"ls-refs of {self.arguments.refs} refs, {name}")

    def fetch(self):
        return Question(self.work, "fetch", "big", {"Git-Protocol": "version=2"}, packets(
            "command=fetch\n", "agent=git/2.39.5", "object-format=sha1", "0001", "no-progress\n",
            "ofs-delta\n", f"want {self.tip}\n", "done\n", "0000"))

    def streams(self, question, count, title):
        size = self.arguments.megabytes << 20

        def measure(server):
            before, start = server.account.cpu(), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                sizes = list(pool.map(lambda _: question.once(server)[0], range(count)))
            took, used = time.monotonic() - start, server.account.cpu() - before
            if min(sizes) < size:
                raise SystemExit(f"{server.name}: a pack of {min(sizes)} bytes was cut")
            return {"throughput": sum(sizes) / took / 1e6, "CPU": used}

        results = in_turn(self.with_git(), self.arguments.rounds, measure)
        show(title, results, throughput="{:8.0f} MB/s", CPU="{:8.2f} s CPU")

    def clone(self):
        self.streams(self.fetch(), 1, f"a pack of {self.arguments.megabytes} MB to /dev/null")

        def measure(server):
            copy = self.work / "copy.git"
            before, start = server.account.cpu(), time.monotonic()
            git("clone", "-q", "--bare", server.url("big.git"), copy)
            took, used = time.monotonic() - start, server.account.cpu() - before
            if git("rev-parse", "main", cwd=copy).decode().strip() != self.tip:
                raise SystemExit(f"{server.name}: the clone is not whole")
            shutil.rmtree(copy)
            return {"time": took, "CPU": used}

        results = in_turn(self.with_git(), self.arguments.rounds, measure)
        show(f"git clone --bare of {self.arguments.megabytes} MB", results,
             time="{:8.2f} s", CPU="{:8.2f} s CPU of the server")

    def equal(self):
        self.streams(self.fetch(), 20, "20 equal packs at once")

    def beside(self):
        fetch, small = self.fetch(), Question(self.work, "small", "small")
        fetches = []

        def loop(server, end):
            while not end.is_set():
                fetches.append(fetch.once(server if server.has_git else self.servers[0]))

        def measure(server):
            end, before = threading.Event(), len(fetches)
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                loops = [pool.submit(loop, server, end) for _ in range(3)]
                time.sleep(1)
                result = small.often(server, self.arguments.seconds, delay_ms=5)
                end.set()
                for one in loops:
                    one.result()
            return {"p50": result["p50"], "p99": result["p99"],
                    "packs": len(fetches) - before}

        with one_group(self.servers):
            results = in_turn(self.servers, self.arguments.rounds, measure)
        show("GET info/refs of 2 KB beside three clients that fetch", results,
             p50="{:8.3f} ms p50", p99="{:8.3f} ms p99", packs="{:4.0f} packs")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5, help="of each run of wrk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--refs", type=int, default=100000)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(PARTS))
    arguments = parser.parse_args()
    for part in arguments.part:
        if part not in PARTS:
            parser.error(f"there is no part {part}")
    try:
        for program in ("git", "curl", "nginx", "fcgiwrap", "wrk", REFRELAY):
            find(program)
    except Skip as reason:
        raise SystemExit(f"{reason}: install it first (see --help)") from None
    use_no_configuration()
    work = pathlib.Path(tempfile.mkdtemp(prefix="refrelay-bench."))
    bench = Bench(work, arguments)
    try:
        bench.start()
        if not bench.servers[0].account.group:
            print("CPU is left out: no control group can be made here")
        for part in arguments.part or PARTS:
            getattr(bench, part.replace("-", "_"))()
    finally:
        bench.stack.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
