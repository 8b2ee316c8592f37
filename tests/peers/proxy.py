#!/usr/bin/env python3
"""A proxy between two sites that does what networks and bad servers do.

usage: proxy.py DIRECTORY UPSTREAM-PORT PORT

It listens on PORT of loopback, which it writes to DIRECTORY/port then, and passes each
request on to the upstream. DIRECTORY/rules says what else happens; it is read anew for
each request, and again when the answer to one that may pass begins: so rules hold at
once, also for one that waits for events. A line is

    PATTERN ACTION [ARGUMENT]

PATTERN is a regular expression that is searched for in "METHOD TARGET" (no blanks: write
`GET./x`); the first line that fits decides. Actions:

    pass            as it is (also when no line fits)
    drop            the connection is closed without an answer
    reset           the same, with a reset
    hang            nothing comes, for as long as the rules are the same; the upstream is
                    not asked
    stall [BYTES]   after so many bytes of the answer (0) nothing comes, for as long as the
                    rules are the same; then the connection is closed
    slow SECONDS    the answer begins so much later, or when there are other rules
    cut BYTES       the answer ends after so many bytes of its body
    abort BYTES     the same, with a reset when these have arrived
    endless         the answer's body has no end: what comes after it is made up
    flip BYTE       this byte of the body has its lowest bit turned; negative: from the end
    garble BYTE     the same, of the body as it is framed on its way, in chunks or not
    status CODE     an answer of our own, in JSON that is none of refrelay's
    instead CODE    the same in place of the upstream's answer, which has come
    redirect URL    302
    garbage         an answer that is no HTTP
    junk            200 with a body that makes no sense
    empty           200 without a body
    answer FILE     200 with the body in this file
    filter COMMAND  the body goes through this command of the shell
    header NAME: V  the answer's header is set to this

A rules file of the one word `refuse` closes the listening socket and all connections,
until there are other rules.

DIRECTORY/log has a line when a request begins (`+ METHOD TARGET`), and one when it has
ended (`- METHOD TARGET`). DIRECTORY/sent has a line `BYTES METHOD TARGET` for each that
has ended: how much of the upstream's answer, its head included, was passed on.
DIRECTORY/last is the newest request's head, as it came.
"""
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

FOLDER, UPSTREAM, PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LOOK = 0.05
mutex = threading.Lock()
clients = set()
passed = threading.local()


def rules_text():
    try:
        with open(os.path.join(FOLDER, "rules"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def find_rule(request_line):
    for line in rules_text().splitlines():
        pattern, _, action = line.partition(" ")
        if action and re.search(pattern, request_line):
            word, _, argument = action.partition(" ")
            return word, argument
    return "pass", ""


def note(sign, request_line, log="log"):
    with mutex, open(os.path.join(FOLDER, log), "a", encoding="utf-8") as file:
        file.write(f"{sign} {request_line}\n")


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return data, b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def header_of(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def without_header(head, name):
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n")
             if line.partition(b":")[0].strip().lower() != name.lower()]
    return b"\r\n".join(lines + [b"", b""])


def with_header(head, name, value):
    return without_header(head, name)[:-2] + name + b": " + value + b"\r\n\r\n"


def is_body_wanted(client, upstream, head):
    """Whom the client asks by Expect; a refusal is left to be read."""
    if header_of(head, b"expect") is None:
        return True
    start = b""
    while len(start) < 12:
        before, start = start, upstream.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL)
        if start == before:
            return False
    if not start.endswith(b" 100"):
        return False
    word = b""
    while not word.endswith(b"\r\n\r\n"):
        word += upstream.recv(1)
    client.sendall(word)
    return True


def pump_request(client, upstream, head, rest):
    """The body as it comes; chunked ones end with an empty chunk."""
    upstream.sendall(with_header(head, b"Connection", b"close") + rest)
    if not is_body_wanted(client, upstream, head):
        return
    is_chunked = header_of(head, b"transfer-encoding") is not None
    left = int(header_of(head, b"content-length") or 0) - len(rest)
    tail = rest[-5:]
    while left > 0 or (is_chunked and not tail.endswith(b"0\r\n\r\n")):
        more = client.recv(65536)
        if not more:
            return
        upstream.sendall(more)
        left -= len(more)
        tail = (tail + more)[-5:]


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


def whole_answer(upstream):
    head, body = read_head(upstream)
    while True:
        more = upstream.recv(65536)
        if not more:
            break
        body += more
    if header_of(head, b"transfer-encoding"):
        body = unchunk(body)
        head = without_header(head, b"Transfer-Encoding")
    return head, body


def send_whole(client, head, body):
    client.sendall(with_header(head, b"Content-Length", str(len(body)).encode()) + body)


def own_answer(client, status, body, headers=""):
    head = f"HTTP/1.1 {status} Proxy\r\nConnection: close\r\n{headers}\r\n"
    send_whole(client, head.encode(), body)


def do_reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def wait_for_arrival(client):
    while struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))[0] > 0:
        time.sleep(0.001)


