#!/usr/bin/env python3
"""Clients that hold a place and take, or send, next to nothing, for the site tests:
slow.py fetch|push PORT PATH COUNT SOURCE OID [TOKEN]

COUNT connections from the address SOURCE ask for a pack of OID and read 700 bytes of it each
second, or begin a push of it and send a byte each second. A line is printed for each that is let
in ("in") or sent away ("away STATUS"), and one for each whose connection the server ends ("cut").
It goes on until it is killed.
"""
import base64
import select
import socket
import sys
import time


def pkt(text):
    return b'%04x%s' % (len(text) + 4, text)


def fetch(path, oid, _):
    body = pkt(b'want %s side-band-64k ofs-delta\n' % oid) + b'0000' + pkt(b'done\n')
    return (b'POST %s/git-upload-pack HTTP/1.1\r\nHost: h\r\n'
            b'Content-Type: application/x-git-upload-pack-request\r\n'
            b'Content-Length: %d\r\n\r\n%s' % (path, len(body), body))


def push(path, oid, token):
    login = base64.b64encode(b'x:' + token)
    begin = pkt(b'%s %s refs/heads/slow\0report-status\n' % (b'0' * 40, oid)) + b'0000PACK'
    return (b'POST %s/git-receive-pack HTTP/1.1\r\nHost: h\r\nAuthorization: Basic %s\r\n'
            b'Content-Type: application/x-git-receive-pack-request\r\n'
            b'Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n' % (path, login, len(begin), begin))


class Slow:
    def __init__(self, port, source, request, sends):
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.bind((source, 0))
        self.sock.connect(('127.0.0.1', port))
        self.sock.sendall(request)
        self.sends, self.is_told = sends, False

    def tell(self, text):
        print(text, flush=True)
        self.is_told = True

    def go_on(self):
        """A little of it; False: it is over."""
        try:
            if self.sends:
                self.sock.sendall(b'1\r\nx\r\n')
                if not select.select([self.sock], [], [], 0)[0]:
                    return True
            data = self.sock.recv(700)
        except BlockingIOError:
            return True
        except OSError:
            data = b''
        if not self.is_told and data:
            status = int(data.split(b' ')[1])
            self.tell('in' if status == 200 else 'away %d' % status)
            return status == 200
        if not data:
            self.tell('cut')
        return bool(data)


def main():
    kind, port, path, count, source = sys.argv[1:6]
    make = {'fetch': fetch, 'push': push}[kind]
    request = make(path.encode(), sys.argv[6].encode(),
                   sys.argv[7].encode() if len(sys.argv) > 7 else b'')
    held = [Slow(int(port), source, request, kind == 'push') for _ in range(int(count))]
    print('asked', flush=True)
    for each in held:
        each.sock.setblocking(False)
    while True:
        held = [each for each in held if each.go_on()]
        time.sleep(1)


if __name__ == '__main__':
    main()
