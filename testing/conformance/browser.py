"""A real browser, told what to do over the pipe that its tools use; and the origin that a page comes from, which passes
the feed on as any proxy does, and can do harm to it."""

import base64
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


#: Keys by the names that pages know them by, with the numbers that browsers know them by.
KEYS = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "/": 191,
}


class Browser:
    """Chromium without a window, with a profile of its own, which goes with it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(dir=HOME)
        self.printed = []
        self.numbers = itertools.count(1)
        self.answers = {}
        #: What pages and the browser said on the console that is wrong.
        self.complaints = []
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
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable", self.session)

    def _read(self):
        rest = b""
        while piece := os.read(self.events, 1 << 16):
            *whole, rest = (rest + piece).split(b"\0")
            for text in whole:
                said = json.loads(text)
                if "id" in said:
                    self.answers[said["id"]] = said
                else:
                    self._heard(said["method"], said["params"])
        self.ended.set()

    def _heard(self, method, params):
        called = method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")
        logged = method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning")
        if called or logged or method == "Runtime.exceptionThrown":
            self.complaints.append(params)

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
        went = self.call("Page.navigate", self.session, url=address)
        if "errorText" in went:
            raise Failed(f"{address} does not open: {went['errorText']}")

    def value(self, expression):
        """What an expression of the page has for a value."""
        found = self.call("Runtime.evaluate", self.session, expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise Failed(f"the page: {expression}: {found['exceptionDetails'].get('exception', {}).get('description')}")
        return found["result"].get("value")

    def press(self, key, times=1):
        """A key, as from a keyboard."""
        text = {"Enter": "\r", " ": " ", "/": "/"}.get(key)
        said = {"key": key, "windowsVirtualKeyCode": KEYS[key], **({"text": text} if text else {})}
        for _ in range(times):
            for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", self.session, type=kind, **said)

    def write(self, text):
        """Text into what has the focus."""
        self.call("Input.insertText", self.session, text=text)

    def look(self, width=1280, height=800, dark=False, phone=False):
        """From now on the page is seen like this."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", self.session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", self.session, features=[scheme])

    def picture(self, path):
        """Writes what is seen as a PNG."""
        taken = self.call("Page.captureScreenshot", self.session, format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(taken["data"]))

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


class Prefixed:
    """A proxy as people put before a server: below a prefix that it takes off, every byte passed on as it comes."""

    PREFIX = "/tools/registry"

    def __init__(self, server):
        proxy = self
        self.server = server
        #: Paths that were asked for and are not below the prefix.
        self.strayed = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.startswith(proxy.PREFIX + "/"):
                    proxy.passed(self)
                else:
                    proxy.strayed.append(self.path)
                    self.send_error(404)

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    @property
    def address(self):
        return "http://127.0.0.1:%d%s" % (self.listener.server_address[1], self.PREFIX)

    def passed(self, request):
        upstream = http.client.HTTPConnection(self.server.address, timeout=PATIENCE)
        asked = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(upstream):
            upstream.request("GET", request.path.removeprefix(self.PREFIX), headers=asked)
            answer = upstream.getresponse()
            request.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "transfer-encoding"):
                    request.send_header(name, value)
            request.end_headers()
            while piece := answer.read1(1 << 16):
                request.wfile.write(piece)

    def kill(self):
        self.listener.shutdown()
        self.listener.server_close()
