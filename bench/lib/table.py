"""The table: rows, what was skipped, and the sizes that rows take."""

import contextlib
import pathlib
import shutil
import statistics

from account import Account, Cost
from machine import REFRELAY, Skip, find

ROWS = {}  # name: (function, what it measures)

# name: (size, size of --short, what)
SIZES = {
    "changes": (20, 2, "changes, one after another, whose median is a row"),
    "refs": (100000, 300, "refs of the large repository"),
    "rounds": (10, 1, "rounds of the sustained row"),
    "many": (100, 3, "repositories that change in each round of it"),
    "megabytes": (50, 1, "size of the large history"),
    "small": (1000, 4, "repositories of the first copy of many small ones"),
    "few": (1000, 3, "repositories of change-1000"),
    "all": (10000, 5, "repositories of change-10000, no-change, idle"),
    "sample": (50, 2, "repositories by which peers are measured that go one by one"),
    "seconds": (20, 1, "of each run that has no end of its own"),
    "tasks": (600, 6, "tasks of push-all"),
    "blobs": (1000, 3, "files of 1 MB"),
    "tiny": (10000, 5, "files of 4 KB"),
    "contenders": (16, 3, "for one lease"),
    "mirrors": (1000, 2, "upstreams of the row of mirrors"),
    "objects": (2000, 1100, "of the change of change-large; more than 1,000"),
    "clones": (20, 2, "equal ones at a time"),
    "events": (1000, 10, "that are waited for, one after another"),
    "registry": (1000000, 5000, "rows of the registry; at least 5,000"),
}


def row(name):
    def keep(function):
        ROWS[name] = (function, function.__doc__.strip())
        return function
    return keep


def median(costs):
    """Of each figure by itself; of memory the most."""
    known = [cost.processes for cost in costs if cost.processes is not None]
    return Cost(statistics.median(cost.wall for cost in costs),
                statistics.median(cost.cpu for cost in costs),
                statistics.median(cost.bytes for cost in costs),
                statistics.median(known) if len(known) == len(costs) else None,
                max(cost.memory for cost in costs))


def show(value, units):
    """Three digits with the unit that fits; None: not known."""
    if value is None:
        return "?"
    for factor, unit in units:
        if value >= factor or (factor, unit) == units[-1]:
            value /= factor
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"


SECONDS = ((1, " s"), (1e-3, " ms"), (1e-6, " us"))
BYTES = ((1e6, " MB"), (1e3, " KB"), (1, " B"))
COUNT = ((1, ""),)
HEAD = ("work", "peer", "wall, ours / peer", "peer : ours", "CPU, ours / peer", "peer : ours",
        "bytes, ours / peer", "processes, ours / peer", "memory, ours / peer", "sync, ours / peer")


def compare(ours, theirs, units):
    return f"{show(ours, units)} / {show(theirs, units)}"


def compare_walls(ours, theirs):
    """Nobody waits for what is done at its time: 0."""
    return f"{show(ours, SECONDS) if ours else '–'} / {show(theirs, SECONDS)}"


def ratio(ours, theirs):
    return f"{theirs / ours:.3g}" if ours else "–"


class Bench:
    def __init__(self, work, sizes):
        self.work, self.sizes = work, sizes
        self.lines, self.skipped = [], []
        self.row, self.number = None, 0
        self.stack = None
        find(REFRELAY)

    def __getattr__(self, name):
        """A size."""
        return self.sizes[name]

    def folder(self, name):
        """A new one, of this row."""
        path = self.work / f"{self.row}-{name}"
        path.mkdir()
        return path

    def account(self, name):
        """Ends with the row."""
        self.number += 1
        account = Account(f"{self.number}-{name}")
        self.stack.callback(account.close)
        return account

    def add(self, work, ours, peer, theirs, sync):
        """theirs None: nobody to compare with."""
        cells = [work, peer]
        if theirs:
            cells += [compare_walls(ours.wall, theirs.wall), ratio(ours.wall, theirs.wall),
                      compare(ours.cpu, theirs.cpu, SECONDS), ratio(ours.cpu, theirs.cpu),
                      compare(ours.bytes, theirs.bytes, BYTES),
                      compare(ours.processes, theirs.processes, COUNT),
                      compare(ours.memory, theirs.memory, BYTES)]
        else:
            cells += [show(ours.wall, SECONDS), "–", show(ours.cpu, SECONDS), "–",
                      show(ours.bytes, BYTES), show(ours.processes, COUNT),
                      show(ours.memory, BYTES)]
        cells.append(sync)
        self.lines.append("| " + " | ".join(cells) + " |")

    @contextlib.contextmanager
    def peer(self, name):
        """What is in the block is skipped where it cannot be measured."""
        try:
            yield
        except Skip as reason:
            self.skipped.append(f"{self.row}: {name}: {reason}")

    def run(self, name):
        self.row = name
        with contextlib.ExitStack() as self.stack:
            with self.peer("all of it"):
                ROWS[name][0](self)
        for path in pathlib.Path(self.work).glob(f"{name}-*"):
            shutil.rmtree(path, ignore_errors=True)
