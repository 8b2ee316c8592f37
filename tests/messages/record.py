#!/usr/bin/env python3
"""Records what git says when it fails, for tests/unit/test_git_message.c.

usage: record.py OUTPUT-FOLDER [GIT...]

GIT is the command that starts git (default: git), as `chroot DIR /usr/bin/git` for
another version; it must see /tmp/messages at the same place. Each file is one failure:
its first line names the reader of the text (child or push) and the class that it must
get, the rest is git's stderr, with temporary paths replaced.
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


def record(name, reader, klass, *args, cwd=None):
    done = run(*args, check=False, cwd=cwd)
    if done.returncode == 0:
        raise SystemExit(f"{name} did not fail")
    text = done.stderr.replace(str(WORK), "/srv")
    for port, word in PORTS.items():
        text = text.replace(f":{port}", f":{word}").replace(f"port {port}", f"port {word}")
    (OUT / name).write_text(f"{reader} {klass}\n{text}")


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
        run("push", "-q", to, f"{third}:refs/heads/main", cwd=path)
        for key, value in config:
            run("config", key, value, cwd=to)
        return to

    def push(name, klass, to, *args):
        record(name, "push", klass, "push", "--porcelain", to, *args, cwd=path)

    push("push-to-nothing", "missing", WORK / "nowhere.git", "main")
    to = target("lacks-rights.git")
    shutil.rmtree(to / "objects")
    push("push-to-a-broken-one", "missing", to, "main")


def main():
    WORK.mkdir(exist_ok=True)
    for path in WORK.iterdir(): # the folder itself may be a mount point in a chroot
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    damaged()
    over_http()
    pushes()
    print(run("--version").stdout.strip(), len(list(OUT.iterdir())), "messages")


main()
