#!/usr/bin/env python3
"""Asks a primary what a secondary of an earlier version asked, and compares the answers.

usage: replay.py EXCHANGES SECRET-FILE URL NAME...

EXCHANGES has NAME.request and NAME.answer. Tokens of sites are signed anew, since they are
good for a minute. The status must be the recorded one. What is JSON may have got members,
but has all that it had; a NAME with "~" before it is of something that changed since, so
only the members' names are compared. With "+" its lines are all there, in their order. With
"=" before it, the body is the same, byte for byte.
"""
import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data"))
import ask_signed  # noqa: E402

CHANGING = ("last_event", "last_mark", "verified_at", "message", "remedy", "failure")
OURS = ("host", "authorization", "content-length", "connection", "accept-encoding")


def read(folder, name):
    """First line, headers, body."""
    with open(os.path.join(folder, name), "rb") as file:
        head, _, body = file.read().partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def claims_of(authorization):
    part = authorization.split()[1].split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def sign_again(secret, authorization, method, target, body):
    """Whatever it was a token for; what is no site's stays."""
    if not authorization.startswith("Bearer "):
        return authorization
    claims = claims_of(authorization)
    claims["iat"] = int(time.time())
    claims["exp"] = claims["iat"] + 60
    if "jti" in claims:
        claims["jti"] = os.urandom(16).hex()
        assert claims["req"] == f"{method} {target}", claims
    return "Bearer " + ask_signed.sign(secret, claims)


def objects(body):
    """The JSON objects of a body: one, or one a line, with bytes between them or not."""
    found = []
    while body:
        line, _, body = body.partition(b"\n")
        found.append(json.loads(line))
        if "size" in found[-1] and "id" not in found[-1] and "code" not in found[-1]:
            size = found[-1]["size"]
            found.append(body[:size])
            body = body[size:]
    return found


def has_all(old, new, what, where=""):
    """`what`: "values", or only "names"."""
    if isinstance(old, dict):
        for key, value in old.items():
            assert key in new, f"{where}.{key} is away"
            if key not in CHANGING:
                has_all(value, new[key], what, f"{where}.{key}")
    elif isinstance(old, list) and what == "values":
        assert len(new) >= len(old), f"{where}: {new}"
        for i, value in enumerate(old):
            has_all(value, new[i], what, f"{where}[{i}]")
    elif isinstance(old, list):
        names = {key for row in new for key in row}
        assert {key for row in old for key in row} <= names, f"{where}: {names}"
    else:
        assert what == "names" or old == new, f"{where}: {new}, not {old}"


def compare(name, how, old, new):
    if how == "=":
        assert old == new, f"{name}: {new}, not {old}"
    elif how == "+":  # lines may have come between, which an older site passes by
        lines = iter(new.split(b"\n"))
        assert all(line in lines for line in old.split(b"\n")), f"{name}: {new}, not {old}"
    elif how == "~":
        old, new = ([row for row in objects(body) if isinstance(row, dict)]
                    for body in (old, new))
        has_all(old, new, "names", name)
        has_all(old[0], new[0], "names", name)
    elif how == "":
        has_all(objects(old), objects(new), "values", name)


def replay(folder, secret, url, word):
    how = word[0] if word[0] in "=~+-" else ""
    name = word[len(how):]
    first, headers, body = read(folder, name + ".request")
    method, target = first.split()[:2]
    wanted, _, answer = read(folder, name + ".answer")
    headers = {key: sign_again(secret, value, method, target, body)
               if key == "Authorization" else value
               for key, value in headers.items()
               if key.lower() not in OURS or key == "Authorization"}
    status, _, got = ask_signed.send(url, method, target, body, headers)
    assert str(status) == wanted.split()[1], f"{name}: {status}, not {wanted}: {got}"
    compare(name, how, answer, got)
    print("the same:", name)


def main():
    folder, secret_file, url, *names = sys.argv[1:]
    with open(secret_file, "rb") as file:
        secret = file.read().rstrip()
    for name in names:
        replay(folder, secret, url, name)


main()
