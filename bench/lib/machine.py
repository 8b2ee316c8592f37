"""What all of bench/ shares: programs, ports, waits, repositories to measure with."""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REFRELAY = os.environ.get("REFRELAY", str(ROOT / "build" / "refrelay"))
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
WHO = {"GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@example.org", "GIT_COMMITTER_NAME": "b",
       "GIT_COMMITTER_EMAIL": "b@example.org"}
BLOCK = 1 << 20


class Skip(Exception):
    """A row, or a peer of it, cannot be measured here; the text says why."""


def find(program, *places):
    """Where a program is; Skip if nowhere."""
    found = shutil.which(program, path=":".join((PATH, *places)))
    if not found:
        raise Skip(f"{program} is not installed")
    return found


def git(*args, cwd=None, **options):
    return subprocess.run(["git", *map(str, args)], cwd=cwd, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **options).stdout


def use_no_configuration():
    """Of git: neither the user's nor the machine's."""
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", **WHO)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, condition, seconds=600, pause=0.02):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come in {seconds} s")
        time.sleep(pause)


def use_own_network():
    """A loopback device of our own: what it counts are our bytes. False: not allowed."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:  # CLONE_NEWNET
        return False
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 1)  # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, request)
    return True


def loopback_bytes():
    for line in pathlib.Path("/proc/self/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    return 0


def make_repository(path, refs=0):
    """Bare, with one commit, the same in each; `refs` branches more, in packed-refs."""
    git("init", "-q", "--bare", "--template=", "-b", "main", path)
    tree = git("mktree", cwd=path, input=b"").decode().strip()
    dates = {f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")}
    commit = git("commit-tree", "-m", "first", tree, cwd=path,
                 env={**os.environ, **WHO, **dates})
    commit = commit.decode().strip()
    if not refs:
        git("update-ref", "refs/heads/main", commit, cwd=path)
        return path
    lines = [f"{commit} refs/heads/main\n"]
    lines += [f"{commit} refs/heads/t{number // 1000:03}/b{number:06}\n"
              for number in range(refs)]
    (path / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" +
                                      "".join(lines))
    return path


def make_repositories(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    first = make_repository(folder / "r00000.git")
    for number in range(1, count):
        shutil.copytree(first, folder / f"r{number:05}.git")


def make_history(path, megabytes):
    """A history of small changes to many files, in one pack, of about that size: half of it
    does not compress, as with names, numbers and checksums in sources."""
    git("init", "-q", "--bare", "--template=", "-b", "main", path)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=path,
                          stdin=subprocess.PIPE) as importer:
        write = importer.stdin.write
        for number in range(megabytes * 500):
            body = os.urandom(1500).hex().encode() + b"text line\n" * 80
            write(b"commit refs/heads/main\ncommitter b <b@example.org> %d +0000\ndata 2\nc\n"
                  b"M 100644 inline d%d/f%d\ndata %d\n%s\n" %
                  (1700000000 + number, number % 50, number % 997, len(body), body))
    git("pack-refs", "--all", cwd=path)
    return path


def make_big(path, megabytes):
    """As many random blobs of 1 MB, in one pack."""
    git("init", "-q", "--bare", "-b", "main", path)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=path,
                          stdin=subprocess.PIPE) as importer:
        write = importer.stdin.write
        write(b"commit refs/heads/main\ncommitter b <b@example.org> 1700000000 +0000\n"
              b"data 5\nfirst")
        for number in range(megabytes):
            write(b"\nM 100644 inline f%d\ndata 1048576\n" % number)
            write(os.urandom(1 << 20))
        write(b"\n")
    git("pack-refs", "--all", cwd=path)


def make_commit(path):
    """Above main, which stays where it is."""
    tree = git("rev-parse", "main^{tree}", cwd=path).decode().strip()
    return git("commit-tree", "-p", "main", "-m", str(time.time_ns()), tree,
               cwd=path, env={**os.environ, **WHO}).decode().strip()


def set_main(path, commit):
    git("update-ref", "refs/heads/main", commit, cwd=path)


def add_commit(path):
    commit = make_commit(path)
    set_main(path, commit)
    return commit


def make_chain(path, count):
    """So many commits, one above the other and the first above main, which stays where it is."""
    marks = path / "marks"
    lines = []
    for number in range(1, count + 1):
        lines += ["commit refs/bench/chain", f"mark :{number}",
                  f"committer b <b@example.org> {1700000000 + number} +0000",
                  "data 6", "change"] + ["from refs/heads/main^0"] * (number == 1) + [
                  "M 100644 inline file", "data <<END", f"{path.name} {number}", "END", ""]
    git("fast-import", "--quiet", f"--export-marks={marks}", cwd=path,
        input="\n".join(lines).encode())
    git("update-ref", "-d", "refs/bench/chain", cwd=path)
    commits = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    return [commits[f":{number}"] for number in range(1, count + 1)]


@contextlib.contextmanager
def prepared_changes(changes, socket=None, threads=16):
    """Gives a function that moves main of repositories as `changes` says, which are (path, commit),
    and returns when that is done; `socket`: of the node that is told of each, and records it. The
    process that does it is there before, so that its costs are nobody's."""
    program = find(os.environ.get("CHANGER") or
                   str(pathlib.Path(REFRELAY).parent / "bench" / "changer"))
    command = [program, str(threads)] + ([str(socket)] if socket else [])
    lines = "".join(f"{path} refs/heads/main {commit}\n" for path, commit in changes)
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        def make():
            process.communicate(lines)
            if process.returncode != 0:
                raise SystemExit("the changes could not be made")
        yield make


def tip(path, ref="refs/heads/main"):
    """Read from its files: to wait for it starts no process, which would be counted."""
    path = pathlib.Path(path)
    path = path / ".git" if (path / ".git").is_dir() else path
    for _ in range(3):  # git moves a ref from one file into the other
        with contextlib.suppress(FileNotFoundError):
            return (path / ref).read_text().strip()
        with contextlib.suppress(FileNotFoundError):
            for line in (path / "packed-refs").read_text().splitlines():
                if line.endswith(f" {ref}"):
                    return line.split()[0]
    raise KeyError(ref)


def make_files(folder, count, size):
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number // 256:02x}" / f"file-{number}"
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as out:
            for at in range(0, size, BLOCK):
                out.write(os.urandom(min(BLOCK, size - at)))
