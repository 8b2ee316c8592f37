#!/usr/bin/env python3
"""Requests within requests, for the site tests: smuggle.py PORT.

Each attack has a second request hidden in what a careless reader takes for its body, or for
a header. The hidden one asks for a name of its own; if anybody answers it, or the node is
ever asked for it as a request, that fails. After each attack an honest client of the same
port must get its own answer.
"""
import sys
import threading

import raw_http

GIT_POST = (b'POST /r.git/git-upload-pack HTTP/1.1\r\nHost: x\r\n'
            b'Content-Type: application/x-git-upload-pack-request\r\n')
HIDDEN = b'GET /hidden-%d/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n'


def chunked(body):
    return b'%x\r\n%s\r\n0\r\n\r\n' % (len(body), body)


def both_lengths(hidden):
    """CL.TE and TE.CL, in both orders."""
    ends_early = b'0\r\n\r\n' + hidden
    one = b'Content-Length: %d\r\n' % len(ends_early)
    short = b'Content-Length: 4\r\n'
    chunks = b'Transfer-Encoding: chunked\r\n'
    yield 'CL.TE', GIT_POST + one + chunks + b'\r\n' + ends_early
    yield 'TE.CL first', GIT_POST + chunks + one + b'\r\n' + ends_early
    yield 'TE.CL', GIT_POST + short + chunks + b'\r\n' + chunked(hidden)
    yield 'CL 0 and TE', GIT_POST + b'Content-Length: 0\r\n' + chunks + b'\r\n' + chunked(hidden)


def odd_codings(hidden):
    """TE.TE: a coding that one of two readers does not see."""
    values = [b'xchunked', b'chunked, identity', b'identity, chunked', b'chunked, chunked',
              b'gzip, chunked', b'chunked;x=1', b'"chunked"', b'\x0bchunked', b'chunked\x00',
              b'chunKed\t', b'chunked,', b',chunked', b'cow', b'', b'identity']
    lines = [b'Transfer-Encoding: ' + value for value in values]
    lines += [b'Transfer-Encoding : chunked', b' Transfer-Encoding: chunked',
              b'Transfer-Encoding:\r\n chunked', b'Transfer-Encoding\t: chunked',
              b'X: y\nTransfer-Encoding: chunked', b'X: y\rTransfer-Encoding: chunked',
              b'Transfer_Encoding: chunked', b'Transfer-Encoding\x00: chunked',
              b'Transfer-Encoding: chunked\r\nTransfer-Encoding: cow',
              b'Transfer-Encoding: cow\r\nTransfer-Encoding: chunked',
              b'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
              b'\x85Transfer-Encoding: chunked', b': x\r\nTransfer-Encoding: chunked']
    ends_early = b'0\r\n\r\n' + hidden
    for line in lines:
        yield '%r' % line, (GIT_POST + b'Content-Length: %d\r\n' % len(ends_early) + line +
                            b'\r\n\r\n' + ends_early)


def odd_lengths(hidden):
    """A length that two readers read as two numbers: 0 or what the body has."""
    size = len(hidden)
    values = [b'+%d' % size, b'-%d' % size, b' +%d' % size, b'%d ' % size + b'0', b'0x%x' % size,
              b'%d,%d' % (size, size), b'0, %d' % size, b'%d, 0' % size, b'%d\x00' % size,
              b'%d.0' % size, b'%de0' % size, b'', b'"%d"' % size, b'%d;' % size,
              b'%d' % (size + (1 << 64)), b'%d' % (size + (1 << 32)), b'-1', b'0 0',
              b'\xb2', b'1_0']
    for value in values:
        yield 'length %r' % value, (GIT_POST + b'Content-Length: ' + value + b'\r\n\r\n' + hidden)
    twice = b'Content-Length: %d\r\nContent-Length: %d\r\n\r\n'
    yield 'lengths 0 and all', GIT_POST + twice % (0, size) + hidden
    yield 'lengths all and 0', GIT_POST + twice % (size, 0) + hidden
    yield 'the same twice', GIT_POST + twice % (size, size) + hidden
    for line in (b'Content-Length : %d', b' Content-Length: %d', b'Content-Length:\r\n %d',
                 b'Content_Length: %d', b'Content Length: %d', b'X: y\nContent-Length: %d',
                 b'X: y\rContent-Length: %d'):
        yield '%r' % line, GIT_POST + line % size + b'\r\n\r\n' + hidden


