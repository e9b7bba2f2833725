"""A proxy that counts what goes through it: requests by path, and the items of batches by what they say."""

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
        reader = Requests(self._count)
        back = threading.Thread(target=self._pump, args=(server, client, None), daemon=True)
        back.start()
        self._pump(client, server, reader)
        back.join()
        with self.lock:
            self.sockets -= {client, server}
        client.close()
        server.close()

    def _pump(self, source, sink, reader):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.open:
                    break
                sink.sendall(data)
                if reader:
                    reader.feed(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _count(self, verb, path, body, size):
        with self.lock:
            self.bytes += size
            self.requests[f"{verb} {path.split('?')[0].rstrip('/')}"] += 1
            if "peerreplication" in path:
                for item in json.loads(body)["replicationList"]:
                    self.items[item["action"]] += 1


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
