"""Rows of a primary: what its hooks cost a push, how soon it tells of a change."""

import http.client
import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import time

from machine import find, git, make_chain, make_repository, tip
from rows_push import be_durable
from rows_sites import SOCKET, clone_of, commit
from sites import Pair
from table import SECONDS, median, row, show

DURABLE = "durable / durable"
SETTLES = 0.05  # seconds in which a node ends what nobody waits for


def start_primary(bench, count=1):
    """Without its secondary; its repositories have hooks."""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", count)
    pair.start_primary()
    return pair


class Pushed:
    """A repository, by path, and a clone that pushes to it."""

    def __init__(self, bench, name, account, bare, hook=None):
        self.name, self.account, self.bare, self.costs = name, account, be_durable(bare), []
        self.clone = clone_of(bare, bench.folder(f"clone-{bare.name}") / "clone")
        if hook:
            path = bare / "hooks" / "post-receive"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{hook}\n")
            path.chmod(0o755)

    def push(self, number):
        new = commit(self.clone, number)
        with self.account.measure() as cost:
            begun = time.monotonic()
            git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=self.clone)
            took = time.monotonic() - begun
            time.sleep(SETTLES)
        cost.wall = took
        if tip(self.bare) != new:
            raise SystemExit(f"{self.bare} has something else")
        self.costs.append(cost)

    def cost(self):
        return median(self.costs[1:])  # the first finds caches empty


def hook_peers(bench):
    """(name, what a post-receive of it does; None: there is none)"""
    folder = bench.folder("peers")
    yield "no hook", "none", folder / "none.git", None
    # Builtins alone: a shell could not do less.
    yield ("a shell as hook, which appends to a file", "shell", folder / "shell.git",
           f'while read -r line; do echo "$PWD $line"; done >>{shlex.quote(str(folder))}/pushed')
    with bench.peer("grok-manifest"):
        beside = pathlib.Path(os.environ.get("GROK_PULL") or "grok-pull").parent
        program = find("grok-manifest", str(beside.absolute()))
        yield ("grok-manifest as hook", "grok", folder / "grok.git",
               f"exec {program} -m {folder}/manifest.js.gz -t {folder} -n \"$PWD\"")


def beside_none(cost, none):
    """What it costs more than no hook."""
    return (f"{show_change(cost.wall - none.wall)}, "
            f"{show_change(cost.cpu - none.cpu)} CPU beside no hook")


def show_change(seconds):
    return f"{'-' if seconds < 0 else '+'}{show(abs(seconds), SECONDS)}"


@row("hook")
def hook(bench):
    """what an installed hook costs a push, by path, to a repository of the primary"""
    pair = start_primary(bench)
    ours = Pushed(bench, "refrelay", pair.account, pair.primary.git / "r00000.git")
    others = [Pushed(bench, name, bench.account(short), make_repository(bare), text)
              for name, short, bare, text in hook_peers(bench)]
    for number in range(bench.changes + 1):
        for pushed in (ours, *others):
            pushed.push(number)
    told = pair.primary.run("events").count('"event":"updated"')
    if told < bench.changes + 1:
        raise SystemExit(f"hook: the node has recorded {told} of {bench.changes + 1} pushes")
    none = others[0].cost()
    work = f"a push by path to a primary with its hooks ({beside_none(ours.cost(), none)})"
    for other in others:
        more = "" if other is others[0] else f" ({beside_none(other.cost(), none)})"
        bench.add(work, ours.cost(), f"git push, {other.name}{more}", other.cost(), DURABLE)


FLOOR = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(int(sys.argv[2])):
    time.sleep(float(sys.argv[4]))
    begun = time.monotonic()
    os.write(file, b"x" * int(sys.argv[3]))
    os.fdatasync(file)
    print(time.monotonic() - begun)
"""
PAUSE = 0.01  # seconds in which a question has come to where it waits
TOKEN = "bench-operator-token"


def tell(node, bare):
    """As a hook does; gives what has to be called for the answer."""
    told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told.connect(str(node))
    told.send(f"changed {bare}".encode())

    def hear():
        answer = told.recv(65536)
        told.close()
        if not answer.startswith(b"ok"):
            raise SystemExit(f"events: {answer.decode()}")
    return hear


class Listener:
    """Asks for events of a primary, and waits."""

    def __init__(self, site):
        token = site.folder / "operator"
        token.touch(0o600)
        token.write_text(TOKEN)
        site.set("http", f"operatorTokenFile = {token}")
        self.site, self.last, self.connection, self.size = site, None, None, 0

    def connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=60)
        self.ask("limit=10000")
        self.take()

    def ask(self, query):
        self.connection.request("GET", f"/api/v1/events?{query}",
                                headers={"Authorization": f"Bearer {TOKEN}"})

    def take(self):
        """The events that came."""
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"events: status {answer.status}: {body.decode()}")
        self.last = answer.headers["Refrelay-Last-Event"].split()
        self.size = len(body)
        return [json.loads(line) for line in body.splitlines()]

    def wait(self):
        number, *mark = self.last
        self.ask(f"after={number}&wait=30" + "".join(f"&mark={text}" for text in mark))


def deliver(listener, bare, commit_id):
    """Seconds from the ref's move until the one that waits has the event."""
    ref = bare / "refs/heads/main"
    lock = ref.with_name("main.lock")
    lock.write_text(f"{commit_id}\n")
    listener.wait()
    time.sleep(PAUSE)
    begun = time.monotonic()
    lock.rename(ref)
    hear = tell(listener.site.folder / SOCKET, bare)
    events = listener.take()
    took = time.monotonic() - begun
    hear()
    if [event["changes"][0]["new"] for event in events] != [commit_id]:
        raise SystemExit(f"events: not the change that was made: {events}")
    return took


def percentiles(took):
    took = sorted(took)
    return f"p50 {show(statistics.median(took), SECONDS)}, " \
           f"p99 {show(took[int(len(took) * 0.99)], SECONDS)}"


def append_costs(bench, count, size):
    """(cost of one, seconds of each) of an append that is synced, by a program of its own."""
    account, path = bench.account("file"), bench.folder("file") / "log"

    def append(times):
        with account.measure() as cost:
            text = subprocess.run(
                [sys.executable, "-c", FLOOR, path, str(times), str(size), str(PAUSE)],
                check=True, text=True, stdout=subprocess.PIPE).stdout
        return cost, [float(line) for line in text.splitlines()]

    nothing, _ = append(0)
    cost, took = append(count)
    cost.cpu = max(cost.cpu - nothing.cpu, 0)
    return cost.each(count), took


@row("events")
def events(bench):
    """a change at the primary until a long poll for events delivers it"""
    pair = Pair(bench.account("refrelay"), bench.folder("pair") / "pair", 1)
    listener, count = Listener(pair.primary), bench.events
    bare = pair.primary.git / "r00000.git"
    chain = make_chain(bare, count + 1)
    pair.start_primary()
    listener.connect()
    deliver(listener, bare, chain[0])  # the first finds caches empty
    with pair.account.measure(busy=False) as cost:
        took = [deliver(listener, bare, one) for one in chain[1:]]
    listener.connection.close()
    ours = cost.each(count)
    ours.wall = statistics.median(took)
    theirs, appended = append_costs(bench, count, listener.size)
    theirs.wall = statistics.median(appended)
    bench.add(f"a ref moves, until the event of it is delivered ({percentiles(took)})", ours,
              f"append of its bytes to a file, fdatasync ({percentiles(appended)})", theirs,
              DURABLE)
