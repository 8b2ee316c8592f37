#!/usr/bin/env python3
"""A forge's API as GitHub's: the repositories of one organisation, in pages.

usage: forge.py DIRECTORY TOKEN    DIRECTORY/port gets the port. DIRECTORY/repositories has a
line for each: its name, the URL that it is cloned from, and words: fork, archived, size=KIB.
Each request is a line "STATUS PATH" of DIRECTORY/asked. DIRECTORY/page_size: as many a page
at most. While DIRECTORY/status is there, that is the answer; while DIRECTORY/cut is there,
the page of that number ends, with its connection, in the middle. DIRECTORY/limited: it wants
to be left alone for so many seconds.
"""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ROOT, TOKEN = Path(sys.argv[1]), Path(sys.argv[2]).read_text().strip()


def told(name):
    path = ROOT / name
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return None


def repositories():
    for line in (ROOT / "repositories").read_text().splitlines():
        name, url, *words = line.split()
        sizes = [int(word[5:]) for word in words if word.startswith("size=")]
        yield {
            "full_name": name,
            "clone_url": url,
            "ssh_url": None,
            "default_branch": "main",
            "fork": "fork" in words,
            "archived": "archived" in words,
            "size": sizes[0] if sizes else 7,
            "pushed_at": "2026-11-21T09:14:03Z",
        }


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

    def send_page(self, page, size):
        everything = list(repositories())
        pages = max(1, -(-len(everything) // size))
        body = json.dumps(everything[(page - 1) * size : page * size]).encode()
        etag = f'W/"{hashlib.sha1(body).hexdigest()}"'
        place = f"http://127.0.0.1:{self.server.server_port}{urlsplit(self.path).path}"
        links = [f'<{place}?per_page={size}&page={n}>; rel="{rel}"'
                 for n, rel in ((page + 1, "next"), (pages, "last")) if page < pages]
        headers = [("ETag", etag)] + ([("Link", ", ".join(links))] if links else [])
        if self.headers.get("If-None-Match") == etag:
            self.answer(304, headers=headers)
        else:
            self.answer(200, body, headers, cut=told("cut") == page)

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        size = told("page_size") or int(query.get("per_page", ["100"])[0])
        if told("limited"):
            self.answer(403, headers=[("Retry-After", str(told("limited"))),
                                      ("X-RateLimit-Remaining", "0")])
        elif told("status"):
            self.answer(told("status"))
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401)
        elif urlsplit(self.path).path != "/orgs/acme/repos":
            self.answer(404)
        else:
            self.send_page(int(query.get("page", ["1"])[0]), size)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
(ROOT / "port.new").write_text(f"{server.server_port}\n")
(ROOT / "port.new").rename(ROOT / "port")
server.serve_forever()
