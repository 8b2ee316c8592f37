#!/usr/bin/env python3
"""Targets that would lead out of the root, for the site tests: paths.py PORT SECRET [NAME]...

Each is asked for by GET and POST, or only the names that are given. Fails if one is answered
with other than 4xx, with SECRET in it, or late. What is no request line at all may have its
connection closed instead.
"""
import sys
import time

import raw_http

REFS = '/info/refs?service=git-upload-pack'
BODY = b'0000'
LATE = 14  # seconds, on a busy machine

# What stands for a slash and for a dot: as it is, encoded once, twice, in too many bytes of
# UTF-8, as other systems write it.
SLASHES = ['/', '%2f', '%2F', '%252f', '%c0%af', '%e0%80%af', '%ef%bc%8f', '\\', '%5c', '//',
           '/./', '%u2215']
DOTS = ['..', '%2e%2e', '%2E.', '.%2e', '%252e%252e', '%c0%ae%c0%ae', '%e0%80%ae%e0%80%ae',
        '.%00.', '..%00', '...', '. .', '..;', '%uff0e%uff0e']


def spellings():
    for slash in SLASHES:
        for dots in DOTS:
            yield 'r.git' + slash + dots + slash + 'x.git'
            yield dots + slash + 'git' + slash + 'r.git'
            yield 'r.git' + slash + dots + slash + dots + slash + 'outside.git'
    for slash in SLASHES[1:]:
        if slash not in ('%2f', '%2F'):
            yield 'real' + slash + 'x.git'


ENDINGS = ['r.git%00', 'r.git%00.git', 'r%00', '%00r.git', 'r.git%0a', 'r.git%0d%0aX:%20y',
           'r.git%7f', 'r.git%', 'r.git%2', 'r.git%zz', '%ff%fe', '.', '..', '.git', '/r.git',
           '%2fr.git', 'r.git/.', 'r.git/', '~root/r.git', '*', 'r.git/HEAD', 'r.git/refs',
           'r.git/objects', 'r.git/.git', '.refrelay', '.refrelay/trash', 'r.git/refrelay',
           'C:/r.git', 'file:///r.git', 'x' * 251, 'x/' * 500 + 'r.git', 'x' * 8000,
           '%2e/' * 400 + 'r.git', 'r.git;x', 'r.git#x']


def requests(target):
    yield ('GET %s%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' %
           (target, REFS)).encode()
    yield ('POST %s/git-upload-pack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
           'Content-Length: %d\r\nContent-Type: application/x-git-upload-pack-request\r\n\r\n' %
           (target, len(BODY))).encode() + BODY


def check(port, secret, data):
    began = time.monotonic()
    answers = raw_http.ask(port, data)
    took = time.monotonic() - began
    line = data.split(b'\r\n')[0]
    least = 0 if line.count(b' ') > 2 else 1
    bad = [a for a in answers if a.status // 100 != 4 or secret in a.body]
    if bad or not least <= len(answers) <= 1 or took > LATE:
        print('%r: %r after %.1f s' % (line[:200], answers, took))
        return 1
    return 0


def targets():
    for path in list(spellings()) + ENDINGS:
        yield '/' + path
    # Forms of a target that are not for servers of origin, or none at all.
    for target in ('r.git', '../r.git', 'http://x/../r.git', 'http://x/r.git/../../outside.git',
                   'http:///etc/passwd', 'file:///outside.git', '//x/../outside.git', '?', '#'):
        yield target


def main():
    port, secret, names = int(sys.argv[1]), sys.argv[2].encode(), sys.argv[3:]
    count = bad = 0
    for target in ['/' + name for name in names] or targets():
        for data in requests(target):
            count += 1
            bad += check(port, secret, data)
    print('%d requests, %d answered wrongly' % (count, bad))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
