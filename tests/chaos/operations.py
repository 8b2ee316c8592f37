"""What users do: each operation takes a random generator of its own, so that its choices
are the seed's, and says what became of it."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from urllib.parse import quote

from history import PAIR, Ref, Repository, read_refs
from world import git

MAIN = "refs/heads/main"
WEIGHTS = (("push_disk", 20), ("push_primary", 18), ("push_secondary", 14), ("push_pair", 12),
           ("force_push", 6), ("branch", 10), ("delete_branch", 7), ("tag", 6), ("head", 4),
           ("create", 6), ("rename", 3), ("delete", 2), ("repack", 4), ("blob_file", 6),
           ("blob_put", 6), ("blob_delete", 3), ("lfs", 4), ("clone", 8), ("command", 4),
           ("reload", 2), ("no_hooks", 2))


def draw(choices):
    names, weights = zip(*WEIGHTS)
    return choices.choices(names, weights)[0]


class Operations:
    def __init__(self, world, report, note):
        self.world, self.report, self.note = world, report, note
        self.repositories = []
        self.gone = set()
        self.deletions = {"repository": [], "blob": []}  # when each was
        self.blobs = {}        # id: acknowledged content's digest, or None: deleted
        self.unsure = set()    # ids of which an operation was not answered, and may come later
        self.lfs_objects = {}  # oid: repository
        self.mutex = threading.RLock()
        self.count = 0
        self.work = world.folder / "work"
        self.stage = world.london.folder / "stage"  # of the same file system as what is served
        self.work.mkdir()
        self.stage.mkdir()
        self.ways = (self.disk_url, self.primary_url)  # to write at the primary
        self.doubt = lambda *_: None  # told of copies that somebody knows to be wrong
        self.done = {"acknowledged": 0, "refused": 0, "lfs": 0, "put": 0, "clones": 0}

    def do(self, name, seed, choices):
        begun = time.monotonic()
        try:
            result = getattr(self, name)(choices) or ""
        except (subprocess.SubprocessError, OSError) as error:
            result = f"failed: {str(error)[:200]}"
        self.note("operation", f"{name} {seed} {time.monotonic() - begun:.1f} s: {result}")

    def pick(self, choices):
        with self.mutex:
            live = list(self.repositories) or [self.new(f"r{self.count}", choices)]
        return live[int(choices.random() * len(live))]

    def bare(self, repository):
        return self.world.london.repositories / (repository.name + ".git")

    def cache(self, repository):
        return self.work / f"{repository.number}.git"

    # One commit that no other has, on top of another or of none.

    def commit(self, repository, parent, choices):
        with self.mutex:
            self.count += 1
            number = self.count
        size = int(choices.random() ** 4 * 200000)
        content = hashlib.sha256(str(number).encode()).hexdigest() + "\n"
        content += base64.b85encode(choices.randbytes(size)).decode()
        text = (f"commit refs/work/{number}\ncommitter Chaos <chaos@example.com> "
                f"{1700000000 + number} +0000\ndata <<END\nchange {number}\nEND\n"
                + (f"from {parent}\n" if parent else "")
                + f"M 100644 inline file-{number % 7}\ndata {len(content)}\n{content}\ndone\n")
        subprocess.run(("git", "-C", str(self.cache(repository)), "fast-import", "--quiet",
                        "--done"), input=text.encode(), check=True, timeout=60,
                       stderr=subprocess.DEVNULL)
        ref = self.cache(repository) / "refs" / "work" / str(number)
        return ref.read_text().strip()

    def new(self, name, choices):
        with self.mutex:
            self.count += 1
            repository = Repository(name, self.count)
        git("init", "-q", "--bare", str(self.cache(repository)))
        making = self.stage / f"making-{repository.number}"
        git("init", "-q", "--bare", str(making))
        values = {ref: self.commit(repository, None, choices) for ref in (MAIN, "pair")}
        refs = {MAIN: values[MAIN], PAIR[0]: values["pair"], PAIR[1]: values["pair"]}
        git("-C", str(self.cache(repository)), "push", "-q", str(making),
            *(f"{value}:{ref}" for ref, value in refs.items()))
        for destination in self.world.destinations:
            destination.prepare(name)
        at = time.monotonic()
        repository.refs = {ref: Ref(value, at) for ref, value in refs.items()}
        self.bare(repository).parent.mkdir(parents=True, exist_ok=True)
        os.rename(making, self.bare(repository))
        repository.has_hooks = choices.random() < 0.7
        if repository.has_hooks:
            self.world.london.cli("hooks", "install", name)
        with self.mutex:
            self.repositories.append(repository)
        return repository

    def current(self, repository, name):
        """What is on the disk of the primary; an answer that was lost is known by that."""
        found = read_refs(self.bare(repository))
        return dict(found[1]).get(name) if found else None

    def write(self, repository, updates, url, *options):
        """updates: {ref: new value or None}. Says whether it was acknowledged."""
        writes = [repository.ref(name).begin(value) for name, value in updates.items()]
        specs = [f"{value or ''}:{name}" for name, value in updates.items()]
        done = git("-C", str(self.cache(repository)), "push", "-q", *options, url, *specs,
                   check=False, timeout=90)
        if done.returncode == 0:
            at = time.monotonic()
            for write in writes:
                write.done = at
        with self.mutex:
            self.done["acknowledged" if done.returncode == 0 else "refused"] += 1
        if done.returncode == 0:
            return f"{repository.name} {specs}"
        return f"{repository.name} {specs} refused: {done.stderr.decode(errors='replace')[-160:]!r}"

    def push_to(self, choices, url_of, name=MAIN, is_forced=False):
        repository = self.pick(choices)
        with repository.mutex:
            if repository.is_given_up:
                return "it is gone"
            before = self.current(repository, name)
            parent = None if is_forced else before
            value = self.commit(repository, parent, choices)
            options = ["--force"] if is_forced or parent is None else []
            return self.write(repository, {name: value}, url_of(repository), *options)

    def url(self, site, repository):
        return f"{site.login_url}/{self.quoted(repository)}.git"

    def disk_url(self, repository):
        return str(self.bare(repository))

    def primary_url(self, repository):
        return self.url(self.world.london, repository)

    def push_disk(self, choices):
        return self.push_to(choices, self.disk_url)

    def push_primary(self, choices):
        return self.push_to(choices, self.primary_url)

    def push_secondary(self, choices):
        site = choices.choice(self.world.secondaries)
        return site.name + " " + self.push_to(
            choices, lambda repository: self.url(site, repository))

    def force_push(self, choices):
        return self.push_to(choices, choices.choice(self.ways),
                            is_forced=True)

    def push_pair(self, choices):
        """Two refs that change together."""
        repository = self.pick(choices)
        with repository.mutex:
            if repository.is_given_up:
                return "it is gone"
            value = self.commit(repository, self.current(repository, PAIR[0]), choices)
            url = choices.choice(self.ways)(repository)
            return self.write(repository, {name: value for name in PAIR}, url, "--atomic",
                              "--force")

    def branch(self, choices):
        return self.push_to(choices, choices.choice(self.ways),
                            f"refs/heads/topic/{int(choices.random() * 5)}")

    def tag(self, choices):
        with self.mutex:
            self.count += 1
        return self.push_to(choices, self.disk_url, f"refs/tags/v{self.count}")

    def delete_branch(self, choices):
        repository = self.pick(choices)
        name = f"refs/heads/topic/{int(choices.random() * 5)}"
        with repository.mutex:
            if repository.is_given_up or self.current(repository, name) is None:
                return "there is none"
            if repository.head == name and choices.random() < 0.7:
                return "HEAD is there"
            return self.write(repository, {name: None},
                              choices.choice(self.ways)(repository))

    def head(self, choices):
        repository = self.pick(choices)
        name = choices.choice((MAIN, "refs/heads/topic/0", "refs/heads/topic/1"))
        with repository.mutex:
            if repository.is_given_up or self.current(repository, name) is None:
                return "there is no such branch"
            git("-C", str(self.bare(repository)), "symbolic-ref", "HEAD", name)
            repository.head = name
            self.world.london.cli("changed", repository.name)
            return f"{repository.name} {name}"

    def create(self, choices):
        with self.mutex:
            number, live = self.count, len(self.repositories)
        if live > 14:
            return "there are enough"
        folder = choices.choice(("", "team/", "team/deep er/", "ü/"))
        return self.new(f"{folder}r{number}", choices).name

    def rename(self, choices):
        repository = self.pick(choices)
        with repository.mutex:
            if repository.is_given_up:
                return "it is gone"
            before, old = self.bare(repository), repository.name
            name = f"moved/r{repository.number}-{int(choices.random() * 1e6)}"
            for destination in self.world.destinations:
                destination.prepare(name)
            path = self.world.london.repositories / (name + ".git")
            path.parent.mkdir(parents=True, exist_ok=True)
            with self.mutex:
                os.rename(before, path)
                self.gone.add(old)
                repository.name, repository.made_at = name, time.monotonic()
            return f"{old} to {name}"

    def delete(self, choices):
        with self.mutex:
            if len(self.repositories) < 6:
                return "there are too few"
        repository = self.pick(choices)
        with repository.mutex:
            return self.remove(repository)

    def remove(self, repository):
        with self.mutex:
            if repository not in self.repositories:
                return "it is gone"
            repository.is_given_up = True
            self.repositories.remove(repository)
            self.gone.add(repository.name)
            self.deletions["repository"].append(time.monotonic())
            away = self.stage / f"removed-{repository.number}"
            os.rename(self.bare(repository), away)
        shutil.rmtree(away, ignore_errors=True)
        return repository.name

    def repack(self, choices):
        repository = self.pick(choices)
        with repository.mutex:
            if repository.is_given_up:
                return "it is gone"
            how = choices.choice((("gc", "-q"), ("repack", "-adq"), ("pack-refs", "--all")))
            git("-C", str(self.bare(repository)), *how)
            return f"{how[0]} {repository.name}"

    def no_hooks(self, choices):
        repository = self.pick(choices)
        with repository.mutex:
            if repository.is_given_up:
                return "it is gone"
            shutil.rmtree(self.bare(repository) / "hooks", ignore_errors=True)
            repository.has_hooks = False
            return repository.name

    # Blobs: files of the tree, which change; one operation at a time.

    def blob_id(self, choices):
        return f"d{int(choices.random() * 3)}/b{int(choices.random() * 12)}"

    def blob_file(self, choices):
        ident, content = self.blob_id(choices), choices.randbytes(int(choices.random() ** 3 * 400000))
        path = self.world.london.tree / ident
        with self.mutex:
            path.parent.mkdir(exist_ok=True)
            new = self.stage / "blob"
            new.write_bytes(content)
            os.rename(new, path)
            self.blobs[ident] = hashlib.sha256(content).hexdigest()
        return f"{ident} {len(content)} bytes"

    def blob_put(self, choices):
        ident, content = self.blob_id(choices), choices.randbytes(int(choices.random() ** 3 * 400000))
        site = choices.choice(self.world.sites)
        digest = hashlib.sha256(content)
        with self.mutex:
            status, answer = site.request(
                "PUT", "/api/v1/blobs/tree/" + ident.replace("/", "%2F"), content,
                {"Content-Digest": f"sha-256=:{base64.b64encode(digest.digest()).decode()}:",
                 "Content-Type": "application/octet-stream"}, timeout=20)
            if status in (200, 201):
                self.blobs[ident] = digest.hexdigest()
                self.done["put"] += 1
            else:
                self.unsure.add(ident)
        return f"{site.name} {ident} {len(content)} bytes: {status} {answer[:100]!r}"

    def blob_delete(self, choices):
        ident = self.blob_id(choices)
        with self.mutex:
            (self.world.london.tree / ident).unlink(missing_ok=True)
            self.deletions["blob"].append(time.monotonic())
            self.blobs[ident] = None
        return ident

    def lfs(self, choices):
        """An object by git-lfs's own protocol, without its client: batch, then PUT."""
        site = choices.choice(self.world.sites)
        repository = self.pick(choices)
        content = choices.randbytes(1000 + int(choices.random() ** 3 * 300000))
        oid = hashlib.sha256(content).hexdigest()
        batch = json.dumps({"operation": "upload", "transfers": ["basic"],
                            "objects": [{"oid": oid, "size": len(content)}]}).encode()
        status, answer = site.request(
            "POST", f"/{self.quoted(repository)}.git/info/lfs/objects/batch", batch,
            {"Content-Type": "application/vnd.git-lfs+json",
             "Accept": "application/vnd.git-lfs+json"}, timeout=20)
        if status != 200:
            return f"{site.name} {repository.name}: {status} {answer[:100]!r}"
        upload = json.loads(answer)["objects"][0].get("actions", {}).get("upload")
        if not upload:
            return f"no upload: {answer[:200]!r}"
        path = "/" + upload["href"].split("/", 3)[3]
        status, answer = site.request("PUT", path, content, upload.get("header", {}), timeout=20)
        if status == 200:
            with self.mutex:
                self.lfs_objects[oid] = repository.name
                self.done["lfs"] += 1
        return f"{site.name} {repository.name} {oid[:12]}: {status}"

    @staticmethod
    def quoted(repository):
        return quote(repository.name)

    # Reading, and what an operator does.

    def clone(self, choices):
        """At a secondary. Whatever it gets must be whole."""
        repository, site = self.pick(choices), choices.choice(self.world.secondaries)
        name = repository.name
        with self.mutex:
            self.count += 1
            folder = self.work / f"clone-{self.count}"
        done = git("clone", "-q", "--mirror",
                   self.url(site, repository), str(folder), check=False, timeout=90)
        if done.returncode == 0:
            found = git("-C", str(folder), "fsck", "--connectivity-only", "--no-dangling",
                        "--no-progress", check=False)
            if found.returncode != 0:
                self.report("what_is_cloned_is_whole", f"{site.name} {name}: {found.stderr!r}")
            with self.mutex:
                self.done["clones"] += 1
        shutil.rmtree(folder, ignore_errors=True)
        return f"{site.name} {name}: {done.returncode} {done.stderr.decode(errors='replace')[-120:]!r}"

    def command(self, choices):
        site, repository = choices.choice(self.world.secondaries), self.pick(choices)
        what = choices.choice(("sync", "resync", "reverify", "remove", "list"))
        names = [] if what == "list" else [repository.name]
        if what == "remove" and choices.random() < 0.2:
            names = ["--all"]
        path = site.repositories / (repository.name + ".git")
        done = site.cli("repository", what, *names, timeout=60)
        text = f"{site.name} {what} {' '.join(names)}"
        if what == "remove" and done.returncode == 0 and not path.exists():
            self.doubt(site, repository, path, text)
        return f"{text}: {done.returncode}"

    def reload(self, choices):
        site = choices.choice(self.world.sites)
        if not site.is_down:
            site.process.send_signal(1)
        return site.name
