"""Damages copies at ./paris in every way that a disk, a crash or a person knows, has each
met by the same TRIGGER, and waits until all are whole: equal to ./london by stock git, and
called verified.

    damage.py TRIGGER...    sync, verification, read, start-damage, start

Each kind of damage has a repository of its own, of the kind's name. Prints each cell that
is not whole in time, by name. `start-damage` only damages; `start` then waits. KINDS may
hold a regular expression that the names must match. The repositories are made by
`damage.py make`.
"""
import concurrent.futures
import contextlib
import functools
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REFRELAY = os.environ["REFRELAY"]
# A build without sanitizers, if there is one, starts in a fifth of the time.
ASKED_OFTEN = os.environ.get("REFRELAY_PLAIN") or REFRELAY
WHOLE_WITHIN_S = float(os.environ.get("WHOLE_WITHIN_S", "180"))
TOLD_WITHIN_S = 30  # one look takes a dozen programs, for several copies at a time


def run(*command, check=True, **more):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=30, **more)
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(command, 124, "", "error: it waits for a pipe")
    if check and done.returncode:
        sys.exit(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
    return done


def git(path, *command, **more):
    return run("git", "-c", "core.fsync=none", "-C", path, *command, **more)


def copy_of(name):
    return f"paris/git/{name}.git"


# Where things are.

def only(folder, end):
    found = [name for name in os.listdir(folder) if name.endswith(end)]
    return os.path.join(folder, found[0])


def in_packs(end):
    return lambda copy: only(os.path.join(copy, "objects/pack"), end)


def at(path):
    return lambda copy: os.path.join(copy, path)


def with_bitmap(copy):
    git(copy, "repack", "-adbq")
    return only(os.path.join(copy, "objects/pack"), ".bitmap")


def with_reverse_index(copy):
    pack = only(os.path.join(copy, "objects/pack"), ".pack")
    if not os.path.exists(pack[:-5] + ".rev"):
        for end in ".idx", ".rev":
            if os.path.exists(pack[:-5] + end):
                os.remove(pack[:-5] + end)
        git(copy, "index-pack", "--rev-index", os.path.relpath(pack, copy))
    return pack[:-5] + ".rev"


def with_multi_pack_index(copy):
    git(copy, "multi-pack-index", "write")
    return os.path.join(copy, "objects/pack/multi-pack-index")


def with_commit_graph(copy):
    git(copy, "commit-graph", "write", "--reachable")
    return os.path.join(copy, "objects/info/commit-graph")


def with_loose_objects(copy):
    packs = os.path.join(copy, "objects/pack")
    git(copy, "repack", "-adq")
    pack = only(packs, ".pack")
    away = os.path.join(copy, "away.pack")
    os.rename(pack, away)
    for name in os.listdir(packs):
        os.remove(os.path.join(packs, name))
    with open(away, "rb") as file:
        subprocess.run(["git", "-C", copy, "unpack-objects", "-q"], stdin=file, check=True)
    os.remove(away)
    oid = git(copy, "rev-parse", "main").stdout.strip()
    return os.path.join(copy, "objects", oid[:2], oid[2:])


def with_loose_ref(copy):
    oid = git(copy, "rev-parse", "main").stdout
    path = os.path.join(copy, "refs/heads/main")
    if os.path.isdir(path):
        shutil.rmtree(path)
    with open(path, "w", encoding="ascii") as file:
        file.write(oid)
    return path


# What becomes of them.

def writable(path):
    os.chmod(path, 0o644)
    return path


def missing(path):
    if "/refrelay" in path and not os.path.lexists(path):
        return  # it is made when it is needed
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


def empty(path):
    os.truncate(writable(path), 0)


def cut(path):
    os.truncate(writable(path), os.path.getsize(path) // 2)


def flipped(path):
    with open(writable(path), "r+b") as file:
        data = bytearray(file.read())
        for i in range(len(data) // 3, len(data), 7):
            data[i] ^= 0x5A
        file.seek(0)
        file.write(data)


def no_rights(path):
    os.chmod(path, 0)


def directory(path):
    missing(path)
    os.makedirs(os.path.join(path, "something"))


def link(path):
    missing(path)
    os.symlink("/nonexistent/elsewhere", path)


def as_file(path):
    missing(path)
    with open(path, "w", encoding="ascii") as file:
        file.write("what is this?\n")


def pipe(path):
    missing(path)
    os.mkfifo(path)


def emptied(path):
    for name in os.listdir(path):
        missing(os.path.join(path, name))


def written(text):
    def write(path):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    return write


def borrowed(path):
    written(os.path.abspath(copy_of("head-missing")) + "/objects\n")(path)


def cut_short(path):
    """History ends at main."""
    copy = path.removesuffix("/shallow").removesuffix("/info/grafts")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    written(git(copy, "rev-parse", "main").stdout)(path)


def configured(*settings):
    def write(path):
        for setting in settings:
            key, value = setting.split("=")
            section, name = key.split(".")
            with open(path, "a", encoding="ascii") as file:
                file.write(f"[{section}]\n\t{name} = {value}\n")
    return write


def promised(copy):
    """Git takes blobs that are not there for things that it may fetch."""
    source = "file://" + os.path.abspath(copy.replace("paris", "london"))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        run("git", "clone", "-q", "--mirror", "--filter=blob:none", "-u",
            "git -c uploadpack.allowFilter=true upload-pack", source, folder + "/partial")
        emptied(os.path.join(copy, "objects/pack"))
        shutil.copytree(folder + "/partial/objects/pack", os.path.join(copy, "objects/pack"),
                        dirs_exist_ok=True)
    configured("core.repositoryformatversion=1", "extensions.partialClone=origin")(
        os.path.join(copy, "config"))
    git(copy, "config", "remote.origin.url", source)
    git(copy, "config", "remote.origin.promisor", "true")


NEWER = "core.repositoryformatversion=1"
ALL = (missing, empty, cut, flipped, no_rights, directory, link)
DERIVED = (empty, flipped, no_rights, directory)
OWN = (empty, no_rights, directory)
FOLDER = (missing, as_file, link, no_rights)

PLACES = [
    ("head", at("HEAD"), ALL + (pipe,)),
    ("config", at("config"), (missing, cut, flipped, no_rights, directory, link)),
    ("settings", at("config"), (
        configured(NEWER, "extensions.objectFormat=sha256"),
        configured("extensions.objectFormat=sha256"),
        configured(NEWER, "extensions.partialClone=origin"),
        configured("extensions.partialClone=origin"),
        configured(NEWER, "extensions.whatIsThis=true"),
        configured(NEWER, "extensions.refStorage=reftable"),
        configured("core.repositoryformatversion=99"),
        configured("core.repositoryformatversion=nonsense"),
        configured("core.worktree=/nonexistent"),
        configured("core.bare=nonsense"),
    )),
    ("packed-refs", at("packed-refs"), ALL + (pipe,)),
    ("pack", in_packs(".pack"), ALL),
    ("idx", in_packs(".idx"), ALL),
    ("rev", with_reverse_index, DERIVED),
    ("midx", with_multi_pack_index, DERIVED),
    ("bitmap", with_bitmap, DERIVED),
    ("commit-graph", with_commit_graph, DERIVED),
    ("loose-object", with_loose_objects, ALL),
    ("loose-ref", with_loose_ref, (empty, flipped, no_rights, directory, link)),
    ("fence", at("refrelay/fence"), (missing,) + OWN),
    ("key", at("refrelay/state/key"), OWN),
    ("record", at("refrelay/copy"), (missing,) + OWN),
    ("copy", at("."), ()),
    ("objects", at("objects"), FOLDER + (emptied,)),
    ("packs", at("objects/pack"), FOLDER + (emptied,)),
    ("refs", at("refs"), FOLDER),
    ("heads", at("refs/heads"), (as_file, link, no_rights)),
    ("own", at("refrelay"), FOLDER),
    ("state", at("refrelay/state"), (as_file, no_rights)),
    ("pending", at("refrelay/state/pending"), (link,)),
    ("ref-lock", at("refs/heads/main.lock"), (written(""),)),
    ("head-lock", at("HEAD.lock"), (written(""),)),
    ("packed-lock", at("packed-refs.lock"), (written(""),)),
    ("alternates", at("objects/info/alternates"), (written("/nonexistent\n"), borrowed)),
    ("shallow", at("shallow"), (written("f" * 40 + "\n"), written("nonsense\n"), cut_short)),
    ("grafts", at("info/grafts"), (cut_short,)),
    ("commondir", at("commondir"), (written("../copy-missing.git\n"),)),
    ("worktree", at("config.worktree"), (written("[transfer]\nhideRefs = refs/\n"),)),
    ("half-pack", at("objects/pack/tmp_pack_abcdef"), (written("PACK"),)),
    ("strange-pack", at("objects/pack/pack-" + "1" * 40 + ".idx"), (written("nonsense"),)),
]


def kinds():
    made = {}
    for word, place, ways in PLACES:
        for number, way in enumerate(ways):
            what = way.__name__.replace("_", "-")
            name = word + "-" + (what if what != "write" else f"laid-{number}")
            made[name] = (place, way)
    made["promised"] = (lambda copy: copy, promised)
    made["copy-missing"] = (lambda copy: copy, missing)
    made["copy-emptied"] = (lambda copy: copy, emptied)
    made["copy-as-file"] = (lambda copy: copy, as_file)
    made["copy-link"] = (lambda copy: copy, link)
    made["copy-no-rights"] = (lambda copy: copy, no_rights)
    made["copy-pipe"] = (lambda copy: copy, pipe)
    wanted = re.compile(os.environ.get("KINDS", ""))
    return {name: kind for name, kind in made.items() if wanted.search(name)}


def make():
    names = list(kinds())
    run("bash", "-c", '. "$1"; make_repository london/git/"$2".git 4', "-",
        os.path.join(os.path.dirname(__file__), "sites.sh"), names[0])
    first = f"london/git/{names[0]}.git"
    git(first, "branch", "topic", "main~2")
    git(first, "tag", "-a", "-m", "tagged", "v1", "main~1")
    git(first, "repack", "-adq")
    for name in names[1:]:
        shutil.copytree(first, f"london/git/{name}.git")


@contextlib.contextmanager
def stopped():
    """A node that sees half of a damage may mend that before the rest is done."""
    with open("paris/pid") as file:
        pid = int(file.read())
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        yield
        return
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def damage():
    broken = []
    with stopped():
        for name, (place, way) in kinds().items():
            try:
                way(place(copy_of(name)))
            except (OSError, IndexError, SystemExit, subprocess.CalledProcessError) as error:
                broken.append(f"{name}: was not whole before: {error}")
    return broken


# What is so now.

DIVERSIONS = ("shallow", "info/grafts", "commondir", "config.worktree",
              "objects/info/alternates")


def picture(path):
    shown = git(path, "for-each-ref", "--format=%(refname) %(objectname) %(symref)", check=False)
    head = git(path, "symbolic-ref", "HEAD", check=False)
    return shown.stdout + head.stdout if shown.returncode == head.returncode == 0 else None


@functools.cache
def wanted_picture(name):
    """The primary's, which changes no more when copies are looked at."""
    return picture(f"london/git/{name}.git")


def commands_of_proof(copy):
    """Git starts programs for a commit-graph and an index of packs, unless told of none."""
    fsck = ["fsck", "--full", "--strict", "--no-dangling"]
    for setting, file in (("core.commitGraph", "objects/info/commit-graph"),
                          ("core.multiPackIndex", "objects/pack/multi-pack-index")):
        if not os.path.lexists(os.path.join(copy, file)):
            fsck = ["-c", setting + "=false"] + fsck
    commands = [fsck, ["rev-list", "--objects", "--all"]]
    if glob.glob(os.path.join(glob.escape(copy), "objects/pack/*.bitmap")):
        commands.append(["rev-list", "--objects", "--all", "--use-bitmap-index"])
    return commands


def fault_of(name):
    """What stock git says is wrong with the copy; None: whole."""
    copy = copy_of(name)
    if os.path.islink(copy) or not os.path.isdir(copy):
        return "it is not a directory"
    for file in "HEAD", "config", "packed-refs":
        if not os.path.isfile(os.path.join(copy, file)):
            return f"{file} is no file"  # git would wait for a pipe
    for file in DIVERSIONS:
        if os.path.lexists(os.path.join(copy, file)):
            return f"{file} is there"
    if picture(copy) != wanted_picture(name):
        return "its refs are not the primary's"
    for command in commands_of_proof(copy):
        done = git(copy, *command, check=False)
        if done.returncode or "error" in done.stderr or "warning" in done.stderr:
            return f"{' '.join(command)}: {done.stderr.strip()[:300]}"
    said = git(copy, "config", "--file", "config", "--get-regexp",
               r"extensions|promisor|worktree$", check=False).stdout.strip()
    if said:
        return f"its config says {said}"
    for word, file in (("multi-pack-index", "objects/pack/multi-pack-index"),
                       ("commit-graph", "objects/info/commit-graph")):
        if os.path.lexists(os.path.join(copy, file)):
            done = git(copy, word, "verify", check=False)
            if done.returncode:
                return f"{word} verify: {done.stderr.strip()[:300]}"
    for file in os.listdir(os.path.join(copy, "objects/pack")):
        if file.endswith(".rev") and "link" in file:
            return file
    return None


def rows():
    done = run(ASKED_OFTEN, "-c", "paris/refrelay.conf", "repository", "list", "--json",
               check=False)
    return {row["name"]: row for row in json.loads(done.stdout)["repositories"]}


def is_proved(row):
    return (row["state"] == "synced" and row["verification_state"] == "succeeded"
            and row["generation"] == row["generation_wanted"])


def said(row):
    return f'{row["state"]}, verification {row["verification_state"]}: {row["failure"]}'


class Waiting:
    """Until all are whole, or the time is over; each for itself."""

    def __init__(self, names):
        self.left = {name: "" for name in names}
        self.generations = {}
        self.begun = time.monotonic()
        self.slowest = (0, "")

    def look(self, pool):
        now = rows()
        ready = [name for name in self.left if name in now and is_proved(now[name])
                 and now[name]["generation"] > self.generations.get(name, 0)]
        for name in set(self.left) - set(ready):
            self.left[name] = said(now[name]) if name in now else "it has no row"
        for name, fault in zip(ready, pool.map(fault_of, ready)):
            self.left[name] = f"called verified, but: {fault}"
            if fault is None:
                del self.left[name]
                self.slowest = (time.monotonic() - self.begun, name)

    def wait(self):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            while self.left and time.monotonic() - self.begun < WHOLE_WITHIN_S:
                time.sleep(1)
                self.look(pool)
        return [f"{name}: {why}" for name, why in self.left.items()]


def sync(waiting):
    generations = {name: row["generation"] for name, row in rows().items()}
    waiting.generations = {name: generations.get(name, 1) for name in kinds()}
    for name in kinds():
        path = f"london/git/{name}.git"
        tree = git(path, "rev-parse", "main^{tree}").stdout.strip()
        commit = git(path, "-c", "user.name=Test", "-c", "user.email=test@example.com",
                     "commit-tree", "-p", "main", "-m", str(time.time()), tree).stdout.strip()
        git(path, "update-ref", "refs/heads/main", commit)
    return []


def verification(_):
    run(REFRELAY, "-c", "paris/refrelay.conf", "repository", "reverify", *kinds(), check=False)
    return []


def site_url():
    listen = run("git", "config", "--file", "paris/refrelay.conf", "http.listen")
    return "http://" + listen.stdout.strip()


def read_one(name):
    """A reader gets what the primary has, and the row says soon that there is a doubt."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        done = run("git", "clone", "-q", "--mirror", f"{site_url()}/{name}.git", folder + "/got",
                   check=False, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
        if done.returncode:
            return f"{name}: a reader is told: {done.stderr.strip()[:300]}"
        if picture(folder + "/got") != wanted_picture(name):
            return f"{name}: a reader gets something else"
    until = time.monotonic() + TOLD_WITHIN_S
    while True:
        row, fault = rows().get(name), fault_of(name)
        if fault is None or not row or not is_proved(row):
            return None
        if time.monotonic() > until:
            return f"{name}: after it was read it is called verified, but: {fault}"


def read(_):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [fault for fault in pool.map(read_one, kinds()) if fault]


def main():
    failed = []
    for word in sys.argv[1:]:
        if word == "make":
            make()
            continue
        if word != "start":
            failed += damage()
        if word == "start-damage":
            continue
        waiting = Waiting(kinds())
        meet = {"sync": sync, "verification": verification, "read": read}.get(word)
        failed += meet(waiting) if meet else []
        waiting.begun = time.monotonic()
        failed += waiting.wait()
        print(f"{word}: {len(kinds())} kinds, the last whole after "
              f"{waiting.slowest[0]:.1f} s ({waiting.slowest[1]})")
    for line in failed:
        print("failed cell:", line)
    sys.exit(bool(failed))


if __name__ == "__main__":
    socket.setdefaulttimeout(60)
    main()
