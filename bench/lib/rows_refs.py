"""Rows of serving refs to clients."""

import contextlib
import gzip
import http.client
import json
import subprocess
import threading
import time

from machine import Skip, find, make_repository
from servers import Backend, Files
from sites import Site
from table import row

BACKEND = "nginx, git http-backend"
REQUEST = "application/x-git-upload-pack-request"
VERSION_2 = {"Git-Protocol": "version=2"}
QUERY = "info/refs?service=git-upload-pack"
CLIENTS = 4
WRK = """
function done(summary, latency, requests)
    print(string.format('\\n{"requests": %d, "failed": %d}', summary.requests,
        summary.errors.status + summary.errors.connect + summary.errors.read
        + summary.errors.write + summary.errors.timeout))
end
"""


class Question:
    """For a path, with these headers; a POST if there is a body."""

    def __init__(self, path, headers, body=None):
        self.path, self.body = path, body
        self.headers = {**headers, "Content-Type": REQUEST} if body else headers

    def send(self, connection, server):
        """The answer, which must be good, and its body."""
        connection.request("POST" if self.body else "GET", f"/{self.path}", self.body,
                           self.headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{server.url(self.path)}: status {answer.status}")
        return answer, body

    def wrk_script(self):
        if not self.body:
            return ""
        body = "".join(f"\\{byte:03}" for byte in self.body)
        return f'wrk.method = "POST"\nwrk.body = "{body}"'


def connect(server):
    return http.client.HTTPConnection("127.0.0.1", server.port)


def ask(server, question):
    with contextlib.closing(connect(server)) as connection:
        answer, body = question.send(connection, server)
    return gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body


def ask_again_and_again(server, question, end, counts, failures):
    try:
        with contextlib.closing(connect(server)) as connection:
            while not counts or time.monotonic() < end:
                question.send(connection, server)
                counts.append(1)
    except (OSError, http.client.HTTPException, SystemExit) as error:
        failures.append(error)


def ask_by_threads(server, question, seconds):
    """How many answers; slower than any server here, which matters to CPU little."""
    counts, failures, end = [], [], time.monotonic() + seconds
    threads = [threading.Thread(target=ask_again_and_again,
                                args=(server, question, end, counts, failures))
               for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"{server.url(question.path)}: {failures[0]}")
    return len(counts)


def ask_by_wrk(bench, server, question, seconds):
    script = bench.work / "wrk.lua"
    script.write_text(question.wrk_script() + WRK)
    options = [word for key, value in question.headers.items()
               for word in ("-H", f"{key}: {value}")]
    said = subprocess.run([find("wrk"), "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "-s", script,
                           *options, server.url(question.path)], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
    result = json.loads(said[said.rindex("\n{"):])
    if result["failed"]:
        raise SystemExit(f"{question.path}: {result}")
    return result["requests"]


def often(bench, server, question, seconds):
    with contextlib.suppress(Skip):
        if seconds >= 1 and find("wrk"):
            return ask_by_wrk(bench, server, question, int(seconds))
    return ask_by_threads(server, question, seconds)


def answer_cost(bench, account, server, question):
    """Of the server alone: the client is the same for all."""
    often(bench, server, question, min(1, bench.seconds / 4))
    with account.measure(busy=False) as cost:
        count = often(bench, server, question, bench.seconds / 4)
    if not count:
        raise SystemExit(f"{question.path}: no answer")
    return cost.each(count)


def start_node(bench, repositories):
    """(account, server) of refrelay."""
    account = bench.account("refrelay")
    site = Site(account, bench.folder("node") / "node", "standalone", "", repositories)
    site.start()
    return account, site


def start_backend(bench, repositories):
    """(account, server) of nginx, fcgiwrap, git http-backend, or Skip."""
    for program in ("nginx", "fcgiwrap"):
        find(program)
    account = bench.account("backend")
    backend = Backend(account, bench.folder("backend"))
    backend.start(repositories)
    return account, backend


def start_servers(bench, repositories, by_files=True):
    """(name, account, server); by_files: nginx with files, too."""
    yield "refrelay", *start_node(bench, repositories)
    if by_files:
        with bench.peer("nginx, files"):
            find("nginx")
            account = bench.account("files")
            files = Files(account, bench.folder("files"))
            files.start_refs(repositories)
            yield "nginx, files", account, files
    with bench.peer(BACKEND):
        yield BACKEND, *start_backend(bench, repositories)


def measure(bench, work, question, servers):
    if len({ask(server, question) for _, _, server in servers}) != 1:
        raise SystemExit(f"{work}: the servers' answers differ")
    (_, *first), *others = servers
    ours = answer_cost(bench, *first, question)
    for name, account, server in others:
        bench.add(work, ours, name, answer_cost(bench, account, server, question), "–")
    if not others:
        bench.add(work, ours, "–", None, "–")


@row("refs-small")
def refs_small(bench):
    """GET info/refs of 2 KB, the server's cost of one answer"""
    folder = bench.folder("git")
    make_repository(folder / "small.git", 28)
    measure(bench, "info/refs of 2 KB, an answer", Question(f"small.git/{QUERY}", {}),
            list(start_servers(bench, folder)))


@row("refs-large")
def refs_large(bench):
    """the same of 100,000 refs, with and without gzip"""
    folder = bench.folder("git")
    make_repository(folder / "large.git", bench.refs)
    servers = list(start_servers(bench, folder))
    work, path = f"info/refs of {bench.refs} refs, an answer", f"large.git/{QUERY}"
    measure(bench, work, Question(path, {}), servers)
    measure(bench, f"{work}, gzip", Question(path, {"Accept-Encoding": "gzip"}), servers)


def packets(*texts):
    """Of Git's protocol 2; "0000" and "0001" as they are."""
    return b"".join(text.encode() if text in ("0000", "0001") else
                    f"{len(text) + 4:04x}{text}".encode() for text in texts)


@row("ls-refs")
def ls_refs(bench):
    """ls-refs of protocol 2 with a prefix that one of 100,000 refs has"""
    folder = bench.folder("git")
    make_repository(folder / "large.git", bench.refs)
    number = bench.refs // 2
    body = packets("command=ls-refs\n", "agent=git/2.39.5", "object-format=sha1", "0001",
                   "peel\n", "symrefs\n",
                   f"ref-prefix refs/heads/t{number // 1000:03}/b{number:06}\n", "0000")
    question = Question("large.git/git-upload-pack", VERSION_2, body)
    servers = list(start_servers(bench, folder, by_files=False))
    if f"/b{number:06}" not in ask(servers[0][2], question).decode():
        raise SystemExit("ls-refs: the ref is not in the answer")
    measure(bench, f"ls-refs of {bench.refs} refs, one prefix, an answer", question, servers)
