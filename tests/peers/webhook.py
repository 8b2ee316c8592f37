#!/usr/bin/env python3
"""Who is told by a webhook.

usage: webhook.py DIRECTORY SECRET    DIRECTORY/port gets the port, DIRECTORY/told a line
for each body that was taken: "good" or "bad", as its signature is, and the body. The last
one is in DIRECTORY/body, what was said to be its signature in DIRECTORY/signature. While
DIRECTORY/status is there, that status is the answer, and nothing is taken; with
DIRECTORY/rest as Retry-After. DIRECTORY/asked has a line for each request; a GET is a
heartbeat, and has one in DIRECTORY/beats.
"""

import hashlib
import hmac
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT, SECRET = Path(sys.argv[1]), sys.argv[2].encode()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        with open(ROOT / "beats", "a") as file:
            file.write(f"{self.path}\n")
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"OK")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 204
        if (ROOT / "status").exists():
            status = int((ROOT / "status").read_text())
        else:
            digest = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
            signed = self.headers.get("X-Refrelay-Signature", "")
            word = "good" if hmac.compare_digest(digest, signed) else "bad"
            # In this order: who finds the line finds what belongs to it.
            (ROOT / "body").write_bytes(body)
            (ROOT / "signature").write_text(f"{signed}\n")
            with open(ROOT / "told", "a") as file:
                file.write(f"{word} {body.decode().rstrip()}\n")
        with open(ROOT / "asked", "a") as file:
            file.write(f"{status}\n")
        self.send_response(status)
        if status >= 300 and (ROOT / "rest").exists():
            self.send_header("Retry-After", (ROOT / "rest").read_text().strip())
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
(ROOT / "port.new").write_text(f"{server.server_port}\n")
(ROOT / "port.new").rename(ROOT / "port")
server.serve_forever()
