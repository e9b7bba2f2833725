"""Lists that the server joins from compressed pieces, read by the decoders of the clients' platforms."""

import gzip
import hashlib
import http.client
import json
import os
import subprocess
import zlib

from harness import HERE, WORK, check, require, suite, until

FORMS = {
    "json": {"Accept": "application/json"},
    "json-compact": {"Accept": "application/json", "X-Eureka-Accept": "compact"},
    "xml": {"Accept": "application/xml"},
    "xml-compact": {"Accept": "application/xml", "X-Eureka-Accept": "compact"},
}
#: Bytes that say something different in each instance, so that there is much to decode.
NOTE = 1500
#: Longest run of a decoder, its start and compilation on a busy machine included.
PATIENCE = 300

DECODERS = os.path.join(HERE, "decoders")
JAVA = ["java", "-XX:TieredStopAtLevel=1", os.path.join(DECODERS, "Gunzip.java")]
GO = ["go", "run", os.path.join(DECODERS, "gunzip.go")]
NODE = ["node", os.path.join(DECODERS, "gunzip.js")]


class Surface:
    """One connection to the legacy surface."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.address, timeout=60)

    def call(self, method, path, headers, body=None):
        self.connection.request(method, f"/eureka/{path}", body, headers)
        answer = self.connection.getresponse()
        return answer, answer.read()

    def register(self, app, number, note):
        instance = {
            "app": app, "instanceId": f"{app}:{number}", "hostName": f"host-{number}", "ipAddr": "10.0.0.1",
            "status": "UP", "vipAddress": app, "port": {"$": 8080, "@enabled": "true"},
            "leaseInfo": {"durationInSecs": 3600}, "metadata": {"note": note},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        }
        body = json.dumps({"instance": instance})
        answer, text = self.call("POST", f"apps/{app}", {"Content-Type": "application/json"}, body)
        require(answer.status == 204, (answer.status, text))

    def read(self, path, form, gzipped):
        headers = dict(FORMS[form], **({"Accept-Encoding": "gzip"} if gzipped else {}))
        answer, body = self.call("GET", path, headers)
        require(answer.status == 200, answer.status)
        require(answer.headers.get("Content-Encoding") == ("gzip" if gzipped else None), answer.headers)
        require(int(answer.headers["Content-Length"]) == len(body), answer.headers)
        return body


def note(number):
    """Text that no decoder can have guessed."""
    blocks = (hashlib.sha256(f"{number} {block}".encode()).hexdigest() for block in range(NOTE // 64 + 1))
    return "".join(blocks)[:NOTE]


def fingerprint(text):
    return f"{hashlib.sha256(text).hexdigest()} {len(text)}"


def decoded(command, names):
    """What a program reads of each file."""
    environment = dict(os.environ, GOCACHE=os.path.join(WORK, "cache", "go"), GOTOOLCHAIN="local", GO111MODULE="off")
    done = subprocess.run([*command, *names], capture_output=True, text=True, timeout=PATIENCE, env=environment)
    require(done.returncode == 0, done.stderr[-500:])
    return done.stdout.split("\n")[:-1]


def one_member(body):
    """By the rule of decoders that stop at the end of the first member, .NET's once: nothing may stand behind it."""
    require(body[:4] == b"\x1f\x8b\x08\x00", body[:10])
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    text = inflate.decompress(body[10:])
    trailer = zlib.crc32(text).to_bytes(4, "little") + (len(text) % 2**32).to_bytes(4, "little")
    require(inflate.eof and inflate.unused_data == trailer, (inflate.eof, len(inflate.unused_data)))
    return text


def in_parts(body):
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    text = b"".join(inflate.decompress(body[start:start + 1000]) for start in range(0, len(body), 1000))
    require(inflate.eof and not inflate.unused_data, "something behind the end")
    return text


def main(server, watchers, start):
    surface = Surface(server)
    folder = os.path.join(WORK, "lists")
    os.makedirs(folder, exist_ok=True)
    names, expected = [], []

    def collect(state):
        """Every list of this moment, compressed, and what it has to say."""
        for path in ("apps", "apps/delta"):
            for form in FORMS:
                body, plain = surface.read(path, form, True), surface.read(path, form, False)
                names.append(os.path.join(folder, f"{state}-{path.replace('/', '-')}-{form}.gz"))
                with open(names[-1], "wb") as file:
                    file.write(body)
                expected.append(fingerprint(plain))

    with check("lists of nothing, of one, of thousands, and of those after single changes are told"):
        collect("empty")
        surface.register("ONE", 0, "only")
        collect("one")
        for number in range(1200):
            surface.register(f"APP-{number % 60}", number, note(number))
        for number in range(600):
            surface.register("LARGE", number, note(-number))
        collect("many")
        surface.register("APP-30", 30, note("changed"))
        answer, _ = surface.call("DELETE", "apps/LARGE/LARGE:300", {})
        require(answer.status == 200, answer.status)
        collect("changed")
        until(lambda: all(len(watcher.view) == 1800 for watcher in watchers), "watchers hold as many")
        require(max(int(line.split()[1]) for line in expected) > 4_000_000, expected)

    def same(told):
        wrong = [pair for pair in zip(names, expected, told) if pair[1] != pair[2]]
        require(not wrong and len(told) == len(names), wrong or len(told))

    def told(decode):
        for name in names:
            with open(name, "rb") as file:
                yield fingerprint(decode(file.read()))

    with check("Python's gzip and zlib read them whole"):
        same(list(told(gzip.decompress)))
        same(list(told(in_parts)))
    with check("each is one member with nothing behind it"):
        same(list(told(one_member)))
    for platform, command in (("Node's zlib", NODE), ("Java's GZIPInputStream", JAVA), ("Go's compress/gzip", GO)):
        with check(f"{platform} reads them whole"):
            same(decoded(command, names))
    for name in names:
        os.remove(name)


suite("lists in pieces", main)
