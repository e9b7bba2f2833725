"""Genuine Eureka servers and ours as one cluster: two of Spring's, then one and two of ours beside them.

`suite_java.py PATH-OF-heureka BUILD-FOLDER JAR`. Whoever writes, wherever it writes, everybody agrees within two
renewals and five seconds, and then nothing but renewals goes over the wires. At the end Spring's leave and come back,
as `docs/migration.md` says.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from harness import BINARY, GUARD, WORK, Failed, check, require, until
from wire import Wire

JAR = sys.argv[3]
#: How often the clients of this suite renew.
RENEWAL = 3
#: Everybody agrees within this.
BOUND = 2 * RENEWAL + 5
#: Longest start of a genuine server on a busy machine.
START = 300
#: How long the wires are watched at rest.
QUIET = 12


def call(method, url, body=None, patience=5):
    """Status and document."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] == b"{" else None
    except urllib.error.HTTPError as refusal:
        return refusal.code, None


class Node:
    """A server of either kind behind a counting wire for its peers; clients go to it directly."""

    def __init__(self, name):
        self.name = name
        self.wire = Wire(name)
        self.child = None
        self.base = None

    def launch(self, command, env=None):
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", *command], cwd=WORK, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **(env or {})},
        )
        return self.child.stdout

    def answers(self, path="apps"):
        try:
            return call("GET", self.base + path)[0] == 200
        except OSError:
            return False

    def stop(self, signal="TERM"):
        if self.child is None:
            return
        try:
            self.child.stdin.write(signal + "\n")
            self.child.stdin.close()
        except OSError:
            pass
        self.child.wait(60)
        self.child = None
        self.wire.target = None
        self.wire.cut()
        self.wire.heal()

    def holds(self):
        """Status and override of every instance."""
        status, document = call("GET", self.base + "apps")
        if status != 200:
            return None
        apps = document["applications"]["application"]
        return {
            f"{app['name']}/{one['instanceId']}": (
                one["status"], one.get("overriddenStatus", "UNKNOWN"), one["hostName"],
                {k: v for k, v in one["metadata"].items() if k != "@class"}.get("v", ""),
            )
            for app in apps for one in app["instance"]
        }


class Java(Node):
    def start(self, peers):
        port = free_port()
        urls = ",".join(peer.wire.url for peer in peers)
        options = {
            "server.port": port, "server.address": "127.0.0.1", "spring.main.banner-mode": "off",
            "logging.level.root": "ERROR", "eureka.instance.hostname": self.name,
            "eureka.client.service-url.defaultZone": urls, "eureka.client.register-with-eureka": "false",
            "eureka.client.fetch-registry": "true", "eureka.client.filter-only-up-instances": "false",
            "eureka.client.registry-fetch-interval-seconds": 2, "eureka.server.registry-sync-retries": 3,
            "eureka.server.registry-sync-retry-wait-ms": 1000, "eureka.server.wait-time-in-ms-when-sync-empty": 0,
            "eureka.server.use-read-only-response-cache": "false", "eureka.server.enable-self-preservation": "false",
            # A list that is made while a second change arrives stays without it until it expires, by default for 180 s.
            "eureka.server.response-cache-auto-expiration-in-seconds": 1,
            "eureka.server.eviction-interval-timer-in-ms": 2000, "eureka.server.peer-node-connect-timeout-ms": 1000,
            "eureka.server.peer-node-read-timeout-ms": 3000, "eureka.server.peer-eureka-nodes-update-interval-ms": 2000,
        }
        log = os.path.join(WORK, f"{self.name}.log")
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar", JAR]
        command += [f"--{key}={value}" for key, value in options.items()] + [f"--logging.file.name={log}"]
        out = self.launch(command)
        threading.Thread(target=out.read, daemon=True).start()
        self.base = f"http://127.0.0.1:{port}/eureka/"
        self.wire.target = f"127.0.0.1:{port}"

    def wait(self):
        until(self.answers, f"{self.name} answers", START)


class Heureka(Node):
    def __init__(self, name):
        super().__init__(name)
        self.address = f"127.0.0.1:{free_port()}"

    def start(self, javas, natives=(), shadow=False):
        key = "HEUREKA_EUREKA__SHADOW" if shadow else "HEUREKA_EUREKA__PEERS"
        urls = [java.wire.url for java in javas]
        flags = [flag for native in natives for flag in ("--peer", native.address)]
        env = {
            key: ",".join(urls), "HEUREKA_EUREKA__CHECK_INTERVAL": "3s", "HEUREKA_PEER__TRUSTED": "127.0.0.1",
        }
        command = [BINARY, "--log", "warn", "--node-id", self.name, "--listen", self.address, *flags]
        out = self.launch(command, env)
        for line in out:
            if " listening on " in line:
                self.wire.target = self.address
                self.base = f"http://{self.wire.target}/eureka/"
                threading.Thread(target=out.read, daemon=True).start()
                return
        raise Failed(f"{self.name} did not start")

    def page(self):
        return call("GET", f"http://{self.wire.target}/health/eureka")[1]

    def wait(self):
        until(lambda: self.page()["copied"] and self.answers(), f"{self.name} took in a list", 60)


