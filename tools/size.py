#!/usr/bin/env python3
"""Prints functions and files that have grown long, longest first.

usage: size.py [--check] [FOLDER...]    default: src tests bench

Without --check it names functions above 60 lines, files above 700 and headers above 150,
which a review should ask about. With --check it names only what is never right (100, 1,000
and 200 lines) and fails. Headers below tests/ hold the code that tests share, not an
interface, so they count as files.

It relies on the project's formatting: a function's opening brace stands alone in the
first column, and the next line that begins with a closing brace ends it.
"""

import os
import re
import sys
from pathlib import Path

ASK = {"function": 60, "file": 700, "header": 150}
NEVER = {"function": 100, "file": 1000, "header": 200}
NAME = re.compile(r"(\w+)\s*\((\w*)")


def function_name(lines, brace):
    """The name in the declaration above the line `brace`; what a macro such as TEST is
    given as a name, if it is one that declares the function."""
    first = brace - 1
    while first > 0 and lines[first][:1] in ("\t", " "):
        first -= 1
    for name, argument in NAME.findall(" ".join(lines[first:brace])):
        if name != "__attribute__":
            return argument if name.isupper() and argument else name
    return "?"


def functions(lines):
    """Yields name, line number and length, both braces included."""
    start = None
    for number, line in enumerate(lines):
        if start is None and line.rstrip() == "{":
            start = number
        elif start is not None and line.startswith("}"):
            yield function_name(lines, start), start + 1, number - start + 1
            start = None


def outliers(path, limits):
    """Yields length and text."""
    lines = path.read_text(errors="replace").splitlines()
    kind = "header" if path.suffix == ".h" and "tests" not in path.parts else "file"
    if len(lines) > limits[kind]:
        yield len(lines), f"{path}: {kind} of {len(lines)} lines (limit {limits[kind]})"
    limit = limits["function"]
    for name, line, length in functions(lines):
        if length > limit:
            yield length, f"{path}:{line}: {name} has {length} lines (limit {limit})"


def main(arguments):
    is_check = "--check" in arguments
    given = [Path(argument) for argument in arguments if argument != "--check"]
    if not given:
        os.chdir(Path(__file__).parent.parent)
    folders = given or [Path(folder) for folder in ("src", "tests", "bench")]
    found = []
    for folder in folders:
        if given and not folder.is_dir():
            print(f"size.py: {folder} is no directory", file=sys.stderr)
            return 2
        for path in folder.rglob("*.[ch]"):
            found += outliers(path, NEVER if is_check else ASK)
    for _, text in sorted(found, key=lambda row: (-row[0], row[1])):
        print(text)
    return 1 if is_check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
