"""A proxy that counts what goes through it: requests by path, over either version of HTTP, and the items of batches by what
they say."""

import collections
import contextlib
import json
import re
import socket
import threading


class Wire:
    """One way from some clients to one server. Bytes pass as they are; closed, it refuses and cuts everything."""

    def __init__(self, name, target=None):
        self.name = name
        self.target = target
        self.lock = threading.Lock()
        self.open = True
        self.sockets = set()
        self.items = collections.Counter()
        self.requests = collections.Counter()
        self.protocols = collections.Counter()
        self.bytes = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://{self.address}/eureka/"

    def cut(self):
        with self.lock:
            self.open = False
            for one in self.sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def heal(self):
        self.open = True

    def take(self):
        """What went through since the last time: items by action, requests by path, bytes."""
        with self.lock:
            taken = dict(self.items), dict(self.requests), self.bytes
            self.items.clear()
            self.requests.clear()
            self.bytes = 0
        return taken

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        if not self.open or self.target is None:
            client.close()
            return
        host, port = self.target.rsplit(":", 1)
        try:
            server = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        with self.lock:
            self.sockets |= {client, server}
        reader = Stream(self._count, self._speaks)
        back = threading.Thread(target=self._pump, args=(server, client, None), daemon=True)
        back.start()
        self._pump(client, server, reader)
        back.join()
        with self.lock:
            self.sockets -= {client, server}
        client.close()
        server.close()

    def _pump(self, source, sink, reader):
        try:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    if not self.open:
                        break
                    sink.sendall(data)
                    if reader:
                        reader.feed(data)
        finally:
            # Also where a request could not be read: nobody shall wait for what does not come.
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _speaks(self, protocol):
        with self.lock:
            self.protocols[protocol] += 1

    def _count(self, verb, path, body, size):
        with self.lock:
            self.bytes += size
            self.requests[f"{verb} {path.split('?')[0].rstrip('/')}"] += 1
            if "peerreplication" in path:
                for item in json.loads(body)["replicationList"]:
                    self.items[item["action"]] += 1


class Stream:
    """Finds requests in a stream of bytes of whichever protocol it begins with."""

    def __init__(self, found, speaks):
        self.found, self.speaks = found, speaks
        self.held = b""
        self.reader = None

    def feed(self, data):
        if self.reader is None:
            self.held += data
            if len(self.held) < len(PREFACE):
                return
            data, self.held = self.held, b""
            second = data.startswith(PREFACE)
            self.speaks("HTTP/2" if second else "HTTP/1")
            self.reader = Frames(self.found) if second else Requests(self.found)
            data = data[len(PREFACE):] if second else data
        self.reader.feed(data)


#: What a connection of HTTP/2 begins with; no request of HTTP/1 is shorter.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Frames:
    """Finds the heads of requests among the frames of HTTP/2."""

    HEADERS, CONTINUED, PADDED, PRIORITY = 1, 4, 8, 32

    def __init__(self, found):
        # Only who meets such a connection needs the package.
        from hpack import Decoder

        self.found = found
        self.decoder = Decoder()
        self.held = b""

    def feed(self, data):
        self.held += data
        while len(self.held) >= 9:
            size = int.from_bytes(self.held[:3], "big")
            if len(self.held) < 9 + size:
                return
            kind, flags, body = self.held[3], self.held[4], self.held[9:9 + size]
            self.held = self.held[9 + size:]
            if kind == self.HEADERS:
                self._head(flags, body)

    def _head(self, flags, body):
        if not flags & self.CONTINUED:
            raise ValueError("a head in several frames")
        if flags & self.PADDED:
            body = body[1:len(body) - body[0]]
        if flags & self.PRIORITY:
            body = body[5:]
        head = dict(self.decoder.decode(body))
        self.found(head[":method"], head[":path"], b"", len(body))


class Requests:
    """Finds requests in a stream of bytes, whole or in chunks."""

    def __init__(self, found):
        self.found = found
        self.held = b""

    def feed(self, data):
        self.held += data
        while self._one():
            pass

    def _one(self):
        head, mark, rest = self.held.partition(b"\r\n\r\n")
        if not mark:
            return False
        verb, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        if re.search(rb"(?im)^transfer-encoding: *chunked", head):
            body, left = self._chunks(rest)
        else:
            length = re.search(rb"(?im)^content-length: *(\d+)", head)
            length = int(length.group(1)) if length else 0
            body, left = (rest[:length], rest[length:]) if len(rest) >= length else (None, rest)
        if body is None:
            return False
        size = len(self.held) - len(left)
        self.held = left
        self.found(verb, path, body, size)
        return True

    @staticmethod
    def _chunks(rest):
        body = b""
        while True:
            line, mark, after = rest.partition(b"\r\n")
            if not mark:
                return None, rest
            size = int(line.split(b";")[0], 16)
            if len(after) < size + 2:
                return None, rest
            body += after[:size]
            rest = after[size + 2:]
            if size == 0:
                return body, rest
