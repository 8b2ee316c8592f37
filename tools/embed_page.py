#!/usr/bin/env python3
"""Joins page.html, page.css and page.js into the one document that `GET /` answers, and
writes it as C: plain, as gzip, with its tag and with the Content-Security-Policy that lets
just this style and this script in.

usage: embed_page.py PAGE.HTML PAGE.CSS PAGE.JS OUTPUT.C
       embed_page.py --print PAGE.HTML PAGE.CSS PAGE.JS     the document, on standard output

The same files give the same bytes, wherever and whenever it runs.
"""

import base64
import gzip
import hashlib
import re
import sys
from pathlib import Path

MOST = 100 * 1000  # bytes of the document
STYLE, SCRIPT = "%STYLE%", "%SCRIPT%"


def fail(why):
    sys.exit(f"embed_page.py: {why}")


def squeeze(text):
    """Without indentation and lines of comments, which nobody reads there."""
    text = re.sub(r"^[ \t]*/\*.*?\*/[ \t]*\n", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip("\t ") for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def hash_of(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def join(page, style, script):
    """The document and its policy."""
    for mark in STYLE, SCRIPT:
        if page.count(mark) != 1:
            fail(f"the page has {mark} {page.count(mark)} times, not once")
    for text, end in (style, "</style"), (script, "</script"), (script, "<!--"):
        if end in text.lower():
            fail(f"{end} would end what it is in")
    document = page.replace(STYLE, style).replace(SCRIPT, script)
    policy = "; ".join([
        "default-src 'none'",
        f"script-src {hash_of(script)}",
        f"style-src {hash_of(style)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ])
    return document.encode(), policy


def array(name, data):
    """As a pointer: a program that is linked with an array has its size in itself."""
    lines = []
    for at in range(0, len(data), 20):
        lines.append("\t" + ",".join(str(byte) for byte in data[at:at + 20]) + ",")
    return f"static const unsigned char {name}_bytes[] = {{\n" + "\n".join(lines) + \
           f"\n}};\nconst unsigned char *const {name} = {name}_bytes;\n" \
           f"const size_t {name}_size = {len(data)};\n"


def render(document, policy):
    tag = hashlib.sha256(document).hexdigest()[:32]
    packed = gzip.compress(document, compresslevel=9, mtime=0)
    return "\n".join([
        "/* Made by tools/embed_page.py of web-assets/. */",
        '#include "web/page_asset.h"',
        "",
        f'const char page_policy[] = "{policy}";',
        f'const char page_tag[] = "\\"{tag}\\"";',
        f'const char page_packed_tag[] = "\\"{tag}-gzip\\"";',
        array("page_plain", document),
        array("page_packed", packed),
    ])


def main(arguments):
    prints = arguments[:1] == ["--print"]
    if len(arguments) != 4:
        sys.exit(__doc__)
    page, style, script = (Path(path).read_text(encoding="utf-8")
                           for path in (arguments[1:] if prints else arguments[:3]))
    document, policy = join(page, squeeze(style), squeeze(script))
    if len(document) > MOST:
        fail(f"the page has {len(document)} bytes; {MOST} are the most")
    if prints:
        sys.stdout.buffer.write(document)
    else:
        Path(arguments[3]).write_text(render(document, policy), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
