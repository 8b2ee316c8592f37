"""What was written when, and whether what a reader saw could be seen at that moment."""
import threading
import time
from pathlib import Path

PAIR = ("refs/heads/pair-a", "refs/heads/pair-b")


class Write:
    """A value of a ref. `done` None: nobody was told that it was taken."""

    def __init__(self, value, begun, done=None):
        self.value, self.begun, self.done = value, begun, done


class Ref:
    """Each value but the deletion (None) is written once only."""

    def __init__(self, value, at):
        self.writes = [Write(value, at, at)]

    def begin(self, value):
        self.writes.append(Write(value, time.monotonic()))
        return self.writes[-1]

    @property
    def acknowledged(self):
        """The index of the last write that was."""
        return max(i for i, write in enumerate(self.writes) if write.done is not None)

    def could_be(self, at):
        """Values that a repository may have when nothing is under way any more."""
        return [write.value for write in self.writes[self.acknowledged:]]

    def place(self, value, lowest, end):
        """The index of a write with that value, not before `lowest`, begun by `end`; -1."""
        for i in range(lowest, len(self.writes)):
            if self.writes[i].value == value and self.writes[i].begun <= end:
                return i
        return -1

    def newest_before(self, moment):
        return max((i for i, write in enumerate(self.writes)
                    if write.done is not None and write.done <= moment), default=0)


class Repository:
    def __init__(self, name, number):
        self.name, self.number = name, number
        self.mutex = threading.RLock()  # one operation at a time
        self.refs = {}
        self.head = "refs/heads/main"
        self.made_at = time.monotonic()
        self.is_given_up = False
        self.has_hooks = True

    def ref(self, name):
        return self.refs.setdefault(name, Ref(None, 0.0))


def read_packed(text):
    refs = {}
    for line in text.splitlines():
        value, _, name = line.partition(" ")
        if name and not line.startswith(("#", "^")):
            refs[name] = value
    return refs


def read_refs(path):
    """HEAD and all refs of a bare repository, from its files; None: it cannot be read."""
    try:
        head = (path / "HEAD").read_text()
        packed = path / "packed-refs"
        refs = {}
        for file in sorted((path / "refs").rglob("*")):
            if file.is_file() and not file.name.endswith(".lock"):
                refs[str(file.relative_to(path))] = file.read_text().strip()
        found = read_packed(packed.read_text()) if packed.exists() else {}
        found.update(refs)
        return head.strip(), tuple(sorted(found.items()))
    except (OSError, ValueError):
        return None


def repositories_below(root):
    root, found = Path(root), []

    def look(folder):
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            return
        for entry in entries:
            if entry.name == ".refrelay" or not entry.is_dir():
                continue
            if entry.name.endswith(".git"):
                found.append(str(entry.relative_to(root))[:-4])
            else:
                look(entry)

    look(root)
    return found


class Reads:
    """Judges info/refs of all readers. A finding is given to `report(kind, text)`."""

    def __init__(self, report):
        self.report = report
        self.seen = {}  # (reader, repository, ref): index
        self.count = {"primary": 0, "secondary": 0, "refused": 0}

    def forget(self, site):
        """Somebody else wrote there."""
        self.seen = {key: value for key, value in self.seen.items() if key[0][0] != site}

    def judge(self, reader, is_primary, repository, refs, begun, ended):
        self.count["primary" if is_primary else "secondary"] += 1
        for name, ref in list(repository.refs.items()):
            key = (reader, repository.number, name)
            lowest = self.seen.get(key, 0)
            if is_primary:
                lowest = max(lowest, ref.newest_before(begun))
            value = refs.get(name)
            index = ref.place(value, lowest, ended)
            if index < 0:
                self.say(reader, is_primary, repository, name, value, lowest)
            elif value is not None:
                self.seen[key] = max(index, lowest)

    def say(self, reader, is_primary, repository, name, value, lowest):
        ref = repository.refs[name]
        before = ref.place(value, 0, float("inf"))
        kind = "primary_never_stale" if is_primary else "secondary_never_goes_back"
        self.report(kind, f"{reader} read {repository.name} {name} as {value} (write {before}), "
                          f"though write {lowest} ({ref.writes[lowest].value}) was "
                          + ("acknowledged before" if is_primary else "read before"))
