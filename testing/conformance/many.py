"""Many subscriptions on one stream, generated from the protos: keeps a set for each across reconnects, and proves it.

    many.py STUBS ADDRESS...

Speaks JSON lines; see harness.Program. `subscribe` answers once the set is there or the subscription was closed.
"""

import json
import queue
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

ADDRESSES = sys.argv[2:]
METHOD = "/heureka.registry.v1.DiscoveryService/WatchMany"
INTERVAL = 1
PATIENCE = 20

printing = threading.Lock()


def say(**words):
    with printing:
        print(json.dumps(words), flush=True)


class Subscription:
    def __init__(self, number, asked):
        self.number = number
        self.asked = asked
        self.token = b""
        self.held = {}
        self.readings = {}
        self.building = None
        self.settled = threading.Event()
        self.closed = None

    def wish(self):
        spec = discovery.WatchSpec(resume_token=self.token)
        spec.bookmark_interval.FromSeconds(INTERVAL)
        asked = self.asked
        spec.selectors.append(common.InstanceSelector(apps=[asked["app"]], min_available=asked.get("available", {})))
        if asked.get("readings"):
            spec.readings.SetInParent()
            spec.required_features.append("readings")
        if "best" in asked:
            spec.best.MergeFrom(discovery.Best(**asked["best"]))
            spec.required_features.append("best")
        subscribe = discovery.Subscribe(subscription_id=self.number, spec=spec)
        return discovery.WatchManyRequest(subscribe=subscribe)

    def take(self, event):
        kind = event.WhichOneof("event")
        if kind == "snapshot_begin":
            mode = discovery.SnapshotMode.Name(event.snapshot_begin.mode).removeprefix("SNAPSHOT_MODE_")
            self.building = {} if mode == "FULL" else None
            # All of them are told again.
            self.readings = {}
            say(readings={}, id=self.number)
            say(mode=mode, id=self.number)
        elif kind == "changes":
            for change in event.changes.changes:
                self.apply(change)
        elif kind == "readings":
            for reading in event.readings.readings:
                self.read(reading)
            say(readings=self.readings, id=self.number)
        elif kind in ("snapshot_end", "bookmark"):
            if kind == "snapshot_end" and self.building is not None:
                self.held, self.building = self.building, None
            mark = getattr(event, kind)
            self.token = mark.resume_token or self.token
            self.compare(mark)
            self.settled.set()

    def apply(self, change):
        view = self.held if self.building is None else self.building
        key = (change.key.namespace, change.key.app, change.key.id)
        passed_over = change.removal_reason == discovery.REMOVAL_REASON_FILTERED_OUT
        if key in view:
            held, told = parts(view[key].version), parts(change.version)
            # A choice passes over an instance as it is held.
            if held > told or held == told and not passed_over:
                return
        if change.type == discovery.CHANGE_TYPE_REMOVED:
            self.readings.pop("/".join(key[1:]), None)
            if view.pop(key, None) and not passed_over:
                reason = discovery.RemovalReason.Name(change.removal_reason).removeprefix("REMOVAL_REASON_")
                say(removed="/".join(key[1:]), reason=reason)
        else:
            view[key] = change.instance

    def read(self, reading):
        key = "/".join((reading.key.app, reading.key.id))
        if (reading.key.namespace, reading.key.app, reading.key.id) in self.held:
            self.readings[key] = {"available": dict(reading.available), "gauges": dict(reading.gauges)}

    def compare(self, mark):
        equal = None
        if mark.HasField("digest"):
            ours = set_hash(instance_hash(*key, parts(held.version)) for key, held in self.held.items())
            equal = (mark.digest.instance_count, mark.digest.hash) == (len(self.held), ours)
        view = {"/".join(key[1:]): effective(held) for key, held in self.held.items()}
        say(view=view, equal=equal, id=self.number)


def effective(held):
    return instance.InstanceStatus.Name(held.status).removeprefix("INSTANCE_STATUS_")


class Many:
    def __init__(self):
        self.subscriptions = {}
        self.wishes = queue.SimpleQueue()

    def run(self):
        turn = 0
        while True:
            with grpc.insecure_channel(ADDRESSES[turn % len(ADDRESSES)]) as channel:
                self.stream(channel)
            turn += 1
            time.sleep(random.uniform(0, 0.3))

    def stream(self, channel):
        self.wishes = queue.SimpleQueue()
        call = channel.stream_stream(
            METHOD,
            request_serializer=discovery.WatchManyRequest.SerializeToString,
            response_deserializer=discovery.WatchManyResponse.FromString,
        )(iter(self.wishes.get, None))
        self.wish(discovery.WatchManyRequest(hello=discovery.WatchHello(client_name="many.py")))
        for subscription in list(self.subscriptions.values()):
            self.wish(subscription.wish())
        try:
            for response in call:
                self.take(response)
        except grpc.RpcError as error:
            say(lost=error.code().name)
        finally:
            self.wishes.put(None)

    def wish(self, request):
        self.wishes.put(request)

    def take(self, response):
        if response.subscription_id == 0:
            say(stream=response.WhichOneof("response"))
            return
        subscription = self.subscriptions.get(response.subscription_id)
        if subscription is None:
            return
        if response.WhichOneof("response") == "event":
            subscription.take(response.event)
            return
        del self.subscriptions[response.subscription_id]
        subscription.closed = {"code": response.closed.code, "reason": response.closed.reason}
        subscription.settled.set()

    def subscribe(self, number, asked):
        subscription = self.subscriptions[number] = Subscription(number, asked)
        self.wish(subscription.wish())
        if not subscription.settled.wait(PATIENCE):
            raise TimeoutError("nothing came of it")
        return subscription.closed

    def unsubscribe(self, number):
        subscription = self.subscriptions[number]
        subscription.settled.clear()
        unsubscribe = discovery.Unsubscribe(subscription_id=number)
        self.wish(discovery.WatchManyRequest(unsubscribe=unsubscribe))
        while subscription.closed is None:
            if not subscription.settled.wait(PATIENCE):
                raise TimeoutError("nothing came of it")
            subscription.settled.clear()
        return subscription.closed


def main():
    many = Many()
    threading.Thread(target=many.run, daemon=True).start()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["do"] == "subscribe":
                result = many.subscribe(asked["id"], asked)
            elif asked["do"] == "unsubscribe":
                result = many.unsubscribe(asked["id"])
            else:
                result = None
            say(answer=asked["ask"], result=result)
        except (TimeoutError, KeyError) as reason:
            say(answer=asked["ask"], error=repr(reason))
        if asked["do"] == "stop":
            break


main()
