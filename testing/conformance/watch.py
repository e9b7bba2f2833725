"""A watcher as docs/watch-contract.md asks for, generated from the protos: keeps a set across reconnects and restarts,
checks it by digest, writes when told to, and records everything for heureka-history.

Usage: watch.py STUBS HOST:PORT RECORDING. Speaks JSON lines; see harness.Program.
"""

import base64
import json
import random
import sys
import threading
import time

from digest import instance_hash, parts, set_hash

sys.path.insert(0, sys.argv[1])

import grpc  # noqa: E402
from heureka.registry.v1 import common_pb2 as common  # noqa: E402
from heureka.registry.v1 import discovery_service_pb2 as discovery  # noqa: E402
from heureka.registry.v1 import instance_pb2 as instance  # noqa: E402
from heureka.registry.v1 import registry_service_pb2 as registry  # noqa: E402

TARGET, RECORDING = sys.argv[2:4]
DISCOVERY = "/heureka.registry.v1.DiscoveryService/"
REGISTRY = "/heureka.registry.v1.RegistryService/"
#: Two tokens or digests a second apart at most, so that no suite waits long for one.
INTERVAL = 1
#: Reconnects wait at most this long here; the contract's 30 s would only make the suites slow.
LONGEST_WAIT = 1.0

lock = threading.RLock()
recording = open(RECORDING, "w", buffering=1)


def say(**words):
    with lock:
        print(json.dumps(words), flush=True)


def record(**step):
    with lock:
        recording.write(json.dumps(step) + "\n")


def text(data):
    return base64.b64encode(data).decode()


def hash_of(held):
    return instance_hash(held.key.namespace, held.key.app, held.key.id, parts(held.version))


class Watcher:
    def __init__(self, channel):
        self.watch = channel.unary_stream(
            DISCOVERY + "Watch",
            request_serializer=discovery.WatchRequest.SerializeToString,
            response_deserializer=lambda data: (data, discovery.WatchResponse.FromString(data)),
        )
        self.held = {}
        self.building = None
        self.token = b""
        self.equal = self.unequal = self.in_a_row = 0
        self.reached = (0, 0)
        self.boot = 0
        self.modes = []
        self.wait = 0.1
        self.call = None
        self.over = False

    def run(self):
        while not self.over:
            pause = self.stream()
            if not self.over:
                time.sleep(random.uniform(0, min(pause, LONGEST_WAIT)))

    def stream(self):
        """One stream; the longest wait before the next."""
        spec = discovery.WatchSpec(resume_token=self.token, required_features=["resume", "digest"])
        spec.bookmark_interval.FromSeconds(INTERVAL)
        record(open={"spec": text(spec.SerializeToString()), "server": TARGET})
        self.call = self.watch(discovery.WatchRequest(spec=spec, client_name="watch.py"))
        pause = None
        try:
            for data, response in self.call:
                record(message=text(data))
                pause = self.take(response.event)
                if pause is not None:
                    self.call.cancel()
                    break
            record(closed={"code": "OK" if pause is None else "CANCELLED"})
        except grpc.RpcError as error:
            record(closed={"code": error.code().name})
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                self.token = b""
        if pause is None:
            pause, self.wait = self.wait, min(self.wait * 2, 30)
        return pause

    def take(self, event):
        """Takes an event in; how long to wait when it asks for another stream."""
        kind = event.WhichOneof("event")
        if kind == "snapshot_begin":
            mode = discovery.SnapshotMode.Name(event.snapshot_begin.mode).removeprefix("SNAPSHOT_MODE_")
            self.modes.append(mode)
            self.boot = event.snapshot_begin.header.boot
            self.building = {} if mode == "FULL" else None
        elif kind == "changes":
            for change in event.changes.changes:
                self.apply(change)
            if self.building is None:
                self.show()
        elif kind == "snapshot_end":
            if self.building is not None:
                self.swap()
            self.show()
            say(settled=len(self.held), mode=self.modes[-1])
            return self.mark(event.snapshot_end)
        elif kind == "bookmark":
            return self.mark(event.bookmark)
        elif kind == "go_away":
            self.token = event.go_away.resume_token or self.token
            say(away=True)
            return event.go_away.reconnect_jitter.ToMilliseconds() / 1000
        return None

    def apply(self, change):
        held = self.held if self.building is None else self.building
        key = (change.key.app, change.key.id)
        removed = change.type == discovery.CHANGE_TYPE_REMOVED
        known = held.get(key)
        if known is not None and parts(known.version) >= parts(change.version):
            return
        if removed:
            held.pop(key, None)
            reason = discovery.RemovalReason.Name(change.removal_reason).removeprefix("REMOVAL_REASON_")
            say(removed="/".join(key), reason=reason)
        else:
            held[key] = change.instance

    def swap(self):
        for key, newer in self.building.items():
            known = self.held.get(key)
            if known is not None and parts(known.version) > parts(newer.version):
                self.building[key] = known
        self.held, self.building = self.building, None

    def mark(self, mark):
        self.token = mark.resume_token
        self.wait = 0.1
        if mark.HasField("digest"):
            own = set_hash(hash_of(held) for held in self.held.values())
            record(held={"count": len(self.held), "hash": f"{own:016x}"})
            if (own, len(self.held)) == (mark.digest.hash, mark.digest.instance_count):
                self.equal += 1
                self.in_a_row = 0
            else:
                self.unequal += 1
                self.in_a_row += 1
                say(unequal=len(self.held))
        self.reached = (self.boot, mark.revision)
        if self.in_a_row == 2:
            self.in_a_row, self.token = 0, b""
            return 0
        return None

    def show(self):
        view = {
            "/".join(key): {
                "status": instance.InstanceStatus.Name(held.status).removeprefix("INSTANCE_STATUS_"),
                "metadata": dict(held.metadata),
                "version": ".".join(str(part) for part in parts(held.version)),
            }
            for key, held in self.held.items()
        }
        say(view=view)


