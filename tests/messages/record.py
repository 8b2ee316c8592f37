#!/usr/bin/env python3
"""Records what git says when it fails, for tests/unit/test_git_message.c.

usage: record.py OUTPUT-FOLDER [GIT...]

GIT is the command that starts git (default: git), as `chroot DIR /usr/bin/git` for
another version; it must see /tmp/messages at the same place. What ssh says is recorded
with the default only. Each file is one failure, with temporary paths replaced. Its first
line says what must be made of the rest, which is a stderr:

    child CLASS        git here, or at a source
    push CLASS         a push that failed as a whole
    pack CLASS         a push whose objects could not be read here
    ssh CLASS          ssh itself
    command CLASS      a command behind ssh
    ref STATUS WAY     one ref that was refused: git's porcelain, "--", stderr. WAY is
                       final, again, locked, force or stale

The files in gerrit/ are written by hand, each with a word on where it comes from.
"""
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

WORK = Path("/tmp/messages")
GIT = sys.argv[2:] or ["git"]
OUT = Path(sys.argv[1])
ENV = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(WORK), "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def run(*args, check=True, cwd=None):
    # -C, since a command in a chroot begins at its root
    command = GIT + ["-C", str(cwd or WORK)] + [str(a) for a in args]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    return done


def write(name, head, done, text):
    if done.returncode == 0:
        raise SystemExit(f"{name} did not fail")
    text = text.replace(str(WORK.resolve()), "/srv").replace(str(WORK), "/srv")
    for port, word in PORTS.items():
        text = text.replace(f":{port}", f":{word}").replace(f"port {port}", f"port {word}")
    (OUT / name).write_text(f"{head}\n{text}")


def record(name, reader, klass, *args, cwd=None):
    done = run(*args, check=False, cwd=cwd)
    write(name, f"{reader} {klass}", done, done.stderr)


def make_source(name):
    path = WORK / name
    run("init", "-q", "--bare", "-b", "main", path)
    blob = subprocess.run(GIT + ["-C", str(path), "hash-object", "-w", "--stdin"], env=ENV,
                          input=os.urandom(3000), capture_output=True).stdout.decode().strip()
    tree = subprocess.run(GIT + ["-C", str(path), "mktree"], env=ENV, text=True,
                          input=f"100644 blob {blob}\tfile\n", capture_output=True).stdout.strip()
    commit = run("commit-tree", tree, "-m", "one", cwd=path).stdout.strip()
    run("update-ref", "refs/heads/main", commit, cwd=path)
    return path, blob, tree, commit


def loose(path, oid):
    return path / "objects" / oid[:2] / oid[2:]


def overwrite(file, data):
    os.chmod(file, 0o644)
    file.write_bytes(data)


