#!/usr/bin/env python3
"""Chaos: two secondaries and three destinations under random operations and faults.

usage: chaos.py --program DIRECTORY [--seed N] [--rounds N | --seconds N] [--only FAULT]...
                [--fast-path on|off|mixed|mixed-other] [--keep] [--plan]

Each round does operations and faults at once, then all faults are healed, and all must be
equal again, and say so, within a bound. Meanwhile readers and samplers look whether a
promise is broken. Every choice is the seed's: `--plan` prints what a seed does, and the
same seed does it again (what happens at the same moment is the machine's choice).

DIRECTORY has refrelay, refrelay-hook and refrelay-run. The last lines are TAP: a promise
each. Where one was broken, everything is kept, and its folder printed: chaos.log has each
operation, fault and finding, SITE/log what the nodes said.
"""
import argparse
import json
import os
import queue
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import faults
import operations
from history import PAIR, Reads, read_packed, read_refs
from truth import Truth, says_in_sync, Metrics
from world import World, git, run

PROMISES = {
    "primary_never_stale": "a reader at the primary sees what was acknowledged before",
    "secondary_never_goes_back": "a reader at a secondary never sees older refs than before",
    "copies_change_as_one": "refs that change together do so in a copy on disk",
    "what_is_cloned_is_whole": "a clone from a secondary lacks nothing",
    "no_wrong_404": "a secondary does not deny a repository that it had",
    "acknowledged_is_kept": "acknowledged pushes, blobs and LFS objects are at the primary",
    "everything_heals": "when faults are over, copies are equal and whole within the bound",
    "in_sync_is_said": "... and status, API, readiness and metrics say so within the bound",
    "destinations_are_equal": "... and so are the destinations",
    "nothing_false_is_said": "nobody says that all is in sync when it is not",
    "status_always_answers": "status answers, whatever is broken",
    "ways_are_as_set": "small changes come by deltas where that is on, and only there",
    "nodes_do_not_crash": "nodes do not crash, and sanitizers report nothing",
}
WORKERS = 3
# Of the secondaries, in the order of world.SECONDARIES: who has fastPath on.
FAST_PATHS = {"on": (True, True), "off": (False, False), "mixed": (True, False),
              "mixed-other": (False, True)}
TROUBLE = (b"ERROR: AddressSanitizer", b"runtime error:", b"WARNING: ThreadSanitizer",
           b"ERROR: LeakSanitizer", b"Assertion `")


def make_plan(seed, number, is_short, only=None):
    """A pure function of these: what a round does, and when."""
    choices = random.Random(f"{seed}/{number}")
    is_long = number % 3 == 1 and not only
    seconds = 42 if is_long else choices.uniform(6, 9) if is_short else choices.uniform(8, 18)
    rate = 1.2 if is_long else 2.5
    steps = []
    for i in range(int(seconds * rate)):
        steps.append((choices.uniform(0, seconds), "operation", operations.draw(choices),
                      f"{seed}/{number}/{i}", 0))
    if is_long:
        steps.append((2, "fault", choices.choice(faults.LONG), f"{seed}/{number}/long", 39))
    for i in range(choices.randint(1, 2 if is_long else 4)):
        at = choices.uniform(0.5, seconds - 2)
        steps.append((at, "fault", faults.draw(choices, only), f"{seed}/{number}/fault-{i}",
                      choices.uniform(1, seconds - at)))
    return seconds, sorted(steps)


