"""Rows of files: from a primary to a secondary, beside programs that copy files."""

import filecmp
import os
import subprocess

from machine import find, make_files, wait_for
from servers import Files, start_rsync
from sites import Pair
from table import row

PROVED = "durable, proved (read again)"


def run(*args, **options):
    subprocess.run([str(arg) for arg in args], check=True, stdout=subprocess.DEVNULL, **options)


def check_equal(source, copy, count):
    names = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    _, wrong, failed = filecmp.cmpfiles(source, copy, names, shallow=False)
    if wrong or failed or len(names) != count:
        raise SystemExit(f"{copy} differs: {(wrong + failed)[:1]}")


def bring_cost(bench, account, source, count):
    """The start of a secondary from nothing, until all is proved."""
    folder = bench.folder("pair")
    pair = Pair(account, folder / "pair")
    copy = folder / "copy"
    copy.mkdir()
    for site, path in ((pair.primary, source), (pair.secondary, copy)):
        site.set("blob \"files\"", f"path = {path}")
    pair.primary.start()
    wait_for("the primary's checksums", lambda: pair.primary.verified("files") == count, 3600,
             0.1)
    os.sync()
    with account.measure() as cost:
        pair.secondary.start()
        wait_for("the files", lambda: pair.secondary.verified("files") == count, 3600)
    pair.stop()
    check_equal(source, copy, count)
    return cost


def by_cp(account, source, copy):
    """Also its proof: checksums of the source are made before, as a primary knows them."""
    sums = copy.with_suffix(".sums")
    with sums.open("wb") as out:
        run_find = "find . -type f -print0 | xargs -0 sha256sum"
        subprocess.run(["sh", "-c", run_find], cwd=source, check=True, stdout=out)
    os.sync()
    with account.measure() as cost:
        run("cp", "-r", f"{source}/.", copy)
        run("sync", "-f", copy)
        run("sha256sum", "--quiet", "-c", sums, cwd=copy)
    return cost


def peers(bench, source):
    """(name, function of a place: its cost, sync mode)"""
    account = bench.account("cp")
    yield "cp, sync, sha256sum", lambda copy: by_cp(account, source, copy), "durable, read again"
    with bench.peer("rsync"):
        rsync = bench.account("rsync")
        url = start_rsync(rsync, bench.folder("rsync"), source)

        def by_rsync(copy):
            with rsync.measure() as cost:
                run("rsync", "-a", "--fsync", "--whole-file", url, copy)
            return cost

        yield "rsync --fsync, daemon", by_rsync, "durable"
    with bench.peer("rclone"):
        find("rclone")
        http = bench.account("rclone")
        files = Files(http, bench.folder("nginx"))
        files.start(source)

        def by_rclone(copy):
            with http.measure() as cost:
                run("rclone", "copy", "--config", "", "--transfers", 10, "--checkers", 10,
                    "--http-url", files.url(), ":http:", copy, stderr=subprocess.DEVNULL)
            return cost

        yield "rclone, from nginx", by_rclone, "not"


def measure(bench, count, size):
    source = bench.folder("s") / "source"
    make_files(source, count, size)
    ours = bring_cost(bench, bench.account("refrelay"), source, count)
    for number, (name, bring, mode) in enumerate(peers(bench, source)):
        copy = bench.folder(f"copy{number}")
        os.sync()
        theirs = bring(copy)
        check_equal(source, copy, count)
        bench.add(f"{count} files of {size} bytes", ours, name, theirs, f"{PROVED} / {mode}")


@row("blobs-large")
def blobs_large(bench):
    """1,000 files of 1 MB, from nothing until proved"""
    measure(bench, bench.blobs, 1000000)


@row("blobs-small")
def blobs_small(bench):
    """10,000 files of 4 KB, likewise"""
    measure(bench, bench.tiny, 4000)
