#!/usr/bin/env python3
"""Many connections at once, for the site tests.

crowd.py drip COUNT PORT NAME	each sends a byte of its head every half second, until the
				file NAME.stop is there; when all are open, NAME.held is made;
				at the end says how many the server has closed
crowd.py ask COUNT PORT PATH NAME	all connect; then NAME.held is made, and when NAME.go
				is there all ask at once; prints how many got which answer
"""
import collections
import os
import socket
import sys
import time

import raw_http

HEAD = b'GET /r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n'


def touch(name):
    with open(name, 'w'):
        pass


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.02)


def is_closed(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) == b''
    except BlockingIOError:
        return False
    except OSError:
        return True


def drip(count, port, name):
    socks = [socket.create_connection(('127.0.0.1', port), 10) for _ in range(count)]
    sent = 0
    closed = set()
    while not os.path.exists(name + '.stop'):
        data = HEAD[sent:sent + 1] or b'X-%d: y\r\n'[sent % 9:sent % 9 + 1]
        for sock in socks:
            try:
                if sock not in closed:
                    sock.sendall(data)
            except OSError:
                closed.add(sock)
        sent += 1
        if sent == 2:
            touch(name + '.held')
        time.sleep(0.5)
    print(len(closed | {sock for sock in socks if is_closed(sock)}))


def read_one(connection):
    """The answer's status; closed: the connection was closed without any."""
    try:
        answer = connection.answer()
    except ConnectionError:
        return 'closed'
    except TimeoutError:
        return 'silent'
    except (EOFError, ValueError):
        return 'cut'
    return str(answer.status) if answer else 'closed'


def ask(count, port, path, name):
    request = ('GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' % path).encode()
    crowd = [raw_http.Connection(port, 60) for _ in range(count)]
    touch(name + '.held')
    wait_for(name + '.go')
    for connection in crowd:
        connection.send(request)
    counts = collections.Counter(read_one(connection) for connection in crowd)
    for kind, number in sorted(counts.items()):
        print(kind, number)


def main():
    what, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    {'drip': drip, 'ask': ask}[what](count, port, *sys.argv[4:])


if __name__ == '__main__':
    main()
