"""Follows the registry as docs/watch-contract.md asks for, and prints every change. Ctrl-C ends it.

Usage: python watch.py TARGET [APP...], where the target is HOST:PORT or ipv4:IP:PORT,IP:PORT
"""

import asyncio
import random
import sys
import time

import grpc
from heureka.registry.v1 import common_pb2 as common
from heureka.registry.v1 import discovery_service_pb2 as discovery
from heureka.registry.v1 import discovery_service_pb2_grpc as services
from heureka.registry.v1 import instance_pb2 as instances

M = 2**64 - 1
# Of bookmarks, when a watch asks for nothing else; after three of them a stream is dead.
INTERVAL = 10.0
SILENCE = 3 * INTERVAL


def parts(version):
    return (version.owner, version.clock, version.boot, version.overlay_clock, version.overlay_boot)


def instance_hash(namespace, app, id, *version):
    data = b"".join(text.encode() + b"\0" for text in (namespace, app, id))
    data += b"".join(part.to_bytes(8, "little") for part in version)
    x = 0xCBF29CE484222325
    for byte in data:
        x = (x ^ byte) * 0x100000001B3 & M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


class View:
    """What the server has told. Outlives the streams."""

    def __init__(self):
        self.held = {}
        # A whole set on its way; look-ups would go on with `held` until it is complete.
        self.building = None
        self.token = b""
        # Whether a digest of the server agreed since the last news.
        self.proved = False
        self.mismatches = 0
        # The next whole set is taken as it is told.
        self.doubted = False
        self.wait = 0.1
        self.opened = 0.0

    def take(self, event):
        """Takes one event in. How long to wait at most, when it asks for another stream."""
        kind = event.WhichOneof("event")
        if kind == "snapshot_begin":
            self.proved = False
            full = event.snapshot_begin.mode == discovery.SNAPSHOT_MODE_FULL
            self.building = {} if full else None
        elif kind == "changes":
            for change in event.changes.changes:
                self.apply(change)
        elif kind == "snapshot_end":
            if self.building is not None:
                self.swap()
            print("SYNCED", len(self.held), flush=True)
            return self.mark(event.snapshot_end)
        elif kind == "bookmark":
            return self.mark(event.bookmark)
        elif kind == "go_away":
            self.token = event.go_away.resume_token or self.token
            return self.next_wait(min(event.go_away.reconnect_jitter.ToTimedelta().total_seconds(), 300.0))
        return None

    def apply(self, change):
        held = self.held if self.building is None else self.building
        key = (change.key.namespace, change.key.app, change.key.id)
        known = held.get(key)
        if known is not None and parts(change.version) <= parts(known.version):
            return
        if change.HasField("instance"):
            held[key] = change.instance
        elif change.type != discovery.CHANGE_TYPE_REMOVED or held.pop(key, None) is None:
            return
        if self.building is None:
            self.show(key, known, held.get(key))

    def swap(self):
        old, self.held, self.building = self.held, self.building, None
        if not self.doubted:
            for key in self.held.keys() & old.keys():
                self.held[key] = max(self.held[key], old[key], key=lambda one: parts(one.version))
        self.doubted = False
        for key in sorted(self.held.keys() | old.keys()):
            if old.get(key) != self.held.get(key):
                self.show(key, old.get(key), self.held.get(key))

    def mark(self, mark):
        self.token = mark.resume_token
        if mark.HasField("digest") and mark.digest.algorithm == 1:
            own = sum(instance_hash(*key, *parts(one.version)) for key, one in self.held.items()) & M
            equal = (own, len(self.held)) == (mark.digest.hash, mark.digest.instance_count)
            self.mismatches = 0 if equal else self.mismatches + 1
            if not (equal and self.proved):
                print("PROVED" if equal else "UNEQUAL", len(self.held), flush=True)
            self.proved = equal
        if self.mismatches == 0 and time.monotonic() - self.opened >= INTERVAL:
            self.wait = 0.1
        if self.mismatches < 2:
            return None
        self.mismatches, self.token, self.doubted = 0, b"", True
        return self.next_wait()

    def next_wait(self, told=0.0):
        """Longest wait before the next stream; the server's own where that is longer."""
        wait, self.wait = self.wait, min(self.wait * 2, 30.0)
        return max(wait, told)

    def show(self, key, before, now):
        self.proved = False
        word = "REMOVED" if now is None else "ADDED" if before is None else "MODIFIED"
        number = (now or before).status
        known = number in instances.InstanceStatus.values()
        status = instances.InstanceStatus.Name(number) if known else "UNKNOWN"
        print(word, "/".join(key[1:]), status.removeprefix("INSTANCE_STATUS_"), flush=True)


async def stream(stub, view, apps):
    """One stream; how long to wait at most before the next."""
    selectors = [common.InstanceSelector(apps=apps)] if apps else []
    spec = discovery.WatchSpec(selectors=selectors, resume_token=view.token, required_features=["digest"])
    view.opened = time.monotonic()
    call = stub.Watch(discovery.WatchRequest(spec=spec, client_name="watch.py"))
    try:
        while (response := await asyncio.wait_for(call.read(), SILENCE)) is not grpc.aio.EOF:
            wait = view.take(response.event)
            if wait is not None:
                return wait
        # The call's own way to say why it ended.
        if await call.code() != grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(await call.code(), None, None, await call.details())
    except asyncio.TimeoutError:
        print("silent, connecting again", file=sys.stderr)
    except grpc.aio.AioRpcError as error:
        print(error.code().name, error.details(), file=sys.stderr)
        if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
            if not view.token:
                raise
            view.token = b""
    finally:
        call.cancel()
    return view.next_wait()


def several(target):
    """Options of a channel. gRPC makes the authority of a whole list, and no server takes one with two ports."""
    return [("grpc.default_authority", "heureka")] if "," in target else []


async def main(target, apps):
    view = View()
    async with grpc.aio.insecure_channel(target, several(target)) as channel:
        stub = services.DiscoveryServiceStub(channel)
        while True:
            await asyncio.sleep(random.uniform(0, await stream(stub, view, apps)))


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        pass
