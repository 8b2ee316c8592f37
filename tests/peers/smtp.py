#!/usr/bin/env python3
"""A mail server for one test.

usage: smtp.py DIRECTORY [CERTIFICATE KEY USER PASSWORD]

DIRECTORY/port gets the port; each mail that was taken becomes DIRECTORY/mail.N, its
envelope DIRECTORY/envelope.N. With a certificate it offers STARTTLS, and takes mails only
behind it and from that user. While DIRECTORY/refuse is there, its text is the answer to
each recipient.
"""

import base64
import socketserver
import ssl
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
SECURE = sys.argv[2:]


class Handler(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def hear(self):
        return self.rfile.readline().decode().rstrip("\r\n")

    def start_tls(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(SECURE[0], SECURE[1])
        self.say("220 go on")
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", 0)

    def greet(self, is_secure):
        words = ["test"]
        if SECURE:
            words.append("AUTH PLAIN" if is_secure else "STARTTLS")
        for word in words[:-1]:
            self.say(f"250-{word}")
        self.say(f"250 {words[-1]}")

    def keep(self, envelope):
        self.say("354 go on")
        lines = []
        while (line := self.hear()) != ".":
            lines.append(line[1:] if line.startswith("..") else line)
        number = len(list(ROOT.glob("mail.*"))) + 1
        (ROOT / f"envelope.{number}").write_text("\n".join(envelope) + "\n")
        (ROOT / "new").write_text("\n".join(lines) + "\n")
        (ROOT / "new").rename(ROOT / f"mail.{number}")
        self.say("250 kept")

    def handle(self):
        is_secure = is_known = not SECURE
        envelope = []
        self.say("220 test")
        while line := self.hear():
            word = line.upper().split(" ")[0].split(":")[0]
            if word == "EHLO":
                self.greet(is_secure)
            elif word == "STARTTLS" and SECURE:
                self.start_tls()
                is_secure = True
            elif word == "AUTH":
                text = line.split(" ")[2] if line.count(" ") > 1 else ""
                if not text:
                    self.say("334 ")
                    text = self.hear()
                said = base64.b64decode(text).decode().split("\0")[1:]
                is_known = is_secure and said == SECURE[2:]
                self.say("235 welcome" if is_known else "535 wrong")
            elif word in ("MAIL", "RCPT"):
                refusal = ROOT / "refuse"
                if not (is_secure and is_known):
                    self.say("530 not so")
                elif word == "RCPT" and refusal.exists():
                    self.say(refusal.read_text().strip())
                else:
                    envelope.append(line)
                    self.say("250 fine")
            elif word == "DATA":
                self.keep(envelope)
                envelope = []
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 fine")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


server = Server(("127.0.0.1", 0), Handler)
(ROOT / "port.new").write_text(f"{server.server_address[1]}\n")
(ROOT / "port.new").rename(ROOT / "port")
server.serve_forever()