class Client:
    """An owner that renews at one server and registers again when it is told 404, as every Eureka client does."""

    all = []

    def __init__(self, node, app, name, host="h1"):
        self.node, self.app, self.id, self.host = node, app, name, host
        self.status, self.value, self.stamp = "UP", "", now_ms()
        self.registrations = 0
        self.gone = threading.Event()
        self.register()
        Client.all.append(self)
        threading.Thread(target=self._renew, daemon=True).start()

    @property
    def key(self):
        return f"{self.app}/{self.id}"

    def register(self, fresh=False):
        if fresh:
            self.stamp = max(now_ms(), self.stamp + 1)
        body = {"instance": {
            "instanceId": self.id, "hostName": self.host, "app": self.app, "ipAddr": "10.0.0.1", "status": self.status,
            "vipAddress": self.app.lower(), "port": {"$": 8080, "@enabled": "true"},
            "securePort": {"$": 8443, "@enabled": "false"}, "metadata": {"v": self.value},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
            "leaseInfo": {"renewalIntervalInSecs": RENEWAL, "durationInSecs": 30},
            "lastDirtyTimestamp": str(self.stamp),
        }}
        self.registrations += 1
        status, _ = call("POST", f"{self.node.base}apps/{self.app}", body)
        require(status == 204, f"{self.node.name} answered {status} to a registration")

    def _renew(self):
        while not self.gone.wait(RENEWAL):
            try:
                path = f"apps/{self.app}/{self.id}?status={self.status}&lastDirtyTimestamp={self.stamp}"
                if call("PUT", self.node.base + path)[0] == 404 and not self.gone.is_set():
                    self.register(fresh=True)
            except (OSError, Failed):
                continue

    def cancel(self):
        self.gone.set()
        call("DELETE", f"{self.node.base}apps/{self.app}/{self.id}")

    def override(self, node, status):
        path = f"{node.base}apps/{self.app}/{self.id}/status"
        code, _ = call("PUT", f"{path}?value={status}") if status else call("DELETE", path)
        require(code == 200, f"{node.name} answered {code}")


def now_ms():
    return int(time.time() * 1000)


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def agree(nodes, what, patience=BOUND, **wanted):
    """Everybody holds the same, and of these keys what is wanted; a status of nothing means that it is gone."""
    begun = time.monotonic()

    def same():
        held = [node.holds() for node in nodes]
        if None in held or any(one != held[0] for one in held):
            return False
        return all(
            (held[0].get(key.replace("__", "/")) or (None,))[0] == status for key, status in wanted.items()
        )

    try:
        until(same, what, patience)
    except Failed:
        raise Failed(f"{what}: {[(node.name, node.holds()) for node in nodes]}") from None
    return time.monotonic() - begun


def quiet(nodes, clients):
    """At rest nothing but renewals: no more items than the clients' beats, told once to each other server."""
    time.sleep(BOUND)
    for node in nodes:
        node.wire.take()
    time.sleep(QUIET)
    beats = len(clients) * (QUIET / RENEWAL + 1)
    for node in nodes:
        items, requests, size = node.wire.take()
        batches = sum(count for path, count in requests.items() if "peerreplication" in path)
        print(f"    to {node.name} in {QUIET} s: {items or 'no items'} in {batches} batches, {size} bytes in all", flush=True)
        require(set(items) <= {"Heartbeat"}, f"{items} to {node.name}")
        require(items.get("Heartbeat", 0) <= beats, f"{items} to {node.name}, {beats} beats of clients")


def everything(side, other, nodes):
    """Each kind of write at one server, seen by all."""
    # Theirs keep overrides by id alone, so no two applications may share one here.
    app, first, second = f"FROM-{side.name}".upper(), f"{side.name}-one-{now_ms()}", f"{side.name}-two-{now_ms()}"
    took = []

    def seen(what, **wanted):
        took.append(agree(nodes, what, **{f"{app}__{key}": status for key, status in wanted.items()}))

    one, two = Client(side, app, first), Client(side, app, second)
    seen(f"registrations at {side.name}", **{first: "UP", second: "UP"})
    one.override(side, "OUT_OF_SERVICE")
    seen(f"an override at {side.name}", **{first: "OUT_OF_SERVICE"})
    one.override(side, None)
    seen(f"its end at {side.name}", **{first: "UP"})
    two.override(other, "OUT_OF_SERVICE")
    seen(f"an override at {other.name}", **{second: "OUT_OF_SERVICE"})
    two.override(other, None)
    seen(f"its end at {other.name}", **{second: "UP"})
    one.status, one.value = "DOWN", "changed"
    one.register(fresh=True)
    seen(f"a change at {side.name}", **{first: "DOWN"})
    one.status = "UP"
    one.register(fresh=True)
    seen(f"and back at {side.name}", **{first: "UP"})
    one.cancel()
    seen(f"a cancel at {side.name}", **{first: None})
    print(f"    agreed after {', '.join(f'{seconds:.1f}' for seconds in took)} s", flush=True)
    return two


