"""Rows of two sites: changes, first copies, nothing at all."""

import os
import pathlib
import subprocess
import time

from account import Cost
from machine import (Skip, find, git, make_commit, make_history, make_repositories,
                     make_repository, set_main, tip, wait_for)
from servers import Backend, Grokmirror, start_rsync
from sites import Pair
from table import median, row

DURABLE = "durable, proved"
FSYNC = ("-c", "core.fsync=all")


def clone_of(bare, path):
    git("clone", "-q", "--single-branch", bare, path)
    return path


def commit(clone, text):
    """One that is not pushed yet."""
    (clone / "file").write_text(f"change {text}\n")
    git("add", "file", cwd=clone)
    git("commit", "-qm", f"change {text}", cwd=clone)
    return git("rev-parse", "HEAD", cwd=clone).decode().strip()


def push_costs(count, account, clone, arrive, check):
    """Each of a push until arrive() has returned; check(commit) fails if it should not have."""
    costs = []
    for number in range(count + 1):
        new = commit(clone, number)
        with account.measure() as cost:
            wait = arrive()
            git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=clone)
            wait()
        check(new)
        costs.append(cost)
        time.sleep(0.05)
    return median(costs[1:])  # the first finds caches empty


def git_peers(bench, repositories):
    """(name, account, prefix of urls) of stock git: by path, and over HTTP if it can be."""
    yield "git, by path", bench.account("path"), f"file://{repositories}/"
    with bench.peer("git, nginx, git http-backend"):
        for program in ("nginx", "fcgiwrap"):
            find(program)
        account = bench.account("backend")
        backend = Backend(account, bench.folder("backend"))
        backend.start(repositories)
        yield "git, nginx, git http-backend", account, backend.url()


def measure_changes(bench, work, pair, refspecs):
    """A push until the secondary has proved its copy, beside git fetch at the right moment."""
    bare = sorted(pair.primary.git.iterdir())[0]

    def arrive():
        mark = pair.mark()
        return lambda: pair.wait_for_copies([bare.name], mark)

    ours = push_costs(bench.changes, pair.account, clone_of(bare, bench.folder("c") / "clone"),
                      arrive, lambda new: pair.check_copy(bare.name, new))
    pair.stop()
    place = bench.folder("peers")
    git("clone", "-q", "--mirror", bare, place / "r.git")
    for number, (name, account, url) in enumerate(git_peers(bench, place)):
        mirror = place / f"mirror{number}"
        git("clone", "-q", "--mirror", f"{url}r.git", mirror)
        for what, refspec in refspecs:
            def fetch(mirror=mirror, refspec=refspec):
                return lambda: git(*FSYNC, "fetch", "-q", "origin", *refspec, cwd=mirror)

            def check(new, mirror=mirror):
                if tip(mirror) != new:
                    raise SystemExit(f"{name}: fetched something else")

            theirs = push_costs(
                bench.changes, account,
                clone_of(place / "r.git", bench.folder(f"{number}{what}") / "clone"), fetch, check)
            bench.add(work, ours, f"{name}: push, fetch{what}", theirs,
                      f"{DURABLE} / durable (core.fsync=all)")


def change_among(bench, count):
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", count).start()
    measure_changes(bench, f"one change among {count} repositories, push to proved copy", pair,
                    (("", ()),))


@row("change-1")
def change_1(bench):
    """one change of the only repository, from push to proved copy"""
    change_among(bench, 1)


@row("change-1000")
def change_1000(bench):
    """the same among 1,000 repositories"""
    change_among(bench, bench.few)


@row("change-10000")
def change_10000(bench):
    """the same among 10,000"""
    change_among(bench, bench.all)


