#!/usr/bin/env python3
"""What a flow went through, by a file that tools/trace/entered.c has filled.

    entered.py make FILE         an empty one
    entered.py on|off FILE       records, or stops to
    entered.py take FILE COPY    what was recorded since, put aside
    entered.py show PROGRAM NAME=COPY...
                                 functions and files entered, a line each; with LIST=1 in
                                 the environment the files, too
"""
import collections
import mmap
import os
import struct
import subprocess
import sys

HEAD, ENTRY, SIZE = struct.Struct('<QQQQ'), struct.Struct('<QQ'), 64 << 20


def make(path):
    with open(path, 'wb') as file:
        file.truncate(SIZE)


def switch(path, is_on):
    with open(path, 'r+b') as file, mmap.mmap(file.fileno(), 0) as data:
        data[0:8] = struct.pack('<Q', is_on)


def take(path, copy):
    with open(path, 'r+b') as file, mmap.mmap(file.fileno(), 0) as data:
        count = HEAD.unpack_from(data)[1]
        if HEAD.size + count * ENTRY.size > SIZE:
            sys.exit(f'{path} has no room for {count} entries')
        with open(copy, 'wb') as out:
            out.write(data[:HEAD.size + count * ENTRY.size])
        data[8:16] = struct.pack('<Q', 0)


def read(path):
    """The addresses that were entered, in order, by thread; relative to the program."""
    with open(path, 'rb') as file:
        data = file.read()
    base = HEAD.unpack_from(data)[2]
    threads = collections.defaultdict(list)
    for function, thread in ENTRY.iter_unpack(data[HEAD.size:]):
        if function:
            threads[thread].append(function - base)
    return threads


def resolve(program, addresses):
    """address -> (function, file below src/)"""
    order = sorted(addresses)
    text = subprocess.run(['addr2line', '-f', '-e', program], text=True, check=True,
                          input='\n'.join(map(hex, order)), stdout=subprocess.PIPE).stdout
    lines = text.split('\n')
    return {address: (lines[2 * i], lines[2 * i + 1].split('/src/')[-1].split(':')[0])
            for i, address in enumerate(order) if '/src/' in lines[2 * i + 1]}


def show(program, flows):
    print(f'{"flow":24} {"calls":>8} {"functions":>9} {"files":>6} {"without base":>12} '
          f'{"changes of file":>15}')
    for flow in flows:
        name, path = flow.split('=')
        threads = read(path)
        names = resolve(program, {a for entries in threads.values() for a in entries})
        paths = [[names[a] for a in entries if a in names]
                 for entries in threads.values()]
        seen = {place for entries in paths for place in entries}
        files = {file for _, file in seen}
        changes = sum(a[1] != b[1] for entries in paths
                      for a, b in zip(entries, entries[1:]))
        print(f'{name:24} {sum(map(len, paths)):8} {len(seen):9} {len(files):6} '
              f'{sum(not file.startswith("base/") for file in files):12} {changes:15}')
        if os.environ.get('LIST'):
            print('   ', ' '.join(sorted(files)))


def main(arguments):
    if len(arguments) == 2 and arguments[0] == 'make':
        make(arguments[1])
    elif len(arguments) == 2 and arguments[0] in ('on', 'off'):
        switch(arguments[1], arguments[0] == 'on')
    elif len(arguments) == 3 and arguments[0] == 'take':
        take(*arguments[1:])
    elif len(arguments) > 2 and arguments[0] == 'show':
        show(arguments[1], arguments[2:])
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
