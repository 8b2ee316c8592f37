#!/usr/bin/env python3
"""A Git server for tests of pulls and pushes by HTTP that can be told to fail.

usage: git_server.py ROOT       serves ROOT/*.git; ROOT/mode says how, ROOT/port (a pipe)
                                gets the port; see below for what it writes down;
                                ROOT/server.pem: by TLS, with this certificate and key

ROOT/meanwhile                  a script that runs, once, before what a push may change is
                                listed

A mode may begin with "ours", then git itself is served well, and with "GET" or "POST",
then the other requests are.
"""

import base64
import os
import ssl
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[1])


def note(name, text):
    with open(ROOT / name, "a") as file:
        file.write(text)


def secrets_of(header):
    """The token, and what is inside if it is a password."""
    scheme, _, token = header.partition(" ")
    yield token
    if scheme == "Basic":
        yield base64.b64decode(token).decode().partition(":")[2]


def look_for(secrets):
    """Notes what git processes run, and who shows a secret."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in "cmdline", "environ":
            try:
                text = (process / name).read_bytes().decode(errors="replace")
            except OSError:
                continue
            if name == "cmdline" and "git" in text:
                note("looked", text.replace("\0", " ") + "\n")
            if any(secret in text for secret in secrets):
                note("seen", f"{process}/{name}\n")


def packet(text):
    return b"%04x" % (len(text) + 4) + text


def report(*lines):
    """Of a push, in the band for it."""
    text = b"".join(map(packet, lines)) + b"0000"
    return packet(b"\1" + text) + b"0000"


# What is said of a push that was not done.
REPORTS = {
    "refused": report(b"unpack ok\n", b"ng refs/heads/main no\n"),
    "unpacked": report(b"unpack disk full\n", b"ok refs/heads/main\n"),
    "others": report(b"unpack ok\n", b"ok refs/heads/main\n", b"ok refs/heads/other\n"),
    "twice": report(b"unpack ok\n", b"ok refs/heads/main\n", b"ng refs/heads/main no\n"),
    "silent": report(b"unpack ok\n"),
    "endless": report(b"unpack ok\n", b"ok refs/heads/main\n")[:-8] + b"0000",
    "error": packet(b"\3it broke") + report(b"unpack ok\n", b"ok refs/heads/main\n"),
    "bare": packet(b"unpack ok\n") + packet(b"ok refs/heads/main\n") + b"0000",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def backend(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(ROOT),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "uploadpack.allowAnySHA1InWant",
            "GIT_CONFIG_VALUE_0": "true",
            "REMOTE_USER": "u",
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
        return done.stdout.partition(b"\r\n\r\n")[2]

    def answer(self, status, body=b"", length=None):
        kind = "advertisement" if self.command == "GET" else "result"
        service = "receive" if "receive-pack" in self.path else "upload"
        self.send_response(status)
        self.send_header("Content-Type", f"application/x-git-{service}-pack-{kind}")
        self.send_header("Content-Length", str(length or len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/r.git")
        self.end_headers()
        self.wfile.write(body)

    def answer_slowly(self, sections, pack):
        """Says for three seconds no more than that it lives, as upload-pack does."""
        alive = b"0005\1"
        self.answer(200, sections + b"packfile\n",
                    len(sections) + len(b"packfile\n") + 6 * len(alive) + len(pack))
        for _ in range(6):
            time.sleep(0.5)
            self.wfile.write(alive)
            self.wfile.flush()
        self.wfile.write(pack)

    def mode(self):
        mode = (ROOT / "mode").read_text()
        first, _, rest = mode.partition(" ")
        if first == "ours":
            mode = rest if self.headers.get("User-Agent") == "git/refrelay" else ""
        first, _, rest = mode.partition(" ")
        self.is_meant = first == self.command
        if first in ("GET", "POST"):
            mode = rest if self.is_meant else ""
        return mode

    def do_GET(self):
        mode = self.mode()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        header = str(self.headers.get("Authorization"))
        note("asked", f"{self.command} {header}\n")
        note("seen", "")
        if header != "None":
            look_for(list(secrets_of(header)))
        if mode.isdigit():
            self.answer(int(mode))
            return
        self.close_connection = mode != ""
        if mode == "nothing":
            return
        if mode in REPORTS:
            self.answer(200, REPORTS[mode])
            return
        if (ROOT / "meanwhile").exists() and "service=git-receive-pack" in self.path:
            subprocess.run(["sh", "-e", ROOT / "meanwhile"], check=True)
            (ROOT / "meanwhile").unlink()
        body = self.backend(body)
        if mode == "failed":
            self.answer(500, body)
            return
        if mode == "page":
            body = b"<html>Welcome"
        if self.command == "POST" or self.is_meant:
            length = len(body)
            if mode in ("cut", "short", "stall"):
                body = body[:length // 2]
            if mode == "empty":
                body = b""
            if mode == "garbage":
                body = b"<html>Welcome"
            if mode == "slow" and b"packfile\n" in body:
                self.answer_slowly(*body.split(b"packfile\n", 1))
                return
            self.answer(200, body, length if mode in ("cut", "stall") else None)
            if mode == "stall":
                note("stalled", "")
                time.sleep(60)
            return
        self.answer(200, body)

    do_POST = do_GET


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if (ROOT / "server.pem").exists():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ROOT / "server.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    (ROOT / "port").write_text(str(server.server_port))
    server.serve_forever()


main()
