"""Requests as they are, to the byte, and the two servers that get them."""

import contextlib
import os
import socket
import subprocess
import threading
import time
import zlib

from harness import BINARY, GUARD, WORK, Failed

#: Longest wait for an answer. Who needs it has lost a thread.
HANGING = 30
#: Longest start of a genuine server on a busy machine.
START = 180


class Hangs(Exception):
    """No answer came."""


class Answer:
    """An answer, read to its end."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name):
        return ", ".join(value for key, value in self.headers if key == name.lower())

    def plain(self):
        """The body without its compression."""
        if self.header("content-encoding") != "gzip" or not self.body:
            return self.body
        return zlib.decompress(self.body, 31)


class Line:
    """One kept connection, opened again where the server closes it."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.place = (host, int(port))
        self.socket = None
        self.held = b""

    def send(self, request):
        """Requests are sent again where the server had closed the connection before it saw them."""
        for attempt in range(2):
            if self.socket is None:
                self.socket = socket.create_connection(self.place, timeout=HANGING)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.held = b""
            try:
                self.socket.sendall(request)
                return
            except OSError:
                self.close()
                if attempt:
                    raise

    def receive(self, verb):
        try:
            return self._receive(verb)
        except TimeoutError:
            self.close()
            raise Hangs from None

    def _receive(self, verb):
        head, mark, rest = self.held.partition(b"\r\n\r\n")
        while not mark:
            self.held += self._more()
            head, mark, rest = self.held.partition(b"\r\n\r\n")
        self.held = rest
        if head.startswith(b"HTTP/1.1 100"):
            return self._receive(verb)
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split(" ")[1])
        headers = [(k.strip().lower(), v.strip()) for k, _, v in (line.partition(":") for line in lines)]
        answer = Answer(status, headers, b"")
        closes = "close" in answer.header("connection").lower()
        if verb != "HEAD" and status not in (204, 304):
            answer.body = self._body(answer, closes)
        if closes:
            self.close()
        return answer

    def _body(self, answer, closes):
        if "chunked" in answer.header("transfer-encoding"):
            parts = []
            while size := int(self._line().split(b";")[0], 16):
                parts.append(self._exactly(size))
                self._line()
            self._line()
            return b"".join(parts)
        length = answer.header("content-length")
        if length:
            return self._exactly(int(length))
        if not closes:
            return b""
        with contextlib.suppress(EOFError):
            while True:
                self.held += self._more()
        return self.held

    def _line(self):
        while b"\r\n" not in self.held:
            self.held += self._more()
        line, _, self.held = self.held.partition(b"\r\n")
        return line

    def _exactly(self, size):
        while len(self.held) < size:
            self.held += self._more()
        part, self.held = self.held[:size], self.held[size:]
        return part

    def _more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError
        return data

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None
        self.held = b""


def request(verb, path, headers=(), body=None):
    """The bytes of a request. Texts are Latin-1, as they stand on the wire."""
    lines = [f"{verb} {path} HTTP/1.1", "Host: eureka.example"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body and ("Transfer-Encoding", "chunked") in headers:
        pieces = [body[start : start + 700] for start in range(0, len(body), 700)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    elif body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


class Side:
    """A server that can be asked, and started again."""

    name = None

    def __init__(self):
        self.child = None
        self.line = None

    def ask(self, verb, path, headers=(), body=None):
        self.begin(request(verb, path, headers, body))
        return self.end(verb)

    def begin(self, sent):
        self.sent = sent
        self.line.send(sent)

    def end(self, verb):
        """A connection that ends instead of answering was closed before the request came, or it ends twice."""
        try:
            return self.line.receive(verb)
        except (EOFError, ConnectionError):
            self.line.close()
            self.line.send(self.sent)
            return self.line.receive(verb)

    def launch(self, command, **settings):
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", *command],
            cwd=WORK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )

    def stop(self):
        if self.line:
            self.line.close()
        if self.child is None:
            return
        with contextlib.suppress(OSError):
            self.child.stdin.write("KILL\n")
            self.child.stdin.close()
        self.child.wait(60)
        self.child = None


class Ours(Side):
    """Ours, with the switches that are given beside the defaults. It believes this program to be a peer, as the
    genuine ones believe everybody."""

    name = "ours"

    def __init__(self, **switches):
        super().__init__()
        self.switches = switches

    def start(self):
        self.launch(
            [BINARY, "--log", "warn", "--listen", "127.0.0.1:0"], HEUREKA_PEER__TRUSTED="127.0.0.1", **self.switches
        )
        for line in self.child.stdout:
            if " listening on " in line:
                self.line = Line(line.split()[-1])
                threading.Thread(target=self.child.stdout.read, daemon=True).start()
                return
        raise Failed("our server did not start")


class Theirs(Side):
    """A genuine one, alone. Its caches keep nothing, so that its answers do not depend on when they are asked for; nothing
    expires, since that happens by its own clocks."""

    name = "theirs"

    def __init__(self, version, jar):
        super().__init__()
        self.version = version
        self.jar = jar

    def start(self):
        port = free_port()
        options = {
            "server.port": port,
            "server.address": "127.0.0.1",
            "spring.main.banner-mode": "off",
            "logging.level.root": "OFF",
            "eureka.client.register-with-eureka": "false",
            "eureka.client.fetch-registry": "false",
            "eureka.server.use-read-only-response-cache": "false",
            "eureka.server.response-cache-auto-expiration-in-seconds": 0,
            "eureka.server.wait-time-in-ms-when-sync-empty": 0,
            "eureka.server.eviction-interval-timer-in-ms": 86_400_000,
            "eureka.server.max-threads-for-peer-replication": 1,
            "eureka.instance.registry.default-open-for-traffic-count": 1_000_000,
        }
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-jar", self.jar]
        log = os.path.join(WORK, f"java-server-{self.version}.log")
        command = " ".join(f"'{part}'" for part in java + [f"--{key}={value}" for key, value in options.items()])
        self.launch(["sh", "-c", f"exec {command} >{log} 2>&1"])
        self.line = Line(f"127.0.0.1:{port}")
        deadline = time.monotonic() + START
        while not self._answers():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the genuine server {self.version} did not start, see {log}")
            time.sleep(0.1)

    def _answers(self):
        try:
            return self.ask("GET", "/eureka/apps").status == 200
        except (OSError, EOFError, Hangs):
            return False


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
