#!/usr/bin/env python3
"""Looks at a tree all the time, and tells of files that it should never have had.

usage: tree_guard.py TREE ORIGIN FOUND

Each file of TREE must have had the content of the file of that name in ORIGIN at some
time. The others are told in the file FOUND, a line each. What is in .refrelay is nobody's
but refrelay's. FOUND is there from the start, and FOUND.rounds counts the looks.
"""
import hashlib
import os
import sys
import time

TREE, ORIGIN, FOUND = sys.argv[1:]
known = {}
right = {}


def files(top):
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".refrelay"]
        for name in names:
            yield os.path.join(folder, name)


def digest(top, path):
    """None: it is gone, or is what it was at the last look."""
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            key = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if known.get(path) == key:
                return None, None
            known[path] = key
            return os.path.relpath(path, top), hashlib.sha256(file.read()).digest()
    except FileNotFoundError:
        return None, None


def learn():
    for path in files(ORIGIN):
        name, content = digest(ORIGIN, path)
        if name:
            right.setdefault(name, set()).add(content)


def look():
    for path in files(TREE):
        name, content = digest(TREE, path)
        if name is None or content in right.get(name, ()):
            continue
        learn()
        if content not in right.get(name, ()):
            with open(FOUND, "a", encoding="utf-8") as file:
                file.write(name + "\n")


def main():
    rounds = 0
    while True:
        learn()
        look()
        rounds += 1
        open(FOUND, "a", encoding="utf-8").close()
        with open(FOUND + ".rounds", "w", encoding="utf-8") as file:
            file.write(f"{rounds}\n")
        time.sleep(0.01)


main()
