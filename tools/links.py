#!/usr/bin/env python3
"""usage: tools/links.py DIRECTORY...

Prints the links of the documents (*.md) below each DIRECTORY that lead nowhere: a relative
link must lead to a file or directory inside it, and an anchor to a heading of that document,
as GitHub and GitLab name headings. Links to other hosts are not followed. Exits 1 if there
are such links, or if a directory has no document.
"""
import pathlib
import re
import sys
import urllib.parse

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"\s*(```|~~~)")


def prose(text):
    """The lines outside of fenced code."""
    fence = None
    for line in text.splitlines():
        found = FENCE.match(line)
        if found and fence in (None, found[1]):
            fence = None if fence else found[1]
        elif not fence:
            yield line


def anchors(text):
    seen = {}
    names = set()
    for line in prose(text):
        heading = HEADING.match(line)
        if not heading:
            continue
        name = re.sub(r"\]\([^)]*\)", "", heading[1]).lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def links(text):
    # A link may be broken over two lines.
    joined = CODE.sub("", "\n".join(prose(text)))
    return [found[1] for found in LINK.finditer(joined)]


def fault(root, document, link):
    """Why it leads nowhere; None: it does not."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = document
    if parts.path:
        target = (document.parent / urllib.parse.unquote(parts.path)).resolve()
        if not target.is_relative_to(root):
            return "leads out of the directory"
        if not target.exists():
            return "is not there"
    if not parts.fragment:
        return None
    if target.suffix != ".md" or parts.fragment not in anchors(target.read_text("utf-8")):
        return "has no such heading"
    return None


def check(directory):
    root = pathlib.Path(directory).resolve()
    documents = sorted(root.rglob("*.md"))
    faults = [f"{document.relative_to(root)}: {link} {why}"
              for document in documents
              for link in links(document.read_text("utf-8"))
              if (why := fault(root, document, link))]
    return faults if documents else [f"{directory}: no document is there"]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    faults = [fault for directory in sys.argv[1:] for fault in check(directory)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
