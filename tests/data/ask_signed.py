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


def sign(secret, claims):
    text = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps(claims).encode())
    return (text + b"." + encode(hmac.new(secret, text, hashlib.sha256).digest())).decode()


def token(secret, site, method, target, body):
    now = int(time.time())
    return sign(secret, {"iss": site, "iat": now, "exp": now + 60, "jti": os.urandom(16).hex(),
                         "req": f"{method} {target}",
                         "body": hashlib.sha256(body).hexdigest()})


def send(url, method, target, body, headers):
    """Status, headers, body."""
    request = urllib.request.Request(url + target, data=body or None, method=method,
                                     headers=headers)
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
    headers["Authorization"] = "Bearer " + token(secret, site, method, target, body)
    print(send(url, method, target, body, headers)[2].decode(errors="replace"))


if __name__ == "__main__":
    main()
