"""What goes wrong: each fault begins, and is healed at the end of its time. What damages a
copy is not healed: the program has to do that."""
import os
import shutil
import signal
import subprocess
import time

from history import read_refs
from world import git, run

WEIGHTS = (("kill", 8), ("restart", 3), ("pause", 6), ("pause_child", 3), ("partition", 8),
           ("cut", 4), ("slow", 3), ("destination", 5), ("full_data", 5), ("full_copies", 5),
           ("read_only", 3), ("damage", 10), ("missing_copy", 4), ("damage_blob", 5),
           ("lost_database", 3), ("clock", 3), ("stranger", 5))
LONG = ("pause", "partition", "full_data", "kill", "full_copies")
DAMAGES = ("flip_pack", "cut_pack", "no_pack", "no_index", "cut_refs", "no_refs", "empty_head",
           "wrong_head", "no_objects", "multi_pack_index", "empty_loose_ref", "no_config")


def draw(choices, only=None):
    weights = [(name, weight) for name, weight in WEIGHTS if not only or name in only]
    names, weights = zip(*weights)
    return choices.choices(names, weights)[0]


class Doubt:
    """From met_at on somebody knows that a copy is not as it should be, until it is."""

    def __init__(self, site, text, met_at, is_wrong):
        self.site, self.text, self.met_at, self.is_wrong = site, text, met_at, is_wrong


