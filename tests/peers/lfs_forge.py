#!/usr/bin/env python3
"""An upstream with a server of Git LFS that may be wrong in all ways; and another place, to
which it may send who downloads.

usage: lfs_forge.py ROOT TOKEN    serves ROOT/*.git, by git http-backend, and the objects
ROOT/objects/OID to who shows x-access-token with the token in that file. ROOT/port gets the
port; ROOT/place/port that of the other place, which asks nobody who he is.

Each request for LFS is a line of ROOT/asked, or ROOT/place/asked: method, path, Authorization
or "-", X-Ticket or "-", Range or "-".

Objects are offered with an X-Ticket: "for-PORT". As long as they are there: ROOT/elsewhere:
objects are offered at the other place; ROOT/redirect: they are offered here, and redirect there. ROOT/status: that is the
answer to a batch; ROOT/rest: it says still to copy back in so many seconds. ROOT/stall: of an object
only the half comes, and then nothing. ROOT/scheme: what URLs that are given out begin with.
"""

import base64
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

ROOT = Path(sys.argv[1]).resolve()
TOKEN = base64.b64encode(b"x-access-token:" + Path(sys.argv[2]).read_bytes().strip())
TYPE = "application/vnd.git-lfs+json"


def told(name):
    try:
        return (ROOT / name).read_text().strip()
    except FileNotFoundError:
        return None


class Place(BaseHTTPRequestHandler):
    """Gives out objects."""

    protocol_version = "HTTP/1.1"
    folder = ROOT / "place"

    def log_message(self, *arguments):
        pass

    def note(self):
        shown = [self.headers.get(name, "-").replace(" ", "_")
                 for name in ("Authorization", "X-Ticket", "Range")]
        with open(self.folder / "asked", "a") as file:
            file.write(" ".join([self.command, self.path, *shown]) + "\n")

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def give(self, oid):
        try:
            content = (ROOT / "objects" / oid).read_bytes()
        except FileNotFoundError:
            self.answer(404)
            return
        begin, headers = 0, []
        if self.headers.get("Range"):
            begin = int(self.headers["Range"].split("=")[1].rstrip("-"))
            headers.append(("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}"))
        self.send_response(206 if begin else 200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        half = begin + (len(content) - begin) // 2
        self.wfile.write(content[begin:half])
        self.wfile.flush()
        while told("stall") is not None:
            time.sleep(0.05)
        self.wfile.write(content[half:])

    def do_GET(self):
        self.note()
        self.give(self.path.rsplit("/", 1)[-1])


class Forge(Place):
    """Asks who it is."""

    folder = ROOT

    def is_known(self):
        return self.headers.get("Authorization", "").encode() == b"Basic " + TOKEN

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(ROOT),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        said = subprocess.run(["git", "http-backend"], env=environment, input=body,
                              stdout=subprocess.PIPE, check=True).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        lines = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n"))
        self.answer(int(lines.pop("Status", "200").split()[0]), content, lines.items())

    def offer(self, one):
        at = place.server_port if told("elsewhere") is not None else self.server.server_port
        url = f"{told('scheme') or 'http'}://127.0.0.1:{at}/media/{one['oid']}"
        download = {"href": url, "header": {"X-Ticket": f"for-{at}"}}
        answer = {"oid": one["oid"], "size": one["size"]}
        if (ROOT / "objects" / one["oid"]).exists():
            return answer | {"actions": {"download": download}}
        return answer | {"error": {"code": 404, "message": "Object does not exist"}}

    def batch(self, body):
        if told("status"):
            rest = told("rest")
            self.answer(int(told("status")), headers=[("Retry-After", rest)] if rest else [])
            return
        asked = json.loads(body)
        assert asked["operation"] == "download" and asked["transfers"] == ["basic"]
        assert self.headers["Accept"] == self.headers["Content-Type"] == TYPE
        answer = {"transfer": "basic", "objects": [self.offer(one) for one in asked["objects"]]}
        self.answer(200, json.dumps(answer).encode(), [("Content-Type", TYPE)])

    def handle_any(self):
        body = self.body()
        is_lfs = "/info/lfs/" in self.path or self.path.startswith("/media/")
        if is_lfs:
            self.note()
        if not self.is_known():
            self.answer(401, headers=[("WWW-Authenticate", "Basic")])
        elif not is_lfs:
            self.backend(body)
        elif self.command == "POST":
            self.batch(body)
        elif told("redirect") is not None:
            self.answer(302, headers=[
                ("Location", f"http://127.0.0.1:{place.server_port}{self.path}")])
        else:
            self.give(self.path.rsplit("/", 1)[-1])

    do_GET = do_POST = handle_any


def serve(server, folder):
    server.daemon_threads = True
    (folder / "port.new").write_text(f"{server.server_port}\n")
    (folder / "port.new").rename(folder / "port")
    server.serve_forever()


(ROOT / "place").mkdir(exist_ok=True)
(ROOT / "objects").mkdir(exist_ok=True)
place = ThreadingHTTPServer(("127.0.0.1", 0), Place)
Thread(target=serve, args=(place, ROOT / "place"), daemon=True).start()
serve(ThreadingHTTPServer(("127.0.0.1", 0), Forge), ROOT)