class Caller:
    """Unary calls; writes are recorded as they went over the wire."""

    def __init__(self, channel):
        self.channel = channel

    def read(self, method, request, response):
        call = self.channel.unary_unary(
            DISCOVERY + method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return call(request, timeout=10)

    def write(self, method, request, response):
        sent = request.SerializeToString()
        call = self.channel.unary_unary(
            REGISTRY + method, request_serializer=lambda data: data, response_deserializer=lambda data: data
        )
        data = call(sent, timeout=10)
        record(wrote={"call": method, "request": text(sent), "response": text(data)})
        return response.FromString(data)


class Keeper:
    """Owner of one instance: renews, and registers where there is no lease any more."""

    def __init__(self, caller, key, lease):
        self.caller, self.key, self.lease = caller, key, lease
        self.told = {"registered": 0, "renewed": 0, "failed": []}
        self.leaving = threading.Event()
        self.register()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def register(self):
        one = instance.Instance(key=self.key, ip_address="127.0.0.1", host_name="localhost")
        one.port.number, one.port.enabled = 9300, True
        one.lease.duration.FromSeconds(self.lease)
        self.caller.write("Register", registry.RegisterRequest(instance=one), registry.RegisterResponse)
        self.told["registered"] += 1

    def run(self):
        while not self.leaving.wait(self.lease / 3):
            try:
                self.renew()
            except grpc.RpcError as error:
                self.told["failed"].append(error.code().name)

    def renew(self):
        call = self.caller.channel.unary_unary(
            REGISTRY + "Renew",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=registry.RenewResponse.FromString,
        )
        try:
            call(registry.RenewRequest(key=self.key), timeout=self.lease / 3)
            self.told["renewed"] += 1
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            self.register()

    def cancel(self):
        self.leaving.set()
        self.thread.join(10)
        self.caller.write("Cancel", registry.CancelRequest(key=self.key), registry.CancelResponse)


class Program:
    def __init__(self):
        # Reconnects of the transport must be as quick as the server's restart.
        options = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.initial_reconnect_backoff_ms", 50)]
        # Made from a target with several addresses, the authority has two ports, and every server refuses it.
        options += [("grpc.default_authority", "heureka")]
        channel = grpc.insecure_channel(TARGET, options)
        self.watcher = Watcher(channel)
        self.caller = Caller(channel)
        self.thread = threading.Thread(target=self.watcher.run, daemon=True)
        self.thread.start()

    def key(self, words):
        return instance.InstanceKey(app=words["app"], id=words["id"])

    def register(self, words):
        one = instance.Instance(key=self.key(words), ip_address="127.0.0.1", host_name=words["id"])
        one.port.number, one.port.enabled = words.get("port", 8080), True
        one.vip_address = words["app"].lower()
        # Nobody renews it, and no suite waits for its end.
        one.lease.duration.FromSeconds(3600)
        one.metadata.update(words.get("metadata", {}))
        one.status = instance.InstanceStatus.Value("INSTANCE_STATUS_" + words.get("status", "UP"))
        request = registry.RegisterRequest(instance=one)
        return self.caller.write("Register", request, registry.RegisterResponse).created

    def keep(self, words):
        """Registers with a lease of these seconds and renews it from now on, a third of it apart."""
        self.keeper = Keeper(self.caller, self.key(words), words["lease"])

    def kept(self, _):
        """What became of its calls so far."""
        return self.keeper.told

    def release(self, _):
        """Renews no more and cancels."""
        self.keeper.cancel()

    def cancel(self, words):
        request = registry.CancelRequest(key=self.key(words))
        return self.caller.write("Cancel", request, registry.CancelResponse).existed

    def report(self, words):
        """Reports free amounts and gauges; how often readers hear of an instance, in milliseconds."""
        amounts, gauges = words.get("available", {}), words.get("gauges", {})
        call = self.caller.channel.unary_unary(
            REGISTRY + "Report",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=registry.ReportResponse.FromString,
        )
        request = registry.ReportRequest(key=self.key(words), available=amounts, gauges=gauges)
        return call(request, timeout=10).min_interval.ToMilliseconds()

    def metadata(self, words):
        request = registry.UpdateMetadataRequest(key=self.key(words), set=words["set"])
        self.caller.write("UpdateMetadata", request, registry.UpdateMetadataResponse)

    def override(self, words):
        status = instance.InstanceStatus.Value("INSTANCE_STATUS_" + words["status"])
        request = registry.SetStatusOverrideRequest(key=self.key(words), status=status)
        self.caller.write("SetStatusOverride", request, registry.SetStatusOverrideResponse)

    def clear(self, words):
        request = registry.ClearStatusOverrideRequest(key=self.key(words))
        self.caller.write("ClearStatusOverride", request, registry.ClearStatusOverrideResponse)

    def renewed(self, words):
        """When the lease was last renewed, in milliseconds."""
        request = discovery.GetInstanceRequest(key=self.key(words))
        found = self.caller.read("GetInstance", request, discovery.GetInstanceResponse)
        return found.instance.lease.last_renewal_time.ToMilliseconds()

    def reconnect(self, _):
        """Drops the stream, as a network does; the mode in which the next one started."""
        before = len(self.watcher.modes)
        self.watcher.call.cancel()
        deadline = time.monotonic() + 10
        while len(self.watcher.modes) == before:
            assert time.monotonic() < deadline, "no stream began again"
            time.sleep(0.01)
        return self.watcher.modes[-1]

    def rest(self, _):
        """Lists everything while nothing changes and waits until a mark covers it."""
        request = discovery.ListInstancesRequest(page_size=3)
        while True:
            page = self.caller.read("ListInstances", request, discovery.ListInstancesResponse)
            exchange = {"request": text(request.SerializeToString()), "response": text(page.SerializeToString())}
            record(rested=exchange)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        deadline = time.monotonic() + 10
        while self.watcher.reached < (page.header.boot, page.header.revision):
            assert time.monotonic() < deadline, f"no mark reached revision {page.header.revision}"
            time.sleep(0.01)

    def digests(self, _):
        return {"equal": self.watcher.equal, "unequal": self.watcher.unequal}

    def stop(self, _):
        self.watcher.over = True
        self.watcher.call.cancel()
        self.thread.join(10)


def main():
    program = Program()
    for line in sys.stdin:
        words = json.loads(line)
        try:
            result = getattr(program, words["do"])(words)
            say(answer=words["ask"], result=result)
        except (grpc.RpcError, AssertionError) as error:
            say(answer=words["ask"], error=str(error))
        if words["do"] == "stop":
            break
    program.watcher.over = True


main()
