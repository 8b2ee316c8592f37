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

QUERY = "info/refs?service=git-upload-pack"
CLIENTS = 4
WRK = """
function done(summary, latency, requests)
    print(string.format('\\n{"requests": %d, "failed": %d}', summary.requests,
        summary.errors.status + summary.errors.connect + summary.errors.read
        + summary.errors.write + summary.errors.timeout))
end
"""


def ask(server, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/{path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: status {answer.status}")
    return gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body


def ask_again_and_again(server, path, headers, end, counts):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    while not counts or time.monotonic() < end:
        connection.request("GET", f"/{path}", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: status {answer.status}")
        counts.append(1)
    connection.close()


def ask_by_threads(server, path, headers, seconds):
    """How many answers; slower than any server here, which matters to CPU little."""
    counts, end = [], time.monotonic() + seconds
    threads = [threading.Thread(target=ask_again_and_again,
                                args=(server, path, headers, end, counts))
               for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(counts)


def ask_by_wrk(bench, server, path, headers, seconds):
    script = bench.work / "wrk.lua"
    script.write_text(WRK)
    options = [word for key, value in headers.items() for word in ("-H", f"{key}: {value}")]
    said = subprocess.run([find("wrk"), "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "-s", script,
                           *options, f"http://127.0.0.1:{server.port}/{path}"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
    result = json.loads(said[said.rindex("\n{"):])
    if result["failed"]:
        raise SystemExit(f"{path}: {result}")
    return result["requests"]


def often(bench, server, path, headers, seconds):
    with contextlib.suppress(Skip):
        if seconds >= 1 and find("wrk"):
            return ask_by_wrk(bench, server, path, headers, int(seconds))
    return ask_by_threads(server, path, headers, seconds)


def answer_cost(bench, account, server, path, headers):
    """Of the server alone: the client is the same for all."""
    often(bench, server, path, headers, min(1, bench.seconds / 4))
    with account.measure(busy=False) as cost:
        count = often(bench, server, path, headers, bench.seconds / 4)
    if not count:
        raise SystemExit(f"{path}: no answer")
    return cost.each(count)


def start_servers(bench, repositories):
    """(name, account, server)"""
    account = bench.account("refrelay")
    site = Site(account, bench.folder("node") / "node", "standalone", "", repositories)
    site.start()
    yield "refrelay", account, site
    with bench.peer("nginx, files"):
        find("nginx")
        account = bench.account("files")
        files = Files(account, bench.folder("files"))
        files.start_refs(repositories)
        yield "nginx, files", account, files
    with bench.peer("git, nginx, git http-backend"):
        find("nginx")
        find("fcgiwrap")
        account = bench.account("backend")
        backend = Backend(account, bench.folder("backend"))
        backend.start(repositories)
        yield "nginx, git http-backend", account, backend


def measure(bench, work, repository, headers, servers):
    path = f"{repository}/{QUERY}"
    if len({ask(server, path, headers) for _, _, server in servers}) != 1:
        raise SystemExit(f"{work}: the servers' answers differ")
    (_, *first), *others = servers
    ours = answer_cost(bench, *first, path, headers)
    for name, account, server in others:
        bench.add(work, ours, name, answer_cost(bench, account, server, path, headers), "–")


@row("refs-small")
def refs_small(bench):
    """GET info/refs of 2 KB, the server's cost of one answer"""
    folder = bench.folder("git")
    make_repository(folder / "small.git", 28)
    measure(bench, "info/refs of 2 KB, an answer", "small.git", {},
            list(start_servers(bench, folder)))


@row("refs-large")
def refs_large(bench):
    """the same of 100,000 refs, with and without gzip"""
    folder = bench.folder("git")
    make_repository(folder / "large.git", bench.refs)
    servers = list(start_servers(bench, folder))
    work = f"info/refs of {bench.refs} refs, an answer"
    measure(bench, work, "large.git", {}, servers)
    measure(bench, f"{work}, gzip", "large.git", {"Accept-Encoding": "gzip"}, servers)
