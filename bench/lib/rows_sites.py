"""Rows of two sites: changes, first copies, nothing at all."""

import os
import pathlib
import re
import subprocess
import time

from account import Cost
from machine import (Skip, add_commit, find, git, make_chain, make_history, make_repositories, make_repository,
                     prepared_changes, tip, wait_for)
from servers import Backend, Grokmirror, start_rsync
from sites import Pair
from table import median, row

DURABLE = "durable, proved"
FSYNC = ("-c", "core.fsync=all")


def clone_of(bare, path, *options):
    git("clone", "-q", "--single-branch", *options, bare, path)
    return path


def commit(clone, text):
    """One that is not pushed yet."""
    (clone / "file").write_text(f"change {text}\n")
    git("add", "file", cwd=clone)
    git("commit", "-qm", f"change {text}", cwd=clone)
    return git("rev-parse", "HEAD", cwd=clone).decode().strip()


def push_costs(count, account, clone, arrive, check, change=commit):
    """Each of a push until arrive() has returned; check(commit) fails if it should not have."""
    costs = []
    for number in range(count + 1):
        new = change(clone, number)
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


def require_way(pair, mark, way):
    """All changes since the mark came by it: delta, or git."""
    ways = {line.partition(" way=")[2].split(" ")[0]
            for line in pair.secondary.log.read_text()[mark:].splitlines()
            if " ev=sync.done " in line and " result=updated" in line}
    if ways != {way}:
        raise SystemExit(f"the changes came by {ways}, not by {way}")


def measure_changes(bench, work, pair, refspecs, change=commit, way="delta"):
    """A push until the secondary has proved its copy, beside git fetch at the right moment."""
    bare = sorted(pair.primary.git.iterdir())[0]
    place = bench.folder("peers")
    git("clone", "-q", "--mirror", bare, place / "r.git")  # as it is before what is measured

    def arrive():
        mark = pair.mark()
        return lambda: pair.wait_for_copies([bare.name], mark)

    begun = pair.mark()
    ours = push_costs(bench.changes, pair.account, clone_of(bare, bench.folder("c") / "clone", "-n"),
                      arrive, lambda new: pair.check_copy(bare.name, new), change)
    require_way(pair, begun, way)
    pair.stop()
    for number, (name, account, url) in enumerate(git_peers(bench, place)):
        mirror = place / f"mirror{number}"
        git("clone", "-q", "--mirror", f"{url}r.git", mirror)
        for what, refspec in refspecs:
            def fetch(mirror=mirror, refspec=refspec):
                return lambda: git(*FSYNC, "fetch", "-q", "origin", *refspec, cwd=mirror)

            def check(new, mirror=mirror):
                if tip(mirror) != new:
                    raise SystemExit(f"{name}: fetched something else")

            clone = clone_of(place / "r.git", bench.folder(f"{number}{what}") / "clone", "-n")
            theirs = push_costs(bench.changes, account, clone, fetch, check, change)
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


LARGE = 1500  # bytes of a file of it, which do not compress: more than 1 MiB of 1,000