def damaged():
    path, blob, tree, commit = make_source("lacks-blob.git")
    loose(path, blob).unlink()
    record("source-lacks-a-blob", "child", "corrupt", "clone", "--bare", f"file://{path}", "copy1.git")
    path, blob, tree, commit = make_source("lacks-commit.git")
    loose(path, commit).unlink()
    record("source-lacks-a-tip", "child", "corrupt", "fetch", f"file://{path}", commit,
           cwd=make_source("empty-a.git")[0])
    path, blob, tree, commit = make_source("flipped-blob.git")
    file = loose(path, blob)
    data = bytearray(file.read_bytes())
    data[40] ^= 255
    overwrite(file, bytes(data))
    record("source-has-a-flipped-blob", "child", "corrupt", "clone", "--bare", f"file://{path}", "copy2.git")
    path, blob, tree, commit = make_source("empty-tree.git")
    overwrite(loose(path, tree), b"")
    record("source-has-an-empty-tree", "child", "corrupt", "clone", "--bare", f"file://{path}", "copy3.git")
    path, blob, tree, commit = make_source("cut-pack.git")
    run("repack", "-adq", cwd=path)
    pack = next((path / "objects/pack").glob("*.pack"))
    overwrite(pack, pack.read_bytes()[:200])
    record("source-has-a-cut-pack", "child", "corrupt", "clone", "--bare", f"file://{path}", "copy4.git")
    path, blob, tree, commit = make_source("flipped-idx.git")
    run("repack", "-adq", cwd=path)
    idx = next((path / "objects/pack").glob("*.idx"))
    data = bytearray(idx.read_bytes())
    data[1040] ^= 255
    overwrite(idx, bytes(data))
    record("an-index-is-flipped", "child", "corrupt", "index-pack", "--verify", next((path / "objects/pack").glob("*.pack")))
    path, blob, tree, commit = make_source("not-our-ref.git")
    record("an-object-is-not-offered", "child", "corrupt", "-c", "protocol.version=0", "fetch",
           f"file://{path}", "1" * 40, cwd=path)
    path, *_ = make_source("no-head.git")
    (path / "HEAD").unlink()
    record("source-has-no-head", "child", "missing", "clone", "--bare", f"file://{path}", "copy5.git")
    record("source-is-gone", "child", "missing", "ls-remote", f"file://{WORK}/nothing.git")
    path, *_ = make_source("locked.git")
    (path / "refs/heads/main.lock").write_text("")
    record("a-ref-is-locked", "child", "conflict", "update-ref", "-d", "refs/heads/main", cwd=path)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        word = self.path.strip("/").split("/")[0]
        if word == "empty":
            self.close_connection = True
            self.connection.close()
        elif word == "page":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>\n<body>hello\n</html>\n")
        elif word == "cut":
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.send_header("Content-Length", "500")
            self.end_headers()
            self.wfile.write(b"001e# service=git-upload-pack\n0000")
        else:
            self.send_response(int(word))
            self.send_header("Content-Length", "0")
            if word == "401":
                self.send_header("WWW-Authenticate", "Basic")
            if word == "302":
                self.send_header("Location", "/200/x")
            self.end_headers()

    def log_message(self, *args):
        pass


def serve(tls):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(WORK / "cert.pem", WORK / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


PORTS = {}


def over_http():
    port = serve(False)
    PORTS[port] = "HTTP"
    base = f"http://127.0.0.1:{port}"
    for word, klass in (("401", "auth"), ("403", "auth"), ("404", "missing"), ("408", "timeout"),
                        ("429", "network"), ("500", "network"), ("502", "network"),
                        ("503", "network"), ("504", "timeout"), ("418", "config"),
                        ("empty", "network"), ("page", "network"), ("cut", "network")):
        record(f"http-{word}", "child", klass, "ls-remote", f"{base}/{word}/x.git")
    record("http-302", "child", "config", "-c", "http.followRedirects=false", "ls-remote", f"{base}/302/x.git")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        PORTS[closed.getsockname()[1]] = "CLOSED"
        record("http-refused", "child", "network", "ls-remote",
               f"http://127.0.0.1:{closed.getsockname()[1]}/x.git")
    record("http-no-host", "child", "network", "ls-remote", "http://no-such-host.invalid/x.git")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                    WORK / "key.pem", "-out", WORK / "cert.pem", "-subj", "/CN=x", "-days", "2"],
                   check=True, capture_output=True)
    port = serve(True)
    PORTS[port] = "TLS"
    record("https-untrusted", "child", "config", "ls-remote", f"https://127.0.0.1:{port}/200/x.git")


