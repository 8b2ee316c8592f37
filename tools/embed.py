#!/usr/bin/env python3
"""Makes C of a JSON document, without its blanks.

usage: embed.py FILE NAME VERSION

Prints `const char *const NAME` with the document, in which "@version@" is VERSION, and
`const size_t NAME_size`. A document that is no JSON fails the build. It is a pointer, whose
size never changes: a program that is linked with an array has its size in itself.
"""

import json
import sys


def main():
    path, name, version = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    text = text.replace("@version@", version) + "\n"
    print(f"/* Made by {sys.argv[0].rsplit('/', 1)[-1]}. */")
    print("#include <stddef.h>\n")
    print(f"extern const char *const {name};\nextern const size_t {name}_size;")
    print("static const char text[] =")
    for at in range(0, len(text), 64):
        print("\t" + json.dumps(text[at : at + 64]).replace("?", "\\?"))
    print(f"\t;\nconst char *const {name} = text;")
    print(f"const size_t {name}_size = sizeof(text) - 1;")


main()