def commit_many(count):
    """For push_costs: a commit of so many new files, in a pack of its own."""
    def change(clone, number):
        lines = [f"commit refs/heads/main\ncommitter b <b@example.org> {1700000000 + number} +0000\n"
                 "data 6\nchange\nfrom refs/heads/main^0\n".encode()]
        for file in range(count):
            lines.append(b"M 100644 inline n%d/d%d/f%d\ndata %d\n%s\n" % (
                number, file // 100, file, LARGE, os.urandom(LARGE)))
        git("fast-import", "--quiet", "--depth=0", cwd=clone, input=b"".join(lines))
        return tip(clone)
    return change


@row("change-large")
def change_large(bench):
    """one change of more than 1,000 objects and 1 MiB, which is too large to be sent as a delta"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", 1).start()
    size = bench.objects * LARGE / 1e6
    measure_changes(bench, f"one change of {bench.objects} objects, {size:.1f} MB, push to proved "
                    "copy", pair, (("", ()),), commit_many(bench.objects), "git")


SOCKET = "data/node.sock"


def chains_of(folder, names, count):
    return {name: make_chain(folder / name, count) for name in names}


def rounds_of(folder, chains, begin, end):
    """Of each repository the changes from begin to end, one after another in all of them."""
    return [(folder / name, chain[number]) for number in range(begin, end)
            for name, chain in chains.items()]


def latency_by_peers(bench):
    """(name, cost of a change until git fetch has it), each with a mirror of its own."""
    place = bench.folder("peers") / "git"
    make_repositories(place, 1)
    bare = next(place.iterdir())
    for number, (name, account, url) in enumerate(git_peers(bench, place)):
        first, *chain = make_chain(bare, bench.changes + 2)
        mirror, costs = place.parent / f"mirror{number}", []
        git("update-ref", "refs/heads/main", first, cwd=bare)
        git("clone", "-q", "--mirror", f"{url}{bare.name}", mirror)
        for new in chain:
            with prepared_changes([(bare, new)]) as make:
                time.sleep(0.1)
                with account.measure() as cost:
                    make()
                    git(*FSYNC, "fetch", "-q", cwd=mirror)
            if tip(mirror) != new:
                raise SystemExit(f"{name}: fetched something else")
            costs.append(cost)
        yield name, median(costs[1:])  # the first finds caches empty


@row("latency")
def latency(bench):
    """one change, from the ref's move to the proved copy; no Git runs meanwhile"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.few)
    name, count, costs = "r00000.git", bench.changes + 1, []
    chains = chains_of(pair.primary.git, [name], count)
    pair.start()
    begun = pair.mark()
    for number in range(count):
        generations = pair.generations([name], 1)
        changes = rounds_of(pair.primary.git, chains, number, number + 1)
        with prepared_changes(changes, pair.primary.folder / SOCKET, 1) as make:
            time.sleep(0.1)
            with pair.account.measure() as cost:
                make()
                pair.wait_for_generations(generations, 0.0002)
        costs.append(cost)
        pair.check_copy(name, chains[name][number])
    require_way(pair, begun, "delta")
    pair.stop()
    worst = max(cost.wall for cost in costs[1:])
    work = (f"a ref moves among {bench.few} repositories, to its proved copy "
            f"(worst {1000 * worst:.1f} ms)")
    for peer, theirs in latency_by_peers(bench):
        bench.add(work, median(costs[1:]), f"{peer}: fetch", theirs,
                  f"{DURABLE} / durable (core.fsync=all)")


def sustained_by_peers(bench, names):
    """(name, cost of a change), each with fetches after each round, in repositories of its own."""
    place = bench.folder("peers") / "git"
    make_repositories(place, bench.many)
    for number, (name, account, url) in enumerate(git_peers(bench, place)):
        chains = chains_of(place, names, bench.rounds + 1)
        mirrors = place.parent / f"mirrors{number}"
        for repository in names:
            git("update-ref", "refs/heads/main", chains[repository][0], cwd=place / repository)
            git("clone", "-q", "--mirror", f"{url}{repository}", mirrors / repository)
        costs = []
        for begin in range(1, bench.rounds + 1):
            with prepared_changes(rounds_of(place, chains, begin, begin + 1)) as make:
                with account.measure() as cost:
                    make()
                    subprocess.run(
                        ["xargs", "-P", str(os.cpu_count()), "-I", "{}", "git", *FSYNC, "-C",
                         mirrors / "{}", "fetch", "-q"], check=True, text=True,
                        input="\n".join(names))
            costs.append(cost)
        yield name, median(costs).each(len(names))


@row("sustained")
def sustained(bench):
    """many repositories change again and again, all at once"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.many)
    names = sorted(path.name for path in pair.primary.git.iterdir())
    count = bench.rounds + 1  # the first finds caches empty
    chains = chains_of(pair.primary.git, names, count)
    pair.start()
    for begin, end in ((0, 1), (1, count)):
        generations, mark = pair.generations(names, end - begin), pair.mark()
        changes = rounds_of(pair.primary.git, chains, begin, end)
        with prepared_changes(changes, pair.primary.folder / SOCKET) as make:
            time.sleep(0.5)
            with pair.account.measure() as cost:
                make()
                pair.wait_for_generations(generations)
    syncs = pair.secondary.log.read_text()[mark:].count(" ev=sync.done ")
    for name in names:
        pair.check_copy(name, chains[name][-1])
    pair.stop()
    ours = cost.each(bench.rounds * len(names))
    work = (f"{bench.rounds} changes of each of {len(names)} repositories, to proved copies, each "
            f"({1 / ours.wall:.0f}/s, by {syncs} syncs)")
    for name, theirs in sustained_by_peers(bench, names):
        bench.add(work, ours, f"{name}: fetches after each round, as many as processors at a time",
                  theirs, f"{DURABLE} / durable (core.fsync=all)")


COPIED = re.compile(r" ev=sync\.packs .*?copied_ms=(\d+)")


def first_copy(pair):
    """What the secondary's start from nothing costs, until all is proved."""
    pair.start_primary()
    with pair.account.measure() as cost:
        pair.bring_first_copies()
    pair.stop()
    return cost


AT_A_TIME = 10  # a secondary copies so many repositories (the default of sync.repositoryCapacity)


def clone_costs(account, url, names, folder):
    with account.measure() as cost:
        subprocess.run(["xargs", "-P", str(AT_A_TIME), "-I", "{}", "git", *FSYNC, "clone", "-q",
                        "--mirror", f"{url}{{}}", folder / "{}"], check=True, text=True,
                       input="\n".join(names))
    return cost


def first_copies(bench, work, pair, names):
    """names: by which peers are measured; of all costs one repository's."""
    count = len(list(pair.primary.git.glob("*.git")))
    ours = first_copy(pair).each(count)
    copied = COPIED.search(pair.secondary.log.read_text())
    if copied:  # as the peers' are then
        work += f" (copied, not yet proved, after {copied.group(1)} ms)"
    at_a_time = f", {AT_A_TIME} at a time" if len(names) > 1 else ""
    for number, (name, account, url) in enumerate(git_peers(bench, pair.primary.git)):
        theirs = clone_costs(account, url, names, bench.folder(f"clones{number}"))
        bench.add(work, ours, f"{name}: clone --mirror{at_a_time}", theirs.each(len(names)),
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


def page_seconds(site):
    """Of all answers to questions for the inventory: their sum, and how many."""
    name = rb"refrelay_comparison_page_seconds"
    return [site.metric(name + end + rb'\{kind="repository"\}') for end in (rb"_sum", rb"_count")]


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
    before = page_seconds(pair.secondary)
    busy, requests = idle_cost(pair, bench.seconds)
    took, count = (now - was for now, was in zip(page_seconds(pair.secondary), before))
    passes = busy.wall  # each second one
    return Cost(took / count, max(busy.cpu - idle.cpu, 0) / passes, max(busy.bytes - idle.bytes, 0) / passes,
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


def page_cost(pair):
    """Of one comparison of all after something has changed, or None if there were more of them
    than one."""
    reload(pair.secondary, 86400)
    name, mark = "r00000.git", pair.mark()
    new = add_commit(pair.primary.git / name)
    pair.primary.run("changed", name.removesuffix(".git"))
    pair.wait_for_copies([name], mark)
    pair.check_copy(name, new)
    begun, before = compared_at(pair.secondary), page_seconds(pair.secondary)
    with pair.account.measure(busy=False) as cost:
        reload(pair.secondary, 1)
        wait_for("a comparison", lambda: compared_at(pair.secondary) != begun, pause=0.1)
    took, count = (now - was for now, was in zip(page_seconds(pair.secondary), before))
    cost.wall = took
    return cost if count == 1 else None


@row("consistency")
def consistency(bench):
    """a comparison of 10,000 repositories of which one has changed: each row is looked at"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", bench.all).start()
    costs = [cost for cost in (page_cost(pair) for _ in range(bench.changes)) if cost]
    if not costs:
        raise SystemExit("each comparison was followed by another before it was seen")
    bench.add(f"comparison of all of {bench.all} repositories, one page of the inventory",
              median(costs), "–", None, "nothing to write")


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
