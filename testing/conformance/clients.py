"""Real Eureka clients against a started server, seen by a watcher generated from the protos.

Called by `run` with the server's binary, the folder of the generated stubs and the folder that holds node_modules.
Every step fails with what was expected; figures are printed, never judged.
"""

import json
import queue
import subprocess
import sys
import threading
import time
import urllib.request

BINARY, STUBS, NODE = sys.argv[1:4]
sys.path.insert(0, STUBS)

import grpc  # noqa: E402
from heureka.registry.v1 import discovery_service_pb2 as discovery  # noqa: E402
from heureka.registry.v1 import discovery_service_pb2_grpc as services  # noqa: E402

#: Longest wait for anything. A step that needs it has failed.
PATIENCE = 30


class Process:
    """A child that tells its progress line by line and never outlives this program."""

    def __init__(self, *command, cwd=None):
        self.child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line.rstrip())

    def wait_for(self, word):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.child.args[:3]} never said {word!r}") from None
            if word in line:
                return line

    def say(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def kill(self):
        self.child.kill()
        self.child.wait()


class Watcher:
    """Every change of the registry with the time at which it arrived."""

    def __init__(self, target):
        self.changes = queue.Queue()
        self.stub = services.DiscoveryServiceStub(grpc.insecure_channel(target))
        self.ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        assert self.ready.wait(PATIENCE), "the watch never told the end of its snapshot"

    def _run(self):
        try:
            for response in self.stub.Watch(discovery.WatchRequest(client_name="conformance")):
                kind = response.event.WhichOneof("event")
                if kind == "snapshot_end":
                    self.ready.set()
                if kind == "changes":
                    batch = response.event.changes
                    for change in batch.changes:
                        self.changes.put((time.time(), batch.commit_time.ToMicroseconds() / 1e6, change))
        except grpc.RpcError:
            pass

    def wait_for(self, app, kind, reason=None):
        deadline = time.monotonic() + PATIENCE
        seen = []
        while True:
            try:
                arrived, committed, change = self.changes.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {kind} {reason or ''} of {app}; seen since: {seen}") from None
            found = (
                change.key.app,
                discovery.ChangeType.Name(change.type).removeprefix("CHANGE_TYPE_"),
                discovery.RemovalReason.Name(change.removal_reason).removeprefix("REMOVAL_REASON_"),
            )
            seen.append(found)
            if found[:2] == (app, kind) and reason in (None, found[2]):
                print(f"  {kind} {reason or ''} {app}: {1000 * (arrived - committed):.1f} ms after its commit")
                return arrived, change


def fetch(base, path):
    request = urllib.request.Request(base + path, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def listed(base):
    return {app["name"] for app in fetch(base, "apps")["applications"]["application"]}


def main():
    server = Process(BINARY, "--listen", "127.0.0.1:0")
    children = [server]
    try:
        target = server.wait_for("listening on").rsplit(" ", 1)[1]
        base = f"http://{target}/eureka/"
        watcher = Watcher(target)

        python = Process(sys.executable, "py_client.py", base, "py-app", "9101")
        children.append(python)
        watcher.wait_for("PY-APP", "ADDED")
        host, port = target.rsplit(":", 1)
        script = Process("node", "js_client.js", host, port, "js-app", "9102", cwd=None)
        children.append(script)
        watcher.wait_for("JS-APP", "ADDED")
        python.wait_for("started")
        script.wait_for("started")
        assert listed(base) == {"PY-APP", "JS-APP"}, listed(base)

        before = renewal(base, "PY-APP"), renewal(base, "JS-APP")
        deadline = time.monotonic() + PATIENCE
        while any(now <= then for now, then in zip((renewal(base, "PY-APP"), renewal(base, "JS-APP")), before)):
            assert time.monotonic() < deadline, "no renewal arrived"
        print("  both renew")

        python.say("stop")
        watcher.wait_for("PY-APP", "REMOVED", "CANCELLED")
        python.wait_for("stopped")

        last = renewal(base, "JS-APP") / 1000
        script.kill()
        arrived, _ = watcher.wait_for("JS-APP", "REMOVED", "EXPIRED")
        print(f"  a killed client of a 3 s lease was gone {arrived - last:.1f} s after its last renewal seen")
        assert listed(base) == set(), listed(base)

        restarted = Process("node", "js_client.js", host, port, "js-app", "9102")
        children.append(restarted)
        watcher.wait_for("JS-APP", "ADDED")
        restarted.wait_for("started")
        restarted.say("stop")
        watcher.wait_for("JS-APP", "REMOVED", "CANCELLED")
    finally:
        for child in children:
            child.kill()


def renewal(base, app):
    instance = fetch(base, f"apps/{app}")["application"]["instance"][0]
    return instance["leaseInfo"]["lastRenewalTimestamp"]


main()
print("real clients: all steps held")