class Chaos:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.begun = time.monotonic()
        self.mutex = threading.Lock()
        self.log = open(folder / "chaos.log", "w", encoding="utf-8")
        self.violations = []
        self.figures = {"equal": [], "said": [], "destinations": []}
        self.round = 0
        self.known = {}
        self.world = World(folder, options.program, self.note)
        self.operations = operations.Operations(self.world, self.report, self.note)
        self.faults = faults.Faults(self.world, self.operations, self.note)
        self.operations.doubt = self.faults.doubt
        self.reads = Reads(self.report)
        self.truth = Truth(self.world, self.faults, self.report, options.grace, options.patience)
        self.pairs_read = 0
        self.is_healing = False

    def note(self, kind, text):
        with self.mutex:
            self.log.write(f"{time.monotonic() - self.begun:8.2f} {self.round:3} {kind} {text}\n")
            self.log.flush()

    def report(self, promise, text):
        assert promise in PROMISES
        violation = (promise, self.round, text)
        with self.mutex:
            if violation in self.violations:
                return
            self.violations.append(violation)
        self.note("VIOLATION", f"{promise}: {text}")
        print(f"# round {self.round}: {promise}: {text}", flush=True)
        if self.options.stop:
            self.world.is_ended = True

    # Readers

    def read_always(self, site, number):
        choices = random.Random(f"{self.options.seed}/{site.name}/{number}")
        reader = (site.name, number)
        while not self.world.is_ended:
            try:
                self.read_once(site, reader, choices)
            except OSError:
                pass
            time.sleep(0.15)

    def read_once(self, site, reader, choices):
        repository = self.operations.pick(choices)
        name, made_at = repository.name, repository.made_at
        key = (site.name, repository.number)
        is_touched = key in self.faults.touched
        begun = time.monotonic()
        status, body = site.get(f"/{self.operations.quoted(repository)}.git/info/refs"
                                "?service=git-upload-pack", timeout=20)
        ended = time.monotonic()
        is_same = repository.name == name and repository.made_at == made_at and \
            not repository.is_given_up
        if is_same and status == 404 and self.known.get(repository.number) == name:
            self.report("no_wrong_404", f"{site.name} {name}: {body[:100]!r}")
        if not is_same or is_touched or key in self.faults.touched:
            return
        if status == 200:
            self.reads.judge(reader, site is self.world.london, repository,
                             parse_advertisement(body), begun, ended)
        else:
            self.reads.count["refused"] += 1
        if site is not self.world.london:
            self.read_pair(site, repository, name)

    def read_pair(self, site, repository, name):
        path = site.repositories / (name + ".git")
        try:
            refs = read_packed((path / "packed-refs").read_text())
        except OSError:
            return
        if any((path / ref).exists() for ref in PAIR):
            return
        self.pairs_read += 1
        if refs.get(PAIR[0]) != refs.get(PAIR[1]) and \
                (site.name, repository.number) not in self.faults.touched:
            self.report("copies_change_as_one", f"{site.name} {name}: {refs}")

    # A round

    def play(self):
        seconds, steps = make_plan(self.options.seed, self.round, self.options.short,
                                   self.options.only)
        self.note("round", f"{seconds:.1f} s, {len(steps)} steps")
        jobs, healers, begun = queue.Queue(), [], time.monotonic()
        workers = [threading.Thread(target=self.work, args=(jobs,)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        timeline = [(at, step) for at, *step in steps]
        while timeline or time.monotonic() - begun < seconds:
            now = time.monotonic() - begun
            self.heal_due(healers, now)
            while timeline and timeline[0][0] <= now:
                _, (what, name, seed, lasts) = timeline.pop(0)
                if what == "operation":
                    jobs.put((name, seed))
                else:
                    threading.Thread(target=self.break_it,
                                     args=(name, seed, lasts, healers, begun)).start()
            self.look_for_crashes()
            time.sleep(0.05)
        while any(thread.name == "fault" for thread in threading.enumerate()):
            time.sleep(0.05)
        self.heal_due(healers, float("inf"))
        for _ in workers:
            jobs.put(None)
        for worker in workers:
            worker.join()

    def work(self, jobs):
        while (job := jobs.get()) is not None:
            name, seed = job
            self.operations.do(name, seed, random.Random(seed))

    def break_it(self, name, seed, lasts, healers, begun):
        threading.current_thread().name = "fault"
        healer = self.faults.begin(name, random.Random(seed), lasts)
        if healer:
            healers.append((time.monotonic() - begun + lasts, name, healer))

    def heal_due(self, healers, now):
        for healer in list(healers):
            if healer[0] <= now:
                healers.remove(healer)
                healer[2]()
                self.note("healed", healer[1])

    def look_for_crashes(self):
        """Who cannot start, e.g. as the disk is full, is started again and again, as
        a service manager does."""
        for site in self.world.sites:
            if not site.has_died():
                continue
            age = time.monotonic() - site.started_at
            is_refusal = site.process.returncode == 1 and age < 60 * self.options.patience
            if is_refusal and age < 2:
                continue
            site.is_down = True
            tail = (site.folder / "log").read_bytes()[-600:].decode(errors="replace")
            text = f"{site.name} ended with {site.process.returncode}: {tail}"
            if is_refusal:
                self.note("refused", text)
            else:
                self.report("nodes_do_not_crash", text)
            site.start()

    # All is healed: now it must become well.

    def settle(self):
        bound = 120 * self.options.patience
        begun = time.monotonic()
        self.world.heal_network()
        for site in self.world.sites:
            site.clock = 0
            if site.is_down:
                site.start()
            site.go_on()
        waits = {"equal": self.are_whole, "said": self.is_said,
                 "destinations": self.are_destinations_equal}
        said, told_at, released_at = {}, begun, 0
        while waits and time.monotonic() - begun < bound:
            self.look_for_crashes()
            if time.monotonic() - released_at > 3:
                self.release_held()
                released_at = time.monotonic()
            for name, question in list(waits.items()):
                if name == "said" and "equal" in waits:
                    continue
                said[name] = question()
                if not said[name]:
                    self.figures[name].append(time.monotonic() - begun)
                    self.note("settled", f"{name} after {time.monotonic() - begun:.1f} s")
                    del waits[name]
                elif time.monotonic() - told_at > 15:
                    told_at = time.monotonic()
                    self.note("waits", f"{name}: {said[name]}")
            time.sleep(0.2)
        promises = {"equal": "everything_heals", "said": "in_sync_is_said",
                    "destinations": "destinations_are_equal"}
        for name in waits:
            if name == "said" and "equal" in waits:
                continue
            self.report(promises[name], f"not within {bound:.0f} s: "
                        + "; ".join(f"{key}: {text}" for key, text in said[name].items()))
        for name in waits:
            for key in said.get(name, {}):
                self.give_up(key)
        self.check_kept()
        self.look_for_trouble()
        self.faults.touched.clear()
        self.faults.doubts.clear()
        self.reads.seen.clear()
        self.truth.new_round()
        self.known = {one.number: one.name for one in self.operations.repositories}

    def are_whole(self):
        """{key: what is wrong}, nothing if all is well."""
        self.truth.look()
        wrong = {}
        for site in self.world.secondaries:
            for key in self.truth.differences(site.name):
                wrong[key] = f"at {site.name}{self.row(site, key)}"
        if wrong:
            return wrong
        for repository in list(self.operations.repositories):
            for site in self.world.secondaries:
                path = site.repositories / (repository.name + ".git")
                done = git("-C", str(path), "fsck", "--no-dangling", "--no-progress", check=False)
                if done.returncode != 0:
                    key = ("repository", repository.name)
                    wrong[key] = (f"at {site.name}: {done.stderr[-200:]!r}"
                                  f"{self.row(site, key)}")
        return wrong

    def row(self, site, key):
        if key[0] != "repository":
            return ""
        done = site.cli("repository", "show", "--json", key[1])
        return f" {(done.stdout or done.stderr)[:900].decode(errors='replace').strip()}"

    def discard_gone(self):
        """What waited to be pushed from a repository that was deleted or renamed is given
        up for a person to decide."""
        done = self.world.london.cli("push", "queue", "--json")
        try:
            letters = json.loads(done.stdout)["given_up"]
        except ValueError:
            return
        keys = [letter["key"] for letter in letters
                if letter["project"] in self.operations.gone]
        if keys:
            self.world.london.cli("push", "discard", *keys)

    def release_held(self):
        """More than ten deletions in an hour wait for a person: these were on purpose."""
        for kind, times in self.operations.deletions.items():
            if sum(time.monotonic() - at < 3600 for at in times) <= 10:
                continue
            of_type = ("--type", "tree") if kind == "blob" else ()
            for site in self.world.secondaries:
                done = site.cli(kind, "remove", *of_type, "--state", "held")
                if done.stdout.strip():
                    self.note("released", f"{site.name} {kind}: {done.stdout[:200]!r}")

    def is_said(self):
        wrong = {}
        self.discard_gone()
        for site in self.world.secondaries:
            status, text = site.status()
            if status is None or not says_in_sync(status):
                wrong[site.name] = text if status is None else status["sentence"]
            code, body = site.get("/readyz", timeout=10)
            if code != 200:
                wrong[site.name + " readyz"] = f"{code} {body[:200]!r}"
            code, body = site.get("/metrics", timeout=10)
            if code != 200 or not Metrics(body.decode()).says_in_sync():
                wrong[site.name + " metrics"] = f"{code}"
        status, text = self.world.london.status()
        if status is None or not status["in_sync"]:
            wrong["london"] = text if status is None else status["sentence"]
        return wrong

    def are_destinations_equal(self):
        wrong = {}
        for repository in list(self.operations.repositories):
            source = read_refs(self.operations.bare(repository))
            for one in self.world.destinations:
                copy = read_refs(one.repository(repository.name))
                if source is None or copy is None or source[1] != copy[1]:
                    wrong[("repository", repository.name)] = (
                        f"{one.name} has {show_difference(source, copy)}")
        if wrong:
            queue_text = self.world.london.cli("push", "queue", "--json").stdout[:700]
            wrong["queue"] = queue_text.decode(errors="replace")
        return wrong

    def give_up(self, key):
        """What stays broken shall not hide what breaks next."""
        self.truth.ignored.add(key)
        for repository in list(self.operations.repositories):
            if key == ("repository", repository.name):
                self.operations.remove(repository)
        for site in self.world.secondaries:
            if isinstance(key, tuple) and key[0] == "repository":
                site.cli("repository", "remove", key[1])
                shutil.rmtree(site.repositories / (key[1] + ".git"), ignore_errors=True)

    def check_kept(self):
        """At the primary, whose disk no fault was in."""
        for repository in list(self.operations.repositories):
            found = read_refs(self.operations.bare(repository))
            if found is None:
                self.report("acknowledged_is_kept", f"{repository.name} is not there")
                continue
            for name, ref in repository.refs.items():
                value = dict(found[1]).get(name)
                if value not in ref.could_be(0):
                    self.report("acknowledged_is_kept",
                                f"{repository.name} {name} is {value}, not {ref.could_be(0)}")
        picture = self.truth.disks.picture(self.world.london)
        for ident, digest in self.operations.blobs.items():
            if ident not in self.operations.unsure and picture.get(("tree", ident)) != digest:
                self.report("acknowledged_is_kept",
                            f"blob {ident} is {picture.get(('tree', ident))}, not {digest}")
        for ident in self.operations.unsure:
            self.operations.blobs[ident] = picture.get(("tree", ident))
        self.operations.unsure.clear()
        for oid in self.operations.lfs_objects:
            if picture.get(("lfs", f"{oid[:2]}/{oid[2:4]}/{oid[4:]}")) != oid:
                self.report("acknowledged_is_kept", f"LFS object {oid}")

    def look_for_trouble(self):
        for site in self.world.sites:
            log = (site.folder / "log").read_bytes()
            for word in TROUBLE:
                at = log.find(word)
                if at >= 0:
                    self.report("nodes_do_not_crash", f"{site.name}: "
                                + log[at:at + 2000].decode(errors="replace"))
                    return

    # The whole

    def choose_fast_path(self):
        own = random.Random(f"{self.options.seed}/fast path")
        word = self.options.fast_path or own.choice(sorted(FAST_PATHS))
        names = [site.name for site in self.world.secondaries]
        self.world.fast_path = dict(zip(names, FAST_PATHS[word]))
        print(f"# fast path: {word}", flush=True)

    def check_ways(self):
        for name, text in self.world.wrong_ways().items():
            self.report("ways_are_as_set", f"{name}: {text}")

    def start(self):
        self.choose_fast_path()
        self.world.watch_threads()
        self.world.set_up()
        choices = random.Random(f"{self.options.seed}/start")
        for i in range(6):
            self.operations.new(f"r{i}" if i % 2 else f"team/r{i}", choices)
        for _ in range(6):
            self.operations.blob_file(choices)
        self.world.start()
        self.truth.run()
        for site in self.world.sites:
            for number in range(2):
                threading.Thread(target=self.read_always, args=(site, number),
                                 daemon=True).start()
        self.settle()

    def is_over(self):
        if self.world.is_ended or self.world.dead_threads:
            return True
        if self.options.seconds:
            return self.round > 1 and time.monotonic() - self.begun > self.options.seconds
        return self.round > self.options.rounds

    def run(self):
        self.start()
        self.round = 1
        while not self.is_over():
            self.play()
            self.settle()
            print(f"# round {self.round}: {self.summary()}", flush=True)
            self.round += 1
        self.check_ways()

    def summary(self):
        parts = [f"{time.monotonic() - self.begun:.0f} s"]
        for name, values in self.figures.items():
            if values:
                parts.append(f"{name} {values[-1]:.1f} s (median {statistics.median(values):.1f}, "
                             f"worst {max(values):.1f})")
        parts.append(f"{len(self.violations)} violations")
        return ", ".join(parts)

    def undone(self):
        """What nobody did or looked at, so that no promise about it was tried. In a few rounds
        chance may leave out what is rare."""
        counts = {"acknowledged pushes": self.operations.done["acknowledged"],
                  "reads at the primary": self.reads.count["primary"],
                  "reads at secondaries": self.reads.count["secondary"],
                  "pairs": self.pairs_read, "faults": sum(self.faults.count.values())}
        for source in ("command", "api", "ready", "metrics"):
            counts[f"samples by {source}"] = self.truth.count.get(source, 0)
        if self.round > 10:
            for name in ("clones", "put", "lfs"):
                counts[name] = self.operations.done[name]
        return [name for name, count in counts.items() if count == 0]

    def tell(self):
        print(f"# seed {self.options.seed}, {self.round - 1} rounds, {self.summary()}")
        print(f"# done: {self.operations.done}")
        print(f"# faults: {self.faults.count}")
        print(f"# reads: {self.reads.count}, pairs {self.pairs_read}, samples {self.truth.count}")
        broken = {promise for promise, _, _ in self.violations}
        for number, (promise, text) in enumerate(PROMISES.items(), 1):
            print(f"{'not ok' if promise in broken else 'ok'} {number} - {promise}: {text}")
        print(f"1..{len(PROMISES)}", flush=True)


def parse_advertisement(body):
    refs, at = {}, 0
    while at + 4 <= len(body):
        size = int(body[at:at + 4], 16)
        line = body[at + 4:at + size] if size else b""
        at += max(size, 4)
        value, _, name = line.partition(b"\0")[0].strip().partition(b" ")
        if len(value) == 40 and name.startswith(b"refs/"):
            refs[name.decode(errors="replace")] = value.decode()
    return refs


def show_difference(source, copy):
    if source is None or copy is None:
        return "nothing that can be read"
    return str(sorted(set(source[1]) ^ set(copy[1]))[:4])


def keep(world, folder):
    """What is on file systems of the test's own goes with them."""
    for mount in world.mounts:
        run(["cp", "-a", str(mount), f"{mount}.kept"], check=False)


def in_namespace():
    """Mounts are this process's own, and go with it."""
    if os.geteuid() != 0 or os.environ.get("CHAOS_NAMESPACE") or not shutil.which("unshare"):
        return
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0:
        os.environ["CHAOS_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, help="where refrelay and its two helpers are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast-path", choices=sorted(FAST_PATHS),
                        help="who has it on; the seed says so if this does not")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=0, help="instead of rounds")
    parser.add_argument("--short", action="store_true", help="rounds of a few seconds")
    parser.add_argument("--only", action="append", choices=[name for name, _ in faults.WEIGHTS],
                        metavar="FAULT", help="of these faults; may be given several times")
    parser.add_argument("--grace", type=float, default=30,
                        help="for how many seconds what is not known yet may be missed")
    parser.add_argument("--patience", type=float, default=1, help="factor of all bounds")
    parser.add_argument("--stop", action="store_true", help="at the first violation")
    parser.add_argument("--keep", action="store_true", help="the folder, in any case")
    parser.add_argument("--plan", action="store_true", help="print what would be done")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    return parser.parse_args()


def print_plan(options):
    for number in range(1, options.rounds + 1):
        seconds, steps = make_plan(options.seed, number, options.short, options.only)
        print(f"round {number}: {seconds:.1f} s")
        for at, what, name, seed, lasts in steps:
            print(f"  {at:6.2f} {what} {name} {seed}" + (f" for {lasts:.1f} s" if lasts else ""))


def judge_test(chaos):
    """2 if the promises were not tried as they should be. One that is broken was."""
    undone = [] if chaos.violations else chaos.undone()
    if not chaos.world.dead_threads and not undone:
        return 0
    print(f"Bail out! {len(chaos.world.dead_threads)} threads of the test died; "
          f"never done: {', '.join(undone) or 'nothing'}.")
    return 2


def main():
    options = read_options()
    if options.plan:
        return print_plan(options)
    in_namespace()
    options.program = options.program.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nodes must not stay behind
    folder = Path(tempfile.mkdtemp(prefix="refrelay-chaos.", dir=options.folder))
    chaos = Chaos(options, folder)
    status = 0
    try:
        chaos.run()
    except KeyboardInterrupt:
        status = 130
    except Exception:  # whatever it was, nodes must not stay behind
        traceback.print_exc()
        print("Bail out! The test itself failed.")
        status = 2
    is_kept = options.keep or chaos.violations or status == 2 or chaos.world.dead_threads
    chaos.world.is_ended = True
    if is_kept:
        keep(chaos.world, folder)
    for text in chaos.world.end():
        chaos.report("nodes_do_not_crash", text)
    chaos.look_for_trouble()  # leaks are told at the end
    chaos.tell()
    status = status or judge_test(chaos)
    if is_kept or chaos.violations or status == 2:
        print(f"# kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(status or bool(chaos.violations))


if __name__ == "__main__":
    main()
