#!/usr/bin/env python3
"""What serving clients costs, on this machine, beside nginx with Git's own CGI program and nginx
with files.

usage: bench/serve.py [--seconds N] [--rounds N] [--refs N] [--megabytes N] [PART]...

Makes repositories in a temporary directory, starts on loopback
  - refrelay serve (build/refrelay, or $REFRELAY),
  - nginx + fcgiwrap -c 4 + git http-backend,
  - nginx serving the same bytes from files (gzip beside them),
and measures, each round one server after the other, medians of the rounds:
  small    GET info/refs of 2 KB: requests a second, CPU of the server for one
  large    the same of 100,000 refs, with and without gzip
  ls-refs  protocol 2, 100,000 refs: one prefix, and all
  clone    a repository of 200 MB of random blobs: its pack to /dev/null, and git clone
  equal    20 equal clones at once: the packs to /dev/null
  beside   latency of GET info/refs of 2 KB while three clients fetch that pack again and again
           (for files: from refrelay; that tells what this machine lets anybody reach)
Without a PART: all. Every status is checked, and before each measurement the answer itself.

Ratios of one run are what counts. CPU is that of a control group, since the children of fcgiwrap
are in nobody's account; where none can be made (it takes root, or a delegated cgroup v2) it is
left out. Needs git, python3, curl, nginx, fcgiwrap and wrk (Debian: the packages of these names);
not run in CI.
"""

import argparse
import concurrent.futures
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
SERVICE = "service=git-upload-pack"
ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
REQUEST = "application/x-git-upload-pack-request"
PARTS = ("small", "large", "ls-refs", "clone", "equal", "beside")


def read_text(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text()
    return ""


def find(program, *places):
    found = shutil.which(program, path=":".join((PATH, *places)))
    if not found:
        raise SystemExit(f"{program} is missing: install it first (see --help)")
    return found


def git(*args, cwd=None, **options):
    return subprocess.run(["git", *map(str, args)], cwd=cwd, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **options).stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(0.02)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Account:
    """CPU of a server with all that it starts, in seconds."""

    def __init__(self, name):
        name = f"refrelay-bench-{os.getpid()}-{name}"
        own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        lines = {line.split(":")[1]: line.split(":")[2] for line in own}
        old = pathlib.Path("/sys/fs/cgroup/cpuacct")
        new = pathlib.Path("/sys/fs/cgroup" + lines.get("", "/"))
        self.is_old = old.is_dir()
        self.folder = (old if self.is_old else new) / name
        try:
            self.folder.mkdir()
            self.used()
        except OSError:
            self.folder = None

    def join(self):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self):
        if not self.folder:
            return 0.0
        if self.is_old:
            return int((self.folder / "cpuacct.usage").read_text()) / 1e9
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6

    def pids(self):
        return read_text(self.folder / "cgroup.procs").split() if self.folder else []

    def close(self):
        if self.folder:
            wait_for("the end of a server",
                     lambda: not (self.folder / "cgroup.procs").read_text())
            self.folder.rmdir()


@contextlib.contextmanager
def one_group(servers):
    """Puts the servers and all clients into one group of the scheduler: else the kernel may give
    each session (a server, each child of it, or the clients together) an equal share, and the
    latency of a server tells how busy its clients are."""
    root = pathlib.Path("/sys/fs/cgroup/cpu")
    group = root / f"refrelay-bench-{os.getpid()}"

    def move(pids, where):
        for pid in pids:
            with contextlib.suppress(OSError):
                (where / "cgroup.procs").write_text(str(pid))

    try:
        group.mkdir()
    except OSError:
        if "1" in read_text("/proc/sys/kernel/sched_autogroup_enabled"):
            print("each session has a share of its own here: kernel.sched_autogroup_enabled = 1")
        yield
        return
    try:
        pids = [pid for server in servers for pid in server.account.pids()]
        move([os.getpid(), *pids], group)
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            move(pids, root)
        group.rmdir()


class Server:
    """What is measured; `url` of a repository."""

    def __init__(self, work, name, has_git=True):
        self.name, self.has_git = name, has_git
        self.folder = work / name.replace(" ", "-")
        self.folder.mkdir()
        self.port = free_port()
        self.account = Account(self.folder.name)
        self.processes = []

    def run(self, *command):
        with open(self.folder / "log", "ab") as log:
            self.processes.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=self.account.join))

    def ready(self):
        wait_for(f"{self.name} ({self.folder}/log)", lambda: answers(self.port))

    def url(self, repository, what):
        return f"http://127.0.0.1:{self.port}/{repository}.git/{what}"

    def refs(self, repository):
        return self.url(repository, f"info/refs?{SERVICE}")

    def stop(self):
        for process in self.processes:  # fcgiwrap leaves its children behind
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            process.wait()
        self.account.close()


