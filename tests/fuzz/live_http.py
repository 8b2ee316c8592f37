#!/usr/bin/env python3
"""Broken requests to a live node, by a grammar and a seed.

usage: tests/fuzz/live_http.py [--seconds N] [--seed N] PORT PID [CA]

Sends batches of requests over sockets to 127.0.0.1:PORT, by TLS if CA names the node's certificate:
good ones, such with something wrong in each of their parts, and noise; whole, torn, one behind the
other, cut, and with clients that go away or do not read. After each batch
  - the node (process PID) must live, and answer an honest request as it did at first,
  - each answer must be one (a status from 100 to 599, and a body of the length that it says),
  - what is no request by the letter must not have been answered 200,
  - no request may be open any more (refrelay_http_requests_open),
  - its memory must not have grown beyond what the first batches needed, and it must have no more
    descriptors than then.
Prints the seed first, and the batch that failed; the same seed sends the same. Exit status 1: failed.
"""
import argparse
import os
import random
import select
import socket
import ssl
import sys
import time

PATH = b'/r.git/info/refs?service=git-upload-pack'
PATHS = [PATH, b'/healthz', b'/readyz', b'/metrics', b'/api/v1/status', b'/api/v1/blobs', b'/none',
         b'/r.git/git-upload-pack', b'/r.git/git-receive-pack', b'/r.git/info/lfs/objects/batch',
         b'/r.git/info/lfs/objects/' + b'0' * 64, b'/%00', b'/..%2f..%2fetc/passwd', b'*',
         b'http://x/healthz', b'//', b'/?', b'/r.git/info/refs']
METHODS = [b'GET', b'HEAD', b'POST', b'PUT', b'DELETE', b'OPTIONS', b'PATCH', b'get', b'X' * 15]
VERSIONS = [b'HTTP/1.1'] * 6 + [b'HTTP/1.0', b'HTTP/0.9', b'HTTP/2.0', b'HTTP/1.1 ', b'http/1.1', b'']
NAMES = [b'Host', b'Content-Length', b'Transfer-Encoding', b'Authorization', b'Cookie', b'Expect',
         b'Connection', b'Content-Encoding', b'Git-Protocol', b'Accept-Encoding', b'Range', b'Via',
         b'X-Forwarded-For', b'X-Forwarded-Proto', b'If-None-Match', b'Upgrade', b'Content-Type',
         b'Content-Digest', b'Content-Range', b'Refrelay-Bandwidth', b'X']
VALUES = [b'', b'0', b'4', b'-1', b'18446744073709551616', b'chunked', b'gzip', b'identity', b'x',
          b'100-continue', b'close', b'keep-alive', b'h', b'Bearer x', b'Basic eDp5', b'Basic !',
          b'version=2', b'bytes=0-', b'bytes=5-2,7-', b'"x"', b'*', b'a=b; c=d', b'127.0.0.1',
          b'application/x-git-upload-pack-request', b'application/vnd.git-lfs+json', b'4, 4',
          b'Bearer ' + b'a' * 3000, b'sha-256=:AAAA:', b'h2c', b';;;,,,===']
ENDS = [b'\r\n'] * 30 + [b'\n', b'\r', b'\r\r\n', b'\r\n ', b'\r\n\t', b'\0\r\n', b'']
COLONS = [b': '] * 20 + [b':', b' : ', b'\t:', b':\t', b'', b'::', b'\0:']
BODIES = [b'', b'abcd', b'0000', b'0014command=ls-refs\n0000', b'0032want ' + b'a' * 40 + b'\n00000009done\n',
          b'\x1f\x8b\x08\0\0\0\0\0\0\x03', b'{"operation":"download","objects":[]}', b'x' * 70000,
          b'[' * 3000, b'\0' * 4096]
SIZES = [b'%x', b'%X', b'0%x', b'%x;a=b', b'%x ', b'-%x', b'0x%x', b'%x\0', b'fffffffffffffff%x']
HONEST = b'GET ' + PATH + b' HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'
MEMORY_KB = 48 << 10  # allocators keep some; sanitizers keep what is freed for a while
WARM_UP = 3  # batches
PER_BATCH = 150


