#!/usr/bin/env python3
"""A Gerrit server's REST interface, as far as projects are made, deleted and given
another HEAD.

usage: gerrit.py DIRECTORY      DIRECTORY/port (a pipe may stand there) gets the port.
DIRECTORY/asked gets a line a request: method, target, user:password, body. A project
exists if DIRECTORY/projects/ has a file of its percent-encoded name, in which HEAD stands.
If there is DIRECTORY/git, a project that is made gets a repository in it.
DIRECTORY/mode, if it is there, says how to answer instead: a status, "redirect", "stall",
or "no-delete": there is no plugin that deletes.
"""

import base64
import json
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[1])
USER = "admin:s3cret"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, text="", *headers):
        body = text.encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def credentials(self):
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(value).decode() if scheme == "Basic" else "-"

    def mode(self):
        path = ROOT / "mode"
        return path.read_text().strip() if path.exists() else ""

    def act_as_told(self, mode):
        if mode == "redirect":
            self.answer(302, "", ("Location", "http://127.0.0.1:1/elsewhere"))
        elif mode == "stall":
            threading.Event().wait(60)
        else:
            self.answer(int(mode), "as told\nmore\n")

    def act(self, body):
        parts = self.path.removeprefix("/prefix").split("/")
        if parts[:3] != ["", "a", "projects"] or len(parts) not in (4, 5):
            return self.answer(400, "not a project\n")
        project = ROOT / "projects" / parts[3]
        if self.command == "PUT" and len(parts) == 4:
            return self.create(project, body)
        if not project.exists():
            return self.answer(404, "Not found\n")
        if self.command == "PUT" and parts[4] == "HEAD":
            project.write_text(json.loads(body)["ref"])
            return self.answer(200, json.loads(body)["ref"])
        if self.command == "DELETE" and self.mode() == "no-delete":
            return self.answer(404, "Not found\n")
        if self.command == "DELETE":
            project.unlink()
            return self.answer(204)
        return self.answer(200, "{}")

    def create(self, project, body):
        if project.exists():
            return self.answer(409, "Project already exists\n")
        head = json.loads(body).get("branches", ["refs/heads/master"])[0]
        project.write_text(head)
        if (ROOT / "git").is_dir():
            path = ROOT / "git" / (urllib.parse.unquote(project.name) + ".git")
            branch = head.removeprefix("refs/heads/")
            subprocess.run(["git", "init", "-q", "--bare", "-b", branch, path], check=True)
            subprocess.run(["git", "-C", path, "config", "http.receivepack", "true"],
                           check=True)
        return self.answer(201, ")]}'\n{}\n")

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with open(ROOT / "asked", "a") as file:
            file.write(f"{self.command} {self.path} {self.credentials()} {body}\n")
        mode = self.mode()
        if mode not in ("", "no-delete"):
            return self.act_as_told(mode)
        if self.credentials() != USER:
            return self.answer(401, "Unauthorized")
        return self.act(body)

    do_GET = do_PUT = do_DELETE = do_POST = serve


(ROOT / "projects").mkdir(exist_ok=True)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
with open(ROOT / "port", "w") as file:
    file.write(f"{server.server_address[1]}\n")
server.serve_forever()
