#!/usr/bin/env python3
"""What a core of a living process would show.

usage: memory.py PID FILE

Searches all memory that the process may write to for each line of FILE. Prints where one is
found, and ends with status 0; with 1 if there is none, with 2 if memory cannot be read.
"""
import struct
import sys

PAGE = 4096
PIECE = 1 << 20
HAS_CONTENT = 3 << 62  # in memory, or in swap
# A sanitizer's map of what may be used, which holds no data: terabytes, of which next to
# nothing is there.
MAP_MOST = 1 << 33


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        for line in file:
            where, rights, _, _, _, *name = line.split(None, 5)
            first, last = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw") and last - first <= MAP_MOST:
                yield first, last, "".join(name).strip()


def is_untouched(pages, first, last):
    """Whether no page there has ever been written to or read."""
    count = (last - first + PAGE - 1) // PAGE
    pages.seek(first // PAGE * 8)
    return not any(entry & HAS_CONTENT
                   for entry in struct.unpack(f"{count}Q", pages.read(count * 8)))


def pieces(memory, pages, first, last, overlap):
    """What is not there any more is passed over."""
    for at in range(first, last, PIECE):
        if is_untouched(pages, at, min(at + PIECE, last)):
            continue
        try:
            memory.seek(at)
            yield at, memory.read(min(PIECE + overlap, last - at))
        except OSError as error:
            if error.errno not in (5, 14):
                raise


def places(data, texts):
    """Where each text is, with its line. Most memory of a sanitized process is zeros."""
    if data.count(0) == len(data):
        return
    for line, text in enumerate(texts, 1):
        place = data.find(text)
        while place >= 0:
            yield line, place
            place = data.find(text, place + 1)


def main():
    pid = int(sys.argv[1])
    with open(sys.argv[2], "rb") as file:
        texts = [line for line in file.read().splitlines() if line]
    overlap = max(len(text) for text in texts)
    count = found = 0
    with (open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
          open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages):
        for first, last, name in mappings(pid):
            for at, data in pieces(memory, pages, first, last, overlap):
                count += len(data)
                for line, place in places(data, texts):
                    found += 1
                    print(f"{at + place:#x} {name}: line {line}")
    if count < 1 << 20:
        sys.exit(2)
    print(f"{count >> 20} MiB were searched")
    sys.exit(0 if found else 1)


try:
    main()
except (OSError, struct.error) as error:
    print(error, file=sys.stderr)
    sys.exit(2)
