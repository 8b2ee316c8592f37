#!/usr/bin/env python3
"""A forge's API: the repositories of one organisation, in pages.

usage: forge.py DIRECTORY TOKEN [github|gitlab|gitea]    DIRECTORY/port gets the port. DIRECTORY/repositories has a
line for each: its name, the URL that it is cloned from, and words: fork, archived, size=KIB.
Each request is a line "STATUS PATH" of DIRECTORY/asked. DIRECTORY/page_size: as many a page
at most. While DIRECTORY/status is there, that is the answer; while DIRECTORY/cut is there,
the page of that number ends, with its connection, in the middle. DIRECTORY/limited: it wants
to be left alone for so many seconds. DIRECTORY/ends_early: the second page has no next one.
"""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

ROOT, TOKEN = Path(sys.argv[1]), Path(sys.argv[2]).read_text().strip()
KIND = sys.argv[3] if len(sys.argv) > 3 else "github"
# Where the list is, what says how long a page is, and how long it is at most.
PLACE, LENGTH, MOST = {
    "github": ("/orgs/acme/repos", "per_page", 100),
    "gitlab": ("/api/v4/groups/acme/projects", "per_page", 100),
    "gitea": ("/api/v1/orgs/acme/repos", "limit", 50),
}[KIND]


def told(name):
    path = ROOT / name
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return None


def github(name, url, words, size):
    return {"full_name": name, "clone_url": url, "ssh_url": None, "default_branch": "main",
            "fork": "fork" in words, "archived": "archived" in words, "size": size,
            "pushed_at": "2026-11-21T09:14:03Z"}


def gitea(name, url, words, size):
    return github(name, url, words, size) | {
        "empty": False, "mirror": False, "updated_at": "2026-11-21T09:14:03Z"}


def gitlab(name, url, words, size):
    project = {"path_with_namespace": name, "http_url_to_repo": url,
               "ssh_url_to_repo": f"git@gitlab.example:{name}.git", "default_branch": "main",
               "archived": "archived" in words, "empty_repo": False,
               "last_activity_at": "2026-11-21T09:14:03.000Z",
               "statistics": {"repository_size": size * 1024}}
    if "fork" in words:
        project["forked_from_project"] = {"id": 1, "path_with_namespace": "other/fork"}
    return project


def repositories(query):
    make = {"github": github, "gitlab": gitlab, "gitea": gitea}[KIND]
    for line in (ROOT / "repositories").read_text().splitlines():
        name, url, *words = line.split()
        if "/" in name.partition("/")[2] and query.get("include_subgroups") != ["true"]:
            continue
        sizes = [int(word[5:]) for word in words if word.startswith("size=")]
        one = make(name, url, words, sizes[0] if sizes else 7)
        if query.get("statistics") != ["true"]:
            one.pop("statistics", None)
        yield one


def totals(count, page, pages, size):
    """How many there are in all, as each kind says it, or not."""
    if KIND == "gitea":
        return [("X-Total-Count", str(count))]
    if KIND == "gitlab":
        return [("X-Total", str(count)), ("X-Total-Pages", str(pages)), ("X-Page", str(page)),
                ("X-Per-Page", str(size)),
                ("X-Next-Page", str(page + 1) if page < pages else "")]
    return []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=(), cut=False):
        with open(ROOT / "asked", "a") as file:
            file.write(f"{status} {self.path}\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut or self.close_connection

    def send_page(self, page, size, query):
        everything = list(repositories(query))
        pages = max(1, -(-len(everything) // size))
        body = json.dumps(everything[(page - 1) * size : page * size]).encode()
        etag = f'W/"{hashlib.sha1(body).hexdigest()}"'
        place = f"http://127.0.0.1:{self.server.server_port}{PLACE}"
        rest = {name: values[0] for name, values in query.items() if name != "page"}
        links = [f'<{place}?{urlencode(rest | {"page": n})}>; rel="{rel}"'
                 for n, rel in ((page + 1, "next"), (pages, "last")) if page < pages]
        if page == 2 and (ROOT / "ends_early").exists():
            links = []
        headers = [("Link", ", ".join(links))] if links else []
        headers += totals(len(everything), page, pages, size)
        if KIND != "gitea":
            headers.append(("ETag", etag))
        if KIND != "gitea" and self.headers.get("If-None-Match") == etag:
            self.answer(304, headers=headers)
        else:
            self.answer(200, body, headers, cut=told("cut") == page)

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        size = told("page_size") or min(MOST, int(query.get(LENGTH, ["20"])[0]))
        if told("limited"):
            self.answer(403, headers=[("Retry-After", str(told("limited"))),
                                      ("X-RateLimit-Remaining", "0")])
        elif told("status"):
            self.answer(told("status"))
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401)
        elif urlsplit(self.path).path != PLACE:
            self.answer(404)
        else:
            self.send_page(int(query.get("page", ["1"])[0]), size, query)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
(ROOT / "port.new").write_text(f"{server.server_port}\n")
(ROOT / "port.new").rename(ROOT / "port")
server.serve_forever()
