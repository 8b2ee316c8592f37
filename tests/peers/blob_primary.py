#!/usr/bin/env python3
"""A primary of blobs that says and sends what a test wants.

usage: blob_primary.py DIRECTORY

It speaks docs/protocol.md on a free port of loopback, which it writes to DIRECTORY/port,
and believes every signature. DIRECTORY/lies.py is run anew for each request, and may change
what the honest ones below would do:

    blobs           {name: bytes}, of the one kind "uploads"
    generation, timeline    of all blobs
    row(name)       a row of the inventory
    page(after, limit)      the inventory's answer
    frame(name)     bytes of a blob in an answer of many
    frames(names)   the whole answer, in pieces
    piece(name, first, last)    status, headers and pieces of the answer to GET
    events          [{...}], with their ids
    headers         {name: value}, of every answer
    redirect        a URL: everything is there

DIRECTORY/log has each request's line.
"""
import hashlib
import http.server
import json
import os
import re
import sys
import time
import urllib.parse

FOLDER = sys.argv[1]
LOG = "00000000000000aa"
MARK = "00000000000000bb"
AT = "2026-11-21T09:14:03.120Z"
SMALL = 1 << 20

BASE = '''
blobs = {"a": b"one", "b/c": b"two"}
generation, timeline, events, redirect = 1, "0" * 15 + "1", [], None
headers = {}

def digest(name):
    return hashlib.sha256(blobs[name]).hexdigest()

def row(name):
    return {"name": name, "timeline": timeline, "generation": generation,
            "size": len(blobs[name]), "checksum": digest(name), "changed_at": AT}

def event(number, name, what="created", **more):
    one = {"id": number, "mark": "%016x" % number, "at": AT, "kind": "uploads",
           "name": name, "event": what, "timeline": timeline, "generation": generation,
           "size": 3, **more}
    return one

def last_event():
    return events[-1]["id"] if events else 0

def last_mark():
    return "%016x" % last_event() if events else None

def page(after, limit):
    names = sorted(n for n in blobs if n > after)
    answer = {"timeline": LOG, "last_event": last_event(), "last_mark": last_mark(),
              "complete": True, "blobs": [row(n) for n in names[:limit]]}
    if len(names) > limit:
        answer["next"] = names[limit - 1]
    return answer

def head(name):
    return {"name": name, "size": len(blobs[name]), "timeline": timeline,
            "generation": generation, "checksum": digest(name)}

def line(value):
    return json.dumps(value).encode() + b"\\n"

def frame(name):
    if name not in blobs:
        return line({"name": name, "code": "FILE_NOT_FOUND", "message": "gone"})
    if len(blobs[name]) > SMALL:
        return line({"name": name, "code": "TOO_LARGE", "message": "alone"})
    return line(head(name)) + blobs[name]

def frames(names):
    for name in names:
        yield frame(name)
    yield line({"end": True})

def piece(name, first, last):
    if name not in blobs:
        return 404, {}, [line({"code": "FILE_NOT_FOUND", "message": "gone"})]
    size = len(blobs[name])
    last = min(last, size - 1)
    return 206, {"ETag": '"%s-%d"' % (timeline, generation),
                 "Refrelay-Checksum": digest(name),
                 "Content-Range": "bytes %d-%d/%d" % (first, last, size)}, \\
        [blobs[name][first:last + 1]]
'''


class Lies(dict):
    def __init__(self):
        super().__init__(hashlib=hashlib, json=json, AT=AT, LOG=LOG, SMALL=SMALL)
        exec(BASE, self)
        with open(os.path.join(FOLDER, "lies.py"), encoding="utf-8") as file:
            exec(file.read(), self)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, pieces, more=None):
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        more = {"Refrelay-Timeline": LOG, **(more or {}), **self.lies["headers"]}
        for key, value in more.items():
            self.send_header(key, str(value))
        self.end_headers()
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def answer_json(self, value):
        self.answer(200, [json.dumps(value).encode() if not isinstance(value, bytes) else value])

    def query(self, key, default):
        values = urllib.parse.parse_qs(self.path.partition("?")[2])
        return values.get(key, [default])[0]

    def give_events(self):
        lies = self.lies
        last = f'{lies["last_event"]()} {lies["last_mark"]()}' if lies["events"] else "0"
        after = int(self.query("after", "0"))
        lines = [lies["line"](one) for one in lies["events"] if one["id"] > after]
        if not lines:
            time.sleep(0.2)
        self.answer(200, lines, {"Refrelay-Last-Event": last})

    def do_any(self):
        lies = self.lies = Lies()
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        with open(os.path.join(FOLDER, "log"), "a", encoding="utf-8") as file:
            file.write(f"{self.command} {self.path}\n")
        path = self.path.partition("?")[0]
        limit = int(self.query("limit", "1000"))
        if lies["redirect"]:
            self.answer(302, [], {"Location": lies["redirect"] + self.path})
        elif path == "/api/v1/events":
            self.give_events()
        elif path == "/api/v1/repositories":
            self.answer_json({"timeline": LOG, "last_event": lies["last_event"](),
                              "last_mark": lies["last_mark"](), "repositories": []})
        elif path == "/api/v1/blobs/uploads":
            self.answer_json(lies["page"](self.query("after", ""), limit))
        elif path == "/api/v1/retrieve/uploads":
            self.answer(200, lies["frames"](json.loads(body)["ids"]))
        elif path.startswith("/api/v1/retrieve/uploads/"):
            first, last = re.match(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
            name = urllib.parse.unquote(path[len("/api/v1/retrieve/uploads/"):])
            status, headers, pieces = lies["piece"](name, int(first), int(last))
            self.answer(status, pieces, headers)
        else:
            self.answer(404, [b'{"code":"NOT_FOUND","message":"?"}'])

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_any


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
    server.serve_forever()


main()