def pushes():
    path, blob, tree, commit = make_source("push-from.git")
    other = run("commit-tree", tree, "-m", "two", "-p", commit, cwd=path).stdout.strip()
    third = run("commit-tree", tree, "-m", "three", "-p", commit, cwd=path).stdout.strip()
    run("update-ref", "refs/heads/main", other, cwd=path)

    def target(name, *config):
        to = WORK / name
        run("init", "-q", "--bare", "-b", "main", to)
        run("push", "-q", to, f"{third}:refs/heads/main", f"{third}:refs/heads/x",
            f"{third}:refs/tags/v", cwd=path)
        for key, value in config:
            run("config", key, value, cwd=to)
        return to

    def refused(name, status, way, to, *args):
        done = run("push", "--porcelain", *args[:-1], to, args[-1], check=False, cwd=path)
        write(f"ref-{name}", f"ref {status} {way}", done, f"{done.stdout}--\n{done.stderr}")

    def hook(to, name, script):
        file = to / "hooks" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    record("push-to-nothing", "push", "missing", "push", "--porcelain", WORK / "nowhere.git",
           "main", cwd=path)
    to = target("lacks-rights.git")
    shutil.rmtree(to / "objects")
    record("push-to-a-broken-one", "push", "missing", "push", "--porcelain", to, "main", cwd=path)

    to = target("plain.git")
    refused("is-no-fast-forward", "REJECTED_NONFASTFORWARD", "force", to, "main:main")
    refused("has-a-tag-already", "REJECTED_NONFASTFORWARD", "force", to, "main:refs/tags/v")
    refused("has-another-value", "NOT_ATTEMPTED", "stale", to,
            f"--force-with-lease=refs/heads/main:{commit}", "main:main")
    refused("is-the-current-branch", "REJECTED_NODELETE", "final", to, ":refs/heads/main")
    refused("has-a-file-in-the-way", "REJECTED_OTHER_REASON", "final", to, "main:refs/heads/x/y")
    (to / "refs/heads/x.lock").write_text("")
    refused("is-locked", "REJECTED_OTHER_REASON", "locked", to, "--force", "main:refs/heads/x")
    newer = run("commit-tree", tree, "-m", "there", "-p", third, cwd=to).stdout.strip()
    run("update-ref", "refs/heads/main", newer, cwd=to)
    refused("has-what-is-not-here", "REJECTED_NONFASTFORWARD", "force", to, "main:main")
    to = target("strict.git", ("receive.denyDeletes", "true"), ("receive.denyNonFastForwards", "true"))
    refused("may-not-be-deleted", "REJECTED_NODELETE", "final", to, ":refs/heads/x")
    refused("may-not-be-forced", "REJECTED_NONFASTFORWARD", "final", to, "--force", "main:refs/heads/x")
    to = target("hidden.git", ("receive.hideRefs", "refs/heads/h"))
    refused("is-hidden", "REJECTED_OTHER_REASON", "final", to, "main:refs/heads/h/a")
    to = target("small.git", ("receive.maxInputSize", "10"))
    refused("has-no-room-for-the-pack", "REJECTED_OTHER_REASON", "again", to, "main:refs/heads/new")
    to = target("declines-all.git")
    hook(to, "pre-receive", "echo 'no pushes on Fridays' >&2; exit 1")
    refused("is-declined-with-all", "REJECTED_OTHER_REASON", "final", to, "main:refs/heads/new")
    to = target("declines-one.git")
    hook(to, "update", "exit 1")
    refused("is-declined", "REJECTED_OTHER_REASON", "final", to, "main:refs/heads/new")
    to = target("moves.git")
    hook(to, "update", f"env -u GIT_QUARANTINE_PATH git update-ref refs/heads/x {commit}")
    refused("is-changed-meanwhile", "REJECTED_OTHER_REASON", "locked", to, "--force", "main:refs/heads/x")
    work_tree = WORK / "work-tree"
    run("init", "-q", "-b", "main", work_tree)
    refused("is-checked-out", "REJECTED_OTHER_REASON", "final", work_tree, "main:refs/heads/main")


def packs():
    """Pushes of what cannot be read here."""
    def push(name, damage):
        path, blob, tree, commit = make_source(f"{name}.git")
        damage(loose(path, {"blob": blob, "tree": tree}[name.split("-")[1]]))
        to = WORK / f"{name}-to.git"
        run("init", "-q", "--bare", to)
        record(f"pack-{name}", "pack", "corrupt", "push", "--porcelain", to, "main", cwd=path)

    def flip(file):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        overwrite(file, bytes(data))

    for kind in ("blob", "tree"):
        push(f"lacks-{kind}", lambda file: file.unlink())
        push(f"flipped-{kind}", flip)
        push(f"empty-{kind}", lambda file: overwrite(file, b""))


def in_shell(command):
    script = f'. "$LIBRARY" && {command}'
    subprocess.run(["bash", "-c", script], check=True, stdin=subprocess.DEVNULL,
                   env=ENV | {"LIBRARY": str(Path(__file__).parents[1] / "lib/ssh.sh")})


