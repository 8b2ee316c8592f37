#!/usr/bin/env python3
"""Power loss, on real file systems: what was not synced is gone.

usage: power.py --program DIRECTORY [--seed N] [--cuts N | --seconds N] [--keep]

The primary and one secondary have a file system each, ext4 on a loop device. While users
push and put blobs, one of them is shut down as a power failure would (FS_IOC_SHUTDOWN
without a flush of its log: nothing more reaches the device, and what the kernel had not
written is lost), the node is killed, and the file system mounted again. Then all that was
acknowledged must be there: pushes, what they owe to destinations, blobs, LFS objects; and
all else must heal by itself. The options of the mount change from cut to cut, some lose
more than others: without auto_da_alloc a renamed file that was not synced is empty.

It needs root and loop devices, and says so (TAP: skipped) where there are none.
"""
import argparse
import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import operations
from chaos import in_namespace, judge_test
from history import read_refs
from truth import Disks, says_in_sync
from world import World, git, run, wait_until

SHUTDOWN, NO_FLUSH = 0x8004587D, 2
SIZE = "160M"
MOUNTS = ("commit=300,noauto_da_alloc", "commit=300", "commit=1,noauto_da_alloc",
          "data=writeback,noauto_da_alloc", "data=journal", "commit=5")
PROMISES = {
    "acknowledged_is_kept": "after each cut acknowledged pushes, blobs and LFS objects are there",
    "the_node_starts": "... the node starts, and is ready within the bound",
    "everything_heals": "... and copies and destinations become equal within the bound",
    "in_sync_is_said": "... which status says",
    "the_fast_path_is_taken": "small changes come by deltas all the while",
    "nodes_do_not_crash": "nodes end as they should when they are told to",
}
REFS = ("refs/heads/main", "refs/heads/topic/0", "refs/heads/topic/1")


class Disk:
    def __init__(self, image, folder):
        self.image, self.folder = image, folder
        folder.mkdir()
        run(["truncate", "-s", SIZE, str(image)])
        run(["mkfs.ext4", "-q", "-F", str(image)])
        self.mount(MOUNTS[0])

    def mount(self, options):
        run(["mount", "-o", f"loop,{options}", str(self.image), str(self.folder)])

    def cut(self):
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", NO_FLUSH))
        finally:
            os.close(folder)

    def umount(self):
        run(["umount", str(self.folder)])


