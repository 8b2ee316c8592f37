"""Three sites and three destinations on this machine: london is the primary, paris and
rome follow it, each through a proxy of its own; london pushes to a path, by ssh and by
HTTP. Each secondary's copies and data are on small file systems, where those may be made.
"""
import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

from network import Proxy, free_port

TESTS = Path(__file__).resolve().parent.parent
TOKEN = "chaos-0123456789abcdef0123456789abcdef"
LOGIN = "pusher:kestrel9"
SECONDARIES = ("paris", "rome")
DESTINATIONS = ("path", "ssh", "web")
DISK = "96m"
QUESTIONS = (("status",), ("repository", "show"), ("push", "queue"))


class Broken(Exception):
    """The test itself cannot go on."""


def run(arguments, timeout=120, check=True, **options):
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=options.pop("stdin", subprocess.DEVNULL), timeout=timeout,
                          check=False, **options)
    if check and done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, arguments, done.stdout, done.stderr)
    return done


def git(*arguments, check=True, timeout=120, **options):
    return run(("git",) + arguments, check=check, timeout=timeout, **options)


def wait_until(seconds, what, question):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise Broken(f"in {seconds} s this did not become true: {what}")
        time.sleep(0.05)


class Site:
    def __init__(self, world, name, port):
        self.world, self.name, self.port = world, name, port
        self.folder = world.folder / name
        self.repositories, self.data = self.folder / "git", self.folder / "data"
        self.tree, self.lfs = self.folder / "tree", self.folder / "lfs"
        self.process, self.started_at, self.log_at_start = None, 0, 0
        self.lock = threading.RLock()  # its end and its start are one step
        self.clock = 0      # seconds that it is wrong by
        self.is_down = True  # ... because the test wants it so
        self.is_stopped = False
        for folder in (self.repositories, self.data, self.tree, self.lfs):
            folder.mkdir(parents=True)
            folder.chmod(0o700)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def login_url(self):
        return f"http://any:{TOKEN}@127.0.0.1:{self.port}"

    def command(self, *arguments, program=None):
        program = program or self.world.program / "refrelay"
        return [str(program), "-c", str(self.folder / "conf"), *arguments]

    def cli(self, *arguments, timeout=60):
        program = self.world.program_for(arguments)
        return run(self.command(*arguments, program=program), timeout=timeout, check=False)

    def environment(self):
        environment = dict(os.environ)
        if self.clock:
            environment["WRONG_CLOCK"] = str(self.clock)
            environment["LD_PRELOAD"] = str(self.world.wrong_clock)
        return environment

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.log_at_start = log.tell()
            self.process = subprocess.Popen(self.command("serve", "-v"), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.environment())
        self.started_at = time.monotonic()
        self.is_down = self.is_stopped = False

    def has_died(self):
        return not self.is_down and self.process.poll() is not None

    def is_serving(self):
        return self.get("/healthz", timeout=5)[0] == 200

    def kill(self, how=signal.SIGKILL):
        self.is_down = True
        self.go_on()
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Broken(f"{self.name} did not end within 60 s of signal {how}") from None
        return self.process.returncode

    def has_served(self):
        """This process, and not one before it."""
        with open(self.folder / "log", "rb") as log:
            log.seek(self.log_at_start)
            return b" ev=node.started " in log.read()

    def end(self):
        """As a service manager does; says what is wrong with it, if anything is. Who has not
        begun to serve may have been about to refuse, or not know of signals yet."""
        try:
            status = self.kill(signal.SIGTERM)
        except Broken as error:
            return str(error)
        if status == 0 or status in (1, -signal.SIGTERM) and not self.has_served():
            return ""
        tail = (self.folder / "log").read_bytes()[-600:].decode(errors="replace")
        return f"{self.name} ended with {status} after SIGTERM: {tail}"

    def pause(self):
        self.is_stopped = True
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.is_stopped = False
        self.process.send_signal(signal.SIGCONT)

    def children(self):
        """Of the node, all generations, as far as they are its own."""
        found, parents = [], {self.process.pid}
        for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda p: int(p.parent.name)):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent in parents:
                parents.add(int(stat.parent.name))
                found.append(int(stat.parent.name))
        return found

    def request(self, method, path, body=None, headers=(), timeout=30):
        """Status and body; 0: no answer."""
        request = urllib.request.Request(self.url + path, data=body, method=method,
                                         headers=dict(headers))
        request.add_header("Authorization", f"Bearer {TOKEN}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, ValueError, EOFError) as error:
            return 0, str(error).encode()
        except Exception as error:  # http.client has errors of its own
            return 0, repr(error).encode()

    def get(self, path, timeout=30):
        return self.request("GET", path, timeout=timeout)

    def status(self):
        """As the command prints it, or None with what it said instead."""
        done = self.cli("status", "--json")
        try:
            return json.loads(done.stdout), ""
        except ValueError:
            return None, f"status {done.returncode}: {done.stderr.decode(errors='replace')}"


class Destination:
    def __init__(self, world, name):
        self.name, self.folder = name, world.folder / "destinations" / name
        self.folder.mkdir(parents=True)
        self.proxy = None
        self.process = None

    def repository(self, name):
        return self.folder / (name + ".git")

    def prepare(self, name):
        """Over HTTP nobody can make a repository."""
        if self.name == "web":
            git("init", "-q", "--bare", "--initial-branch=main", str(self.repository(name)))


class World:
    def __init__(self, folder, program, note, wants_disks=True):
        self.folder, self.program, self.note = folder, program, note
        self.mounts = []
        self.wrong_clock = folder / "wrong_clock.so"
        self.has_clock = False
        self.wants_disks = wants_disks
        self.is_ended = False
        self.dead_threads = []
        self.asked = set()
        self.fast_path = {}  # name of a secondary: whether it takes small changes at once
        self.london = self.site("london")
        self.secondaries = [self.site(name) for name in SECONDARIES]
        self.sites = [self.london] + self.secondaries
        self.proxies = {site.name: Proxy(free_port(), self.london.port)
                        for site in self.secondaries}
        self.destinations = [Destination(self, name) for name in DESTINATIONS]

    def program_for(self, arguments):
        """What is asked again and again starts in a fifth of the time without sanitizers."""
        plain = os.environ.get("REFRELAY_PLAIN")
        question = next((words for words in QUESTIONS if arguments[:len(words)] == words), None)
        if plain and question in self.asked:
            return plain
        if question:
            self.asked.add(question)
        return None

    def site(self, name):
        return Site(self, name, free_port())

    def set_up(self):
        self.set_environment()
        self.build_clock()
        if self.wants_disks:
            self.mount_disks()
        for name, content in (("token", TOKEN), ("secret-paris", "s" * 40),
                              ("secret-rome", "t" * 40)):
            (self.folder / name).write_text(content + "\n")
            (self.folder / name).chmod(0o600)
        self.start_ssh()
        self.start_web()
        self.write_configurations()

    def set_environment(self):
        home = self.folder / "home"
        home.mkdir()
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]
        os.environ.update(HOME=str(home), LC_ALL="C", TZ="UTC", GIT_CONFIG_NOSYSTEM="1",
                          GIT_CONFIG_GLOBAL=str(home / "gitconfig"), GIT_TERMINAL_PROMPT="0",
                          GIT_HTTP_LOW_SPEED_LIMIT="1", GIT_HTTP_LOW_SPEED_TIME="20")
        (home / "gitconfig").write_text(
            "[user]\n name = Chaos\n email = chaos@example.com\n[gc]\n auto = 0\n"
            "[init]\n defaultBranch = main\n[receive]\n autogc = false\n"
            "[lfs]\n concurrenttransfers = 2\n[lfs \"transfer\"]\n maxretries = 1\n"
            "[safe]\n directory = *\n")
        if shutil.which("git-lfs"):
            git("lfs", "install", "--skip-repo")

    def build_clock(self):
        compiler = shutil.which("cc")
        if compiler:
            run([compiler, "-shared", "-fPIC", "-o", str(self.wrong_clock),
                 str(TESTS / "lib" / "wrong_clock.c")])
            self.has_clock = True

    def mount_disks(self):
        for site in self.secondaries:
            for folder in (site.repositories, site.data):
                done = run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "chaos",
                            str(folder)], check=False)
                if done.returncode != 0:
                    self.note("setup", "no file systems can be mounted: disks are never full")
                    return
                self.mounts.append(folder)

    def start_ssh(self):
        """By the library of the shell tests, in the folder that is the destination's."""
        destination = self.destinations[DESTINATIONS.index("ssh")]
        folder = self.folder / "sshd"
        run(["bash", "-c", '. "$1/lib/ssh.sh" && ssh_start "$2"', "-", str(TESTS), str(folder)])
        destination.process = int((folder / "pid").read_text())
        destination.proxy = Proxy(free_port(), int((folder / "port").read_text()))
        key = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{destination.proxy.port} {key}")

    def start_web(self):
        destination = self.destinations[DESTINATIONS.index("web")]
        (destination.folder / "login").write_text(LOGIN + "\n")
        self.web = subprocess.Popen(
            [sys.executable, str(TESTS / "peers" / "git_http.py"), str(destination.folder)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = destination.folder / "port"
        wait_until(20, "the HTTP destination listens", port.exists)
        destination.proxy = Proxy(free_port(), int(port.read_text()))

    def write_configurations(self):
        for site in self.sites:
            lines = [
                "[site]", f"name = {site.name}", f"repositories = {site.repositories}",
                f"data = {site.data}",
                f"role = {'primary' if site is self.london else 'secondary'}",
                "[http]", f"listen = 127.0.0.1:{site.port}", "anonymousRead = true",
                "[token \"chaos\"]", f"file = {self.folder}/token", "rights = operate",
                "[sync]", "scanInterval = 1s", "consistencyInterval = 2s",
                "reverifyInterval = 12s", "[serve]", "freshFor = 10s",
                "[blob \"tree\"]", f"path = {site.tree}",
                "[blob \"lfs\"]", f"path = {site.lfs}", "layout = lfs"]
            if site is self.london:
                for one in self.secondaries:
                    lines += [f"[secondary \"{one.name}\"]",
                              f"secretFile = {self.folder}/secret-{one.name}"]
                lines += self.remotes()
            else:
                is_fast = self.fast_path.get(site.name, True)
                lines += ["[sync]", f"fastPath = {'true' if is_fast else 'false'}",
                          "[primary]", f"url = http://127.0.0.1:{self.proxies[site.name].port}/",
                          f"secretFile = {self.folder}/secret-{site.name}"]
            (site.folder / "conf").write_text("\n".join(lines) + "\n")

    def remotes(self):
        path, ssh, web = self.destinations
        secure = self.folder / "secure.config"
        user, _, password = LOGIN.partition(":")
        secure.write_text(f"[remote \"web\"]\nusername = {user}\npassword = {password}\n")
        secure.chmod(0o600)
        common = ["threads = 4", "push = +refs/*:refs/*", "mirror = true", "replicationDelay = 0", "replicationRetry = 0", "timeout = 20",
                  "replicationMaxRetries = 0"]
        return ["[remote \"path\"]", f"url = {path.folder}/${{name}}.git", *common,
                "[remote \"ssh\"]",
                f"url = ssh://{getpass.getuser()}@127.0.0.1:{ssh.proxy.port}{ssh.folder}/${{name}}.git",
                f"sshKey = {self.folder}/sshd/user_key",
                f"sshKnownHosts = {self.folder}/sshd/known_hosts", *common,
                "[remote \"web\"]",
                f"url = http://127.0.0.1:{web.proxy.port}/${{name}}.git", *common,
                "[replication]", "randomDelay = 0", f"secureConfig = {secure}",
                "distributionInterval = 5"]

    def start(self):
        self.london.start()
        wait_until(60, "london is ready", lambda: self.london.get("/readyz")[0] == 200)
        self.london.cli("push", "start", "--all")
        for site in self.secondaries:
            site.start()
        for site in self.sites:
            wait_until(60, f"{site.name} serves", site.is_serving)

    def wrong_ways(self):
        """Of secondaries that brought changes in a way that their settings do not have, or never
        in the fast way that they have; with what they did."""
        wrong = {}
        for site in self.secondaries:
            log = (site.folder / "log").read_bytes()
            fast, all_ways = log.count(b" way=delta "), log.count(b" ev=sync.done ")
            self.note("ways", f"{site.name}: {fast} of {all_ways} syncs by a delta")
            if bool(fast) != self.fast_path.get(site.name, True):
                wrong[site.name] = f"{fast} of {all_ways} syncs by a delta"
        return wrong

    def heal_network(self):
        for proxy in list(self.proxies.values()) + [one.proxy for one in self.destinations]:
            if proxy and proxy.rule != "pass":
                proxy.set("pass")
                proxy.cut()

    def watch_threads(self):
        """A thread that dies looks at nothing any more, and says nothing: then the test itself
        has failed. Those that the end surprises have not."""
        def note_death(died):
            if self.is_ended:
                return
            text = "".join(traceback.format_exception(died.exc_type, died.exc_value,
                                                      died.exc_traceback))
            self.dead_threads.append(text)
            self.note("thread", text)
            print(text, file=sys.stderr, flush=True)

        threading.excepthook = note_death

    def end(self):
        """Gives what was wrong with the nodes' ends."""
        self.is_ended = True
        wrong = [site.end() for site in self.sites
                 if site.process and site.process.poll() is None]
        if hasattr(self, "web"):
            self.web.kill()
        for one in self.destinations:
            if one.process:
                os.kill(one.process, signal.SIGKILL)
        for folder in self.mounts:
            run(["umount", "-l", str(folder)], check=False)
        return [text for text in wrong if text]
