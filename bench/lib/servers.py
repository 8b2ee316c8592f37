"""Servers of others, each in an account."""

import gzip
import os
import pathlib
import shutil
import subprocess

from machine import answers, find, free_port, git, wait_for

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"

NGINX = """
{user}
daemon off;
worker_processes 2;
pid {folder}/pid;
error_log {folder}/error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    default_type {type};
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
}}
"""

CGI = """
        client_max_body_size 0;
        gzip on;
        gzip_types {type};
        gzip_http_version 1.0;
        location / {{
            fastcgi_pass unix:{folder}/socket;
            fastcgi_buffers 16 64k;
            fastcgi_buffer_size 64k;
            fastcgi_max_temp_file_size 0;
            fastcgi_read_timeout 600;
            fastcgi_param SCRIPT_FILENAME {backend};
            fastcgi_param GIT_PROJECT_ROOT {repositories};
            fastcgi_param GIT_HTTP_EXPORT_ALL "";
            fastcgi_param GIT_PROTOCOL $http_git_protocol;
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
        }}
"""

FILES = """
        root {files};
        autoindex on;
        gzip_static on;
"""


class Server:
    """`url` of a repository, or of anything."""

    def __init__(self, account, folder):
        self.account, self.folder, self.port = account, folder, free_port()
        folder.mkdir(exist_ok=True)

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}/{path}"

    def begin(self, server, **values):
        user = "user root;" if os.getuid() == 0 else ""
        conf = self.folder / "conf"
        values = dict({"type": ADVERTISEMENT}, **values, folder=self.folder, port=self.port)
        server = server.format(**values)
        conf.write_text(NGINX.format(user=user, server=server, **values))
        self.account.start(self.folder / "log", find("nginx"), "-e", self.folder / "error", "-p",
                           self.folder, "-c", conf)
        wait_for(f"nginx ({self.folder}/error)", lambda: answers(self.port))


class Backend(Server):
    """nginx, fcgiwrap, git http-backend."""

    def start(self, repositories):
        backend = find("git-http-backend", os.fsdecode(git("--exec-path").strip()))
        where = self.folder / "socket"
        find("nginx")
        self.account.start(self.folder / "log", find("fcgiwrap"), "-c", "4", "-s",
                           f"unix:{where}")
        wait_for("fcgiwrap", where.exists)
        self.begin(CGI, repositories=repositories, backend=backend)


class Files(Server):
    """nginx with files."""

    def start(self, files):
        self.begin(FILES, files=files, type="application/octet-stream")

    def start_refs(self, repositories):
        """The advertisements of protocol 0, as files of the same URLs."""
        files = self.folder / "files"
        for repository in repositories.iterdir():
            folder = files / repository.name / "info"
            folder.mkdir(parents=True)
            refs = git("upload-pack", "--http-backend-info-refs", repository)
            refs = b"001e# service=git-upload-pack\n0000" + refs
            (folder / "refs").write_bytes(refs)
            (folder / "refs.gz").write_bytes(gzip.compress(refs, 6))
        self.begin(FILES, files=files)


def start_rsync(account, folder, source):
    """A daemon; the url of `source`."""
    port, conf = free_port(), folder / "rsyncd.conf"
    owner = "uid = 0\ngid = 0\n" if os.getuid() == 0 else ""
    conf.write_text(f"use chroot = no\n{owner}[files]\npath = {source}\nread only = yes\n")
    account.start(folder / "log", find("rsync"), "--daemon", "--no-detach", f"--port={port}",
                  "--address=127.0.0.1", f"--config={conf}")
    wait_for("rsync", lambda: answers(port))
    return f"rsync://127.0.0.1:{port}/files/"


def start_redis(account, folder, number=0):
    """Its socket."""
    where = folder / f"redis{number}"
    account.start(f"{where}.log", find("redis-server"), "--port", "0", "--unixsocket", where,
                  "--dir", folder, "--save", "", "--daemonize", "no")
    wait_for("Redis", where.exists)
    return where


def start_postgresql(account, folder):
    """Its url. PostgreSQL refuses to be run by root."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    initdb = pathlib.Path(find("initdb", *map(str, found[-1:])))
    other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    command = other if os.geteuid() == 0 else []
    place = folder / "postgresql"
    place.mkdir()
    if command:
        shutil.chown(place, "postgres", "postgres")
        for above in (folder, *folder.parents):
            if "refrelay-bench." in str(above):
                os.chmod(above, 0o711)
    subprocess.run([*command, initdb, "-D", place / "db", "-A", "trust", "-U", "postgres"],
                   check=True, stdout=subprocess.DEVNULL, cwd=place)
    server = account.start(folder / "postgresql.log", *command, initdb.with_name("postgres"),
                           "-D", place / "db", "-k", place, "-h", "", cwd=place)
    wait_for("PostgreSQL", (place / ".s.PGSQL.5432").exists)
    return server, f"postgresql:///postgres?host={place}&user=postgres"


class Grokmirror:
    """grok-pull of grokmirror 2: $GROK_PULL."""

    def __init__(self, folder, url):
        self.program = find(os.environ.get("GROK_PULL") or "grok-pull")
        self.conf, self.tree = folder / "grokmirror.conf", folder / "grokmirror"
        self.tree.mkdir()
        self.conf.write_text(
            f"[core]\ntoplevel = {self.tree}\nmanifest = {self.tree}/manifest.js.gz\n"
            f"log = {folder}/grok.log\n[remote]\nsite = {url.rstrip('/')}\n"
            f"manifest = {url.rstrip('/')}/manifest.js.gz\n"
            "[pull]\ninclude = *\npurge = no\nprojectslist =\n"
            "[fsck]\nfrequency = 30\n")

    def round(self):
        """Once all: with `refresh` in its configuration it would never end, option or not."""
        subprocess.run([self.program, "-c", self.conf], check=True, timeout=3600,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