def facts(j1, j2, h1, h2):
    with check("two genuine servers agree"):
        j1.start([j2])
        j2.start([j1])
        j1.wait()
        j2.wait()
        clients = [Client(j1, "OLD", f"old_{number}") for number in range(3)]
        agree([j1, j2], "registrations", START, OLD__old_0="UP")
    with check("theirs are told to have ours for a peer, one after the other, while it is not there"):
        for java, other in ((j1, j2), (j2, j1)):
            java.stop()
            java.start([other, h1])
            java.wait()
        agree([j1, j2], "their list after the restarts", START)
    with check("ours starts and holds what they hold"):
        h1.start([j1, j2])
        h1.wait()
        agree([j1, j2, h1], "three servers")
    three = [j1, j2, h1]
    with check("every kind of write at ours is seen by all"):
        clients.append(everything(h1, j1, three))
    with check("every kind of write at theirs is seen by all"):
        clients.append(everything(j1, h1, three))
    with check("a client moves from theirs to ours and back"):
        mover = Client(j1, "MOVE", "m")
        agree(three, "its registration", MOVE__m="UP")
        for node in (h1, j2, h1):
            mover.node = node
            time.sleep(RENEWAL + 1)
            agree(three, f"at {node.name}", MOVE__m="UP")
        require(mover.registrations <= 3, f"{mover.registrations} registrations")
        clients.append(mover)
    with check("one key at two servers: all agree on the newer"):
        first, second = Client(j1, "BOTH", "b", "older"), Client(h1, "BOTH", "b", "newer")
        first.gone.set()
        agree(three, "one record", BOTH__b="UP")
        require(h1.holds()["BOTH/b"][2] == "newer", h1.holds()["BOTH/b"])
        clients.append(second)
    with check("at rest nothing but renewals goes over the wires"):
        quiet(three, clients)
    with check("what happened while they did not reach each other is told when they do"):
        j1.wire.cut()
        h1.wire.cut()
        lost, came = Client(j2, "CUT", "gone"), Client(h1, "CUT", "new")
        gone = clients.pop()
        gone.cancel()
        time.sleep(2 * RENEWAL)
        j1.wire.heal()
        h1.wire.heal()
        agree(three, "after the cut", BOUND + 30, CUT__gone="UP", CUT__new="UP", BOTH__b=None)
        clients += [lost, came]
    with check("a second of ours joins"):
        h2.start([j1, j2], [h1])
        h2.wait()
        for java, other in ((j1, j2), (j2, j1)):
            java.stop()
            java.start([other, h1, h2])
            java.wait()
        h1.stop()
        h1.start([j1, j2], [h2])
        h1.wait()
        agree([j1, j2, h1, h2], "four servers", START)
    four = [j1, j2, h1, h2]
    with check("with four, every kind of write is seen by all"):
        clients.append(everything(h2, h1, four))
        clients.append(everything(j2, h2, four))
        quiet(four, clients)
    with check("clients move to ours, theirs leave, and nothing is lost"):
        for client in clients:
            client.node = h1
        time.sleep(2 * RENEWAL)
        before = h1.holds()
        j1.stop()
        j2.stop()
        for node in (h1, h2):
            node.stop()
            node.start([], [h1 if node is h2 else h2])
            until(node.answers, f"{node.name} answers")
            agree([h1, h2], f"after {node.name} came back", 60)
        require(h1.holds() == before, (before, h1.holds()))
    with check("and back: theirs come, clients move, ours leave"):
        for node in (h1, h2):
            node.stop()
            node.start([j1, j2], [h1 if node is h2 else h2])
            until(node.answers, f"{node.name} answers", 90)
            agree([h1, h2], f"after {node.name} came back", 60)
        for java, other in ((j1, j2), (j2, j1)):
            java.start([other, h1, h2])
            java.wait()
        agree(four, "four servers again", START)
        for client in clients:
            client.node = j1
        time.sleep(2 * RENEWAL)
        h1.stop()
        h2.stop()
        agree([j1, j2], "theirs alone", START)
        require(j1.holds() == before, (before, j1.holds()))
    with check("a shadow follows one of theirs and finds no difference"):
        h1.start([j1], shadow=True)
        h1.wait()
        j1.wire.take()
        everything(j1, j2, [j1, j2, h1])

        def alike():
            report = h1.page()["peers"][0]["shadow"]
            return report["differing"] == 0 and report["listed"] == len(h1.holds()) and report

        report = until(alike, "the shadow holds what it lists")
        require(report["met"] == 0, report)
        _, requests, _ = j1.wire.take()
        written = {path: count for path, count in requests.items() if "GET" not in path and "peerreplication" not in path}
        require(not written, written)
    return clients


def main():
    begun = time.monotonic()
    nodes = [Java("j1"), Java("j2"), Heureka("h1"), Heureka("h2")]
    try:
        facts(*nodes)
    except Failed as fact:
        print(f"genuine servers beside ours failed after {time.monotonic() - begun:.1f} s: {fact}", flush=True)
        sys.exit(1)
    finally:
        for client in Client.all:
            client.gone.set()
        for node in nodes:
            node.stop("KILL")
    print(f"genuine servers beside ours passed in {time.monotonic() - begun:.1f} s", flush=True)


main()
