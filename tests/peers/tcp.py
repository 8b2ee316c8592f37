#!/usr/bin/env python3
"""A TCP proxy that does what bad networks do, whatever is spoken through it.

usage: tcp.py DIRECTORY UPSTREAM-PORT PORT

It listens on PORT of loopback, which it writes to DIRECTORY/port then. DIRECTORY/rule
is one line, read anew all the time:

    pass            everything (also when it is empty)
    refuse          the listening socket and all connections are closed
    stall BYTES     after so many bytes of the client's nothing is read or sent any more, on
                    either side; the connection stays until the rule is another one
    slow BYTES      at most so many of the client's bytes are passed on a second

DIRECTORY/log gets a line "open" for each connection, and "stalled" for one that stalls.
"""
import os
import socket
import sys
import threading
import time

FOLDER, UPSTREAM, PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LOOK = 0.05
BUFFER = 16384
mutex = threading.Lock()
sockets = set()


def rule():
    try:
        with open(os.path.join(FOLDER, "rule"), encoding="utf-8") as file:
            words = file.read().split()
    except FileNotFoundError:
        words = []
    word = words[0] if words else "pass"
    return word, int(words[1]) if len(words) > 1 else 0


def note(text):
    with mutex, open(os.path.join(FOLDER, "log"), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def sever(*ends):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def hang(held):
    note("stalled")
    while rule() == held:
        time.sleep(LOOK)


def pass_up(client, upstream):
    """What the client says; the rules are about it."""
    passed = 0
    while True:
        held = rule()
        if held[0] == "stall" and passed >= held[1]:
            hang(held)
            return sever(client, upstream)
        data = client.recv(BUFFER if held[0] != "slow" else min(BUFFER, held[1] // 10))
        if not data:
            return upstream.shutdown(socket.SHUT_WR)
        if rule() != held and rule()[0] == "stall":
            continue  # it came after the rule, and goes nowhere
        upstream.sendall(data)
        passed += len(data)
        if held[0] == "slow":
            time.sleep(len(data) / held[1])


def pass_down(client, upstream):
    while True:
        data = upstream.recv(BUFFER)
        if not data:
            return client.shutdown(socket.SHUT_WR)
        client.sendall(data)


def pump(way, client, upstream):
    try:
        way(client, upstream)
    except OSError:
        sever(client, upstream)


def serve(client):
    note("open")
    # Little is on its way at once, so that what is slow is seen to be.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    try:
        upstream = socket.create_connection(("127.0.0.1", UPSTREAM))
    except OSError:
        client.close()
        return
    sockets.update((client, upstream))
    ways = [threading.Thread(target=pump, args=(way, client, upstream), daemon=True)
            for way in (pass_up, pass_down)]
    for way in ways:
        way.start()
    for way in ways:
        way.join()
    sockets.difference_update((client, upstream))
    client.close()
    upstream.close()


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    listener.settimeout(LOOK)
    return listener


def main():
    listener = listen(PORT)
    with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as file:
        file.write(str(PORT))
    os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
    while True:
        if rule()[0] == "refuse":
            if listener:
                listener.close()
                listener = None
            sever(*list(sockets))
            open(os.path.join(FOLDER, "refuses"), "w", encoding="utf-8").close()
            time.sleep(LOOK)
            continue
        listener = listener or listen(PORT)
        try:
            client, _ = listener.accept()
        except socket.timeout:
            continue
        client.settimeout(None)
        threading.Thread(target=serve, args=(client,), daemon=True).start()


main()
