#!/usr/bin/env python3
"""What leases cost, and how they pass on, on this machine.

usage: bench/lease.py [--seconds N] [--contenders N] [--hold-ms N] [PART]...

Starts Redis servers on sockets in a temporary directory and measures, one after the other
  single     acquire and release without others, beside Redis' own PING (median, p99)
  threads    N threads of one process that take one lease again and again
  processes  N processes of one thread each, on two data directories
  together   half of them node-redlock, half refrelay in the format of other programs
for the backends local, directory, Redis (1, 3 and 5 servers) and PostgreSQL (which writes to its disk
as it does by default), and beside them flock, and, where
npm can install it, node-redlock 5.0.0-beta.2 with its own defaults, on one server.
Without a PART: all.

Of a storm: use is the time for which somebody held it, of all; fair is the fewest grants of one
contender by the most; the ideal wait is that of who stands last in a line, (N - 1) holds. Each run
fails if two held it at once. Ratios of one run are what counts, on a machine that does nothing
else. The program is build/bench/lease_storm (ninja -C build bench/lease_storm). Needs python3,
redis-server and postgresql; not run in CI.
"""

import argparse
import collections
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORM = ROOT / "build" / "bench" / "lease_storm"
PARTS = ("single", "threads", "processes", "together")
SERVERS = 5
YOUNG_S = 33  # of several servers, one that began lately has no vote: a ttl, and a bit
BACKENDS = (("flock", 0), ("local", 0), ("directory", 0), ("redis", 1), ("redis", 3), ("redis", 5),
            ("postgresql", 1))

NOT_RUN = "node-redlock             NOT RUN: npm cannot install it"

REDLOCK = """
const { default: Redlock } = require('redlock'); const Redis = require('ioredis')
const [socket, count, seconds, hold] = process.argv.slice(2)
const client = new Redis(socket)
const redlock = new Redlock([client], { retryCount: -1 })
redlock.on('error', () => {})
const now = () => Number(process.hrtime.bigint() / 1000n)
const sleep = ms => new Promise(done => setTimeout(done, ms))
const until = now() + seconds * 1e6, lines = []
async function contend (i) {
  while (now() < until) {
    const before = now()
    const lock = await redlock.acquire(['storm'], 30000)
    const from = now()
    await sleep(Number(hold) / 1000)
    const to = now()
    await lock.release()
    lines.push([i, from - before, from, to].join(' '))
  }
}
Promise.all(Array.from({ length: Number(count) }, (_, i) => contend(i))).then(() => {
  console.log(lines.join('\\n')); client.disconnect() })
"""


def start_server(folder, number):
    socket = f"{folder}/redis{number}"
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "",
         "--daemonize", "no", "--logfile", f"{socket}.log"])
    while not os.path.exists(socket):
        time.sleep(0.01)
    return process


def start_postgresql(folder):
    """The process and its url. PostgreSQL refuses to be run by root."""
    programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    command = other if os.geteuid() == 0 else []
    place = pathlib.Path(folder, "postgresql")
    place.mkdir()
    if command:
        shutil.chown(place, "postgres", "postgres")
    os.chmod(folder, 0o711)
    subprocess.run([*command, programs / "initdb", "-D", place / "db", "-A", "trust", "-U",
                    "postgres"], check=True, stdout=subprocess.DEVNULL, cwd=place)
    with open(place / "log", "wb") as log:
        process = subprocess.Popen([*command, programs / "postgres", "-D", place / "db", "-k",
                                    place, "-h", ""], cwd=place, stdout=log, stderr=log)
    while not (place / ".s.PGSQL.5432").exists():
        time.sleep(0.01)
    return process, f"postgresql:///postgres?host={place}&user=postgres"


def install_redlock(folder):
    """The folder of a script that can use it; None if npm cannot get it."""
    place = f"{folder}/node"
    os.mkdir(place)
    if not shutil.which("npm"):
        return None
    done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund",
                           "redlock@5.0.0-beta.2", "ioredis@5"], cwd=place, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pathlib.Path(place, "storm.js").write_text(REDLOCK)
    return place if done.returncode == 0 else None


