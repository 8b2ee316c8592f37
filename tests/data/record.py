#!/usr/bin/env python3
"""Passes HTTP requests on, one a connection, and writes down what was said.

usage: record.py DIRECTORY UPSTREAM-PORT

Listens on a free port of loopback, which it writes to DIRECTORY/port. The N-th request is
DIRECTORY/N.request and its answer DIRECTORY/N.answer: heads as they came, bodies without
the frames of chunks. What DIRECTORY/missing names, a target a line, is answered with 404.
"""
import itertools
import os
import socket
import sys
import threading

FOLDER, UPSTREAM = sys.argv[1], int(sys.argv[2])
numbers = itertools.count(1)


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return None, b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def header_of(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def changed_head(head, drop, add):
    lines = [line for line in head[:-4].split(b"\r\n")
             if line.partition(b":")[0].strip().lower() not in drop]
    return b"\r\n".join(lines + add) + b"\r\n\r\n"


def unchunk(body):
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        size = int(size.split(b";")[0] or b"0", 16)
        if size == 0:
            break
        whole += body[:size]
        body = body[size + 2:]
    return whole


def read_request(client):
    head, body = read_head(client)
    if head is None:
        return None, None
    if (header_of(head, b"expect") or b"").lower() == b"100-continue":
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if header_of(head, b"transfer-encoding"):
        while not body.endswith(b"0\r\n\r\n"):
            body += client.recv(65536)
        body = unchunk(body)
    else:
        while len(body) < int(header_of(head, b"content-length") or 0):
            body += client.recv(65536)
    return head, body


def is_missing(head):
    try:
        with open(os.path.join(FOLDER, "missing"), "rb") as file:
            return head.split()[1] in file.read().split()
    except FileNotFoundError:
        return False


def ask(head, body):
    if is_missing(head):
        return (b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n",
                b'{"code":"REPOSITORY_NOT_FOUND","message":"not here","remedy":"none"}')
    whole = changed_head(
        head, {b"connection", b"transfer-encoding", b"content-length", b"expect"},
        [b"Connection: close"] +
        ([] if head.startswith(b"GET ") else [b"Content-Length: %d" % len(body)])) + body
    with socket.create_connection(("127.0.0.1", UPSTREAM)) as upstream:
        upstream.sendall(whole)
        answer_head, answer = read_head(upstream)
        while answer_head is not None:
            more = upstream.recv(65536)
            if not more:
                break
            answer += more
    if answer_head is not None and header_of(answer_head, b"transfer-encoding"):
        answer = unchunk(answer)
    return answer_head, answer


def write(number, kind, data):
    path = os.path.join(FOLDER, f"{number:05}.{kind}")
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def serve(client):
    with client:
        head, body = read_request(client)
        if head is None:
            return
        answer_head, answer = ask(head, body)
        if answer_head is None:
            return
        number = next(numbers)
        write(number, "request", head + body)
        write(number, "answer", answer_head + answer)
        client.sendall(changed_head(
            answer_head, {b"connection", b"transfer-encoding", b"content-length"},
            [b"Connection: close"] +
            ([] if answer_head.split()[1] in (b"204", b"304")
             else [b"Content-Length: %d" % len(answer)])) + answer)


def serve_quietly(client):
    try:
        serve(client)
    except OSError:
        pass


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    path = os.path.join(FOLDER, "port")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(listener.getsockname()[1]))
    os.rename(path + ".new", path)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve_quietly, args=(client,), daemon=True).start()


main()
