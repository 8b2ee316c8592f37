#!/usr/bin/env python3
"""Requests sent in a row without waiting, for the site tests: pipeline.py PORT.

Each answer must be the one to its request, in the order of the requests, with HTTP/1.1 and
with HTTP/1.0 that keeps its connection.
"""
import sys

import raw_http

REFS = b'GET /%s/info/refs?service=git-upload-pack HTTP/%s\r\nHost: x\r\n%s\r\n'
POST = (b'POST /%s/git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\n'
        b'Content-Type: application/x-git-upload-pack-request\r\n')


def packet(text):
    return b'%04x%s' % (len(text) + 4, text)


def ls_refs(prefix):
    return (packet(b'command=ls-refs') + packet(b'object-format=sha1') + b'0001' +
            packet(b'ref-prefix ' + prefix) + b'0000')


def with_length(name, body):
    return POST % name + b'Content-Length: %d\r\n\r\n' % len(body) + body


def in_chunks(name, body):
    half = len(body) // 2
    chunks = b''.join(b'%x\r\n%s\r\n' % (len(part), part) for part in (body[:half], body[half:]))
    return POST % name + b'Transfer-Encoding: chunked\r\n\r\n' + chunks + b'0\r\n\r\n'


# What is asked, and what is only in the answer to that: status, mark.
KINDS = [
    (REFS % (b'r.git', b'1.1', b''), 200, b'refs/heads/side\n'),
    (with_length(b'honest.git', ls_refs(b'refs/heads/own')), 200, b'refs/heads/own\n'),
    (REFS % (b'none.git', b'1.1', b''), 404, b'none'),
    (in_chunks(b'r.git', ls_refs(b'refs/heads/side')), 200, b'refs/heads/side\n'),
    (REFS % (b'honest.git', b'1.1', b''), 200, b'refs/heads/own\n'),
]


def check(answer, wanted):
    _, status, mark = wanted
    if answer is None or answer.status != status or mark not in answer.body:
        sys.exit('%r\n    to %r' % (answer, wanted))


def in_a_row(port, count):
    """What a server does not want to answer any more, it may leave out at the end."""
    wanted = [KINDS[i % len(KINDS)] for i in range(count)]
    with raw_http.Connection(port) as connection:
        connection.send(b''.join(data for data, _, _ in wanted))
        for i, each in enumerate(wanted):
            answer = connection.answer()
            if answer is None and i > 0:
                return i
            check(answer, each)
    return count


def old_and_kept(port):
    with raw_http.Connection(port) as connection:
        for each in KINDS[0], KINDS[4], KINDS[0]:
            data = each[0].replace(b'HTTP/1.1\r\n', b'HTTP/1.0\r\nConnection: keep-alive\r\n')
            connection.send(data)
            answer = connection.answer()
            check(answer, each)
            if answer.headers.get('connection', '').lower() != 'keep-alive':
                return


def main():
    port = int(sys.argv[1])
    for _ in range(5):
        print('%d of 50 were answered' % in_a_row(port, 50))
    old_and_kept(port)


if __name__ == '__main__':
    main()