def run_all(commands, folder=None):
    """Runs them side by side; the lines of each."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
               for command in commands]
    texts = [process.communicate()[0] for process in running]
    if any(process.returncode != 0 for process in running):
        raise SystemExit("a contender failed")
    return [text.splitlines() for text in texts]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report_storm(name, outputs, arguments):
    grants = [(process, *map(int, line.split()))
              for process, lines in enumerate(outputs) for line in lines]
    by_time = sorted(grants, key=lambda grant: grant[3])
    for one, other in zip(by_time, by_time[1:]):
        if other[3] < one[4]:
            raise SystemExit(f"{name}: two held it at once")
    counts = collections.Counter(grant[:2] for grant in grants)
    held = sum(grant[4] - grant[3] for grant in grants)
    wall = by_time[-1][4] - by_time[0][3]
    waits = [grant[2] / 1000 for grant in grants]
    ideal = (arguments.contenders - 1) * arguments.hold_ms
    fewest = min(counts.values()) if len(counts) == arguments.contenders else 0
    print(f"{name:24} use {held / wall:6.1%}  fair {fewest / max(counts.values()):5.2f} "
          f"({fewest}/{max(counts.values())})  wait p50 {statistics.median(waits):7.1f}"
          f"  p99 {percentile(waits, 0.99):8.1f} ms = {percentile(waits, 0.99) / ideal:5.2f} ideal"
          f"  max {max(waits):8.1f}", flush=True)


def storm(part, backend, urls, folder, arguments):
    threads = arguments.contenders if part == "threads" else 1
    commands = [[STORM, backend, folder, f"data{i % 2}", "storm", str(threads),
                 str(arguments.seconds), str(arguments.hold_ms * 1000), *urls]
                for i in range(arguments.contenders // threads)]
    report_storm(f"{backend}{len(urls) or ''}", run_all(commands), arguments)


def storm_redlock(part, place, socket, arguments):
    threads = arguments.contenders if part == "threads" else 1
    command = ["node", "storm.js", socket, str(threads), str(arguments.seconds),
               str(arguments.hold_ms * 1000)]
    report_storm("node-redlock", run_all([command] * (arguments.contenders // threads), place),
                 arguments)


def together(place, socket, arguments):
    """Two kinds of program on one lock; their clocks differ by what the machine has slept."""
    if not place:
        print(NOT_RUN)
        return
    half = arguments.contenders // 2
    rest = [str(half), str(arguments.seconds), str(arguments.hold_ms * 1000)]
    slept = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()) // 1000
    ours = [STORM, "redlock", place, "data0", "storm", *rest, f"unix://{socket}"]
    lines = run_all([["node", "storm.js", socket, *rest], ours], place)
    theirs = [line.split() for line in lines[0]]
    lines[0] = [f"{i} {waited} {int(start) + slept} {int(end) + slept}"
                for i, waited, start, end in theirs]
    report_storm("node-redlock, refrelay", lines, arguments)


def single(backend, urls, folder, arguments):
    lines = run_all([[STORM, backend, folder, "data0", "single", "1", str(arguments.seconds), "0",
                      *urls]])[0]
    times = [int(line) for line in lines]
    print(f"{backend}{len(urls) or '':<4} median {statistics.median(times):7.0f} us"
          f"  p99 {percentile(times, 0.99):7.0f} us", flush=True)


def measure(arguments, folder, database):
    urls = [f"unix://{folder}/redis{i}" for i in range(SERVERS)]
    node = install_redlock(folder)
    time.sleep(YOUNG_S)
    for part in arguments.parts or PARTS:
        print(f"-- {part}", flush=True)
        if part == "together":
            together(node, f"{folder}/redis0", arguments)
            continue
        if part == "single":
            single("ping", urls[:1], folder, arguments)
        for backend, count in BACKENDS:
            servers = [database] if backend == "postgresql" else urls[:count]
            if part == "single":
                single(backend, servers, folder, arguments)
            else:
                storm(part, backend, servers, folder, arguments)
        if part != "single" and node:
            storm_redlock(part, node, f"{folder}/redis0", arguments)
        elif part != "single":
            print(NOT_RUN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--contenders", type=int, default=16)
    parser.add_argument("--hold-ms", type=int, default=5)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="refrelay-bench.")
    servers = [start_server(folder, i) for i in range(SERVERS)]
    process, database = start_postgresql(folder)
    try:
        measure(arguments, folder, database)
    finally:
        process.send_signal(signal.SIGINT)  # its children, too
        process.wait()
        for server in servers:
            server.send_signal(signal.SIGKILL)
            server.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