class Failed(Exception):
    pass


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, values):
        return self.random.choice(values)

    def chance(self, part):
        return self.random.random() < part

    def noise(self, most):
        return self.random.randbytes(self.random.randrange(most))

    def chunks(self, body):
        piece = self.random.randrange(1, len(body) + 2)
        out = b''
        for at in range(0, len(body), piece):
            part = body[at:at + piece]
            size = self.pick(SIZES) if self.chance(.1) else b'%x'
            out += size % len(part) + self.pick(ENDS) + part + self.pick(ENDS)
        return out + (b'' if self.chance(.05) else b'0\r\n' + self.trailer() + b'\r\n')

    def trailer(self):
        return b''.join(self.field() for _ in range(self.pick([0, 0, 0, 1, 2, 300])))

    def field(self):
        value = self.noise(30) if self.chance(.05) else self.pick(VALUES)
        return self.pick(NAMES) + self.pick(COLONS) + value + self.pick(ENDS)

    def target(self):
        kind = self.random.randrange(20)
        if kind == 0:
            return PATH + self.pick([b'&', b'&=', b'&a=b', b'?']) * self.random.randrange(2000)
        if kind == 1:
            return b'/' + self.pick([b'a', b'%61', b'/', b'../']) * self.random.randrange(6000)
        return b'/' + self.noise(40) if kind == 2 else self.pick(PATHS)

    def request(self):
        """One that may be good, and whether it is surely none."""
        if self.chance(.05):
            return b'\x16' + self.noise(2000), True
        body = self.pick(BODIES)
        method = self.pick(METHODS)
        out = method + (b' ' if self.chance(.97) else self.pick([b'  ', b'\t', b'']))
        out += self.target() + b' ' + self.pick(VERSIONS) + self.pick(ENDS)
        if self.chance(.9):
            out += b'Host: h' + self.pick(ENDS)
        for _ in range(self.pick([0, 1, 2, 3, 3, 5, 8, 300])):
            out += self.field()
        if self.chance(.05):
            out += b'Cookie: ' + b'a=b;' * self.random.randrange(3000) + b'\r\n'
        how = self.random.randrange(3)
        if how == 0:
            out += b'Content-Length: %d' % (len(body) + self.pick([0, 0, 0, 1, -1, 100]))
            out += self.pick(ENDS) + b'\r\n' + body
        elif how == 1:
            out += b'Transfer-Encoding: chunked\r\n\r\n' + self.chunks(body)
        else:
            out += b'\r\n'
        return out, False

    def surely_none(self):
        """One that nobody may take for a request."""
        head = b'GET /healthz HTTP/1.1\r\nHost: h\r\n'
        return self.pick([
            head + b'X: a\r\n b\r\n\r\n', head + b'X : a\r\n\r\n', head + b'Host: i\r\n\r\n',
            head + b'X: \0\r\n\r\n', head + b'X: a\nY: b\r\n\r\n', head + b'X: a\rY: b\r\n\r\n',
            head + b'X: \x01\r\n\r\n', head + b'Content-Length: 1\r\nContent-Length: 1\r\n\r\nx',
            head + b'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
            head + b'Transfer-Encoding: x\r\n\r\n', b'GET /healthz\r\n\r\n',
            b'GET  /healthz HTTP/1.1\r\nHost: h\r\n\r\n', b'GET /healthz HTTP/1.1\r\n\r\n',
            b'GET /healthz HTTP/1.1\nHost: h\n\n', head + b'\n', head + b': x\r\n\r\n'])

    def mutated(self, data):
        data = bytearray(data)
        for _ in range(self.pick([0, 0, 1, 1, 3])):
            if data:
                at = self.random.randrange(len(data))
                kind = self.random.randrange(3)
                if kind == 0:
                    data[at] = self.random.randrange(256)
                elif kind == 1:
                    del data[at:at + self.random.randrange(20)]
                else:
                    data[at:at] = data[at:at + self.random.randrange(200)]
        return bytes(data)


