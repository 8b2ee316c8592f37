#!/usr/bin/env python3
"""Git clients that clone, fetch and push at two sites at the same time.

usage: git_storm.py [--seconds N] [--pushes N] [--clients N] --events COMMAND PATH URL URL

It lasts as long as said, and on a slow machine up to a minute more, until so many pushes
were done.

PATH is the primary's repository, the URLs are that of the primary's site and that of the
secondary's, with a credential that may push; COMMAND prints the primary's events, as
`refrelay events --json` does. Half of the clients speak protocol 0, half 2, at each site.
Each has a clone, and in a loop of chance pushes

    to refs of its own      several at once (--atomic or not), tags, push options, deletions;
    to refs/heads/shared    one commit upon what it had fetched; who is late fetches, retries;
    to refs/heads/leased    with --force-with-lease, a commit that replaces the one before;
    to refs/heads/pair/*    two refs so, --atomic;

and clones, whole, shallow or partial. After a push it asks the site it pushed through, and
must see its push or what came later; and never what is older than what that site had said
to it before. Nothing may fail but a push that somebody else was faster than, and, under protocol 0, a clone
whose list of refs was overtaken by a forced push.

At the end it says what was wrong, and figures. What git called pushed must be the ref's
last value, or have been replaced by one that knew it; what git called refused must not.
Each change of a ref of a client's own must be in an event; each event must change what the
one before left.
"""
import argparse
import collections
import json
import os
import random
import re
import shlex
import subprocess
import tempfile
import threading
import time

ZERO = None
LATE = re.compile(r"\[rejected\]|stale info|fetch first|non-fast-forward|failed to update ref|"
                  r"failed to lock|cannot lock ref|\[remote rejected\].*incorrect old value")
ENVIRONMENT = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}


class Fault(Exception):
    pass