class Power:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.begun = time.monotonic()
        self.violations = []
        self.cuts = 0
        self.times = []
        self.log = open(folder / "power.log", "w", encoding="utf-8")
        self.mutex = threading.Lock()
        self.disks = {name: Disk(folder / f"{name}.image", folder / name)
                      for name in ("london", "paris")}
        self.world = World(folder, options.program, self.note, wants_disks=False)
        self.operations = operations.Operations(self.world, self.report, self.note)
        # What stock git deletes on the disk is there again after a cut: it syncs no folder.
        self.operations.ways = (self.operations.primary_url,)
        self.has_power = True

    def note(self, kind, text):
        with self.mutex:
            self.log.write(f"{time.monotonic() - self.begun:8.2f} {self.cuts:3} {kind} {text}\n")
            self.log.flush()

    def report(self, promise, text):
        self.note("VIOLATION", f"{promise}: {text}")
        self.violations.append(promise)
        print(f"# cut {self.cuts}: {promise}: {text}", flush=True)

    def start(self):
        self.world.watch_threads()
        self.world.set_up()
        conf = self.world.london.folder / "conf"
        # Tasks shall wait when the cut comes.
        conf.write_text(conf.read_text().replace("replicationDelay = 0", "replicationDelay = 2"))
        choices = random.Random(f"{self.options.seed}/start")
        for i in range(4):
            self.operations.new(f"r{i}", choices)
        os.sync()
        self.world.start()
        self.settle()

    def user(self, number):
        """Over HTTP, at the primary or through a secondary, until the cut."""
        choices = random.Random(f"{self.options.seed}/{self.cuts}/{number}")
        while self.has_power:
            name, seed = choices.choice(("push", "push", "push", "blob_put", "lfs", "delete")), \
                f"{self.options.seed}/{self.cuts}/{number}/{choices.random()}"
            own = random.Random(seed)
            if name == "push":
                self.push(own, seed)
            elif name == "delete":
                self.operations.do("delete_branch", seed, own)
            else:
                self.operations.do(name, seed, own)

    def push(self, choices, seed):
        site = choices.choice(self.world.sites)
        try:
            text = self.operations.push_to(
                choices, lambda one: self.operations.url(site, one), choices.choice(REFS))
        except Exception as error:  # the disk has gone
            text = repr(error)[:200]
        self.note("push", f"{seed} {site.name}: {text}")

    def cut(self):
        choices = random.Random(f"{self.options.seed}/{self.cuts}")
        site = self.world.london if choices.random() < 0.6 else self.world.secondaries[0]
        disk, options = self.disks[site.name], choices.choice(MOUNTS)
        self.has_power = True
        users = [threading.Thread(target=self.user, args=(i,)) for i in range(3)]
        for user in users:
            user.start()
        time.sleep(choices.uniform(0.5, 6))
        disk.cut()
        self.has_power = False
        site.kill()
        for user in users:
            user.join()
        self.note("cut", f"{site.name}, mounted again with {options}")
        self.remount(site, disk, options)

    def remount(self, site, disk, options):
        end = time.monotonic() + 60
        while True:  # children of the node may live on for a moment
            try:
                disk.umount()
                break
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        found = run(["e2fsck", "-fp", str(disk.image)], check=False)
        self.note("e2fsck", f"{found.returncode} {found.stdout[-100:]!r}")
        disk.mount(options)
        site.start()

    def settle(self):
        bound, begun = 120 * self.options.patience, time.monotonic()
        self.check_kept()
        try:
            for site in self.world.sites:
                wait_until(bound, f"{site.name} is ready",
                           lambda site=site: site.get("/readyz", timeout=5)[0] == 200)
        except Exception as error:
            self.report("the_node_starts", f"{error}: {site.get('/readyz', timeout=5)}")
        for promise, question in (("everything_heals", self.differences),
                                  ("in_sync_is_said", self.silent)):
            wrong = question()
            while wrong and time.monotonic() - begun < bound:
                time.sleep(0.2)
                wrong = question()
            for key, text in wrong.items():
                self.report(promise, f"not within {bound:.0f} s: {key}: {text}")
        self.times.append(time.monotonic() - begun)
        self.note("settled", f"after {self.times[-1]:.1f} s")

    def differences(self):
        wrong = {}
        disks = Disks()
        there = disks.picture(self.world.london)
        for site in self.world.secondaries:
            here = disks.picture(site)
            for key in set(there) | set(here):
                if here.get(key) != there.get(key):
                    done = site.cli("repository", "show", "--json", key[1])
                    wrong[(site.name,) + key] = (done.stdout or done.stderr)[:700]
        for repository in self.operations.repositories:
            source = read_refs(self.operations.bare(repository))
            for one in self.world.destinations:
                copy = read_refs(one.repository(repository.name))
                if not source or not copy or source[1] != copy[1]:
                    wrong[(one.name, repository.name)] = "the destination is not equal"
            for site in self.world.secondaries:
                path = site.repositories / (repository.name + ".git")
                done = git("-C", str(path), "fsck", "--no-dangling", "--no-progress", check=False)
                if done.returncode != 0:
                    wrong[(site.name, repository.name)] = done.stderr[-300:]
        return wrong

    def silent(self):
        wrong = {}
        for site in self.world.secondaries:
            status, text = site.status()
            if status is None or not says_in_sync(status):
                wrong[site.name] = text if status is None else status["sentence"]
        return wrong

    def check_kept(self):
        """What the primary's disk has, by stock git, before the node has done much."""
        for repository in self.operations.repositories:
            path = self.operations.bare(repository)
            found = dict((read_refs(path) or ("", ()))[1])
            for name, ref in repository.refs.items():
                if found.get(name) not in ref.could_be(0):
                    self.report("acknowledged_is_kept", f"{repository.name} {name} is "
                                f"{found.get(name)}, not {ref.could_be(0)}")
            copy = self.folder / "work" / "copy"
            done = git("clone", "-q", "--mirror", "--no-local", str(path), str(copy), check=False)
            shutil.rmtree(copy, ignore_errors=True)
            if done.returncode != 0:
                self.report("acknowledged_is_kept", f"{repository.name}: {done.stderr[-300:]!r}")
        picture = Disks().picture(self.world.london)
        for ident, digest in self.operations.blobs.items():
            if ident not in self.operations.unsure and picture.get(("tree", ident)) != digest:
                self.report("acknowledged_is_kept",
                            f"blob {ident} is {picture.get(('tree', ident))}, not {digest}")
        for oid in self.operations.lfs_objects:
            if picture.get(("lfs", f"{oid[:2]}/{oid[2:4]}/{oid[4:]}")) != oid:
                self.report("acknowledged_is_kept", f"LFS object {oid}")
        for ident in self.operations.unsure:
            self.operations.blobs[ident] = picture.get(("tree", ident))
        self.operations.unsure.clear()

    def is_over(self):
        if self.options.seconds:
            return self.cuts > 0 and time.monotonic() - self.begun > self.options.seconds
        return self.cuts >= self.options.cuts

    def run(self):
        self.start()
        while not self.is_over() and not self.world.dead_threads:
            self.cuts += 1
            self.cut()
            self.settle()
        for name, text in self.world.wrong_ways().items():
            self.report("the_fast_path_is_taken", f"{name}: {text}")

    def undone(self):
        """What no user did. In one or two cuts chance may leave out what is rare."""
        names = ("acknowledged", "put", "lfs") if self.cuts > 2 else ("acknowledged",)
        return [name for name in names if self.operations.done[name] == 0] + \
            ([] if self.cuts else ["cuts"])

    def tell(self):
        print(f"# seed {self.options.seed}, {self.cuts} cuts, {time.monotonic() - self.begun:.0f} s; "
              f"well again after {sorted(self.times)[len(self.times) // 2]:.1f} s (median), "
              f"{max(self.times):.1f} s (worst); done: {self.operations.done}" if self.times else "#")
        for number, (promise, text) in enumerate(PROMISES.items(), 1):
            print(f"{'not ok' if promise in self.violations else 'ok'} {number} - {promise}: {text}")
        print(f"1..{len(PROMISES)}", flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=0, help="instead of cuts")
    parser.add_argument("--patience", type=float, default=1, help="factor of all bounds")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    return parser.parse_args()


