"""A real browser, told what to do over the pipe that its tools use; and the origin that a page comes from, which passes
the feed on as any proxy does, and can do harm to it."""

import contextlib
import http.client
import http.server
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from harness import GUARD, PATIENCE, WORK, Failed, until

#: Where `run` put it, with the libraries that it needs and a machine may lack.
HOME = os.path.join(WORK, "browser")
#: The browser reads from 3 and writes to 4, whatever the two ends are called here.
WITH_PIPE = (
    "import fcntl, os, sys;"
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]];"
    "[os.dup2(end, at) for end, at in zip(ends, (3, 4))];"
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """Chromium without a window, with a profile of its own, which goes with it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(dir=HOME)
        self.printed = []
        self.numbers = itertools.count(1)
        self.answers = {}
        reading, self.commands = os.pipe()
        self.events, writing = os.pipe()
        flags = (
            # Root has no sandbox here; nothing but our own page is opened.
            "--headless=shell", "--no-sandbox", "--no-zygote", "--disable-gpu", "--no-proxy-server",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
        )
        libraries = os.path.join(HOME, "lib")
        command = [sys.executable, "-c", WITH_PIPE, str(reading), str(writing), os.path.join(HOME, "chromium")]
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", *command, *flags, "about:blank"],
            cwd=WORK, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            pass_fds=(reading, writing),
            env={**os.environ, "HOME": self.folder, "TMPDIR": self.folder, "LD_LIBRARY_PATH": libraries},
        )
        os.close(reading)
        os.close(writing)
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        self.showing = threading.Thread(target=self._show, daemon=True)
        self.showing.start()
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]

    def _read(self):
        rest = b""
        while piece := os.read(self.events, 1 << 16):
            *whole, rest = (rest + piece).split(b"\0")
            for text in whole:
                said = json.loads(text)
                if "id" in said:
                    self.answers[said["id"]] = said
        self.ended.set()

    def _show(self):
        for line in self.child.stderr:
            self.printed.append(line.rstrip())

    def call(self, method, session=None, **params):
        """A command of the protocol and what it gave."""
        number = next(self.numbers)
        command = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        with contextlib.suppress(OSError):
            os.write(self.commands, json.dumps(command).encode() + b"\0")

        def answered():
            if self.ended.is_set() and number not in self.answers:
                raise Failed(f"the browser ended: {self.printed[-5:]}")
            return self.answers.pop(number, None)

        answer = until(answered, f"the browser answers {method}")
        if "error" in answer:
            raise Failed(f"the browser: {method}: {answer['error']}")
        return answer["result"]

    def open(self, address):
        self.call("Page.navigate", self.session, url=address)

    def value(self, expression):
        """What an expression of the page has for a value."""
        found = self.call("Runtime.evaluate", self.session, expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise Failed(f"the page: {expression}: {found['exceptionDetails'].get('exception', {}).get('description')}")
        return found["result"].get("value")

    def kill(self):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        self.child.wait(PATIENCE)
        # Its processes end one after the other, and the last one closes this.
        self.showing.join(PATIENCE)
        for end in (self.commands, self.events):
            os.close(end)
        shutil.rmtree(self.folder, ignore_errors=True)


class Origin:
    """Serves one page, and from the same origin what the server answers to `/v1/watch`."""

    def __init__(self, page, server):
        origin = self
        self.page, self.server = page, server
        #: Ids that feeds said they stood at, one for each that was asked for.
        self.stood = []
        #: Whether the next change is kept from the page.
        self.lies = False
        self.connections = set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.startswith("/v1/watch?"):
                    origin.feed(self)
                elif self.path.split("?")[0] == "/watch.html":
                    origin.serve(self)
                else:
                    self.send_error(404)

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    @property
    def address(self):
        return "http://127.0.0.1:%d" % self.listener.server_address[1]

    def serve(self, request):
        with open(self.page, "rb") as file:
            body = file.read()
        request.send_response(200)
        request.send_header("Content-Type", "text/html; charset=utf-8")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def feed(self, request):
        last = request.headers.get("Last-Event-ID")
        self.stood.append(last)
        upstream = http.client.HTTPConnection(self.server.address, timeout=PATIENCE)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        try:
            upstream.request("GET", request.path, headers=headers)
            answer = upstream.getresponse()
        except (OSError, http.client.HTTPException):
            return request.send_error(502)
        self.connections.add(request.connection)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(upstream):
            request.send_response(answer.status)
            request.send_header("Content-Type", answer.headers["Content-Type"])
            request.end_headers()
            self.passed(answer, request.wfile)
        self.connections.discard(request.connection)

    def passed(self, answer, page):
        event = b""
        for line in iter(answer.readline, b""):
            event += line
            if line == b"\n":
                if self.lies and event.startswith(b"event: change"):
                    self.lies = False
                else:
                    page.write(event)
                event = b""

    def cut(self):
        """Breaks every feed that is open."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def kill(self):
        self.cut()
        self.listener.shutdown()
        self.listener.server_close()
