"""Nodes of refrelay, each in an account."""

import base64
import contextlib
import json
import os
import re
import subprocess
import urllib.request

from machine import REFRELAY, answers, free_port, make_repositories, tip, wait_for


GENERATION = re.compile(rb" ev=sync\.done .*?repo=(\S+).* generation=(\d+)")


class Site:
    """A node with a configuration of its own; `settings` are lines of it."""

    def __init__(self, account, folder, role, settings="", repositories=None):
        self.account, self.folder, self.role = account, folder, role
        self.port, self.process = free_port(), None
        self.git = repositories or folder / "git"
        self.git.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        self.log, self.conf = folder / "log", folder / "refrelay.conf"
        self.conf.write_text(
            f"[site]\nname = {folder.name}\nrole = {role}\nrepositories = {self.git}\n"
            f"data = {folder}/data\n[http]\nlisten = 127.0.0.1:{self.port}\n"
            f"anonymousRead = true\n{settings}")

    def start(self):
        self.process = self.account.start(self.log, REFRELAY, "-c", self.conf, "serve")
        wait_for(f"the node ({self.log})", lambda: answers(self.port))

    def run(self, *args):
        """A command of refrelay, which must succeed."""
        return subprocess.run([REFRELAY, "-c", self.conf, *map(str, args)], check=True,
                              text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}/{path}"

    def ask(self, path):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(self.url(path), timeout=30) as answer:
                return answer.read()
        return b""

    def status(self):
        return json.loads(self.ask("api/v1/status") or "{}")

    def verified(self, kind="repositories"):
        """How many are proved."""
        status = self.status()
        counts = status.get(kind) or status.get("blobs", {}).get(kind, {})
        return counts.get("verification", {}).get("succeeded", 0)

    def is_verified(self, name):
        row = json.loads(self.ask(f"api/v1/repositories/{name.removesuffix('.git')}") or "{}")
        return (row.get("state") == "synced" and row["generation"] == row["generation_wanted"]
                and row.get("verification_state") == "succeeded")

    def metric(self, pattern):
        """The sum of all lines that it matches."""
        lines = re.findall(rb"^" + pattern + rb" (\S+)$", self.ask("metrics"), re.MULTILINE)
        return sum(map(float, lines))

    def set(self, section, line):
        with self.conf.open("a") as conf:
            conf.write(f"[{section}]\n{line}\n")

    def stop(self):
        self.account.stop(self.process)


class Pair:
    """A primary and its secondary, in one account. `start` has all brought."""

    def __init__(self, account, folder, count=0, settings=""):
        folder.mkdir(parents=True)
        secret = folder / "secret"
        secret.touch(0o600)
        secret.write_bytes(base64.b64encode(os.urandom(24)))
        self.account, self.heard = account, 0
        self.primary = Site(account, folder / "london", "primary",
                            f"[secondary \"paris\"]\nsecretFile = {secret}\n{settings}")
        if count:
            make_repositories(self.primary.git, count)
        self.secondary = Site(account, folder / "paris", "secondary",
                              f"[primary]\nurl = {self.primary.url()}\nsecretFile = {secret}\n"
                              f"{settings}")

    def start_primary(self):
        """Until it knows what it has, and would be told of changes."""
        self.primary.start()
        count = len(list(self.primary.git.glob("*.git")))
        wait_for("the primary's scan", lambda: self.primary.verified() >= count, 3600, 0.1)
        self.primary.run("hooks", "install", "--all")

    def start_secondary(self, pause=0.1):
        self.secondary.start()
        count = len(list(self.primary.git.glob("*.git")))
        wait_for("the first copies", lambda: self.secondary.verified() >= count, 3600, pause)

    def bring_first_copies(self):
        """From nothing, until all is proved. Its log is asked, which costs the node nothing, then
        its status."""
        done = re.compile(rb" ev=sync\.done .*? result=created")
        count = len(list(self.primary.git.glob("*.git")))
        self.secondary.start()
        wait_for("the first copies", lambda: len(done.findall(self.secondary.log.read_bytes())) >= count,
                 3600, 0.01)
        wait_for("the proofs", lambda: self.secondary.verified() >= count, 3600, 0.02)

    def start(self):
        self.start_primary()
        self.start_secondary()
        return self

    def mark(self):
        """Where the log of the secondary ends: what comes after it is new."""
        return self.secondary.log.stat().st_size

    def wait_for_copies(self, names, mark):
        """Brought since then, and proved. Its log is asked, which costs the node nothing."""
        waiting = {name.removesuffix(".git") for name in names}

        def have_come():
            nonlocal mark
            with self.secondary.log.open("rb") as log:
                log.seek(mark)
                text = log.read()
            text = text[:text.rfind(b"\n") + 1]
            mark += len(text)
            waiting.difference_update(
                name.decode() for name in re.findall(
                    rb" ev=sync\.done .*?repo=(\S+).* result=updated", text))
            return not waiting

        wait_for(f"the change of {len(waiting)} repositories", have_come, 120, 0.001)
        for name in names:
            wait_for(f"the proof of {name}", lambda name=name: self.secondary.is_verified(name),
                     120, 0.002)

    def generations(self, names, more):
        """Of each the one that is so many above the one that was brought last."""
        text = self.secondary.log.read_bytes()
        self.heard = text.rfind(b"\n") + 1
        now = {repo.decode(): int(number) for repo, number in GENERATION.findall(text)}
        return {name: now[name.removesuffix(".git")] + more for name in names}

    def wait_for_generations(self, wanted, pause=0.001):
        """What generations() said is brought and proved: its log tells that of each, and then
        status of all at once."""
        waiting = {name.removesuffix(".git"): number for name, number in wanted.items()}

        def have_come():
            with self.secondary.log.open("rb") as log:
                log.seek(self.heard)
                text = log.read()
            text = text[:text.rfind(b"\n") + 1]
            self.heard += len(text)
            for repo, number in GENERATION.findall(text):
                if waiting.get(repo.decode(), 1 << 62) <= int(number):
                    del waiting[repo.decode()]
            return not waiting

        wait_for(f"the changes of {len(waiting)} repositories", have_come, 120, pause)
        if self.secondary.verified() < len(list(self.primary.git.glob("*.git"))):
            raise SystemExit("status does not say that all is proved")

    def check_copy(self, name, commit):
        """After what was measured."""
        if tip(self.secondary.git / name) != commit:
            raise SystemExit(f"the copy of {name} is not what was pushed")

    def stop(self):
        self.secondary.stop()
        self.primary.stop()
