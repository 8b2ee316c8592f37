"""Rows of leases: what one costs, and how it passes on."""

import collections
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

from machine import REFRELAY, Skip, find
from servers import start_postgresql, start_redis
from table import row

SERVERS = 5
YOUNG_S = 33  # of several servers, one that began lately has no vote: a ttl, and a bit
HOLD_MS = 5
BACKENDS = (("local", 0), ("directory", 0), ("redis", 1), ("redis", 3), ("redis", 5),
            ("postgresql", 1))
SYNC = {"postgresql": "durable (its default)", "redis": "in memory"}

# The folder of a script that uses node-redlock, or why there is none.
redlock_folder, redlock_missing = None, "--short does not install it"

REDLOCK = """
const { default: Redlock } = require('redlock'); const Redis = require('ioredis')
const [socket, count, seconds, hold] = process.argv.slice(2)
const client = new Redis(socket)
const redlock = new Redlock([client], { retryCount: -1 })
redlock.on('error', () => {})
const now = () => Number(process.hrtime.bigint() / 1000n)
const sleep = ms => new Promise(done => setTimeout(done, ms))
const lines = []
let until = 0
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
// Connected first: one that is not takes two seconds to disconnect.
client.ping().then(() => {
  until = now() + seconds * 1e6
  return Promise.all(Array.from({ length: Number(count) }, (_, i) => contend(i)))
}).then(() => { console.log(lines.join('\\n')); client.disconnect() })
"""


def prepare():
    """While there is a network: node-redlock 5.0.0-beta.2, with its own defaults."""
    global redlock_folder, redlock_missing
    try:
        npm = find("npm")
    except Skip as reason:
        redlock_missing = str(reason)
        return
    redlock_folder = tempfile.TemporaryDirectory(prefix="refrelay-bench.")
    done = subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund",
                           "redlock@5.0.0-beta.2", "ioredis@5"], cwd=redlock_folder.name,
                          check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pathlib.Path(redlock_folder.name, "storm.js").write_text(REDLOCK)
    if done.returncode != 0:
        redlock_folder, redlock_missing = None, "npm cannot install it"


def find_storm():
    return find(os.environ.get("LEASE_STORM") or
                str(pathlib.Path(REFRELAY).parent / "bench" / "lease_storm"))


def run_all(account, commands, folder=None):
    """Runs them side by side; what it cost, and the lines of each."""
    with account.measure() as cost:
        running = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                    text=True, cwd=folder) for command in commands]
        texts = [process.communicate()[0] for process in running]
    if any(process.returncode != 0 for process in running):
        raise SystemExit("a contender failed")
    return cost, [text.splitlines() for text in texts]


def run_redlock(account, seconds, commands_for):
    """The same of what commands_for(seconds) gives, without the CPU of Node's start and end."""
    nothing, _ = run_all(account, commands_for(0), redlock_folder.name)
    cost, outputs = run_all(account, commands_for(seconds), redlock_folder.name)
    cost.cpu = max(cost.cpu - nothing.cpu, 0)
    return cost, outputs


# What a storm of 16 with 5 ms each promises on a machine that does nothing else.
LEAST_USE = {"threads": 0.95, "processes": 0.90}
LEAST_FAIR = 0.90
MOST_WAIT = 2


class Storm:
    """How well grants were given: the share of the time in which somebody held it; of the
    contenders, how often the least served one had it beside the best served one; and the
    longest waits beside the ideal, in which all others have it once before. Also how many
    seconds it took from the first wait to the last end."""

    def __init__(self, grants, contenders):
        self.took = (max(grant[4] for grant in grants) -
                     min(grant[3] - grant[2] for grant in grants)) / 1e6
        grants = self.all_at_it(grants, contenders)
        counts = collections.Counter(grant[:2] for grant in grants)
        held = [grant[4] - grant[3] for grant in grants]
        waits = sorted(grant[2] for grant in grants)
        fewest = min(counts.values()) if len(counts) == contenders else 0
        self.use = self.use_of(grants)
        self.fair = fewest / max(counts.values())
        ideal = max(contenders - 1, 1) * statistics.mean(held)
        self.wait = waits[int(len(waits) * 0.99)] / ideal

    @staticmethod
    def use_of(grants):
        return (sum(grant[4] - grant[3] for grant in grants) /
                (max(grant[4] for grant in grants) - min(grant[3] for grant in grants)))

    @staticmethod
    def all_at_it(grants, contenders):
        """The grants of the time in which all contend: the start of the processes is not
        the lease's. If some have it so seldom that this is not most of the time, all."""
        first, last = {}, {}
        for grant in sorted(grants, key=lambda grant: grant[3]):
            first.setdefault(grant[:2], grant[3])
            last[grant[:2]] = grant[4]
        begun, ended = max(first.values()), min(last.values())
        whole = max(last.values()) - min(first.values())
        if len(first) < contenders or 2 * (ended - begun) < whole:
            return grants
        return [grant for grant in grants if begun <= grant[3] and grant[4] <= ended]

    def __str__(self):
        return (f"{self.use:.1%} in use, fairness {self.fair:.0%}, "
                f"wait p99 {self.wait:.2f} x ideal")

    def missed(self, who):
        """What of the promises was not kept, as the end of a row; "" for nothing."""
        lacks = [(self.use < LEAST_USE[who], f"in use {LEAST_USE[who]:.0%}"),
                 (self.fair < LEAST_FAIR, f"fairness {LEAST_FAIR:.0%}"),
                 (self.wait > MOST_WAIT, f"wait p99 {MOST_WAIT} x ideal")]
        words = [promise for is_missed, promise in lacks if is_missed]
        return f"<br>**MISSED: {', '.join(words)}**" if words else ""