class Refrelay(Server):
    def __init__(self, work):
        super().__init__(work, "refrelay")

    def start(self, repositories):
        conf = self.folder / "refrelay.conf"
        conf.write_text(f"[site]\nname = bench\nrole = standalone\nrepositories = {repositories}\n"
                        f"data = {self.folder}/data\n[http]\nlisten = 127.0.0.1:{self.port}\n"
                        "anonymousRead = true\n")
        self.run(REFRELAY, "-c", conf, "serve")
        self.ready()


NGINX = """
{user}
daemon off;
worker_processes 2;
pid {folder}/pid;
error_log {folder}/error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    default_type {advertisement};
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
}}
"""

CGI = """
        client_max_body_size 0;
        gzip on;
        gzip_types {advertisement};
        gzip_http_version 1.0;
        location / {{
            fastcgi_pass unix:{folder}/socket;
            fastcgi_buffers 16 64k;
            fastcgi_buffer_size 64k;
            fastcgi_max_temp_file_size 0;
            fastcgi_read_timeout 600;
            fastcgi_param SCRIPT_FILENAME {backend};
            fastcgi_param GIT_PROJECT_ROOT {repositories};
            fastcgi_param GIT_HTTP_EXPORT_ALL "";
            fastcgi_param GIT_PROTOCOL $http_git_protocol;
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
        }}
"""

FILES = """
        root {files};
        gzip_static on;
"""


class Nginx(Server):
    def begin(self, server, **values):
        user = "user root;" if os.getuid() == 0 else ""
        conf = self.folder / "conf"
        values = dict(values, folder=self.folder, port=self.port, advertisement=ADVERTISEMENT)
        server = server.format(**values)
        conf.write_text(NGINX.format(user=user, server=server, **values))
        self.run(find("nginx"), "-e", self.folder / "error", "-p", self.folder, "-c", conf)
        self.ready()


class Backend(Nginx):
    def __init__(self, work):
        super().__init__(work, "git http-backend")

    def start(self, repositories):
        backend = find("git-http-backend", os.fsdecode(git("--exec-path").strip()))
        where = self.folder / "socket"
        self.run(find("fcgiwrap"), "-c", "4", "-s", f"unix:{where}")
        wait_for("fcgiwrap", where.exists)
        self.begin(CGI, repositories=repositories, backend=backend)


class Files(Nginx):
    """The advertisements of protocol 0, as files of the same URLs."""

    def __init__(self, work):
        super().__init__(work, "nginx with files", has_git=False)

    def start(self, repositories):
        files = self.folder / "files"
        for repository in repositories.iterdir():
            folder = files / repository.name / "info"
            folder.mkdir(parents=True)
            refs = git("upload-pack", "--http-backend-info-refs", repository)
            refs = b"001e# service=git-upload-pack\n0000" + refs
            (folder / "refs").write_bytes(refs)
            (folder / "refs.gz").write_bytes(gzip.compress(refs, 6))
        self.begin(FILES, files=files)


def make_repository(path, refs):
    git("init", "-q", "--bare", "-b", "main", path)
    tree = git("mktree", cwd=path, input=b"").decode().strip()
    who = {"GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@example.org",
           "GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@example.org"}
    commit = git("commit-tree", "-m", "first", tree, cwd=path, env={**os.environ, **who})
    commit = commit.decode().strip()
    lines = [f"{commit} refs/heads/main\n"]
    lines += [f"{commit} refs/heads/t{number // 1000:03}/b{number:06}\n"
              for number in range(refs)]
    (path / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" +
                                      "".join(lines))


def make_big(path, megabytes):
    """As many random blobs of 1 MB, in one pack."""
    git("init", "-q", "--bare", "-b", "main", path)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=path,
                          stdin=subprocess.PIPE) as importer:
        write = importer.stdin.write
        write(b"commit refs/heads/main\ncommitter b <b@example.org> 1700000000 +0000\n"
              b"data 5\nfirst")
        for number in range(megabytes):
            write(b"\nM 100644 inline f%d\ndata 1048576\n" % number)
            write(os.urandom(1 << 20))
        write(b"\n")
    git("pack-refs", "--all", cwd=path)


def packets(*lines):
    """pkt-lines; a word of four digits stands for itself."""
    return "".join(line if line.isdigit() else f"{len(line) + 4:04x}{line}"
                   for line in lines).encode()


