"""What a work costs: wall time, CPU, bytes, processes, memory, of one contender.

A contender is a set of servers and the clients that use them; each has an Account. Its servers
run in a control group of their own, and while something is measured the bench itself is there,
too, so that its children are; what the bench's own process takes is subtracted. Where no group
can be made, CPU is that of the clients (getrusage), if they count, and of all processes of the
servers' sessions (/proc), with the children that these waited for.
"""

import contextlib
import dataclasses
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

from machine import PATH, loopback_bytes, wait_for

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def read_text(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text()
    return ""


def stat_of(pid):
    """Fields of its stat from the state on; [] if it has ended."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def find_group():
    """(folder of groups, whether it is of version 1); (None, False): none can be made here."""
    lines = dict(line.split(":", 1)[1].split(":", 1)
                 for line in read_text("/proc/self/cgroup").splitlines())
    for folder, old in (("/sys/fs/cgroup/cpuacct" + lines.get("cpuacct", "/"), True),
                        ("/sys/fs/cgroup" + lines.get("", "/"), False)):
        probe = pathlib.Path(folder, f"refrelay-bench-{os.getpid()}-probe")
        with contextlib.suppress(OSError):
            probe.mkdir()
            usable = (probe / ("cpuacct.usage" if old else "cpu.stat")).exists()
            probe.rmdir()
            if usable:
                return pathlib.Path(folder), old
    return None, False


class Processes:
    """Counts processes that we and our descendants start, threads not among them: the kernel
    tells of each fork, if we may listen. `count` is None if not."""

    def __init__(self):
        self.ours, self.forks, self.is_deaf = {os.getpid()}, 0, True
        with contextlib.suppress(OSError):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 11)
            self.socket.bind((0, 1))
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
            listen = struct.pack("=IIIIHHI", 1, 1, 0, 0, 4, 0, 1)
            self.socket.send(struct.pack("=IHHII", 16 + len(listen), 3, 0, 0, os.getpid()) +
                             listen)
            self.is_deaf = False
            threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                message = self.socket.recv(4096)
            except OSError:  # ENOBUFS: some were lost
                self.is_deaf = True
                return
            if len(message) < 68 or struct.unpack_from("=I", message, 36)[0] != 1:
                continue
            _, parent, child, group = struct.unpack_from("=IIII", message, 52)
            if child == group and parent in self.ours:
                self.ours.add(child)
                self.forks += 1

    def count(self):
        time.sleep(0.02)  # what is on its way
        return None if self.is_deaf else self.forks


@dataclasses.dataclass
class Cost:
    wall: float = 0
    cpu: float = 0
    bytes: float = 0
    processes: float = 0  # None: not known
    memory: float = 0

    def each(self, count):
        """Of one of `count` alike; memory stays what it was."""
        started = None if self.processes is None else self.processes / count
        return Cost(self.wall / count, self.cpu / count, self.bytes / count, started,
                    self.memory)


class Machine:
    """What accounts share."""

    def __init__(self):
        self.groups, self.is_old = find_group()
        self.processes = Processes()

    def method(self):
        if not self.groups:
            return "rusage of clients, /proc of servers (no control group can be made here)"
        return f"a control group each (cgroup v{1 if self.is_old else 2}, {self.groups})"


class Account:
    machine = None  # set by whoever measures first

    def __init__(self, name):
        Account.machine = Account.machine or Machine()
        self.servers, self.group = [], None
        if self.machine.groups:
            self.group = self.machine.groups / f"refrelay-bench-{os.getpid()}-{name}"
            self.group.mkdir()

    @contextlib.contextmanager
    def joined(self):
        """Whatever the bench starts meanwhile belongs to it."""
        if not self.group:
            yield
            return
        (self.group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.machine.groups / "cgroup.procs").write_text(str(os.getpid()))

    def start(self, log, *command, **options):
        """A server, in a session of its own."""
        with self.joined(), open(log, "ab") as out:
            server = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                      stdout=out, stderr=out, start_new_session=True,
                                      env={**os.environ, "PATH": PATH}, **options)
        self.servers.append(server)
        return server

    def stop(self, server, how=signal.SIGTERM):
        """With its children, as fcgiwrap leaves them behind."""
        if server in self.servers:
            self.servers.remove(server)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, how)
            server.wait()

    def close(self):
        for server in self.servers[::-1]:
            self.stop(server)
        if self.group:
            wait_for("the end of a server", lambda: not read_text(self.group / "cgroup.procs"))
            self.group.rmdir()
            self.group = None

    def cpu(self, busy=True):
        """Seconds, so far. busy: where no group is, with what the bench started."""
        if self.group and self.machine.is_old:
            return int((self.group / "cpuacct.usage").read_text()) / 1e9
        if self.group:
            lines = (self.group / "cpu.stat").read_text().splitlines()
            return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6
        used = sum(sum(map(int, stat_of(pid)[11:15])) for pid in self.pids()) / TICKS
        if busy:
            clients = resource.getrusage(resource.RUSAGE_CHILDREN)
            used += clients.ru_utime + clients.ru_stime
        return used

    def pids(self):
        if not self.group:
            sessions = {str(server.pid) for server in self.servers}
            return [pid for pid in os.listdir("/proc")
                    if pid.isdigit() and sessions & set(stat_of(pid)[3:4])]
        pids = map(int, read_text(self.group / "cgroup.procs").split())
        return [pid for pid in pids if pid != os.getpid()]

    def resident(self):
        """Bytes of all its processes."""
        texts = [read_text(f"/proc/{pid}/statm").split() for pid in self.pids()]
        return sum(int(words[1]) for words in texts if words) * PAGE

    def watch_memory(self, cost, ended):
        while not ended.wait(0.02 if self.group else 0.5):
            cost.memory = max(cost.memory, self.resident())

    @contextlib.contextmanager
    def measure(self, busy=True):
        """Gives a Cost that is filled when the block has ended. busy: what the bench starts
        in the block is part of it."""
        cost, ended = Cost(), threading.Event()
        watcher = threading.Thread(target=self.watch_memory, args=(cost, ended))
        forks = self.machine.processes.count()
        with self.joined() if busy else contextlib.nullcontext():
            watcher.start()
            begun_bytes, own, cpu = loopback_bytes(), time.process_time(), self.cpu(busy)
            begun = time.monotonic()
            try:
                yield cost
            finally:
                cost.wall = time.monotonic() - begun
                cost.memory = max(cost.memory, self.resident())
                ended.set()
                watcher.join()
                own = time.process_time() - own if busy and self.group else 0
                cost.cpu = max(self.cpu(busy) - cpu - own, 0)
                cost.bytes = loopback_bytes() - begun_bytes
        done = self.machine.processes.count()
        cost.processes = None if forks is None or done is None else done - forks
