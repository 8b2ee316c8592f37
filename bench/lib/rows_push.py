"""Rows of push replication, by local paths, and one by HTTP."""

import os
import pathlib
import time

from machine import Skip, add_commit, find, git, make_repository, tip, wait_for
from rows_sites import clone_of, push_costs
from servers import Backend
from sites import Site
from table import row

BOTH = "durable / durable (core.fsync=all)"


def make_node(account, folder, url=None):
    """A standalone site that pushes what is in folder/git to folder/backup, or that URL."""
    (folder / "backup").mkdir(exist_ok=True)
    return Site(account, folder / "node", "standalone",
                f"[replication]\neventsDirectory = {folder}/store\nrandomDelay = 0\n"
                f"[remote \"backup\"]\nurl = {url or f'{folder}/backup/'}${{name}}.git\n"
                f"replicationDelay = 0\n", folder / "git")


def arrives(bare):
    """For push_costs: until main has moved there."""
    before = tip(bare)
    path = bare / "refs/heads/main"

    def has_moved():
        try:
            return path.read_text().strip() != before
        except OSError:
            return False

    return lambda: wait_for("a change", has_moved, 120, 0.0005)


def check_tip(bare):
    def check(new):
        if tip(bare) != new:
            raise SystemExit(f"{bare} has something else")
    return check


def pushed(bench, account, source, copy, place):
    """The cost of a push to source until copy, which is where it is pushed on to, has it."""
    return push_costs(bench.changes, account, clone_of(source, place / "clone"),
                      lambda: arrives(copy), check_tip(copy))


def be_durable(path):
    """What stock git writes there is synced, as what we have pushed is."""
    git("config", "core.fsync", "all", cwd=path)
    return path


def make_two(folder):
    source, copy = make_repository(folder / "git" / "r.git"), folder / "backup" / "r.git"
    git("clone", "-q", "--mirror", source, copy)
    git("config", "http.receivePack", "true", cwd=copy)
    return source, be_durable(copy)


def pushed_by_node(bench, account, folder, url=None):
    """The cost of a push to a site until the destination has it."""
    node = make_node(account, folder, url)
    source, copy = make_two(folder)
    node.start()
    node.run("hooks", "install", "--all")
    return pushed(bench, account, source, copy, folder)


def pushed_by_hook(bench, account, folder, url=None):
    """The same, where a hook pushes on."""
    source, copy = make_two(folder)
    hook = source / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec git push -q --mirror {f'{url}r.git' if url else copy}\n")
    hook.chmod(0o755)
    return pushed(bench, account, source, copy, folder)


@row("push-path")
def push_path(bench):
    """a push to a site, until the destination has it, replicationDelay 0"""
    work = "a push, until it was pushed on to a path, delay 0"
    ours = pushed_by_node(bench, bench.account("refrelay"), bench.folder("ours"))
    bench.add(work, ours, "git push --mirror in a hook",
              pushed_by_hook(bench, bench.account("hook"), bench.folder("hook")), BOTH)
    with bench.peer("Gerrit"):
        url, copy = (os.environ.get(name) for name in ("GERRIT_URL", "GERRIT_COPY"))
        if not url or not copy:
            raise Skip("$GERRIT_URL and $GERRIT_COPY are not set")
        account = bench.account("gerrit")
        bench.add(work, ours, "Gerrit, without its own CPU",
                  pushed(bench, account, url, pathlib.Path(copy), bench.folder("gerrit")),
                  "durable / as it is set there")


@row("push-http")
def push_http(bench):
    """the same where the destination is git http-backend behind nginx"""
    costs = []
    with bench.peer("git, nginx, git http-backend"):
        for program in ("nginx", "fcgiwrap"):
            find(program)
        for name, push in (("refrelay", pushed_by_node), ("hook", pushed_by_hook)):
            folder, account = bench.folder(name), bench.account(name)
            (folder / "backup").mkdir()
            server = Backend(account, folder / "server")
            server.start(folder / "backup")
            costs.append(push(bench, account, folder, server.url()))
        bench.add("a push, until it was pushed on by HTTP, delay 0", costs[0],
                  "git push --mirror in a hook, by HTTP", costs[1], BOTH)


@row("burst")
def burst(bench):
    """40 refs of one repository, told at once, until the destination has them"""
    folder, account = bench.folder("ours"), bench.account("refrelay")
    node = make_node(account, folder)
    source, copy = make_two(folder)
    node.start()
    wait_for("the node's scan", lambda: node.verified() >= 1)
    refs = [f"refs/heads/b{number}" for number in range(40)]
    new = add_commit(source)
    git("update-ref", "--stdin", cwd=source,
        input="".join(f"create {ref} {new}\n" for ref in refs).encode())
    names = {path.split("/")[-1] for path in refs}

    def has_all():
        return names <= set(os.listdir(copy / "refs/heads"))

    with account.measure() as ours:
        node.run("changed", "r")
        wait_for("the refs", has_all, 120, 0.001)
    other, account = bench.folder("git") / "copy.git", bench.account("git")
    be_durable(make_repository(other))
    git("push", "-q", other, "+refs/heads/main", cwd=source)
    with account.measure() as theirs:
        for ref in refs:
            git("push", "-q", other, ref, cwd=source)
    if git("for-each-ref", cwd=copy) != git("for-each-ref", cwd=other):
        raise SystemExit("burst: the destinations differ")
    bench.add("40 refs of a repository", ours, "40 git push, by path", theirs, BOTH)


@row("push-all")
def push_all(bench):
    """push start --all, of as many tasks as repositories"""
    folder, account = bench.folder("ours"), bench.account("refrelay")
    node = make_node(account, folder)
    count = bench.tasks
    for number in range(count):
        name = f"r{number:05}.git"
        make_repository(folder / "git" / name)
        be_durable(make_repository(folder / "backup" / name))
    node.start()
    wait_for("the node's scan", lambda: node.verified() >= count, 3600, 0.1)
    names = sorted(os.listdir(folder / "git"))
    tips = {name: add_commit(folder / "git" / name) for name in names}
    time.sleep(0.2)
    with account.measure() as ours:
        node.run("push", "start", "--all", "--wait")
    for name, new in tips.items():
        check_tip(folder / "backup" / name)(new)
    account, sample = bench.account("git"), names[:bench.sample]
    for name in sample:
        add_commit(folder / "git" / name)
    node.stop()
    with account.measure() as theirs:
        for name in sample:
            git("push", "-q", "--mirror", folder / "backup" / name, cwd=folder / "git" / name)
    bench.add(f"push start --all of {count} tasks, each", ours.each(count),
              f"git push --mirror, {len(sample)} one by one", theirs.each(len(sample)), BOTH)
