#!/usr/bin/env python3
"""Requests that are not whole, for the site tests: halves.py PORT COUNT

COUNT connections of each kind are opened and left as they are: with nothing sent, with an answer
taken, with half of a head, with a head without all of its body, in chunks or not, with half of an
upload, with a request of too many parts. "ready" is printed then; they are held until it is killed.
"""
import signal
import socket
import sys

GET = b'GET /r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: h\r\n'
POST = (b'POST /r.git/git-upload-pack HTTP/1.1\r\nHost: h\r\n'
        b'Content-Type: application/x-git-upload-pack-request\r\n')
PUSH = (b'POST /r.git/git-receive-pack HTTP/1.1\r\nHost: h\r\n'
        b'Content-Type: application/x-git-receive-pack-request\r\n')
KINDS = [
    b'',
    GET + b'\r\n',
    GET[:-20],
    GET + b'X: y',
    POST + b'Content-Length: 1000\r\n\r\n0032want',
    POST + b'Transfer-Encoding: chunked\r\n\r\n100\r\n0032want',
    POST + b'Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n',
    PUSH + b'Transfer-Encoding: chunked\r\n\r\n4\r\n0000\r\n',
    b'GET /?' + b'&' * 100,
    GET + b'\r\n' + GET,
]


def main():
    held = []
    for _ in range(int(sys.argv[2])):
        for kind in KINDS:
            sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
            sock.sendall(kind)
            held.append(sock)
    print('ready', flush=True)
    signal.pause()


if __name__ == '__main__':
    main()
