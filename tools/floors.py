#!/usr/bin/env python3
"""Checks that src/ keeps its floors: a file includes files of its own folder and of
floors below, never above, and never of a sibling on the same floor. What a header declares
is defined in the header's own folder: else a floor could call one above it.

It relies on the project's formatting: what begins in the first column is a declaration.

usage: floors.py [SOURCE_FOLDER]        prints one line a fault; exit status 1 if any
"""

import os
import re
import sys
from pathlib import Path

# From top to bottom, as in ARCHITECTURE.md. Folders on one line are siblings.
FLOORS = [
    ["node"],
    ["cli", "web"],
    ["alert"],
    ["report"],
    ["serve"],
    ["pull", "push"],
    ["mirror"],
    ["upkeep"],
    ["verify"],
    ["change"],
    ["job"],
    ["net"],
    ["wire"],
    ["replicable"],
    ["lease"],
    ["git", "blob"],
    ["store"],
    ["base"],
]

# Programs of their own beside refrelay: they use the base, and nobody uses them.
PROGRAMS = ["hook", "run"]

BASE = len(FLOORS) - 1
FLOOR_OF = {folder: floor for floor, row in enumerate(FLOORS) for folder in row}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# A name and its parameters, at the top level of a file: with a body, or without one.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|#|[ \t}])[^\n;={}]*?\b(\w+)\((?:[^;{}]*)\)"
                      r"[^;{}()]*(?:__attribute__\(\([^;{}]*\)\))?\s*([;{])", re.MULTILINE)


def blank(match):
    return "\n" * match.group().count("\n")


def includes(path):
    """Yields line number and included path."""
    text = COMMENT.sub(blank, path.read_text(errors="replace"))
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def why_not(user, used):
    """Why a file in folder `user` may not include one in folder `used`; None if it may."""
    if used not in FLOOR_OF and used not in PROGRAMS:
        return "paths begin with a folder of src/ that tools/floors.py knows"
    if user == used or user == "":
        return None
    if used in PROGRAMS:
        return f"{used}/ is a program of its own"
    if user in PROGRAMS:
        return None if FLOOR_OF[used] == BASE else f"{user}/ uses base/ only"
    if FLOOR_OF[used] < FLOOR_OF[user]:
        return f"{used}/ stands above {user}/"
    if FLOOR_OF[used] == FLOOR_OF[user]:
        return f"{used}/ and {user}/ are siblings"
    return None


def functions(path):
    """Yields line number, name, and whether it is defined there."""
    text = COMMENT.sub(blank, path.read_text(errors="replace"))
    for match in FUNCTION.finditer(text):
        yield (text.count("\n", 0, match.start(1)) + 1, match.group(1),
               match.group(2) == "{")


def strays(source):
    """Functions that are declared in one folder and defined in another."""
    homes = {}
    for path in sorted(source.rglob("*.h")):
        for _, name, is_defined in functions(path):
            if not is_defined:
                homes.setdefault(name, path)
    for path in sorted(source.rglob("*.c")):
        for line, name, is_defined in functions(path):
            home = homes.get(name)
            if is_defined and home and home.parent != path.parent:
                yield f"{path}:{line}: defines {name}, which {home} declares"


def faults(source):
    for path in sorted(source.rglob("*.[ch]")):
        parts = path.relative_to(source).parts
        user = parts[0] if len(parts) > 1 else ""
        if user and user not in FLOOR_OF and user not in PROGRAMS:
            yield f"{path}: tools/floors.py does not know the folder {user}/"
            continue
        if not user and path.name != "main.c":
            yield f"{path}: only main.c stands outside of the folders"
            continue
        for line, included in includes(path):
            reason = why_not(user, included.partition("/")[0] if "/" in included else "")
            if reason:
                yield f"{path}:{line}: includes {included}, but {reason}"


def main(arguments):
    if not arguments:
        os.chdir(Path(__file__).parent.parent)
    source = Path(arguments[0] if arguments else "src")
    if not source.is_dir():
        print(f"floors.py: {source} is no directory", file=sys.stderr)
        return 2
    count = 0
    for fault in [*faults(source), *strays(source)]:
        print(fault)
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