WRK = """
wrk.method = "{method}"
wrk.body = {body}
{headers}
{delay}
function done(summary, latency, requests)
    print(string.format('\\n{{"requests": %d, "seconds": %f, "bytes": %d, "p50": %f, "p99": %f, '
        .. '"failed": %d}}', summary.requests, summary.duration / 1e6, summary.bytes,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        summary.errors.status + summary.errors.connect + summary.errors.read
        + summary.errors.write + summary.errors.timeout))
end
"""


class Question:
    """A request that can be asked once, or as often as it goes."""

    def __init__(self, work, name, repository, headers=(), body=None):
        self.name, self.repository, self.body = name, repository, body
        self.headers = dict(headers)
        self.work = work
        if body:
            self.headers["Content-Type"] = REQUEST
            self.file = work / f"body-{name}".replace(" ", "-")
            self.file.write_bytes(body)

    def url(self, server):
        if self.body:
            return server.url(self.repository, "git-upload-pack")
        return server.refs(self.repository)

    def once(self, server, into=os.devnull):
        """(bytes, seconds)"""
        command = ["curl", "-sS", "-o", into, "-w", "%{http_code} %{size_download} %{time_total}"]
        for key, value in self.headers.items():
            command += ["-H", f"{key}: {value}"]
        if self.body:
            command += ["--data-binary", f"@{self.file}"]
        said = subprocess.run([*command, self.url(server)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.split()
        if said[0] != "200":
            raise SystemExit(f"{server.name}, {self.name}: status {said[0]}")
        return int(said[1]), float(said[2])

    def answer(self, server):
        path = self.work / "answer"
        self.once(server, path)
        answer = path.read_bytes()
        return gzip.decompress(answer) if answer[:2] == b"\x1f\x8b" else answer

    def often(self, server, seconds, connections=4, delay_ms=0):
        script = self.work / "wrk.lua"
        body = "".join(f"\\{byte:03}" for byte in self.body or b"")
        headers = "\n".join(f'wrk.headers["{key}"] = "{value}"'
                            for key, value in self.headers.items())
        delay = f"function delay() return {delay_ms} end" if delay_ms else ""
        script.write_text(WRK.format(method="POST" if self.body else "GET", delay=delay,
                                     body=f'"{body}"' if body else "nil", headers=headers))
        said = subprocess.run([find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s",
                               script, self.url(server)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        result = json.loads(said[said.rindex("\n{"):])
        if result["failed"] or not result["requests"]:
            raise SystemExit(f"{server.name}, {self.name}: {result}")
        return result


def median_of(rounds):
    return {key: statistics.median(result[key] for result in rounds) for key in rounds[0]}


def in_turn(servers, count, measure):
    """Each server's medians of `count` rounds."""
    rounds = {server: [] for server in servers}
    for _ in range(count):
        for server in servers:
            rounds[server].append(measure(server))
    return {server: median_of(results) for server, results in rounds.items()}


def ratios(results, key):
    """Of refrelay's to the others'."""
    (first, ours), *others = results.items()
    return ", ".join(f"{ours[key] / theirs[key]:.3g}x {server.name}"
                     for server, theirs in others if theirs[key])


def show(title, results, **columns):
    print(f"\n{title}")
    for server, result in results.items():
        cells = "  ".join(text.format(result[key]) for key, text in columns.items())
        print(f"  {server.name:18}{cells}")
    for key in columns:
        if ratios(results, key):
            print(f"  {key + ':':18}refrelay is {ratios(results, key)}", flush=True)


class Bench:
    def __init__(self, work, arguments):
        self.work, self.arguments = work, arguments
        self.repositories = work / "git"
        self.repositories.mkdir()
        make_repository(self.repositories / "small.git", 28)
        make_repository(self.repositories / "large.git", arguments.refs)
        make_big(self.repositories / "big.git", arguments.megabytes)
        self.servers, self.stack = [], contextlib.ExitStack()
        self.tip = git("rev-parse", "main", cwd=self.repositories / "big.git").decode().strip()

    def start(self):
        for kind in (Refrelay, Backend, Files):
            server = kind(self.work)
            self.stack.callback(server.stop)
            server.start(self.repositories)
            self.servers.append(server)

    def with_git(self):
        return [server for server in self.servers if server.has_git]

    def rate(self, question, servers, title):
        """Requests a second, and CPU of each, as often as it goes."""
        if len({question.answer(server) for server in servers}) != 1:
            raise SystemExit(f"{title}: the servers' answers differ")

        def measure(server):
            question.often(server, 1)
            before = server.account.used()
            result = question.often(server, self.arguments.seconds)
            used = server.account.used() - before
            return {"requests a second": result["requests"] / result["seconds"],
                    "CPU": used / result["requests"] * 1e6, "p99": result["p99"]}

        results = in_turn(servers, self.arguments.rounds, measure)
        show(title, results, **{"requests a second": "{:10.0f} requests/s",
                                "CPU": "{:10.1f} us CPU each", "p99": "{:8.2f} ms p99"})

    def small(self):
        self.rate(Question(self.work, "small", "small"), self.servers, "GET info/refs of 2 KB")

    def large(self):
        refs = f"GET info/refs of {self.arguments.refs} refs"
        self.rate(Question(self.work, "large", "large"), self.servers, refs)
        self.rate(Question(self.work, "large gzip", "large", {"Accept-Encoding": "gzip"}),
                  self.servers, refs + ", gzip")

    def ls_refs(self):
        version = {"Git-Protocol": "version=2"}
        start = ("command=ls-refs\n", "agent=git/2.39.5", "object-format=sha1", "0001", "peel\n",
                 "symrefs\n")
        for name, rest in (("one prefix", ["ref-prefix refs/heads/t001/b001001\n"]), ("all", [])):
            question = Question(self.work, name, "large", version,
                                packets(*start, *rest, "0000"))
            self.rate(question, self.with_git(),
                      f"ls-refs of {self.arguments.refs} refs, {name}")

    def fetch(self):
        return Question(self.work, "fetch", "big", {"Git-Protocol": "version=2"}, packets(
            "command=fetch\n", "agent=git/2.39.5", "object-format=sha1", "0001", "no-progress\n",
            "ofs-delta\n", f"want {self.tip}\n", "done\n", "0000"))

    def streams(self, question, count, title):
        size = self.arguments.megabytes << 20

        def measure(server):
            before, start = server.account.used(), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                sizes = list(pool.map(lambda _: question.once(server)[0], range(count)))
            took, used = time.monotonic() - start, server.account.used() - before
            if min(sizes) < size:
                raise SystemExit(f"{server.name}: a pack of {min(sizes)} bytes was cut")
            return {"throughput": sum(sizes) / took / 1e6, "CPU": used}

        results = in_turn(self.with_git(), self.arguments.rounds, measure)
        show(title, results, throughput="{:8.0f} MB/s", CPU="{:8.2f} s CPU")

    def clone(self):
        self.streams(self.fetch(), 1, f"a pack of {self.arguments.megabytes} MB to /dev/null")

        def measure(server):
            copy = self.work / "copy.git"
            before, start = server.account.used(), time.monotonic()
            git("clone", "-q", "--bare", server.url("big", ""), copy)
            took, used = time.monotonic() - start, server.account.used() - before
            if git("rev-parse", "main", cwd=copy).decode().strip() != self.tip:
                raise SystemExit(f"{server.name}: the clone is not whole")
            shutil.rmtree(copy)
            return {"time": took, "CPU": used}

        results = in_turn(self.with_git(), self.arguments.rounds, measure)
        show(f"git clone --bare of {self.arguments.megabytes} MB", results,
             time="{:8.2f} s", CPU="{:8.2f} s CPU of the server")

    def equal(self):
        self.streams(self.fetch(), 20, "20 equal packs at once")

    def beside(self):
        fetch, small = self.fetch(), Question(self.work, "small", "small")
        fetches = []

        def loop(server, end):
            while not end.is_set():
                fetches.append(fetch.once(server if server.has_git else self.servers[0]))

        def measure(server):
            end, before = threading.Event(), len(fetches)
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                loops = [pool.submit(loop, server, end) for _ in range(3)]
                time.sleep(1)
                result = small.often(server, self.arguments.seconds, delay_ms=5)
                end.set()
                for one in loops:
                    one.result()
            return {"p50": result["p50"], "p99": result["p99"],
                    "packs": len(fetches) - before}

        with one_group(self.servers):
            results = in_turn(self.servers, self.arguments.rounds, measure)
        show("GET info/refs of 2 KB beside three clients that fetch", results,
             p50="{:8.3f} ms p50", p99="{:8.3f} ms p99", packs="{:4.0f} packs")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5, help="of each run of wrk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--refs", type=int, default=100000)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(PARTS))
    arguments = parser.parse_args()
    for part in arguments.part:
        if part not in PARTS:
            parser.error(f"there is no part {part}")
    for program in ("git", "curl", "nginx", "fcgiwrap", "wrk", REFRELAY):
        find(program)
    work = pathlib.Path(tempfile.mkdtemp(prefix="refrelay-bench."))
    bench = Bench(work, arguments)
    try:
        bench.start()
        if not bench.servers[0].account.folder:
            print("CPU is left out: no control group can be made here")
        for part in arguments.part or PARTS:
            getattr(bench, part.replace("-", "_"))()
    finally:
        bench.stack.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
