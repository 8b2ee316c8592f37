"""Rows of serving packs to clients that clone."""

import concurrent.futures
import statistics
import threading
import time

from machine import git, make_history, make_repository, tip
from rows_refs import (BACKEND, QUERY, VERSION_2, Question, ask, connect, packets, start_backend,
                       start_node)
from table import median, row

BLOCK = 1 << 20
ROUNDS = 3
BESIDE = 3  # clients that clone while another asks for refs
PACES = 0.005  # seconds between two of its questions


def make_fetch(repository):
    """What a clone asks for."""
    body = packets("command=fetch\n", "agent=git/2.39.5", "object-format=sha1", "0001",
                   "no-progress\n", "ofs-delta\n", f"want {tip(repository)}\n", "done\n", "0000")
    return Question(f"{repository.name}/git-upload-pack", VERSION_2, body)


def receive(server, question):
    """How many bytes came; they are thrown away, since what a client does with them is the same
    for all."""
    connection, size = connect(server), 0
    try:
        connection.request("POST", f"/{question.path}", question.body, question.headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"{server.url(question.path)}: status {answer.status}")
        last = b""
        while block := answer.read(BLOCK):
            size += len(block)
            last = (last + block)[-4:]
        if last != b"0000":
            raise SystemExit(f"{server.url(question.path)}: the pack was cut")
    finally:
        connection.close()
    return size


def pack_cost(account, server, question, count):
    """Of the server, for so many at a time; and bytes a second."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        with account.measure(busy=False) as cost:
            sizes = list(pool.map(lambda _: receive(server, question), range(count)))
    return cost, sum(sizes) / cost.wall


def alternate(servers, rounds, measure):
    """Of each server the median, (cost, number), of as many rounds, one after the other."""
    results = {name: [] for name, _, _ in servers}
    for _ in range(rounds):
        for name, account, server in servers:
            results[name].append(measure(account, server))
    return [(name, median([cost for cost, _ in found]),
             statistics.median(number for _, number in found))
            for name, found in results.items()]


def add_rows(bench, work, found, text):
    """text: of the number."""
    (_, ours, number), *others = found
    for name, theirs, other in others:
        bench.add(f"{work} ({text(number)})", ours, f"{name} ({text(other)})", theirs, "–")
    if not others:
        bench.add(f"{work} ({text(number)})", ours, "–", None, "–")


def show_rate(number):
    return f"{number / 1e6:.0f} MB/s"


def clone_cost(bench, account, server, commit):
    """Of a whole `git clone`, the client's part with it."""
    copy = bench.folder(f"clone{time.monotonic_ns()}") / "copy.git"
    with account.measure() as cost:
        git("clone", "-q", "--bare", server.url("history.git"), copy)
    if tip(copy) != commit:
        raise SystemExit(f"{server.url()}: the clone is not whole")
    return cost, 0


def asked_beside(server, fetch, refs, seconds):
    """Seconds that questions for refs took while others cloned, in rising order."""
    took, end = [], threading.Event()

    def loop():
        while not end.is_set():
            receive(server, fetch)

    with concurrent.futures.ThreadPoolExecutor(BESIDE) as pool:
        loops = [pool.submit(loop) for _ in range(BESIDE)]
        try:
            stop = time.monotonic() + seconds
            while not took or time.monotonic() < stop:
                begun = time.monotonic()
                ask(server, refs)
                took.append(time.monotonic() - begun)
                time.sleep(PACES)
        finally:
            end.set()
        for one in loops:
            one.result()
    return sorted(took)


def beside_cost(account, server, fetch, refs, seconds):
    """Of a question; (cost, its 99th percentile). CPU is that of the clones beside it, too."""
    with account.measure(busy=False) as cost:
        took = asked_beside(server, fetch, refs, seconds)
    cost = cost.each(len(took))
    cost.wall = statistics.median(took)
    return cost, took[int(len(took) * 0.99)]


@row("upload-pack")
def upload_pack(bench):
    """packs of the large history: one clone, equal ones at a time, refs beside three"""
    folder = bench.folder("git")
    history = make_history(folder / "history.git", bench.megabytes)
    make_repository(folder / "small.git", 28)
    fetch, refs = make_fetch(history), Question(f"small.git/{QUERY}", {})
    servers = [("refrelay", *start_node(bench, folder))]
    with bench.peer(BACKEND):
        servers.append((BACKEND, *start_backend(bench, folder)))
    for _, _, server in servers:  # nobody shall find the page cache empty
        size = receive(server, fetch)
    rounds = ROUNDS if bench.seconds > 10 else 1
    what = f"a pack of {size / 1e6:.1f} MB"
    add_rows(bench, f"{what}, the server's cost",
             alternate(servers, rounds, lambda account, server:
                       pack_cost(account, server, fetch, 1)), show_rate)
    count = bench.clones
    add_rows(bench, f"{what}, {count} equal ones at a time, the server's cost of all",
             alternate(servers, rounds, lambda account, server:
                       pack_cost(account, server, fetch, count)), show_rate)
    commit = tip(history)
    add_rows(bench, f"git clone --bare, {what}",
             alternate(servers, rounds, lambda account, server:
                       clone_cost(bench, account, server, commit)),
             lambda _: "client and server")
    add_rows(bench, f"info/refs of 2 KB beside {BESIDE} clients that clone",
             alternate(servers, rounds, lambda account, server:
                       beside_cost(account, server, fetch, refs, bench.seconds / 4)),
             lambda number: f"p99 {number * 1e3:.1f} ms")
