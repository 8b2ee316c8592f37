"""A TCP proxy inside of the test: connections are cut, delayed, or swallowed one way."""
import os
import select
import socket
import threading
import time

PASS, REFUSE, DEAF, MUTE, BLACK_HOLE, SLOW = "pass", "refuse", "deaf", "mute", "black_hole", "slow"
PIECE = 65536


def take_ports():
    """A hundred that no site test gets, either, while we run, as take_ports() of
    lib/site_help.c does it. Below those that the kernel gives to connections, so that a node
    gets its own again."""
    lock = socket.socket(socket.AF_UNIX)
    for i in range(200):
        number = (os.getpid() + i) % 200
        try:
            lock.bind(f"\0refrelay-ports-{number}")
            return lock, iter(range(12000 + number * 100, 12100 + number * 100))
        except OSError:
            pass
    raise SystemExit("Bail out! All ports are taken.")


LOCK, PORTS = take_ports()


def free_port():
    for port in PORTS:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise RuntimeError("a hundred ports are not enough")


class Proxy:
    """deaf: what the client says is swallowed; mute: what the server says."""

    def __init__(self, port, target):
        self.target, self.rule = target, PASS
        self.listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = port
        self.pairs = set()
        self.mutex = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def set(self, rule):
        self.rule = rule
        if rule == REFUSE:
            self.cut()

    def cut(self):
        with self.mutex:
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            close(pair)

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.rule == REFUSE:
                client.close()
            else:
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            client.close()
            return
        pair = (client, server)
        with self.mutex:
            self.pairs.add(pair)
        try:
            self.relay(client, server)
        except (OSError, ValueError):
            pass
        with self.mutex:
            self.pairs.discard(pair)
        close(pair)

    def relay(self, client, server):
        while True:
            ready, _, _ = select.select((client, server), (), (), 1)
            for end in ready:
                data = end.recv(PIECE)
                if not data:
                    return
                if self.rule == SLOW:
                    time.sleep(0.3)
                if self.is_swallowed(end is client):
                    continue
                (server if end is client else client).sendall(data)

    def is_swallowed(self, is_by_client):
        return self.rule == BLACK_HOLE or self.rule == (DEAF if is_by_client else MUTE)


def close(pair):
    for end in pair:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
