"""Rows of the registry, by the program's own code on a database of its own."""

import os
import pathlib
import statistics
import subprocess

from machine import REFRELAY, find
from table import row

CLAIM = 1000  # as registry_load.c
PRODUCERS = (16, 64)
PLAIN = "SQLite, synchronous = FULL"


class Load:
    """registry_load of a folder; `folder` has the database."""

    def __init__(self, bench, rows):
        self.bench, self.folder = bench, bench.folder("db")
        self.program = find(os.environ.get("REGISTRY_LOAD") or
                            str(pathlib.Path(REFRELAY).parent / "bench" / "registry_load"))
        self.account = bench.account("registry")
        self.run("fill", rows)

    def run(self, *args):
        """What it cost, and the seconds of each thing that was done, in rising order."""
        with self.account.measure() as cost:
            text = subprocess.run([self.program, self.folder, *map(str, args)], check=True,
                                  text=True, stdout=subprocess.PIPE).stdout
        return cost, sorted(int(line) / 1e6 for line in text.splitlines())

    def repeated(self, what, times):
        """Of one of so many, without start and end of the program."""
        nothing, _ = self.run(what, 0)
        cost, took = self.run(what, times)
        cost.cpu = max(cost.cpu - nothing.cpu, 0)
        cost = cost.each(times)
        cost.wall = statistics.median(took)
        return cost

    def moved(self, what, producers):
        """(cost of one, moves a second, the 99th percentile as text)"""
        cost, took = self.run(what, producers, self.bench.seconds / 4)
        rate = len(took) / cost.wall
        return cost.each(len(took)), f"{rate:.0f}/s, p99 {took[int(len(took) * 0.99)] * 1e3:.1f} ms"


@row("registry")
def registry(bench):
    """1,000,000 rows of the registry: moves, claims, counts, a comparison"""
    rows, short = bench.registry, bench.seconds < 10
    load = Load(bench, rows)
    for producers in PRODUCERS[:1] if short else PRODUCERS:
        ours, figures = load.moved("move", producers)
        work = f"a row of {rows} moves to its next state, {producers} producers ({figures})"
        for many in (producers, 1):
            theirs, others = load.moved("move-plainly", many)
            bench.add(work, ours, f"{PLAIN}, a commit a move, {many} connections ({others})"
                      .replace(" 1 connections", " 1 connection"), theirs, "durable / durable")
    times = max(1, min(20, rows // 2 // CLAIM // 2))  # the other half was moved
    bench.add(f"claim of {CLAIM} due rows of {rows}", load.repeated("claim", times),
              "SQLite, an OR of the states that are due", load.repeated("claim-plainly", times),
              "durable / durable")
    few = 1 if short else 5
    bench.add(f"how many of {rows} rows are in each state",
              load.repeated("status", 100 if short else 10000),
              "SQLite, count(*)", load.repeated("status-plainly", few), "–")
    bench.add(f"comparison of all {rows} rows with an inventory in memory",
              load.repeated("compare", few), "SQLite, reading all and comparing nothing",
              load.repeated("compare-plainly", few), "nothing to write")