def can_cut(folder):
    """Whether this machine lets us, and whether a cut loses what it should, and no more."""
    try:
        disk = Disk(folder / "try.image", folder / "try")
        disk.folder.joinpath("lost").write_text("x")
        synced = os.open(disk.folder / "kept", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(synced, b"x")
        os.fsync(synced)
        os.close(synced)
        disk.cut()
        disk.umount()
        disk.mount(MOUNTS[0])
        lost = disk.folder / "lost"
        is_right = (disk.folder / "kept").read_text() == "x" and \
            not (lost.exists() and lost.read_text())
        disk.umount()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"1..0 # SKIP power cannot be cut here: {error}")
        return False
    if not is_right:
        raise SystemExit("Bail out! This cut loses something else than what was not synced.")
    return True


def main():
    options = read_options()
    in_namespace()
    options.program = options.program.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nodes must not stay behind
    folder = Path(tempfile.mkdtemp(prefix="refrelay-power.", dir=options.folder))
    if not can_cut(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    power, status = Power(options, folder), 0
    try:
        power.run()
    except KeyboardInterrupt:
        status = 130
    except Exception:  # whatever it was, nodes must not stay behind
        traceback.print_exc()
        print("Bail out! The test itself failed.")
        status = 2
    is_kept = options.keep or power.violations or status
    power.has_power = False
    for text in power.world.end():
        power.report("nodes_do_not_crash", text)
    power.tell()
    status = status or judge_test(power)
    is_kept = is_kept or power.violations or status
    for name, disk in power.disks.items():
        if is_kept:
            run(["cp", "-a", str(disk.folder), str(folder / (name + ".kept"))], check=False)
        run(["umount", "-l", str(disk.folder)], check=False)
    if is_kept:
        print(f"# kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(status or bool(power.violations))


if __name__ == "__main__":
    main()