class Node:
    def __init__(self, port, pid, certificate):
        self.port, self.pid, self.context = port, pid, None
        if certificate:
            self.context = ssl.create_default_context(cafile=certificate)
            self.context.check_hostname = False

    def connect(self):
        sock = socket.create_connection(('127.0.0.1', self.port), 20)
        return self.context.wrap_socket(sock) if self.context else sock

    def read_all(self, sock, seconds):
        data, until = b'', time.monotonic() + seconds
        while time.monotonic() < until:
            sock.settimeout(max(.01, until - time.monotonic()))
            try:
                more = sock.recv(65536)
            except (TimeoutError, ssl.SSLError, OSError):
                break
            if not more:
                break
            data += more
        return data

    def ask(self, data):
        with self.connect() as sock:
            sock.sendall(data)
            return self.read_all(sock, 30)

    def metric(self, name):
        text = self.ask(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        for line in text.decode(errors='replace').split('\n'):
            if line.startswith(name + ' '):
                return float(line.split()[1])
        raise Failed('no %s in %r' % (name, text[:200]))

    def memory_kb(self):
        with open('/proc/%d/status' % self.pid, encoding='ascii') as status:
            return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.pid))


def judge(answer):
    """Of all that came on a connection: only the first is sure to be whole."""
    if not answer:
        return
    line = answer.split(b'\r\n', 1)[0].split(b' ')
    if not line[0].startswith(b'HTTP/1.') or not line[1].isdigit() or not 100 <= int(line[1]) < 600:
        raise Failed('no answer: %r' % answer[:100])


def send(node, grammar, data, is_none):
    how = grammar.random.randrange(10)
    try:
        with node.connect() as sock:
            if how == 0:
                for at in range(0, min(len(data), 300), 7):
                    sock.sendall(data[at:at + 7])
            elif how == 1:
                sock.sendall(data[:grammar.random.randrange(len(data) + 1)])
            else:
                sock.sendall(data)
            if how == 2:
                return
            if not node.context:
                sock.shutdown(socket.SHUT_WR)
            answer = node.read_all(sock, .05 if how == 3 else .3 if node.context else 10)
    except OSError:
        return  # it was cut while it was sent
    judge(answer)
    if is_none and how > 3 and b'HTTP/1.1 200' in answer:
        raise Failed('%r was answered %r' % (data[:300], answer[:300]))


def batch(node, grammar):
    for _ in range(PER_BATCH):
        if grammar.chance(.2):
            send(node, grammar, grammar.surely_none(), True)
            continue
        data = b''.join(grammar.request()[0] for _ in range(grammar.pick([1, 1, 1, 2, 5])))
        send(node, grammar, grammar.mutated(data), False)


def wait_for(condition, what):
    until = time.monotonic() + 40
    while not condition():
        if time.monotonic() > until:
            raise Failed(what())
        select.select([], [], [], .1)


def strip(answer):
    return answer.split(b'\r\n\r\n', 1)[-1]


def check(node, first, before):
    if not os.path.exists('/proc/%d' % node.pid):
        raise Failed('the node is gone')
    if strip(node.ask(HONEST)) != first:
        raise Failed('an honest client is answered otherwise')
    # The request for it is one itself.
    wait_for(lambda: node.metric('refrelay_http_requests_open') <= 1,
             lambda: '%d requests are open' % node.metric('refrelay_http_requests_open'))
    if before:
        wait_for(lambda: node.descriptors() <= before[1] + 8,
                 lambda: '%d descriptors, and %d before' % (node.descriptors(), before[1]))
        if node.memory_kb() > before[0] + MEMORY_KB:
            raise Failed('%d kB, and %d before' % (node.memory_kb(), before[0]))


def run(node, grammar, seconds):
    wait_for(lambda: b'Content-Length' in node.ask(HONEST), lambda: 'no answer from the cache')
    first, before, count = strip(node.ask(HONEST)), None, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or count <= WARM_UP:
        count += 1
        try:
            batch(node, grammar)
            check(node, first, before)
        except (Failed, OSError) as error:
            print('batch %d: %s' % (count, error))
            return 1
        if count == WARM_UP:
            before = (node.memory_kb(), node.descriptors())
    print('%d batches of %d connections; %d kB at first, %d kB at the end' %
          (count, PER_BATCH, before[0], node.memory_kb()))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=20)
    parser.add_argument('--seed', type=int, default=time.time_ns() % 1000000)
    parser.add_argument('port', type=int, metavar='PORT')
    parser.add_argument('pid', type=int, metavar='PID')
    parser.add_argument('certificate', nargs='?', metavar='CA')
    options = parser.parse_args()
    print('seed %d' % options.seed, flush=True)
    node = Node(options.port, options.pid, options.certificate)
    return run(node, Grammar(options.seed), options.seconds)


if __name__ == '__main__':
    sys.exit(main())
