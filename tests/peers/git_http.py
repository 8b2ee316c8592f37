#!/usr/bin/env python3
"""Smart HTTP with passwords, on git http-backend.

usage: git_http.py ROOT     serves ROOT/*.git to who has ROOT/login (user:password, one
                            line; read for each request); ROOT/port gets the port, and
                            ROOT/asked a line for each request: method, path, status.
                            With ROOT/hides, what is not there is forbidden, as a Gerrit
                            has it; with ROOT/whole, it knows no shallow clients
"""

import base64
import hmac
import os
import subprocess
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def is_allowed(self):
        login = (ROOT / "login").read_bytes().strip()
        wanted = b"Basic " + base64.b64encode(login)
        return hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, headers, body=b""):
        with open(ROOT / "asked", "a") as file:
            file.write(f"{self.command} {self.path} {status}\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(ROOT),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "pusher",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": urllib.parse.unquote(path),
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment,
                              stdout=subprocess.PIPE, check=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = [value for name, value in headers if name == "Status"]
        if (ROOT / "whole").exists() and self.command == "GET":
            rest = rest.replace(b"fetch=shallow", b"fetch=nothing")
        kept = [pair for pair in headers if pair[0] != "Status"]
        return int(status[0].split()[0]) if status else 200, kept, rest

    def is_there(self):
        name, _, _ = urllib.parse.unquote(self.path).partition(".git/")
        return (ROOT / (name.lstrip("/") + ".git")).is_dir()

    def do_GET(self):
        body = self.body()
        if self.is_allowed() and (ROOT / "hides").exists() and not self.is_there():
            self.answer(403, [])
        elif self.is_allowed():
            self.answer(*self.backend(body))
        else:
            self.answer(401, [("WWW-Authenticate", 'Basic realm="git"')])

    do_POST = do_GET


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    (ROOT / "port.new").write_text(str(server.server_port))
    (ROOT / "port.new").rename(ROOT / "port")
    server.serve_forever()


main()
