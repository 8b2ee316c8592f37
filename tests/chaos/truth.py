"""What is true, as read from the disks, and whether what the nodes say agrees with it."""
import hashlib
import json
import re
import threading
import time

from history import read_refs, repositories_below

LOOK = 0.5
MET_GRACE = 2      # after a reader met damage, or a stranger wrote
READY_GRACE = 330  # /readyz: less than five minutes behind


class Disks:
    """The state of each repository and blob of a site, by stock files."""

    def __init__(self):
        self.digests = {}

    def digest(self, path):
        stat = path.stat()
        key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if self.digests.get(path, (None,))[0] != key:
            self.digests[path] = (key, hashlib.sha256(path.read_bytes()).hexdigest())
        return self.digests[path][1]

    def picture(self, site):
        found = {("repository", name): read_refs(site.repositories / (name + ".git"))
                 for name in repositories_below(site.repositories)}
        for kind, root in (("tree", site.tree), ("lfs", site.lfs)):
            for path in sorted(root.rglob("*")):
                if ".refrelay" in str(path):
                    continue
                try:
                    if path.is_file():
                        found[(kind, str(path.relative_to(root)))] = self.digest(path)
                except OSError:
                    pass
        return found


class Metrics:
    def __init__(self, text):
        self.values = {}
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name and not name.startswith("#"):
                self.values[name] = float(value)

    def sum(self, pattern):
        return sum(value for name, value in self.values.items() if re.search(pattern, name))

    def says_in_sync(self):
        lag = self.values.get("refrelay_lag_seconds")
        heard = self.values.get("refrelay_primary_heard_timestamp_seconds", 0)
        return (lag == 0 and time.time() - heard < 30 and
                self.sum(r"^refrelay_replicables\{.*state=\"(pending|started|failed)\"") == 0 and
                self.sum(r"^refrelay_verifications\{.*state=\"failed\"") == 0 and
                self.sum(r"^refrelay_replicables_held") == 0 and
                self.values.get("refrelay_in_sync", 1) == 1)


def says_in_sync(status):
    return bool(status.get("in_sync")) or status.get("sentence", "").startswith("in sync, verified")


class Truth:
    def __init__(self, world, faults, report, grace, patience):
        self.world, self.faults, self.report = world, faults, report
        self.grace, self.patience = grace, patience
        self.mutex = threading.Lock()
        self.disks = Disks()
        self.primary = {}
        self.changed_at = {}
        self.differs = {site.name: {} for site in world.secondaries}  # key: since
        self.suspects = {}   # (site, source, what): when it was first said
        self.reported = set()
        self.ignored = set()  # keys that were given up
        self.count = {}
        self.mute_since = {}

    def run(self):
        for site in self.world.secondaries:
            threading.Thread(target=self.watch, args=(site,), daemon=True).start()
        threading.Thread(target=self.look_always, daemon=True).start()

    def look_always(self):
        while not self.world.is_ended:
            self.look()
            time.sleep(LOOK)

    def look(self):
        now = time.monotonic()
        primary = self.disks.picture(self.world.london)
        copies = {site.name: self.disks.picture(site) for site in self.world.secondaries}
        with self.mutex:
            for key in set(primary) | set(self.primary):
                if primary.get(key) != self.primary.get(key):
                    self.changed_at[key] = now
            self.primary = primary
            for name, copy in copies.items():
                wrong = {key for key in set(primary) | set(copy)
                         if primary.get(key) != copy.get(key) and key not in self.ignored}
                before = self.differs[name]
                self.differs[name] = {key: max(before.get(key, now), self.changed_at.get(key, 0))
                                      for key in wrong}
        return copies

    def are_equal(self):
        self.look()
        with self.mutex:
            return all(not wrong for wrong in self.differs.values())

    def differences(self, name):
        with self.mutex:
            return dict(self.differs[name])

    def watch(self, site):
        sources = (self.by_command, self.by_api, self.by_ready, self.by_metrics)
        turn = 0
        while not self.world.is_ended:
            source = sources[turn % len(sources)]
            turn += 1
            if not site.is_down or source == self.by_command:
                self.sample(site, source)
            time.sleep(0.25)

    def sample(self, site, source):
        begun = time.monotonic()
        says, text = source(site)
        name = source.__name__[3:]
        self.count[name] = self.count.get(name, 0) + 1
        if name == "command":
            self.judge_silence(site, says, text, begun)
        grace = READY_GRACE if name == "ready" else self.grace * self.patience
        wrong = {key: since for key, since in self.differences(site.name).items()
                 if begun - since > grace}
        self.judge(site, name, bool(says), "differs", wrong, text, begun)
        for doubt in list(self.faults.doubts):
            if doubt.site is not site or name == "ready":
                continue
            is_false = bool(says) and doubt.is_wrong()
            if says and not is_false:  # it was mended; what comes now is another matter
                self.faults.drop(doubt)
            is_late = begun - doubt.met_at > MET_GRACE * self.patience
            is_false = is_false and is_late
            self.judge(site, name, is_false, doubt.text, {doubt.text: doubt.met_at}, text, begun)

    def judge(self, site, source, says, what, wrong, text, at):
        """Said twice in a row: so it is no chance of the moment."""
        key = (site.name, source, what)
        if not says or not wrong:
            self.suspects.pop(key, None)
            return
        first = self.suspects.setdefault(key, at)
        if first == at or key in self.reported:
            return
        self.reported.add(key)
        example = min(wrong, key=wrong.get)
        self.report("nothing_false_is_said",
                    f"{site.name}: {source} says in sync ({text}), but {example} has been "
                    f"different for {at - wrong[example]:.0f} s ({len(wrong)} such)")

    def judge_silence(self, site, says, text, at):
        if says is not None:
            self.mute_since.pop(site.name, None)
            return
        since = self.mute_since.setdefault(site.name, at)
        key = (site.name, "silent", text[:60])
        if at - since > 10 * self.patience and key not in self.reported:
            self.reported.add(key)
            self.report("status_always_answers", f"{site.name}: for {at - since:.0f} s: {text}")

    # Each: whether it says that all is in sync, None: it says nothing; and its words.

    def by_command(self, site):
        status, text = site.status()
        return (None, text) if status is None else (says_in_sync(status), status["sentence"])

    def by_api(self, site):
        code, body = site.get("/api/v1/status", timeout=5)
        if code != 200:
            return None, f"API {code}"
        status = json.loads(body)
        return says_in_sync(status), status["sentence"]

    def by_ready(self, site):
        code, body = site.get("/readyz", timeout=5)
        return code == 200, f"/readyz {code} {body[:80]!r}"

    def by_metrics(self, site):
        code, body = site.get("/metrics", timeout=5)
        return (code == 200 and Metrics(body.decode()).says_in_sync(),
                f"/metrics {code}, lag 0, nothing pending or failed")

    def new_round(self):
        self.reported.clear()
        self.suspects.clear()
