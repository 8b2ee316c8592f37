#!/usr/bin/env python3
"""Compares the marks of docs/security.md with the tests that begin with them.

usage: security_marks.py [ROOT]      prints what is missing, and then ends with 1

A mark of the page is a letter and a number in brackets. It has a test in
tests/site/test_security*.sh whose name begins with it, or a line in the comment at the
page's end, which names a file and a text that stands in it. A test's mark must be on the
page, and so must that of a line.
"""

import re
import sys
from pathlib import Path

MARK = r"\[[a-z]\d+\]"
TEST = re.compile(r'^\s*tap_test "((?:' + MARK + r")*)", re.MULTILINE)
ROW = re.compile(r"^(" + MARK + r") (\S+): (.+)$", re.MULTILINE)


def marks(text):
    return set(re.findall(MARK, text))


def tested(root):
    """Marks with their tests, and tests without a mark."""
    found, faults = {}, []
    for script in sorted((root / "tests/site").glob("test_security*.sh")):
        for prefix in TEST.findall(script.read_text()):
            if not prefix:
                faults.append(f"{script.name} has a test without a mark")
            for mark in re.findall(MARK, prefix):
                if mark in found:
                    faults.append(f"{mark} has a test in {script.name} and in {found[mark]}")
                found[mark] = script.name
    return found, faults


def listed(root, comment):
    """Marks whose line is true, and lines that are not."""
    found, faults = set(), []
    for mark, path, text in ROW.findall(comment):
        file = root / path
        if not file.is_file() or text not in file.read_text():
            faults.append(f'{mark}: "{text}" is not in {path}')
        if mark in found:
            faults.append(f"{mark} has two lines")
        found.add(mark)
    for line in comment.splitlines():
        if line.startswith("[") and not ROW.match(line):
            faults.append(f"not understood: {line}")
    return found, faults


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent)
    page, _, comment = (root / "docs/security.md").read_text().partition("\n<!--")
    shown = marks(page.split("\n## ", 1)[-1])
    by_test, faults = tested(root)
    by_line, wrong = listed(root, comment)
    faults += wrong
    for mark in sorted(shown - set(by_test) - by_line):
        faults.append(f"{mark} is on the page and has no test")
    for mark in sorted((set(by_test) | by_line) - shown):
        faults.append(f"{mark} has a test and is not on the page")
    for mark in sorted(set(by_test) & by_line):
        faults.append(f"{mark} has a test of its own and a line")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