class Faults:
    def __init__(self, world, operations, note):
        self.world, self.operations, self.note = world, operations, note
        self.doubts = []
        self.touched = set()  # (site, repository's number): readers there may see anything
        self.count = {}

    def begin(self, name, choices, seconds):
        """Gives what heals it, or None."""
        self.count[name] = self.count.get(name, 0) + 1
        try:
            healer, text = getattr(self, name)(choices)
        except (OSError, subprocess.SubprocessError) as error:
            healer, text = None, f"failed: {error}"
        self.note("fault", f"{name} for {seconds:.0f} s: {text}")
        return healer

    def any_site(self, choices):
        return choices.choice(self.world.sites)

    def secondary(self, choices):
        return choices.choice(self.world.secondaries)

    # Nodes

    def revive(self, site):
        with site.lock:
            site.clock = 0
            if site.is_down:
                site.start()

    def kill(self, choices):
        site = self.any_site(choices)
        with site.lock:
            if site.is_down:
                return None, f"{site.name} is down"
            site.kill()
        return lambda: self.revive(site), site.name

    def restart(self, choices):
        site = self.any_site(choices)
        with site.lock:
            if site.is_down or site.is_stopped or site.has_died():
                return None, f"{site.name} is down"
            wrong = site.end()
            if wrong:
                self.operations.report("nodes_do_not_crash", wrong)
            site.start()
        return None, f"{site.name}{wrong and ', badly'}"

    def pause(self, choices):
        site = self.any_site(choices)
        if site.is_down:
            return None, f"{site.name} is down"
        site.pause()
        return lambda: None if site.is_down else site.go_on(), site.name

    def pause_child(self, choices):
        site = self.any_site(choices)
        children = [] if site.is_down else site.children()
        if not children:
            return None, f"{site.name} has none"
        child = choices.choice(children)

        def send(how):
            try:
                os.kill(child, how)
            except ProcessLookupError:
                pass

        send(signal.SIGSTOP)
        return lambda: send(signal.SIGCONT), f"{site.name} {child}"

    def clock(self, choices):
        site = self.any_site(choices)
        wrong = choices.choice((3, -3, 40, -40, 86400, -86400, 86400 * 16))
        with site.lock:
            if not self.world.has_clock or site.is_down:
                return None, f"not at {site.name}"
            site.kill()
            site.clock = wrong
            site.start()

        def heal():
            with site.lock:
                if not site.is_down:
                    site.kill()
                self.revive(site)

        return heal, f"{site.name} {wrong} s"

    def lost_database(self, choices):
        site = self.secondary(choices)
        with site.lock:
            if site.is_down:
                return None, f"{site.name} is down"
            site.kill()
            for file in site.data.glob("refrelay.db*"):
                file.unlink()
            site.start()
        return None, site.name

    # The network

    def partition(self, choices):
        site = self.secondary(choices)
        rule = choices.choice(("refuse", "deaf", "mute", "black_hole"))
        proxy = self.world.proxies[site.name]
        proxy.set(rule)

        def heal():
            proxy.set("pass")
            if rule != "refuse":
                proxy.cut()  # bytes are missing

        return heal, f"{site.name} {rule}"

    def cut(self, choices):
        site = self.secondary(choices)
        self.world.proxies[site.name].cut()
        return None, site.name

    def slow(self, choices):
        site = self.secondary(choices)
        self.world.proxies[site.name].set("slow")
        return lambda: self.world.proxies[site.name].set("pass"), site.name

    def destination(self, choices):
        one = choices.choice([one for one in self.world.destinations if one.proxy])
        rule = choices.choice(("refuse", "black_hole", "mute"))
        one.proxy.set(rule)

        def heal():
            one.proxy.set("pass")
            one.proxy.cut()

        return heal, f"{one.name} {rule}"

    # Disks

    def fill(self, folder):
        if folder not in self.world.mounts:
            return None
        filler = folder / ".chaos-filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass

        def heal():
            try:
                filler.unlink(missing_ok=True)
            except OSError:  # it was made read-only meanwhile
                run(["mount", "-o", "remount,rw", str(folder)], check=False)
                filler.unlink(missing_ok=True)

        return heal

    def full_data(self, choices):
        site = self.secondary(choices)
        return self.fill(site.data), site.name

    def full_copies(self, choices):
        site = self.secondary(choices)
        return self.fill(site.repositories), site.name

    def read_only(self, choices):
        site = self.secondary(choices)
        if site.repositories not in self.world.mounts:
            return None, "no file system of its own"
        done = run(["mount", "-o", "remount,ro", str(site.repositories)], check=False)
        if done.returncode != 0:
            return None, f"{site.name}: it is busy"
        return (lambda: run(["mount", "-o", "remount,rw", str(site.repositories)], check=False),
                site.name)

    # Copies

    def copy(self, choices):
        """Of a repository whose copy is there."""
        site, repository = self.secondary(choices), self.operations.pick(choices)
        path = site.repositories / (repository.name + ".git")
        return site, repository, path

    def doubt(self, site, repository, path, text):
        """Somebody knows from now on."""
        name = repository.name

        def is_wrong():
            """By stock git."""
            if repository.is_given_up or repository.name != name:
                return False
            here, there = read_refs(path), read_refs(self.operations.bare(repository))
            if here is None or here != there:
                return True
            return git("-C", str(path), "fsck", "--connectivity-only", "--no-dangling",
                       "--no-progress", check=False).returncode != 0

        self.doubts.append(Doubt(site, text, time.monotonic(), is_wrong))

    def drop(self, doubt):
        if doubt in self.doubts:
            self.doubts.remove(doubt)

    def meet(self, site, repository, path, text):
        """A reader comes. If it is refused, the node knows."""
        folder = self.world.folder / "work" / f"meeting-{time.monotonic_ns()}"
        done = git("-c", "protocol.version=2", "clone", "-q", "--mirror",
                   self.operations.url(site, repository), str(folder), check=False,
                   timeout=40)
        shutil.rmtree(folder, ignore_errors=True)
        if done.returncode == 0 or site.is_down or site.is_stopped or repository.is_given_up:
            return "; its reader was served"
        if b"returned error" not in done.stderr and b"not found" not in done.stderr and \
                b"remote error" not in done.stderr and b"early EOF" not in done.stderr:
            return f"; its reader failed: {done.stderr[-100:]!r}"
        self.doubt(site, repository, path, text)
        return f"; its reader met it: {done.stderr[-100:]!r}"

    def damage(self, choices):
        how = choices.choice(DAMAGES)
        site, repository, path = self.copy(choices)
        at = choices.random()
        text = f"{how} of {site.name} {repository.name}"
        if not path.is_dir():
            return None, text + ": it is not there"
        self.touched.add((site.name, repository.number))
        if not self.apply(how, path, at):
            return None, text + ": there is nothing to damage"
        return None, text + self.meet(site, repository, path, text)

    def apply(self, how, path, at):
        packs = sorted((path / "objects" / "pack").glob("*.pack"))
        refs = path / "packed-refs"
        if how in ("flip_pack", "cut_pack", "no_pack", "no_index"):
            if not packs:
                return False
            pack = packs[int(at * len(packs))]
            pack.chmod(0o600)
            size = pack.stat().st_size
            if how == "flip_pack":
                with open(pack, "r+b") as file:
                    file.seek(12 + int(at * (size - 32)))
                    byte = file.read(1)
                    file.seek(-1, 1)
                    file.write(bytes([byte[0] ^ 0x41]))
            elif how == "cut_pack":
                os.truncate(pack, int(size * at))
            else:
                (pack if how == "no_pack" else pack.with_suffix(".idx")).unlink()
        elif how == "cut_refs":
            if not refs.exists():
                return False
            os.truncate(refs, int(refs.stat().st_size * at))
        elif how == "no_refs":
            refs.unlink(missing_ok=True)
        elif how == "empty_head":
            os.truncate(path / "HEAD", 0)
        elif how == "wrong_head":
            (path / "HEAD").write_bytes(b"\0\0\0garbage")
        elif how == "no_objects":
            shutil.rmtree(path / "objects")
        elif how == "multi_pack_index":
            (path / "objects" / "pack" / "multi-pack-index").write_bytes(b"MIDX garbage" * 20)
        elif how == "empty_loose_ref":
            (path / "refs" / "heads").mkdir(parents=True, exist_ok=True)
            (path / "refs" / "heads" / "main").write_bytes(b"")
        else:
            (path / "config").unlink(missing_ok=True)
        return True

    def missing_copy(self, choices):
        site, repository, path = self.copy(choices)
        text = f"{site.name} {repository.name}"
        if not path.is_dir():
            return None, text + ": it is not there"
        self.touched.add((site.name, repository.number))
        shutil.rmtree(path, ignore_errors=True)
        return None, text + self.meet(site, repository, path, "missing copy of " + text)

    def stranger(self, choices):
        site, repository, path = self.copy(choices)
        at = choices.random()
        found = read_refs(path)
        if not found or not found[1]:
            return None, f"{site.name} {repository.name}: it is not there"
        self.touched.add((site.name, repository.number))
        name, value = found[1][int(at * len(found[1]))]
        if at < 0.4:
            name = "refs/heads/stranger"
        arguments = ("-d", name) if at > 0.7 else (name, dict(found[1])["refs/heads/pair-a"]
                                                   if "refs/heads/pair-a" in dict(found[1])
                                                   else value)
        git("-C", str(path), "update-ref", *arguments, check=False)
        text = f"a stranger's write to {site.name} {repository.name}: {' '.join(arguments)}"
        self.doubt(site, repository, path, text)
        return None, text

    def damage_blob(self, choices):
        site, at = self.secondary(choices), choices.random()
        files = sorted(file for file in site.tree.rglob("*")
                       if file.is_file() and ".refrelay" not in str(file))
        if not files:
            return None, f"{site.name} has none"
        file = files[int(at * len(files))]
        how = choices.choice(("flip", "cut", "remove"))
        size = file.stat().st_size
        if how == "remove" or size == 0:
            file.unlink()
        elif how == "cut":
            os.truncate(file, int(size * at))
        else:
            with open(file, "r+b") as opened:
                opened.seek(int(at * size))
                byte = opened.read(1)
                opened.seek(-1, 1)
                opened.write(bytes([byte[0] ^ 1]))
        return None, f"{how} {site.name} {file.relative_to(site.tree)}"