def check_storm(name, outputs, contenders):
    """How many grants, and how well they were given; fails if two held it at once."""
    grants = [(process, *map(int, line.split()))
              for process, lines in enumerate(outputs) for line in lines]
    if not grants:
        raise SystemExit(f"{name}: nobody got it")
    by_time = sorted(grants, key=lambda grant: grant[3])
    for one, other in zip(by_time, by_time[1:]):
        if other[3] < one[4]:
            raise SystemExit(f"{name}: two held it at once")
    return len(grants), Storm(grants, contenders)


class Stores:
    """What the backends need."""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder("stores")
        self.storm = find_storm()
        self.account = bench.account("leases")
        self.is_short = bench.seconds < 10  # then nobody waits for servers to come of age
        find("redis-server")
        self.urls = [f"unix://{start_redis(self.account, self.folder, number)}"
                     for number in range(1 if self.is_short else SERVERS)]
        server, self.database = start_postgresql(self.account, self.folder)
        bench.stack.callback(self.account.stop, server, signal.SIGINT)
        if not self.is_short:
            time.sleep(YOUNG_S)

    def backends(self):
        """(name, how its contenders name it, urls)"""
        for name, count in BACKENDS:
            if count > len(self.urls):
                continue
            servers = [self.database] if name == "postgresql" else self.urls[:count]
            yield f"{name}{count if name == 'redis' else ''}", name, servers

    def command(self, backend, number, what, threads, urls):
        return [self.storm, backend, self.folder, f"data{number % 2}", what, threads,
                self.bench.seconds / 4, HOLD_MS * 1000, *urls]


@row("lease")
def lease(bench):
    """acquire and release of a lease, without others"""
    stores = Stores(bench)

    def single(backend, urls):
        cost, outputs = run_all(stores.account, [stores.command(backend, 0, "single", 1, urls)])
        cost = cost.each(len(outputs[0]))
        cost.wall = statistics.median(map(int, outputs[0])) / 1e6
        return cost

    ping = single("ping", stores.urls[:1])
    for name, backend, urls in stores.backends():
        bench.add(f"lease, acquire and release, {name}", single(backend, urls), "Redis PING",
                  ping, f"{SYNC.get(backend, '–')} / –")


@row("lease-storm")
def lease_storm(bench):
    """16 threads, then 16 processes, that want one lease again and again, for a grant"""
    stores, count = Stores(bench), bench.contenders

    def storm(name, backend, threads, urls):
        cost, outputs = run_all(stores.account, [
            stores.command(backend, number, "storm", threads, urls)
            for number in range(count // threads)])
        grants, figures = check_storm(name, outputs, count)
        cost.wall = figures.took
        return cost.each(grants), figures

    def storm_redlock(threads):
        if not redlock_folder:
            raise Skip(redlock_missing)
        socket = stores.urls[0].removeprefix("unix://")
        cost, outputs = run_redlock(stores.account, bench.seconds / 4, lambda seconds: [
            ["node", "storm.js", socket, threads, seconds, HOLD_MS * 1000]] * (count // threads))
        grants, figures = check_storm("node-redlock", outputs, count)
        cost.wall = figures.took
        return cost.each(grants), figures

    for threads in (count, 1):
        who = "threads" if threads > 1 else "processes"
        flock, flock_figures = storm("flock", "flock", threads, [])
        for name, backend, urls in stores.backends():
            ours, figures = storm(name, backend, threads, urls)
            missed = "" if stores.is_short else figures.missed(who)
            work = (f"lease storm of {count} {who}, {HOLD_MS} ms each, {name}: {figures}"
                    f"{missed}")
            bench.add(work, ours, f"flock: {flock_figures}", flock,
                      f"{SYNC.get(backend, '–')} / –")
            if name == "redis1":
                with bench.peer("node-redlock"):
                    theirs, figures = storm_redlock(threads)
                    bench.add(work, ours, f"node-redlock, retryDelay of 200 ms: {figures}",
                              theirs, "in memory / in memory")


@row("lease-mixed")
def lease_mixed(bench):
    """half of the contenders are node-redlock, half refrelay in its format"""
    if not redlock_folder:
        raise Skip(f"node-redlock: {redlock_missing}")
    stores, half = Stores(bench), bench.contenders // 2
    socket = stores.urls[0].removeprefix("unix://")
    rest = [half, bench.seconds / 4, HOLD_MS * 1000]
    slept = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()) // 1000
    ours = [stores.storm, "redlock", redlock_folder.name, "data0", "storm", *rest, stores.urls[0]]
    cost, outputs = run_all(stores.account, [["node", "storm.js", socket, *rest], ours],
                            redlock_folder.name)
    theirs = [line.split() for line in outputs[0]]  # their clock lacks what the machine slept
    outputs[0] = [f"{who} {waited} {int(start) + slept} {int(end) + slept}"
                  for who, waited, start, end in theirs]
    grants, figures = check_storm("node-redlock, refrelay", outputs, half * 2)
    bench.add(f"lease storm, {half} of node-redlock, {half} of ours on one lock: {figures}",
              cost.each(grants), "–", None, "in memory")