@row("change-refs")
def change_refs(bench):
    """the same in a repository of 100,000 refs"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair")
    make_repository(pair.primary.git / "large.git", bench.refs)
    pair.start()
    measure_changes(bench, f"one change at {bench.refs} refs, push to proved copy", pair,
                    ((" of all", ()), (" of that ref", ("+refs/heads/main:refs/heads/main",))))


def change_all(repositories, names, account, arrive):
    """The cost of a change of each of them, until arrive() has returned."""
    tips = {name: make_commit(repositories / name) for name in names}
    with account.measure() as cost:
        wait = arrive()
        for name, new in tips.items():
            set_main(repositories / name, new)
        wait()
    return cost.each(len(names)), tips


@row("sustained")
def sustained(bench):
    """many repositories change, one after another, again and again"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.many).start()
    names = sorted(path.name for path in pair.primary.git.iterdir())

    def arrive():
        mark = pair.mark()
        return lambda: pair.wait_for_copies(names, mark)

    costs = []
    for _ in range(bench.rounds):
        cost, tips = change_all(pair.primary.git, names, pair.account, arrive)
        for name, new in tips.items():
            pair.check_copy(name, new)
        costs.append(cost)
    pair.stop()
    ours, place = median(costs), bench.folder("peers")
    make_repositories(place / "git", bench.many)
    for number, (name, account, url) in enumerate(git_peers(bench, place / "git")):
        mirrors = place / f"mirrors{number}"
        for repository in names:
            git("clone", "-q", "--mirror", f"{url}{repository}", mirrors / repository)

        def fetch_all(mirrors=mirrors):
            return lambda: subprocess.run(
                ["xargs", "-P", str(os.cpu_count()), "-I", "{}", "git", *FSYNC, "-C",
                 mirrors / "{}", "fetch", "-q"], check=True, text=True, input="\n".join(names))

        theirs = [change_all(place / "git", names, account, fetch_all)[0]
                  for _ in range(bench.rounds)]
        bench.add(f"git update-ref in each of {bench.many} repositories, to proved copies, each",
                  ours, f"{name}: the same, then fetches, as many as processors at a time",
                  median(theirs), f"{DURABLE} / durable (core.fsync=all)")


def first_copy(pair):
    """What the secondary's start from nothing costs, until all is proved."""
    pair.start_primary()
    with pair.account.measure() as cost:
        pair.start_secondary(0.02)
    pair.stop()
    return cost


def clone_costs(bench, account, url, names, folder):
    with account.measure() as cost:
        for name in names:
            git(*FSYNC, "clone", "-q", "--mirror", f"{url}{name}", folder / name)
    return cost


def first_copies(bench, work, pair, names):
    """names: by which peers are measured; of all costs one repository's."""
    count = len(list(pair.primary.git.glob("*.git")))
    ours = first_copy(pair).each(count)
    for number, (name, account, url) in enumerate(git_peers(bench, pair.primary.git)):
        theirs = clone_costs(bench, account, url, names, bench.folder(f"clones{number}"))
        bench.add(work, ours, f"{name}: clone --mirror", theirs.each(len(names)),
                  f"{DURABLE} / durable (core.fsync=all)")
    with bench.peer("rsync"):
        account = bench.account("rsync")
        url = start_rsync(account, bench.folder("rsync"), pair.primary.git)
        with account.measure() as cost:
            subprocess.run(["rsync", "-a", "--fsync", url, bench.folder("copy")], check=True)
        bench.add(work, ours, "rsync, daemon", cost.each(count), f"{DURABLE} / durable")


@row("first-large")
def first_large(bench):
    """the first copy of one large history"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair")
    make_history(pair.primary.git / "large.git", bench.megabytes)
    size = sum(path.stat().st_size for path in (pair.primary.git).rglob("*.pack"))
    first_copies(bench, f"first copy of a history of {size / 1e6:.1f} MB", pair, ["large.git"])


@row("first-small")
def first_small(bench):
    """the first copy of 1,000 small repositories, for each"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.small)
    names = sorted(path.name for path in pair.primary.git.iterdir())[:bench.sample]
    first_copies(bench, f"first copy of {bench.small} small ones, each", pair, names)


REQUESTS = rb'refrelay_http_requests_total\{[^}]*\}'


