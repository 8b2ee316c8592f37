#!/usr/bin/env python3
"""Hundreds of upstreams behind smart HTTP, each with tokens of its own, as a forge has them.

usage: forest.py ROOT      serves what ROOT/allowed names to who has a token for it; ROOT/port gets
                           the port, ROOT/asked a line for each request: the time in ms, method,
                           path, user's token (or -), status, whether it was conditional

ROOT/allowed has a line `PATTERN TOKEN...` for the repositories whose name (without .git) the shell
pattern fits; it is read for each request, and the first line that fits counts. Without a token of
these they do not seem to be there (404), as at GitHub. What is a repository below ROOT is served by
git http-backend, which is not asked again for refs that did not change. With ROOT/tags an ETag is told, and
304 answered.
"""
import base64
import fnmatch
import hashlib
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
ADVERT = "application/x-git-upload-pack-advertisement"
mutex = threading.Lock()


adverts = {}  # of a request for refs: what the refs looked like, and the answer


def look_at_refs(repository):
    """Differs when refs do: all of these files are replaced, never written to."""
    looks = []
    for folder, _, files in os.walk(repository / "refs"):
        looks += [folder] + [os.path.join(folder, file) for file in files]
    looks += [repository / "HEAD", repository / "packed-refs"]
    seen = [(str(path), os.stat(path)) for path in looks if os.path.exists(path)]
    return [(path, stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in seen]


def tokens_of(name):
    for line in (ROOT / "allowed").read_text().splitlines():
        pattern, *tokens = line.split()
        if fnmatch.fnmatchcase(name, pattern):
            return tokens
    return []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def token(self):
        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return "-"
        return base64.b64decode(text).decode().partition(":")[2]

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, headers=(), body=b""):
        known = self.headers.get("If-None-Match")
        with mutex, open(ROOT / "asked", "a", encoding="utf-8") as file:
            file.write(f"{self.came} {self.command} {self.path.partition('?')[0]} {self.token()} "
                       f"{status} {'if' if known else '-'}\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_refs(self, body):
        """With a tag where there is to be one."""
        headers = [("Content-Type", ADVERT)]
        if (ROOT / "tags").exists():
            tag = f'"{hashlib.sha1(body).hexdigest()}"'
            headers.append(("ETag", tag))
            if self.headers.get("If-None-Match") == tag:
                self.answer(304, headers)
                return
        self.answer(200, headers, body)

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(ROOT),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment,
                              stdout=subprocess.PIPE, check=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return headers.get("Content-Type", "text/plain"), rest

    def refs(self, repository):
        """As git http-backend tells them. Who changes them while they are read is read again."""
        key = (self.path, self.headers.get("Git-Protocol"))
        look = look_at_refs(repository)
        known = adverts.get(key)
        if known and known[0] == look:
            return known[1]
        answer = self.backend(b"")
        adverts[key] = (look, answer)
        return answer

    def do_GET(self):
        self.came = time.monotonic_ns() // 1000000
        body = self.body()
        name, _, service = self.path.lstrip("/").partition(".git/")
        if self.token() not in tokens_of(name):
            self.answer(404)
        elif not (ROOT / f"{name}.git").is_dir():
            self.answer(404)
        else:
            is_refs = self.command == "GET" and service.startswith("info/refs")
            kind, answer = self.refs(ROOT / f"{name}.git") if is_refs else self.backend(body)
            if kind == ADVERT and not self.headers.get("Git-Protocol"):
                self.answer_refs(answer)
            else:
                self.answer(200, [("Content-Type", kind)], answer)

    do_POST = do_GET


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    server = Server(("127.0.0.1", 0), Handler)
    (ROOT / "port.new").write_text(str(server.server_port))
    (ROOT / "port.new").rename(ROOT / "port")
    server.serve_forever()


main()