def run(*args, cwd=None, data=b""):
    done = subprocess.run(["git", *args], cwd=cwd, input=data, env=ENVIRONMENT, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")


def git(*args, cwd=None, data=b""):
    status, out, err = run(*args, cwd=cwd, data=data)
    if status != 0:
        raise Fault(f"git {' '.join(args)}: {status}: {err.strip()}")
    return out.strip()


class Client:
    def __init__(self, number, options, folder):
        self.name = f"c{number}"
        self.chance = random.Random(number)
        self.site = number % 2
        self.url = options.urls[self.site]
        self.protocol = "0" if number // 2 % 2 == 0 else "2"
        self.folder = folder
        self.work = os.path.join(folder, self.name)
        self.counts = collections.Counter()
        self.faults = []
        self.own = {}          # ref of its own: what it must be
        self.moves = []        # (ref, new) of its own that were done
        self.done = []         # (ref, new) of shared refs
        self.refused = []      # likewise
        self.replaced = {}     # new: what it replaced
        self.seen = collections.defaultdict(list)  # shared ref: what was seen, in order
        self.serial = 0

    def git(self, *args, **options):
        return git("-c", f"protocol.version={self.protocol}", *args, **options)

    def start(self):
        self.git("clone", "-q", self.url, self.work, cwd=self.folder)

    def commit(self, parent):
        """A new commit; its files are some KB, so that pushes have packs."""
        self.serial += 1
        name = f"{self.name}-{self.serial}"
        body = f"{name} {self.chance.random()}\n" * self.chance.randrange(1, 300)
        text = (f"blob\nmark :2\ndata {len(body)}\n{body}\n"
                f"commit refs/storm/new\nmark :1\n"
                f"committer {self.name} <{self.name}@example.com> {1700000000 + self.serial} +0000\n"
                f"data {len(name)}\n{name}\n")
        text += f"from {parent}\n" if parent else ""
        text += f"M 100644 :2 {name}\n\nreset refs/storm/new\nfrom :1\n\nget-mark :1\n"
        return git("fast-import", "--quiet", "--force", cwd=self.work, data=text.encode())

    def remote_refs(self, *patterns):
        lines = self.git("ls-remote", self.url, *patterns).splitlines()
        return {ref: oid for oid, ref in (line.split("\t") for line in lines)}

    def push(self, *args):
        """Whether git says that it was done; else somebody was faster."""
        status, _, err = run("-c", f"protocol.version={self.protocol}", "push", self.url, *args,
                             cwd=self.work)
        self.counts["pushed" if status == 0 else "refused"] += 1
        if status != 0 and not LATE.search(err):
            raise Fault(f"push {' '.join(args)}: {err.strip()}")
        return status == 0

    def push_own(self):
        before = dict(self.own)
        base = before.get(f"refs/heads/{self.name}/1")
        refs = {f"refs/heads/{self.name}/{number}": self.commit(base)
                for number in self.chance.sample(range(1, 5), self.chance.randrange(1, 4))}
        if self.chance.random() < 0.3:
            refs[f"refs/tags/{self.name}-{self.serial}"] = self.tag(list(refs.values())[0])
        if self.chance.random() < 0.4:
            refs.update({ref: ZERO for ref in self.chance.sample(sorted(before), len(before) // 3)
                         if ref not in refs})
        self.push_refs(refs)

    def delete_own(self):
        if self.own:
            self.push_refs({self.chance.choice(sorted(self.own)): ZERO})

    def tag(self, oid):
        if self.chance.random() < 0.5:
            return oid
        text = f"object {oid}\ntype commit\ntag t{self.serial}\ntagger t <t> 1700000000 +0000\n\nt\n"
        return git("mktag", cwd=self.work, data=text.encode())

    def push_refs(self, refs):
        options = ["--force"]
        if self.chance.random() < 0.5:
            options += ["--atomic"]
        if self.chance.random() < 0.3:
            options += ["-o", f"{self.name}-{self.serial}"]
            self.counts["options"] += 1
        if not self.push(*options, *(f"{oid or ''}:{ref}" for ref, oid in refs.items())):
            raise Fault(f"refs of one's own were refused: {refs}")
        for ref, oid in refs.items():
            self.moves.append((ref, oid))
            if oid is ZERO:
                self.own.pop(ref, None)
            else:
                self.own[ref] = oid
        told = self.remote_refs(*refs)
        for ref, oid in refs.items():
            if told.get(ref) != oid:
                raise Fault(f"{ref} was pushed as {oid}, and is told as {told.get(ref)}")

    def look(self, ref):
        """What the site says of a shared ref, fetched."""
        oid = self.remote_refs(ref).get(ref)
        if oid:
            self.seen[ref].append(oid)
        return oid

    def record(self, ref, new, old, is_done):
        self.replaced[new] = old
        (self.done if is_done else self.refused).append((ref, new))
        if is_done:
            self.seen[ref].append(new)
            self.look(ref)

    def push_shared(self):
        ref = "refs/heads/shared"
        for _ in range(3):
            if self.look(ref):
                self.git("fetch", "-q", self.url, f"+{ref}:refs/storm/shared", cwd=self.work)
                old = git("rev-parse", "refs/storm/shared", cwd=self.work)
                self.seen[ref].append(old)
            else:
                old = None
            new = self.commit(old)
            is_done = self.push(f"{new}:{ref}")
            self.record(ref, new, old, is_done)
            if is_done:
                return

    def push_leased(self):
        ref = "refs/heads/leased"
        old, new = self.look(ref), self.commit(None)
        is_done = self.push(f"--force-with-lease={ref}:{old or ''}", f"{new}:{ref}")
        self.record(ref, new, old, is_done)

    def push_pair(self):
        refs = ["refs/heads/pair/1", "refs/heads/pair/2"]
        old, new = self.look(refs[0]), self.commit(None)
        is_done = self.push("--atomic", *(f"--force-with-lease={ref}:{old or ''}" for ref in refs),
                            *(f"{new}:{ref}" for ref in refs))
        for ref in refs:
            self.record(ref, new, old, is_done)

    def clone(self):
        how = self.chance.choice([[], ["--depth=1"], ["--filter=blob:none"], ["--mirror"],
                                  ["--filter=tree:0", "--no-checkout"]])
        if self.protocol == "0" and how and how[0].startswith("--filter"):
            how = ["--depth=2", "--no-single-branch"]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            status, _, err = run("-c", f"protocol.version={self.protocol}", "clone", "-q", *how,
                                 self.url, folder)
            if status != 0 and self.protocol == "0" and "not our ref" in err:
                self.counts["overtaken"] += 1  # stock Git does not keep what was listed, either
                return
            if status != 0:
                raise Fault(f"clone {how}: {err.strip()}")
            if how == ["--depth=1"]:
                self.git("fetch", "-q", "--unshallow", cwd=folder)
            if not how or how == ["--mirror"]:
                git("fsck", "--connectivity-only", cwd=folder)
        self.counts["cloned"] += 1

    def run(self, is_over):
        actions = [self.push_own, self.push_own, self.delete_own, self.push_shared,
                   self.push_shared, self.push_leased, self.push_leased, self.push_pair,
                   self.clone]
        while not is_over() and len(self.faults) < 5:
            try:
                self.chance.choice(actions)()
            except (Fault, subprocess.TimeoutExpired) as fault:
                where = "secondary" if self.site else "primary"
                self.faults.append(f"{self.name} at the {where}, protocol {self.protocol}: {fault}")


def history(replaced, last):
    """The values that a shared ref had, the newest first."""
    values = []
    while last:
        values.append(last)
        last = replaced.get(last)
    return values


def faults_of_shared(clients, path):
    replaced = {}
    for client in clients:
        replaced.update(client.replaced)
    last = dict(reversed(line.split()) for line in git("show-ref", cwd=path).splitlines())
    for ref in ("refs/heads/shared", "refs/heads/leased", "refs/heads/pair/1", "refs/heads/pair/2"):
        values = history(replaced, last.get(ref))
        age = {oid: place for place, oid in enumerate(values)}
        for client in clients:
            for _, oid in (done for done in client.done if done[0] == ref):
                if oid not in age:
                    yield f"{ref}: the push of {oid} by {client.name} is lost"
            for _, oid in (refused for refused in client.refused if refused[0] == ref):
                if oid in age:
                    yield f"{ref}: {client.name} was told that {oid} was refused, and it was not"
            ages = [age.get(oid, -1) for oid in client.seen[ref]]
            for earlier, later in zip(ages, ages[1:]):
                if later > earlier or -1 in (earlier, later):
                    yield f"{ref}: {client.name} was taken back, or saw what never was: {ages}"
                    break
    if last.get("refs/heads/pair/1") != last.get("refs/heads/pair/2"):
        yield "an atomic push was done by half"
    for client in clients:
        is_own = re.compile(f"refs/(heads/{client.name}/|tags/{client.name}-)")
        own = {ref: oid for ref, oid in last.items() if is_own.match(ref)}
        if own != client.own:
            yield f"{client.name} has {client.own}, its primary {own}"


def faults_of_events(clients, events):
    now, checksum, number, is_gap = {}, None, None, False
    news = collections.defaultdict(list)
    for event in events:
        if "changes" not in event:  # comparisons were so close that it is not known
            now, is_gap = {}, number is not None
        if number is not None and event["id"] != number + 1:
            yield f"event {event['id']} comes after {number}"
        if event["checksum"] == checksum or event.get("changes") == []:
            yield f"an event without a change: {event}"
        number, checksum = event["id"], event["checksum"]
        for change in event.get("changes", []):
            ref, old, new = change["ref"], change.get("old"), change.get("new")
            if ref in now and now[ref] != old:
                yield f"event {number}: {ref} was {now[ref]}, and is said to have been {old}"
            now[ref] = new
            news[ref].append(new)
    for client in clients if not is_gap else []:
        for ref, oid in client.moves:
            if oid not in news[ref] and not (oid is ZERO and ref not in news):
                yield f"no event tells of {ref} as {oid}"
        for ref in {ref for ref, _ in client.moves}:
            values = [oid for moved, oid in client.moves if moved == ref]
            if len([oid for oid in values if oid]) != len([oid for oid in news[ref] if oid]):
                yield f"{ref} was {values}, its events say {news[ref]}"


def tell(clients, events):
    counts = collections.Counter()
    for client in clients:
        counts += client.counts
    print(f"events={len(events)} " + " ".join(f"{key}={value}"
                                              for key, value in sorted(counts.items())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pushes", type=int, default=0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--events", required=True)
    parser.add_argument("path")
    parser.add_argument("urls", nargs=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        folder = os.path.abspath(folder)
        clients = [Client(number, options, folder) for number in range(options.clients)]
        for client in clients:
            client.start()
        until = time.monotonic() + options.seconds

        def is_over():
            late = time.monotonic() - until
            return late >= 60 or (late >= 0 and sum(
                client.counts["pushed"] for client in clients) >= options.pushes)

        threads = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = subprocess.run(shlex.split(options.events), stdout=subprocess.PIPE, check=True)
        events = [json.loads(line) for line in said.stdout.splitlines()]
        faults = [fault for client in clients for fault in client.faults]
        faults += faults_of_shared(clients, options.path)
        faults += faults_of_events(clients, events)
    for fault in faults:
        print(fault)
    tell(clients, events)
    raise SystemExit(1 if faults else 0)


main()