def stall(client):
    """Until the rules change, or the client has enough of it."""
    text = rules_text()
    client.settimeout(LOOK)
    while rules_text() == text:
        try:
            if not client.recv(65536):
                return
        except socket.timeout:
            pass


def relay(client, upstream, limit=None):
    """The answer as it comes; with a limit, so much of it at most."""
    while limit is None or limit > 0:
        more = upstream.recv(65536 if limit is None else min(limit, 65536))
        if not more:
            return
        client.sendall(more)
        passed.bytes += len(more)
        limit = None if limit is None else limit - len(more)


def relay_cut(client, upstream, count):
    """The head says what would have come, so that the cut can be seen."""
    head, body = read_head(upstream)
    client.sendall(head + body[:count])
    passed.bytes += len(head + body[:count])
    relay(client, upstream, max(0, count - len(body)))


def relay_garbled(client, upstream, at):
    head, body = read_head(upstream)
    while len(body) <= at:
        body += upstream.recv(65536)
    client.sendall(head + flip(body, at))
    relay(client, upstream)


def relay_for_ever(client, upstream):
    head, body = whole_answer(upstream)
    client.sendall(without_header(head, b"Content-Length") + body)
    while True:
        client.sendall(bytes(65536))


def flip(body, at):
    data = bytearray(body)
    if data:
        data[max(at, -len(data)) if at < 0 else min(at, len(data) - 1)] ^= 1
    return bytes(data)


def change(client, upstream, action, argument):
    head, body = whole_answer(upstream)
    if action == "flip":
        body = flip(body, int(argument))
    elif action == "filter":
        body = subprocess.run(argument, shell=True, input=body, check=True,
                              stdout=subprocess.PIPE).stdout
    else:
        name, _, value = argument.partition(":")
        head = with_header(head, name.encode(), value.strip().encode())
    send_whole(client, head, body)


def answer_early(client, action, argument):
    """What needs no upstream. Says whether it was such an action."""
    if action == "drop":
        pass
    elif action == "reset":
        do_reset(client)
    elif action == "hang":
        stall(client)
    elif action == "status":
        own_answer(client, argument, json.dumps({"error": "no"}).encode())
    elif action == "redirect":
        own_answer(client, 302, b"", f"Location: {argument}\r\n")
    elif action == "garbage":
        client.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n" + bytes(range(256)))
    elif action == "junk":
        own_answer(client, 200, b"<html>Welcome to the hotel</html>\n")
    elif action == "empty":
        own_answer(client, 200, b"")
    elif action == "answer":
        with open(argument, "rb") as file:
            own_answer(client, 200, file.read())
    else:
        return False
    return True


def be_slow(line, seconds):
    end, rule = time.monotonic() + seconds, find_rule(line)
    while time.monotonic() < end and find_rule(line) == rule:
        time.sleep(LOOK)


def pass_on(client, line, head, rest):
    action, argument = find_rule(line)
    if answer_early(client, action, argument):
        return
    with socket.create_connection(("127.0.0.1", UPSTREAM)) as upstream:
        clients.add(upstream)
        try:
            pump_request(client, upstream, head, rest)
            if action == "pass":
                upstream.recv(1, socket.MSG_PEEK)
                action, argument = find_rule(line)
                if answer_early(client, action, argument):
                    return
            if action == "slow":
                be_slow(line, float(argument))
            if action == "stall":
                relay(client, upstream, int(argument or 0))
                stall(client)
            elif action in ("cut", "abort"):
                relay_cut(client, upstream, int(argument))
                if action == "abort":
                    wait_for_arrival(client)
                    do_reset(client)
            elif action == "garble":
                relay_garbled(client, upstream, int(argument))
            elif action == "endless":
                relay_for_ever(client, upstream)
            elif action == "instead":
                whole_answer(upstream)
                answer_early(client, "status", argument)
            elif action in ("flip", "filter", "header"):
                change(client, upstream, action, argument)
            else:
                relay(client, upstream)
        finally:
            clients.discard(upstream)


def serve(client):
    line = None
    passed.bytes = 0
    try:
        head, rest = read_head(client)
        if not head:
            return
        line = head.split(b"\r\n")[0].decode("latin-1").rpartition(" ")[0]
        note("+", line)  # first: what is the last request is in the log
        with mutex:
            last = os.path.join(FOLDER, "last")
            with open(last + ".new", "wb") as file:
                file.write(head)
            os.rename(last + ".new", last)
        pass_on(client, line, head, rest)
    except OSError:
        pass
    finally:
        clients.discard(client)
        if line:
            note(passed.bytes, line, "sent")
            note("-", line)
        client.close()


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    listener.settimeout(LOOK)
    return listener


def sever():
    for sock in list(clients):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    listener = listen(PORT)
    with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as file:
        file.write(str(PORT))
    os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
    while True:
        if rules_text().strip() == "refuse":
            if listener:
                listener.close()
                listener = None
            sever()
            time.sleep(LOOK)
            continue
        listener = listener or listen(PORT)
        try:
            client, _ = listener.accept()
        except socket.timeout:
            continue
        client.settimeout(None)
        clients.add(client)
        threading.Thread(target=serve, args=(client,), daemon=True).start()


main()
