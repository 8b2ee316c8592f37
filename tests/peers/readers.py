#!/usr/bin/env python3
"""Slow readers, for the site tests: many connections that ask the same and take a little.

readers.py NAME COUNT FIRST URL [-H HEADER: VALUE]... [--post FILE] [--leave]

Each reads FIRST bytes of its answer's body; then the file NAME.held is made. When there
is a file NAME.go the rest is read, one answer after the other, and for each kind of
answer a line is printed: how many, status, length, SHA-1, whole or cut. With --leave
the connections are reset instead.
"""
import argparse
import collections
import hashlib
import http.client
import os
import socket
import struct
import time
import urllib.parse


def connect(host, port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect((host, port))
    return sock


def request(args, url):
    body = open(args.post, 'rb').read() if args.post else b''
    lines = ['%s %s HTTP/1.1' % ('POST' if args.post else 'GET',
                                 url.path + ('?' + url.query if url.query else '')),
             'Host: ' + url.netloc, 'Connection: close']
    lines += args.header
    if args.post:
        lines += ['Content-Type: application/x-git-upload-pack-request',
                  'Content-Length: %d' % len(body)]
    return '\r\n'.join(lines).encode() + b'\r\n\r\n' + body


def rest(sock, answer, first, end):
    digest, size = hashlib.sha1(first), len(first)
    try:
        while end == 'whole':
            data = answer.read(65536)
            if not data:
                break
            digest.update(data)
            size += len(data)
        if answer.length:
            end = 'cut'
    except (http.client.IncompleteRead, ConnectionError, OSError):
        end = 'cut'
    sock.close()
    return answer.status, size, digest.hexdigest(), end


def leave(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    sock.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('name')
    parser.add_argument('count', type=int)
    parser.add_argument('first', type=int)
    parser.add_argument('url')
    parser.add_argument('-H', dest='header', action='append', default=[])
    parser.add_argument('--post')
    parser.add_argument('--leave', action='store_true')
    args = parser.parse_args()
    url = urllib.parse.urlsplit(args.url)
    sent = request(args, url)
    socks, taken = [], []
    for _ in range(args.count):
        sock = connect(url.hostname, url.port)
        sock.sendall(sent)
        socks.append(sock)
    for sock in socks:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        end = 'whole'
        try:
            first = answer.read(args.first) if args.first else b''
        except http.client.IncompleteRead as broken:
            first, end = broken.partial, 'cut'
        taken.append((sock, answer, first, end))
    open(args.name + '.held', 'w').close()
    if args.leave:
        for sock, answer, _, _ in taken:
            answer.fp.detach() if hasattr(answer.fp, 'detach') else None
            leave(sock)
        return
    while not os.path.exists(args.name + '.go'):
        time.sleep(0.05)
    kinds = collections.Counter(rest(*each) for each in taken)
    for kind, count in sorted(kinds.items()):
        print(count, *kind)


main()
