#!/usr/bin/env python3
"""Counts the tests in a log of `meson test` (meson-logs/testlog.json).

usage: count_tests.py LOG            prints three numbers: passed failed skipped
       count_tests.py --failed LOG   prints a line for each program that failed: its name,
                                     a tab, and the first test of it that did, with
                                     what it says of that, shortened

A program that speaks TAP counts with each of its tests, any other program as one. A
program that failed as a whole (a crash, a timeout, tests missing from its plan) counts
as one failure, unless it told of failures itself.
"""

import json
import re
import sys

POINT = re.compile(r"^(not )?ok\b(.*)$", re.MULTILINE)
SKIP = re.compile(r"#\s*skip", re.IGNORECASE)
TODO = re.compile(r"#\s*todo", re.IGNORECASE)
COMMENTS = re.compile(r"(\n#.*)*")
MESSAGE = re.compile(r"^ERROR: .*$", re.MULTILINE)
MOST_TEXT = 400
GOOD = ("OK", "EXPECTEDFAIL")


def count_points(text):
    """Passed, failed, skipped in TAP output."""
    passed = failed = skipped = 0
    for negation, rest in POINT.findall(text):
        if SKIP.search(rest):
            skipped += 1
        elif negation and not TODO.search(rest):
            failed += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_program(record):
    result = record["result"]
    passed, failed, skipped = count_points(record.get("stdout") or "")
    is_tap = passed + failed + skipped > 0
    if result == "SKIP":
        return 0, 0, max(skipped, 1)
    if result in GOOD:
        return (passed, failed, skipped) if is_tap else (1, 0, 0)
    return passed, max(failed, 1), skipped


def shorten(lines):
    """The first of them say what failed, or the last: a script ends with it."""
    text = " | ".join(line for line in lines if line)
    half = MOST_TEXT // 2
    return text if len(text) <= MOST_TEXT else f"{text[:half]} ... {text[-half:]}"


def first_failure(record):
    """What to look for in the output of a program that failed."""
    text = record.get("stdout") or ""
    for point in POINT.finditer(text):
        negation, rest = point.groups()
        if negation and not TODO.search(rest) and not SKIP.search(rest):
            told = COMMENTS.match(text, point.end()).group().splitlines()
            # cmocka has the message of fail_msg() there, and just its line here
            told += MESSAGE.findall(record.get("stderr") or "")[:1]
            why = shorten([line.lstrip("# ").rstrip() for line in told])
            return f"not ok{rest}: {why}" if why else f"not ok{rest}"
    return record["result"].lower()


def read_log(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log]


def print_failed(records):
    for record in records:
        if count_program(record)[1] > 0:
            name = record["name"].rsplit(" / ", 1)[-1]
            print(f"{name}\t{first_failure(record)}")


def print_totals(records):
    totals = [0, 0, 0]
    for record in records:
        for place, number in enumerate(count_program(record)):
            totals[place] += number
    print(*totals)


def main(arguments):
    is_of_failed = arguments[:1] == ["--failed"]
    paths = arguments[1:] if is_of_failed else arguments
    if len(paths) != 1:
        print("usage: count_tests.py [--failed] LOG", file=sys.stderr)
        return 2
    (print_failed if is_of_failed else print_totals)(read_log(paths[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
