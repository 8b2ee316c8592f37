#!/usr/bin/env python3
"""Asks a primary as a secondary does, with a token as docs/protocol.md has it.

usage: ask_signed.py SECRET-FILE SITE URL METHOD TARGET [BODY [HEADER...]]

Prints the answer's body; the exit status is 0 whatever the answer is.
"""
import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(secret, site, method, target, body):
    now = int(time.time())
    claims = {"iss": site, "iat": now, "exp": now + 60, "jti": os.urandom(16).hex(),
              "req": f"{method} {target}", "body": hashlib.sha256(body).hexdigest()}
    text = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps(claims).encode())
    return (text + b"." + encode(hmac.new(secret, text, hashlib.sha256).digest())).decode()


def ask(secret, site, url, method, target, body=b"", headers=None):
    """Status, headers, body."""
    request = urllib.request.Request(url + target, data=body or None, method=method)
    request.add_header("Authorization", "Bearer " + token(secret, site, method, target, body))
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def main():
    secret_file, site, url, method, target = sys.argv[1:6]
    with open(secret_file, "rb") as file:
        secret = file.read().rstrip()
    body = sys.argv[6].encode() if len(sys.argv) > 6 else b""
    headers = dict(header.split(": ", 1) for header in sys.argv[7:])
    print(ask(secret, site, url, method, target, body, headers)[2].decode(errors="replace"))


if __name__ == "__main__":
    main()
