"""Rows of mirrors of foreign upstreams."""

import time

from machine import add_commit, git, make_repositories, tip, wait_for
from servers import Grokmirror
from sites import Site
from table import median, row

FSYNC = ("-c", "core.fsync=all")
MODE = "durable / durable (core.fsync=all)"


class Mirrors:
    """A site of upstreams, one that polls them, clones beside it."""

    def __init__(self, bench):
        self.bench, self.count = bench, bench.mirrors
        self.interval = max(1, min(20, bench.seconds))
        self.account, folder = bench.account("refrelay"), bench.folder("sites")
        self.upstream = Site(bench.account("upstream"), folder / "upstream", "standalone",
                             "[sync]\nscanInterval = 1h\n")
        make_repositories(self.upstream.git, self.count)
        self.names = sorted(path.name for path in self.upstream.git.iterdir())
        self.sample = self.names[:bench.sample]
        self.mirror = Site(self.account, folder / "mirror", "standalone", "".join(
            f'[mirror "{name.removesuffix(".git")}"]\nurl = {self.upstream.url()}{name}\n'
            f"interval = {self.interval}s\n" for name in self.names))
        self.clones = folder / "clones"

    def start(self):
        self.upstream.start()
        self.mirror.start()
        wait_for("the first copies", lambda: self.polls() >= self.count, 1200, 0.2)
        self.settle()
        for name in self.sample:
            git("clone", "-q", "--mirror", f"{self.upstream.url()}{name}", self.clones / name)

    def settle(self):
        """Until the first copies have been maintained, which is no part of a poll."""
        pattern, seconds = rb"refrelay_maintenance_total\{.*\}", 5
        before, since = self.mirror.metric(pattern), time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.5)
            now = self.mirror.metric(pattern)
            if now != before:
                before, since = now, time.monotonic()

    def polls(self):
        """That found nothing."""
        return self.mirror.metric(rb'refrelay_mirror_polls_total\{state="unchanged"\}')

    def unchanged(self):
        """Of a poll, over at least one round."""
        begun = self.polls()
        with self.account.measure(busy=False) as cost:
            wait_for("a round", lambda: self.polls() - begun >= self.count, 10 * self.interval + 60,
                     2)  # seldom: to answer costs as much as many polls
        cost = cost.each(self.polls() - begun)
        cost.wall = 0  # when it is due
        return cost

    def idle(self, interval):
        """Of a second in which nothing changes, over a whole interval of each upstream."""
        self.mirror.stop()
        text = self.mirror.conf.read_text()
        self.mirror.conf.write_text(text.replace(f"interval = {self.interval}s\n",
                                                 f"interval = {interval}s\n"))
        self.mirror.start()
        least = self.count - len(self.sample)  # of which the last change may be news
        wait_for("the first round", lambda: self.polls() >= least, 300, 0.2)
        begun, seconds = self.polls(), 1.1 * interval
        with self.account.measure(busy=False) as cost:
            time.sleep(seconds)
        if self.polls() - begun < least:
            raise SystemExit(f"only {self.polls() - begun} polls in {seconds} s")
        return cost.each(seconds)

    def changed(self, idle):
        """Of a change: what polls without changes cost is taken off."""
        for name in self.sample:
            add_commit(self.upstream.git / name)
        begun = self.polls()
        with self.account.measure(busy=False) as cost:
            wait_for("the changes", lambda: all(
                tip(self.upstream.git / name) == tip(self.mirror.git / name)
                for name in self.sample), 10 * self.interval + 60, 0.2)
            time.sleep(min(1, self.interval))
        cost.cpu = max(cost.cpu - idle.cpu * (self.polls() - begun), 0)
        cost.wall = 0  # half an interval, whatever it costs
        return cost.each(len(self.sample))

    def fetch(self, account):
        with account.measure() as cost:
            for name in self.sample:
                git(*FSYNC, "fetch", "-q", "--prune", "origin", cwd=self.clones / name)
        return cost.each(len(self.sample))


def grok_round(account, grok, count):
    with account.measure() as cost:
        grok.round()
    return cost.each(count)


@row("mirrors")
def mirrors(bench):
    """a round of mirrors of 1,000 upstreams: for each that has not, then that has changed"""
    mirrored = Mirrors(bench)
    mirrored.start()
    git_account = bench.account("git")
    unchanged = median([mirrored.unchanged() for _ in range(3 if bench.seconds > 10 else 1)])
    work = f"a poll of one of {mirrored.count} mirrors, unchanged"
    bench.add(work, unchanged, "git fetch", mirrored.fetch(git_account), "nothing to write")
    changed_work = "the same, changed"
    changed = mirrored.changed(unchanged)
    bench.add(changed_work, changed, "git fetch", mirrored.fetch(git_account), MODE)
    grokmirror(bench, mirrored, unchanged, changed)
    interval = 300 if bench.seconds >= 20 else 3  # five minutes, as is the default
    idle = mirrored.idle(interval)
    bench.add(f"a second of {mirrored.count} mirrors with an interval of {interval} s, nothing changes: "
              f"{100 * idle.cpu:.2f} % of a core", idle, "nobody", None, "nothing to write")


def grokmirror(bench, mirrored, unchanged, changed):
    with bench.peer("grokmirror"):
        account = bench.account("grokmirror")
        grok = Grokmirror(bench.folder("grok"), mirrored.upstream.url())
        grok.round()
        work = f"a poll of one of {mirrored.count} mirrors, unchanged"
        bench.add(work, unchanged, "grok-pull", grok_round(account, grok, mirrored.count),
                  "nothing to write")
        for name in mirrored.sample:
            add_commit(mirrored.upstream.git / name)
        mirrored.upstream.run("changed", *mirrored.sample)  # or the manifest would be late
        theirs = grok_round(account, grok, len(mirrored.sample))
        for name in mirrored.sample:
            if tip(grok.tree / name) != tip(mirrored.upstream.git / name):
                raise SystemExit(f"grok-pull has not brought {name}")
        bench.add("the same, changed", changed, "grok-pull", theirs,
                  "durable / not (git's defaults)")
