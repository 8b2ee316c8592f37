#!/usr/bin/env python3
"""Whether what was told of a mirror's changes is all of them, in order.

usage: then_chain.py TOLD BEFORE AFTER    TOLD has a document a line ("good " before it is
left out); BEFORE and AFTER are what `git for-each-ref` said of the clone.

Each old value must be the one that the receiver knows by then, and what it knows at the end
must be AFTER. A document that is told again after a crash is the same one. What "more" counts
was left out of old values only, never of the way to the last new one.
"""

import json
import sys


def refs_of(path):
    refs = {}
    with open(path) as file:
        for line in file:
            oid, _, name = line.split()
            refs[name] = oid
    return refs


known, after, before = refs_of(sys.argv[2]), refs_of(sys.argv[3]), None
with open(sys.argv[1]) as file:
    for line in file:
        line = line.removeprefix("good ")
        if line == before:
            continue
        before = line
        for ref in json.loads(line)["refs"]:
            if known.get(ref["ref"]) != ref["old"]:
                sys.exit(f"{ref} is told, and {known.get(ref['ref'])} is known: {line}")
            if ref["new"] is None:
                del known[ref["ref"]]
            else:
                known[ref["ref"]] = ref["new"]
if known != after:
    sys.exit(f"known at the end: {known}\nin the clone: {after}")