def idle_cost(pair, seconds):
    """Of so many seconds in which nothing happens, and requests that the primary had."""
    before = pair.primary.metric(REQUESTS)
    with pair.account.measure(busy=False) as cost:
        time.sleep(seconds)
    return cost, pair.primary.metric(REQUESTS) - before


def reload(site, seconds):
    """Its consistencyInterval."""
    count = site.log.read_text().count("ev=node.reloaded")
    site.set("sync", f"consistencyInterval = {seconds}s")
    os.kill(site.process.pid, 1)
    wait_for("a reload", lambda: site.log.read_text().count("ev=node.reloaded") > count)


def compared_at(site):
    return site.status()["compared_at"]


def check_cost(bench, pair):
    """Of one comparison of all with the primary: a second between two of them, against hours."""
    reload(pair.secondary, 86400)
    time.sleep(min(2, bench.seconds / 2))
    idle, idle_requests = idle_cost(pair, bench.seconds)
    reload(pair.secondary, 1)
    begun = compared_at(pair.secondary)
    wait_for("a comparison", lambda: compared_at(pair.secondary) != begun)
    time.sleep(min(2, bench.seconds / 2))
    busy, requests = idle_cost(pair, bench.seconds)
    passes = busy.wall  # each second one
    return Cost(0, max(busy.cpu - idle.cpu, 0) / passes, max(busy.bytes - idle.bytes, 0) / passes,
                0, busy.memory), (requests - idle_requests) / passes


def ls_remote_cost(bench, account, url, names, count):
    with account.measure() as cost:
        for name in names:
            git("ls-remote", f"{url}{name}")
    each = cost.each(len(names))
    return Cost(each.wall * count, each.cpu * count, each.bytes * count,
                each.processes and each.processes * count, cost.memory)


@row("no-change")
def no_change(bench):
    """a comparison of 10,000 repositories of which none has changed"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.all).start()
    names = sorted(path.name for path in pair.primary.git.iterdir())
    ours, requests = check_cost(bench, pair)
    work = f"no-change check of {bench.all} repositories ({requests:.2g} requests)"
    for name, account, url in git_peers(bench, pair.primary.git):
        sample = names[:bench.sample]
        bench.add(work, ours, f"{name}: ls-remote each, from {len(sample)}",
                  ls_remote_cost(bench, account, url, sample, bench.all), "nothing to write")
    with bench.peer("rsync"):
        account = bench.account("rsync")
        url = start_rsync(account, bench.folder("rsync"), pair.primary.git)
        copy = bench.folder("copy")
        subprocess.run(["rsync", "-a", url, copy], check=True)
        with account.measure() as cost:
            subprocess.run(["rsync", "-an", url, copy], check=True)
        bench.add(work, ours, "rsync -an, daemon", cost, "nothing to write")
    with bench.peer("grokmirror"):
        account = bench.account("grokmirror")
        grok = Grokmirror(bench.folder("grok"), pair.primary.url())
        grok.round()
        with account.measure() as cost:
            grok.round()
        bench.add(work, ours, "grok-pull", cost, "nothing to write")


@row("idle")
def idle(bench):
    """both nodes at 10,000 repositories while nothing happens, for a second"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.all).start()
    time.sleep(min(5, bench.seconds))
    ours = idle_cost(pair, bench.seconds)[0].each(bench.seconds)
    work = f"a second of nothing, two nodes, {bench.all} repositories"
    try:
        pid = find_gerrit()
    except Skip as reason:
        bench.add(work, ours, "–", None, DURABLE)
        raise Skip(f"Gerrit: {reason}") from None
    stat = pathlib.Path(f"/proc/{pid}/stat")
    before = sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:15]))
    time.sleep(bench.seconds)
    used = sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:15])) - before
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    bench.add(work, ours, "Gerrit, one server", Cost(
        1, used / os.sysconf("SC_CLK_TCK") / bench.seconds, 0, None,
        pages * os.sysconf("SC_PAGE_SIZE")), f"{DURABLE} / –")


def find_gerrit():
    pid = os.environ.get("GERRIT_PID")
    if not pid:
        raise Skip("$GERRIT_PID is not set")
    return int(pid)