def odd_chunks(hidden):
    head = GIT_POST + b'Transfer-Encoding: chunked\r\n\r\n'
    size = len(hidden)
    sizes = [b'%x;' % size + b'a=b', b'0x%x' % size, b'+%x' % size, b'-%x' % size, b' %x' % size,
             b'%x ' % size, b'1%016x' % size, b'%x\x00' % size, b'%x;\n' % size, b'%x\r' % size,
             b'0' * 40 + b'%x' % size, b'ffffffffffffffff', b'7fffffffffffffff', b'',
             b'fffffffffffffffffffff', b'%x;' % size + b'x' * 9000, b'zz', b'%xg' % size]
    for each in sizes:
        yield 'chunk %r' % each[:40], head + each + b'\r\n' + hidden + b'\r\n0\r\n\r\n'
    yield 'chunk ended by LF', head + b'%x\n' % size + hidden + b'\n0\n\n'
    yield 'chunk without end', head + b'4\r\n0000XX0\r\n\r\n' + hidden
    yield 'last chunk 00;x', head + b'00;x\n\r\n' + hidden
    yield 'trailers', (head + b'0\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n' %
                       size)


def odd_heads(hidden):
    start = b'GET /r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n'
    yield 'folded', start + b'X: y\r\n ' + hidden.replace(b'\r\n', b'\r\n ') + b'\r\n\r\n'
    yield 'in a value', start + b'X: ' + hidden.replace(b'\r\n', b'\\r\\n') + b'\r\n\r\n'
    yield 'name with a space', start + b'X Y: z\r\nContent-Length: 0\r\n\r\n'
    yield 'no name', start + b': z\r\n\r\n'
    yield 'no colon', start + b'X\r\n\r\n'
    yield 'body of a GET', start + b'Content-Length: %d\r\n\r\n' % len(hidden) + hidden
    yield 'body of a push', (b'POST /r.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n'
                             b'Content-Length: %d\r\n\r\n' % len(hidden) + hidden)
    yield 'body of what is not there', (b'POST /none HTTP/1.1\r\nHost: x\r\n'
                                        b'Content-Length: %d\r\n\r\n' % len(hidden) + hidden)
    yield 'expects', (GIT_POST + b'Expect: 100-continue\r\nContent-Length: %d\r\n\r\n' %
                      len(hidden) + hidden)
    yield 'expects nonsense', (GIT_POST + b'Expect: 200-ok\r\nContent-Length: %d\r\n\r\n' %
                               len(hidden) + hidden)
    yield 'upgrade', (start + b'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n'
                      b'HTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: %d\r\n\r\n' %
                      len(hidden) + hidden)
    yield 'two hosts', start + b'Host: y\r\n\r\n'
    yield 'connection names lengths', (GIT_POST + b'Connection: Content-Length\r\n'
                                       b'Content-Length: %d\r\n\r\n' % len(hidden) + hidden)
    yield 'HTTP/0.9', b'GET /hidden-0.9/info/refs?service=git-upload-pack\r\n\r\n'
    yield 'HTTP/1.0 chunked', (GIT_POST.replace(b'1.1', b'1.0') +
                               b'Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n' +
                               b'0\r\n\r\n' + hidden)
    yield 'HTTP/2.0', start.replace(b'1.1', b'2.0') + b'\r\n'
    yield 'HTTP/1.10', start.replace(b'1.1', b'1.10') + b'\r\n'


def attacks():
    for number, kind in enumerate((both_lengths, odd_codings, odd_lengths, odd_chunks,
                                   odd_heads)):
        yield from ((kind.__name__ + ': ' + name, data, number)
                    for name, data in kind(HIDDEN % number))


def honest(port, name):
    with raw_http.Connection(port) as connection:
        connection.send(b'GET /%s/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n'
                        % name)
        return connection.answer()


class Witness:
    """Honest clients that ask all the time, each for what is its own."""

    def __init__(self, port):
        self.port, self.wrong, self.count = port, [], 0
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(name, mark)) for name, mark in
                        ((b'r.git', b'refs/heads/main\n'), (b'honest.git', b'refs/heads/own\n'))]

    def run(self, name, mark):
        while not self.stop.is_set():
            answer = honest(self.port, name)
            self.count += 1
            if answer is None or answer.status != 200 or mark not in answer.body:
                self.wrong.append((name, answer))
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def attack(port, data):
    try:
        return raw_http.ask(port, data)
    except (EOFError, ValueError, TimeoutError) as error:
        return [error]


def judge(name, answers):
    """What is wrong with the answers to an attack, if anything."""
    for answer in answers:
        if not isinstance(answer, raw_http.Answer):
            return 'no end of the answer: %r' % answer
        if answer.status >= 500 and answer.status not in (501, 505):
            return 'status %d' % answer.status
        if b'hidden-' in answer.body:
            return 'the hidden request is answered: %r' % answer
    return 'two answers: %r' % answers if len(answers) > 1 else None


def main():
    port, wrong, count = int(sys.argv[1]), 0, 0
    with Witness(port) as witness:
        for name, data, _ in attacks():
            count += 1
            why = judge(name, attack(port, data))
            if why:
                wrong += 1
                print('%s: %s\n    %r' % (name, why, data[:300]))
    for name, answer in witness.wrong:
        print('an honest client of %r got %r' % (name, answer))
    print('%d attacks, %d succeeded; %d honest requests' % (count, wrong, witness.count))
    return 1 if wrong or witness.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
