"""A reader of server-sent events that does what a browser does: it takes the events, keeps the last id, waits as it is
told and comes back, to the next server when one does not answer. What it adds is what a page has to do: apply what is
newer, swap a whole set in at its end, and compare the digest.

    feed.py QUERY ADDRESS...
"""

import http.client
import json
import random
import sys
import threading
import time

from digest import instance_hash, set_hash


class Feed:
    """A view of what the feed tells."""

    def __init__(self, query, addresses):
        self.query = query
        self.addresses = addresses
        self.held = {}
        self.building = None
        self.last_id = None
        self.retry = 1.0

    def run(self):
        turn = 0
        while True:
            try:
                self.read(self.addresses[turn % len(self.addresses)])
            except (OSError, http.client.HTTPException) as reason:
                say(lost=str(reason))
            turn += 1
            time.sleep(self.retry * random.random())

    def read(self, address):
        connection = http.client.HTTPConnection(address, timeout=30)
        headers = {"Accept": "text/event-stream"}
        if self.last_id is not None:
            headers["Last-Event-ID"] = self.last_id
        connection.request("GET", f"/v1/watch{self.query}", headers=headers)
        with connection.getresponse() as response:
            if response.status != 200:
                raise http.client.HTTPException(f"{response.status} {response.read().decode().strip()}")
            event = {}
            for line in iter(response.readline, b""):
                line = line.decode().rstrip("\n")
                if not line:
                    self.take(event)
                    event = {}
                elif not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    event[name] = value
        raise http.client.HTTPException("the feed ended")

    def take(self, event):
        if "retry" in event:
            self.retry = int(event["retry"]) / 1000
        if "id" in event:
            self.last_id = event["id"]
        if "event" in event:
            getattr(self, event["event"], lambda _: None)(json.loads(event["data"]))

    def begin(self, data):
        self.building = {} if data["mode"] == "FULL" else None
        say(mode=data["mode"], node=data["node"])

    def change(self, data):
        view = self.held if self.building is None else self.building
        key = (data["namespace"], data["app"], data["id"])
        version = [int(part) for part in data["version"]]
        if key in view and view[key][0] >= version:
            return
        if data["type"] == "REMOVED":
            if view.pop(key, None):
                say(removed="/".join(key[1:]), reason=data["reason"])
        else:
            view[key] = (version, data["instance"])

    def end(self, data):
        if self.building is not None:
            self.held, self.building = self.building, None
        self.compare(data)

    def bookmark(self, data):
        self.compare(data)

    def go_away(self, data):
        say(away=data["reason"])

    def compare(self, data):
        """Tells the view, and whether it is what the server says it is."""
        digest = data["digest"]
        ours = set_hash(instance_hash(*key, version) for key, (version, _) in self.held.items())
        equal = digest and (digest["count"], digest["hash"]) == (len(self.held), f"{ours:016x}")
        say(view={"/".join(key[1:]): instance["status"] for key, (_, instance) in self.held.items()}, equal=equal)


def say(**words):
    print(json.dumps(words), flush=True)


def main():
    feed = Feed(sys.argv[1], sys.argv[2:])
    threading.Thread(target=feed.run, daemon=True).start()
    sys.stdin.read()


main()
