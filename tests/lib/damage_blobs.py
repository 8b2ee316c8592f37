"""As damage.py, for blobs: uploads, which may change, and objects of Git LFS, which may not.

    damage_blobs.py make | sync | verification | read | start-damage | start
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import damage

TYPES = "uploads", "lfs"


def grown(path):
    with open(path, "a", encoding="ascii") as file:
        file.write("more")


def above(way):
    def to_folder(path):
        way(os.path.dirname(path))
    to_folder.__name__ = "folder-" + way.__name__
    return to_folder


WAYS = (damage.missing, damage.empty, damage.cut, damage.flipped, grown, damage.no_rights,
        damage.directory, damage.link, damage.pipe, above(damage.missing),
        above(damage.as_file), above(damage.link), above(damage.no_rights))


def content(way, version=1):
    return f"{way.__name__} {version}: some bytes that are worth a copy\n" * 20


def id_of(kind, way):
    if kind == "lfs":
        oid = hashlib.sha256(content(way).encode()).hexdigest()
        return f"{oid[:2]}/{oid[2:4]}/{oid[4:]}"
    return way.__name__ + "/file"


def cells():
    wanted = re.compile(os.environ.get("KINDS", ""))
    return [(kind, way) for kind in TYPES for way in WAYS
            if wanted.search(f"{kind}-{way.__name__}")]


def put(kind, way, version=1):
    path = f"london/{kind}/{id_of(kind, way)}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(content(way, version))
    os.rename(path + ".new", path)


def make():
    stream = ["commit refs/heads/main", "committer Test <test@example.com> 1700000000 +0000",
              "data 0"]
    for kind, way in cells():
        put(kind, way)
        if kind == "lfs":
            oid = id_of(kind, way).replace("/", "")
            text = (f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\n"
                    f"size {len(content(way))}\n")
            stream += [f"M 100644 inline {way.__name__}.bin", f"data {len(text)}", text]
    damage.run("git", "init", "-q", "--bare", "london/git/r.git")
    damage.git("london/git/r.git", "fast-import", "--quiet", input="\n".join(stream) + "\n")


def damage_all():
    broken = []
    for kind, way in cells():
        try:
            way(f"paris/{kind}/{id_of(kind, way)}")
        except OSError as error:
            broken.append(f"{kind} {way.__name__}: was not whole before: {error}")
    return broken


def rows():
    found = {}
    for kind in TYPES:
        done = damage.run(damage.REFRELAY, "-c", "paris/refrelay.conf", "blob", "list", "--json",
                          "--type", kind, check=False)
        for row in json.loads(done.stdout)["blobs"]:
            found[kind, row.get("id") or row["name"]] = row
    return found


def is_whole(kind, way):
    path = f"{kind}/{id_of(kind, way)}"
    try:
        if not os.path.isfile("paris/" + path) or os.path.islink("paris/" + path):
            return False
        with open("paris/" + path, "rb") as copy, open("london/" + path, "rb") as original:
            return copy.read() == original.read()
    except OSError:
        return False


def wait(generations):
    begun = time.monotonic()
    left = cells()
    while left and time.monotonic() - begun < damage.WHOLE_WITHIN_S:
        now = rows()
        left = [(kind, way) for kind, way in left if not (
            is_whole(kind, way) and damage.is_proved(now[kind, id_of(kind, way)])
            and now[kind, id_of(kind, way)]["generation"]
            > generations.get((kind, way), 0))]
        time.sleep(0.5)
    print(f"{len(cells())} cells, the last whole after {time.monotonic() - begun:.1f} s")
    now = rows()
    return [f"{kind} {way.__name__}: {damage.said(now[kind, id_of(kind, way)])}, "
            f"whole: {is_whole(kind, way)}" for kind, way in left]


def command(verb):
    for kind in TYPES:
        ids = [id_of(one, way) for one, way in cells() if one == kind]
        damage.run(damage.REFRELAY, "-c", "paris/refrelay.conf", "blob", verb, "--type", kind,
                   *ids, check=False)


def sync():
    """What may change does; the rest is asked for."""
    now = rows()
    generations = {}
    for kind, way in cells():
        if kind == "uploads":
            generations[kind, way] = now[kind, id_of(kind, way)]["generation"]
            put(kind, way, time.time())
    command("resync")
    return generations


def read_one(way):
    oid = id_of("lfs", way).replace("/", "")
    try:
        with urllib.request.urlopen(f"{damage.site_url()}/r.git/info/lfs/objects/{oid}",
                                    timeout=20) as answer:
            got = answer.read()
    except (urllib.error.URLError, OSError) as error:
        return f"lfs {way.__name__}: a reader is told: {error}"
    if got != content(way).encode():
        return f"lfs {way.__name__}: a reader gets something else"
    until = time.monotonic() + damage.TOLD_WITHIN_S
    while True:
        if is_whole("lfs", way) or not damage.is_proved(rows()["lfs", id_of("lfs", way)]):
            return None
        if time.monotonic() > until:
            return f"lfs {way.__name__}: after it was read it is called verified"


def read():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ways = [way for kind, way in cells() if kind == "lfs"]
        return [fault for fault in pool.map(read_one, ways) if fault]


def main():
    word = sys.argv[1]
    failed, generations = [], {}
    if word == "make":
        make()
        return
    if word == "read":
        TYPES_READ = [cell for cell in cells() if cell[0] == "lfs"]
        globals()["cells"] = lambda: TYPES_READ
    if word != "start":
        failed += damage_all()
    if word == "sync":
        generations = sync()
    elif word == "verification":
        command("reverify")
    elif word == "read":
        failed += read()
    if word != "start-damage":
        failed += wait(generations)
    for line in failed:
        print("failed cell:", line)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