def over_git():
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    number = port.getsockname()[1]
    PORTS[number] = "GIT"
    port.close()
    daemon = subprocess.Popen(["git", "daemon", "--listen=127.0.0.1", f"--port={number}", "--reuseaddr",
                               f"--base-path={WORK}", "--verbose"], env=ENV, stderr=subprocess.PIPE)
    while b"Ready" not in daemon.stderr.readline():
        pass
    record("read-git-nothing", "child", "missing", "ls-remote", f"git://127.0.0.1:{number}/nowhere.git")
    daemon.terminate()


def over_ssh():
    """With the options that src/push/target_ssh.c gives."""
    place = WORK / "sshd"
    in_shell(f"ssh_start {place}")
    port = (place / "port").read_text().strip()
    PORTS[port] = "SSH"
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    PORTS[closed.getsockname()[1]] = "CLOSED"
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    PORTS[silent.getsockname()[1]] = "SILENT"
    base = ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
            "-o", "ConnectTimeout=2", "-o", "IdentitiesOnly=yes"]
    good = ["-i", place / "user_key", "-o", f"UserKnownHostsFile={place}/known_hosts"]

    def say(name, head, *args):
        words = [str(word) for word in args]
        done = subprocess.run(words, env=ENV, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        write(name, head, done, done.stderr)

    # of an option that is given twice the first counts, of -F the last
    for name, klass, options, host, at in (
            ("host-key-unknown", "config", ["-o", "UserKnownHostsFile=/dev/null"], "127.0.0.1", port),
            ("denied", "auth", ["-o", f"IdentityFile={place}/other_key"], "127.0.0.1", port),
            ("refused", "network", [], "127.0.0.1", closed.getsockname()[1]),
            ("silent", "timeout", [], "127.0.0.1", silent.getsockname()[1]),
            ("no-host", "network", [], "no-such-host.invalid", port),
            ("bad-option", "config", ["-o", "Nonsense=yes"], "127.0.0.1", port),
            ("no-config", "config", ["-F", "/nowhere"], "127.0.0.1", port),
            ("no-common-algorithm", "config", ["-o", "Ciphers=aes128-cbc"], "127.0.0.1", port)):
        command = base + options + (good if name != "denied" else good[2:])
        say(f"ssh-{name}", f"ssh {klass}", *command, "-p", at, host, "true")
        if not name.startswith(("bad", "no-c")):
            ENV["GIT_SSH_COMMAND"] = " ".join(str(word) for word in command)
            record(f"push-ssh-{name}", "push", klass, "push", "--porcelain",
                   f"ssh://{host}:{at}{WORK}/plain.git", "main", cwd=WORK / "push-from.git")
            record(f"read-ssh-{name}", "child", klass, "ls-remote",
                   f"ssh://{host}:{at}{WORK}/plain.git")

    ENV["GIT_SSH_COMMAND"] = " ".join(str(word) for word in base + good)
    url = f"ssh://127.0.0.1:{port}{WORK}"
    record("push-ssh-to-nothing", "push", "missing", "push", "--porcelain", f"{url}/nowhere.git",
           "main", cwd=WORK / "push-from.git")
    record("read-ssh-nothing", "child", "missing", "ls-remote", f"{url}/nowhere.git")
    record("push-ssh-no-git", "push", "config", "push", "--porcelain",
           "--receive-pack=/nowhere/git-receive-pack", f"{url}/plain.git", "main",
           cwd=WORK / "push-from.git")
    (WORK / "plain.git/HEAD.lock").write_text("")
    for name, klass, line in (("no-git", "config", "/nowhere/git init"),
                              ("no-program", "config", "no-such-program"),
                              ("no-directory", "config", "ls /nowhere"),
                              ("git-shell", "config", "git-shell -c 'test -d x'"),
                              ("locked", "conflict",
                               f"git -C {WORK}/plain.git symbolic-ref HEAD refs/heads/y"),
                              ("disk-full", "disk", "cat /etc/passwd >/dev/full")):
        say(f"command-{name}", f"command {klass}", *base, *good, "-p", port, "127.0.0.1", line)
    in_shell(f"ssh_stop {place}")


def main():
    WORK.mkdir(exist_ok=True)
    for path in WORK.iterdir(): # the folder itself may be a mount point in a chroot
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    damaged()
    over_http()
    pushes()
    packs()
    if GIT == ["git"]:
        over_ssh()
        over_git()
    print(run("--version").stdout.strip(), len(list(OUT.iterdir())), "messages")


main()
