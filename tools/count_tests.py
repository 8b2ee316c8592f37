#!/usr/bin/env python3
"""Counts the tests in a log of `meson test` (meson-logs/testlog.json).

usage: count_tests.py LOG        prints three numbers: passed failed skipped

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


def main(arguments):
    if len(arguments) != 1:
        print("usage: count_tests.py LOG", file=sys.stderr)
        return 2
    totals = [0, 0, 0]
    with open(arguments[0], encoding="utf-8", errors="replace") as log:
        for line in log:
            for place, number in enumerate(count_program(json.loads(line))):
                totals[place] += number
    print(*totals)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
