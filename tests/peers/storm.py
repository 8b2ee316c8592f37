#!/usr/bin/env python3
"""Writers and readers of one repository, all at once, and a check of every answer.

Each writer owns a ref (or HEAD, or the configuration) and gives it the values 1, 2, 3 ...
of a chain of commits. It says in shared memory which value it is about to write and which
one it has written. A reader notes what was written before it asks, and what was about to
be written when the answer is there: each value that it is told must lie between. So an
answer from before a write that had ended when it was asked for is found, whatever it came
from. What the list looks like is checked as well: pkt-lines, order, oids.

	storm.py [--seconds N] [--readers N] [--busy SHARE] [--refrelay PROGRAM CONF]
		REPOSITORY URL...

REPOSITORY is bare and has a commit on main; its hooks are those that are there. URL is
that of the repository at a node; its /metrics tell what answered. The last line says how
much was checked. 0: every answer was right.
"""

import argparse
import collections
import ctypes
import multiprocessing
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.parse
import urllib.request
import zlib

CHAIN = 8000
HEADS = 50
HIDDEN = 10
PERIOD = 1.0  # of a time with writes and one without

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


class Storm:
    """What all processes share, from before they are forked."""

    def __init__(self, options):
        self.options = options
        self.path = options.repository
        self.begun = multiprocessing.RawArray(ctypes.c_int64, 32)
        self.ended = multiprocessing.RawArray(ctypes.c_int64, 32)
        self.is_over = multiprocessing.Event()
        self.tidy = multiprocessing.Lock()  # who removes a dead git's lock, who packs
        self.chain = []
        self.index = {}

    def git(self, *arguments, ok=True, text=None, where=None):
        done = subprocess.run(("git", "-C", where or self.path) + arguments, input=text,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        if ok and done.returncode != 0:
            raise RuntimeError(f"git {arguments}: {done.stderr}")
        return done

    def make_chain(self):
        lines = []
        for number in range(CHAIN):
            lines.append(f"commit refs/keep/chain\ncommitter A <a@b> {number} +0000\n"
                         "data 1\nx\n")
        self.git("fast-import", "--quiet", text="\n".join(lines))
        self.chain = self.git("rev-list", "--reverse", "refs/keep/chain").stdout.split()
        self.index = {oid: number for number, oid in enumerate(self.chain)}
        first = self.chain[0]
        made = [f"create {name} {first}" for name in
                [f"refs/heads/h/{n:02}" for n in range(HEADS)]
                + [f"refs/hidden/{n}" for n in range(HIDDEN)] + ["refs/packed/one"]
                + [ref.name for ref in REFS if ref.is_made]]
        self.git("update-ref", "--stdin", text="\n".join(made) + "\n")
        self.git("symbolic-ref", "HEAD", "refs/heads/h/00")
        self.git("config", "uploadpack.hideRefs", "refs/hidden/0")
        self.git("pack-refs", "--all")

    def is_quiet(self):
        return time.time() % PERIOD > PERIOD * self.options.busy


class Gone(Exception):
    """The storm is over."""


class Writer:
    """Writes value after value; the order of begun, write, ended is what counts."""

    pause = 0.03  # on average

    def __init__(self, storm, cell):
        self.storm = storm
        self.cell = cell

    def run(self):
        self.prepare()
        value = 0
        while True:
            self.rest(random.expovariate(1 / self.pause))
            value += 1
            self.storm.begun[self.cell] = value
            self.storm.ended[self.cell] = self.write(value)

    def prepare(self):
        pass

    def rest(self, seconds):
        self.storm.is_over.wait(seconds)
        while self.storm.is_quiet() and not self.storm.is_over.is_set():
            time.sleep(0.005)
        if self.storm.is_over.is_set():
            raise Gone

    def insist(self, *arguments, **options):
        """Git gives up on a lock that another holds for long; and so it goes again."""
        for _ in range(200):
            done = self.storm.git(*arguments, ok=False, **options)
            if done.returncode == 0:
                return
            time.sleep(0.02)
        raise RuntimeError(f"git {arguments}: {done.stderr}")

    def write(self, value):
        """Returns what stands there now."""
        raise NotImplementedError


class RefWriter(Writer):
    """The name is the ref's."""

    name = ""
    is_made = True

    def oid(self, value):
        return self.storm.chain[value]

    def check(self, answer, low, high):
        oid = answer.refs.get(self.name)
        if oid is None:
            return f"{self.name} is missing"
        value = self.storm.index.get(oid, -1)
        if not low <= value <= high:
            return f"{self.name} is {value}, not {low} to {high}"
        return None


class Hooked(RefWriter):
    name = "refs/heads/hooked"

    def write(self, value):
        self.insist("update-ref", self.name, self.oid(value))
        return value


class Unhooked(RefWriter):
    name = "refs/heads/unhooked"

    def write(self, value):
        self.insist(*NO_HOOKS, "update-ref", self.name, self.oid(value))
        return value


class Pushed(RefWriter):
    name = "refs/heads/pushed"

    def prepare(self):
        self.clone = f"{self.storm.path}.clone"
        subprocess.run(["git", "clone", "-q", "--bare", "--shared", self.storm.path,
                        self.clone], check=True)

    def write(self, value):
        self.insist("push", "-q", self.storm.path, f"+{self.oid(value)}:{self.name}",
                    where=self.clone)
        return value


class Bracketed(RefWriter):
    """Several changes in one bracket, without hooks."""

    name = "refs/heads/bracketed"
    pause = 0.3

    def write(self, value):
        if not self.storm.options.refrelay:
            self.insist("update-ref", self.name, self.oid(value))
            return value
        program, conf = self.storm.options.refrelay
        script = """for oid; do git -c core.hooksPath=/dev/null \\
            -c core.filesRefLockTimeout=10000 update-ref "$NAME" $oid || exit; done"""
        name = os.path.basename(self.storm.path).removesuffix(".git")
        subprocess.run([program, "-c", conf, "state", name, "--", "sh", "-c", script, "sh",
                        self.oid(value - 1), self.oid(value)], check=True,
                       env={**os.environ, "NAME": self.name, "GIT_DIR": self.storm.path})
        return value


class Killed(RefWriter):
    """Git with hooks, killed at any time."""

    name = "refs/heads/killed"
    pause = 0.1

    def start(self, value):
        return subprocess.Popen(["git", "-C", self.storm.path, "update-ref", self.name,
                                 self.oid(value)], stderr=subprocess.DEVNULL)

    def write(self, value):
        with self.storm.tidy:
            git = self.start(value)
            time.sleep(random.uniform(0, 0.03))
            git.kill()
            git.wait()
            try:
                os.unlink(f"{self.storm.path}/{self.name}.lock")
            except FileNotFoundError:
                pass
        return self.storm.index[self.storm.git("rev-parse", self.name).stdout.strip()]


class Paused(Killed):
    """Git with hooks, stopped for a while at any time."""

    name = "refs/heads/paused"
    pause = 0.7

    def write(self, value):
        git = self.start(value)
        time.sleep(random.uniform(0, 0.02))
        git.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0, 0.4))
        git.send_signal(signal.SIGCONT)
        git.wait()
        return self.storm.index[self.storm.git("rev-parse", self.name).stdout.strip()]


class Locked(RefWriter):
    """Does by hand what git would do; the lock keeps git's packing away."""

    def lock(self, path):
        for _ in range(2000):
            try:
                return os.open(f"{self.storm.path}/{path}.lock",
                               os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                time.sleep(0.005)
            except FileNotFoundError:  # whoever packs removes directories, too
                os.makedirs(os.path.dirname(f"{self.storm.path}/{path}"), exist_ok=True)
        raise RuntimeError(f"{path} is locked for long")


class Edited(Locked):
    """In place, where the file is there: the directory does not tell."""

    name = "refs/heads/edited"

    def write(self, value):
        path = f"{self.storm.path}/{self.name}"
        line = f"{self.oid(value)}\n".encode()
        lock = self.lock(self.name)
        try:
            with open(path, "r+b", buffering=0) as file:
                file.write(line)
            os.unlink(f"{path}.lock")
        except FileNotFoundError:
            os.write(lock, line)
            os.rename(f"{path}.lock", path)
        os.close(lock)
        return value

    def check(self, answer, low, high):
        if self.name not in answer.refs and low != high:
            return None  # git has read it while it was written
        return super().check(answer, low, high)


class Packed(Locked):
    """A new packed-refs by rename; the ref is nowhere else."""

    name = "refs/packed/one"
    is_made = False

    def write(self, value):
        path = f"{self.storm.path}/packed-refs"
        lock = self.lock("packed-refs")
        with open(path, encoding="ascii") as file:
            lines = re.sub(r"(?m)^[0-9a-f]{40} " + self.name + "$",
                           f"{self.oid(value)} {self.name}", file.read())
        with os.fdopen(lock, "w", encoding="ascii") as file:
            file.write(lines)
        os.rename(f"{path}.lock", path)
        return value


class Fleeting(RefWriter):
    """Of even values there is nothing."""

    name = "refs/heads/fleeting"
    is_made = False

    def write(self, value):
        if value % 2 == 1:
            self.insist("update-ref", self.name, self.oid(value))
        else:
            self.insist("update-ref", "-d", self.name)
        return value

    def check(self, answer, low, high):
        if self.name in answer.refs:
            return super().check(answer, low, high)
        if low == high and low % 2 == 1:
            return f"{self.name} is missing, and should be {low}"
        return None


class Folder(RefWriter):
    """Of even values it is a file, of odd ones a directory."""

    name = "refs/heads/folder"

    def write(self, value):
        names = [self.name, f"{self.name}/below"]
        old, new = names if value % 2 == 1 else names[::-1]
        self.insist("update-ref", "-d", old)
        self.insist("update-ref", new, self.oid(value))
        return value

    def check(self, answer, low, high):
        for name in (self.name, f"{self.name}/below"):
            if name in answer.refs:
                value = self.storm.index[answer.refs[name]]
                return (None if low <= value <= high else
                        f"{name} is {value}, not {low} to {high}")
        return None if low != high else f"{self.name} is missing, and should be {low}"


def is_between(value, low, high, modulus):
    return (value - low) % modulus <= high - low


class Head(Writer):
    """Alternately by git and by hand."""

    def write(self, value):
        target = f"refs/heads/h/{value % HEADS:02}"
        if value % 2 == 1:
            self.insist("symbolic-ref", "HEAD", target)
        else:
            with open(f"{self.storm.path}/HEAD", "r+b", buffering=0) as file:
                file.write(f"ref: {target}\n".encode())
        return value

    def check(self, answer, low, high):
        if answer.head is None:
            return None if low != high or answer.is_part else "HEAD is missing"
        if not is_between(int(answer.head[-2:]), low, high, HEADS):
            return f"HEAD is {answer.head}, not {low % HEADS} to {high % HEADS}"
        return None


class Hider(Writer):
    """The configuration: one of some refs is hidden."""

    pause = 0.4

    def write(self, value):
        self.insist("config", "uploadpack.hideRefs", f"refs/hidden/{value % HIDDEN}")
        return value

    def check(self, answer, low, high):
        if answer.is_part:
            return None
        hidden = [n for n in range(HIDDEN) if f"refs/hidden/{n}" not in answer.refs]
        if len(hidden) != 1 or not is_between(hidden[0], low, high, HIDDEN):
            return f"hidden are {hidden}, not one of {low % HIDDEN} to {high % HIDDEN}"
        return None


class Housekeeper(Writer):
    """Changes no value."""

    pause = 0.3

    def write(self, value):
        with self.storm.tidy:
            if value % 10 == 0:
                self.storm.git("gc", "-q", ok=False)
            else:
                self.storm.git("pack-refs", "--all", ok=False)
        if value % 3 == 0 and self.storm.options.refrelay:
            program, conf = self.storm.options.refrelay
            name = os.path.basename(self.storm.path).removesuffix(".git")
            subprocess.run([program, "-c", conf, "cache", "clear", name], check=True,
                           stdout=subprocess.DEVNULL)
        return value

    def check(self, _answer, _low, _high):
        return None


REFS = [Hooked, Unhooked, Pushed, Bracketed, Killed, Paused, Edited, Packed, Fleeting,
        Folder]
WRITERS = REFS + [Head, Hider, Housekeeper]


class Answer:
    """A list of refs, taken apart and looked at."""

    def __init__(self, body, kind):
        self.refs = {}
        self.head = None
        self.is_part = kind == "part"
        lines = self.lines_of(body)
        if kind == "info":
            self.take_info(lines)
        else:
            self.take_ls(lines)
        names = [name for name in self.refs if name != "HEAD"]
        assert names == sorted(names), "the order is wrong"

    @staticmethod
    def lines_of(body):
        lines, at = [], 0
        while at < len(body):
            size = int(body[at:at + 4], 16)
            assert size == 0 or 4 < size <= len(body) - at, f"a line of {size}"
            lines.append(body[at + 4:at + size].decode() if size else None)
            at += size or 4
        assert lines and lines[-1] is None, "no flush at the end"
        return lines

    def add(self, oid, name):
        assert re.fullmatch("[0-9a-f]{40}", oid) and name not in self.refs, name
        self.refs[name] = oid

    def take_info(self, lines):
        assert lines[:2] == ["# service=git-upload-pack\n", None]
        first, capabilities = lines[2].rstrip("\n").split("\0")
        self.add(*first.split(" "))
        symref = re.search(r"symref=HEAD:(\S+)", capabilities)
        self.head = symref and symref.group(1)
        for line in lines[3:-1]:
            self.add(*line.rstrip("\n").split(" "))

    def take_ls(self, lines):
        for line in lines[:-1]:
            oid, name, *more = line.rstrip("\n").split(" ")
            self.add(oid, name)
            if name == "HEAD" and more:
                self.head = more[0].removeprefix("symref-target:")


def pkt(text):
    return f"{len(text) + 4:04x}{text}"


class Connection:
    """HTTP by hand, for speed."""

    def __init__(self, url):
        self.url = urllib.parse.urlsplit(url)
        self.connect()

    def connect(self):
        self.socket = socket.create_connection((self.url.hostname, self.url.port), 60)
        self.file = self.socket.makefile("rb")

    def ask(self, method, path, headers, body=b""):
        """Returns the status, the headers and the body."""
        head = [f"{method} {self.url.path}/{path} HTTP/1.1", f"Host: {self.url.netloc}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        if body:
            head.append(f"Content-Length: {len(body)}")
        self.socket.sendall("\r\n".join(head + ["", ""]).encode() + body)
        status = int(self.file.readline().split()[1])
        fields = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            fields[name.lower()] = value.strip()
        body = self.body(status, fields)
        if fields.get("connection", "").lower() == "close":
            self.socket.close()
            self.connect()
        if fields.get("content-encoding") == "gzip":
            body = zlib.decompress(body, 31)
        return status, fields, body

    def body(self, status, fields):
        if status == 304:
            return b""
        if fields.get("transfer-encoding", "").lower() != "chunked":
            return self.file.read(int(fields["content-length"]))
        parts = []
        while (size := int(self.file.readline(), 16)) > 0:
            parts.append(self.file.read(size))
            self.file.readline()
        self.file.readline()
        return b"".join(parts)


class Reader:
    INFO = "info/refs?service=git-upload-pack"

    def __init__(self, storm, checkers, url, number):
        self.storm = storm
        self.checkers = checkers
        self.url = url
        self.known = collections.OrderedDict()
        self.tagged = collections.OrderedDict()
        self.last_tag = None
        self.counts = collections.Counter()
        self.faults = []
        self.kinds = [self.info, self.info, self.ls_all, self.ls_part, self.info_again,
                      self.info_gzip]
        random.seed(number)

    def run(self):
        """Now and then it rests, so that one node finds on disk what the other filled."""
        self.connection = Connection(self.url)
        while not self.storm.is_over.is_set() and len(self.faults) < 5:
            if random.random() < 0.01:
                time.sleep(random.uniform(0, 0.2))
            ask = random.choice(self.kinds)
            low = list(self.storm.ended)
            answer = ask()
            high = list(self.storm.begun)
            self.counts["answers"] += 1
            if answer:
                self.check(ask.__name__, answer, low, high)

    def fault(self, text):
        self.faults.append(f"{time.time():.3f} {self.url}: {text}")

    def check(self, kind, answer, low, high):
        for cell, checker in enumerate(self.checkers):
            text = checker.check(answer, low[cell], high[cell])
            if text:
                self.fault(f"{kind}: {text}")

    def keep(self, table, key, value):
        table[key] = value
        if len(table) > 200:
            table.popitem(last=False)
        return value

    def take_apart(self, kind, status, body):
        if status != 200:
            self.fault(f"status {status}: {body[:200]}")
            return None
        answer = self.known.get((kind, body))
        if answer:
            return answer
        try:
            return self.keep(self.known, (kind, body), Answer(body, kind))
        except Exception:
            self.fault(f"{traceback.format_exc()}\n{body[-300:]}")
            return None

    def info(self, **headers):
        status, fields, body = self.connection.ask("GET", self.INFO, headers)
        answer = self.take_apart("info", status, body)
        tag = fields.get("etag")
        if answer and tag:
            self.last_tag = tag
            self.keep(self.tagged, tag, answer)
        return answer

    def info_gzip(self):
        return self.info(**{"Accept-Encoding": "gzip"})

    def info_again(self):
        if not self.last_tag:
            return self.info()
        status, fields, body = self.connection.ask("GET", self.INFO,
                                                   {"If-None-Match": self.last_tag})
        if status != 304:
            return self.take_apart("info", status, body)
        self.counts["unchanged"] += 1
        assert fields["etag"] == self.last_tag
        return self.tagged[self.last_tag]

    def ls(self, kind, *prefixes):
        text = pkt("command=ls-refs") + pkt("object-format=sha1") + "0001"
        text += pkt("peel") + pkt("symrefs")
        text += "".join(pkt(f"ref-prefix {prefix}") for prefix in prefixes) + "0000"
        status, _, body = self.connection.ask(
            "POST", "git-upload-pack",
            {"Content-Type": "application/x-git-upload-pack-request",
             "Git-Protocol": "version=2"}, text.encode())
        return self.take_apart(kind, status, body)

    def ls_all(self):
        return self.ls("ls")

    def ls_part(self):
        return self.ls("part", "refs/heads/", "refs/packed/")


def guarded(run, said):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run()
        said.put((collections.Counter(), []))
    except Gone:
        said.put((collections.Counter(), []))
    except BaseException:
        said.put((collections.Counter(), [traceback.format_exc()]))


def read(reader, said):
    try:
        reader.run()
    except BaseException:
        reader.fault(traceback.format_exc())
    said.put((reader.counts, reader.faults))


def classes_of(urls):
    counts = collections.Counter()
    for url in urls:
        site = urllib.parse.urlsplit(url)
        with urllib.request.urlopen(f"{site.scheme}://{site.netloc}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                found = re.match(r'refrelay_refs_requests_total\{.*class="(\w+)"\} (\d+)',
                                 line)
                if found:
                    counts[found.group(1)] += int(found.group(2))
    return counts


def told_at_the_end(storm):
    """All is quiet: what git says is what each node says."""
    wanted = subprocess.run(["git", "upload-pack", "--http-backend-info-refs", storm.path],
                            stdout=subprocess.PIPE, check=True).stdout
    for url in storm.options.urls:
        status, _, body = Connection(url).ask("GET", Reader.INFO, {})
        head = b"001e# service=git-upload-pack\n0000"
        if status != 200 or body != head + wanted:
            yield f"{url} says at the end, with status {status}: {body!r}"


def start_all(storm, said):
    options = storm.options
    writers = [writer(storm, cell) for cell, writer in enumerate(WRITERS)]
    processes = [multiprocessing.Process(target=guarded, args=(writer.run, said))
                 for writer in writers]
    for number in range(options.readers):
        reader = Reader(storm, writers, options.urls[number % len(options.urls)], number)
        processes.append(multiprocessing.Process(target=read, args=(reader, said)))
    for process in processes:
        process.start()
    return processes


def tell(storm, counts, classes):
    every = max(sum(classes.values()), 1)
    shares = collections.Counter()
    for name, count in classes.items():
        shares[name.split("_")[0]] += count
    print(f"writes={sum(storm.ended)} answers={counts['answers']} "
          f"unchanged={counts['unchanged']} "
          + " ".join(f"{name}={count}({100 * count / every:.1f}%)"
                     for name, count in sorted(classes.items()))
          + f" hit_percent={100 * shares['hit'] // every}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--busy", type=float, default=0.5)
    parser.add_argument("--refrelay", nargs=2)
    parser.add_argument("repository")
    parser.add_argument("urls", nargs="+")
    storm = Storm(parser.parse_args())
    storm.make_chain()
    before = classes_of(storm.options.urls)
    said = multiprocessing.Queue()
    processes = start_all(storm, said)
    storm.is_over.wait(storm.options.seconds)
    storm.is_over.set()
    counts, faults = collections.Counter(), []
    for _ in processes:
        more, found = said.get(timeout=120)
        counts += more
        faults += found
    for process in processes:
        process.join()
    faults += told_at_the_end(storm)
    for fault in faults:
        print(fault)
    tell(storm, counts, classes_of(storm.options.urls) - before)
    sys.exit(1 if faults or counts["answers"] == 0 else 0)


main()
