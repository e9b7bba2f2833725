"""What an entry of the list of differences may look at, and the words in which it speaks."""

import json
import re
import xml.etree.ElementTree as tree
from urllib.parse import unquote

from documents import bare

ENTRIES = []
#: Settings of ours by the version beside which it stands: where a switch restores the original, it has to.
SWITCHES = {"4.3.0": {"HEUREKA_OVERRIDES__EUREKA_RULE4": "true"}}
JSON, XML = "application/json", "application/xml"
EMPTY = '"java.util.Collections$EmptyMap"'
CLASSES = {
    f"com.netflix.appinfo.{name}" for name in ("AmazonInfo", "MyDataCenterInfo", "InstanceInfo$DefaultDataCenterInfo")
}
STATUSES = {"UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"}
STATUS_ITEMS = {"StatusUpdate", "DeleteStatusOverride"}
#: Greater than every stamp that callers send beside clocks.
NOW = 10**12
UNPARSED = ('{"error": "cannot parse request body"}', "<error><message>cannot parse request body</message></error>")


class Past:
    """What differences may come from that happened before in a history."""

    def __init__(self):
        #: Instances that anything cancelled.
        self.cancelled = set()
        #: Heartbeats in a row that carried a lower stamp than the stored one, by instance.
        self.beats = {}
        #: Applications that had an override, or that something ended one for, by the id of the instance.
        self.overridden = {}
        #: Greatest stamp that was stored, by instance.
        self.highest = {}
        #: Stamps of status calls, by instances that were cancelled before anybody could look.
        self.raised = {}
        #: Instances that a batch registered and cancelled.
        self.replaced = set()

    def forget(self, keys):
        """Notes what both are made to cancel."""
        self.cancelled |= keys
        for app, one in keys:
            self.overridden.setdefault(one, set()).add(app)

    def note(self, step, before):
        """Notes a request and what was held before it."""
        whom = (step.app, step.one)
        if step.kind == "cancel":
            self.cancelled.add(whom)
        if step.kind in ("cancel", "status", "clear"):
            self.overridden.setdefault(step.one, set()).add(step.app)
        for held, members in before.items():
            stored = bare(members.get("lastDirtyTimestamp", ""))
            self.highest[held] = max(self.highest.get(held, 0), NOW if stored == "now" else int(stored or 0))
        if step.kind == "beat" and (stamp := stamp_in(step.path)) is not None:
            stored = bare(before.get(whom, {}).get("lastDirtyTimestamp", ""))
            lower = stored == "now" or stored.isdigit() and stamp < int(stored)
            self.beats[whom] = self.beats.get(whom, 0) + 1 if lower else 0
        stamps = {}
        for item in told(step):
            whom = (item.get("appName"), item.get("id"))
            if item.get("action") != "Heartbeat" or item.get("overriddenStatus"):
                self.overridden.setdefault(whom[1], set()).add(whom[0])
            if item.get("action") in STATUS_ITEMS:
                stamps.setdefault(whom, set()).add(str(item.get("lastDirtyTimestamp")))
            if item.get("action") == "Register":
                stamps.setdefault(whom, set())
            if item.get("action") == "Cancel":
                self.cancelled.add(whom)
                self.replaced |= {whom} & set(stamps)
                self.raised.setdefault(whom, set()).update(stamps.get(whom, ()))


class Context:
    """The request, both answers, and what both registries held before and after it."""

    def __init__(self, step, theirs, ours, before, after, past, switches):
        self.step, self.theirs, self.ours = step, theirs, ours
        self.before, self.after = before, after
        self.past = past
        #: Settings of ours.
        self.switches = switches
        self.query = dict(pair.partition("=")[::2] for pair in reversed(step.path.partition("?")[2].split("&")) if pair)
        self.accept = ", ".join(value for name, value in step.headers if name == "Accept")
        self.type = next((value for name, value in step.headers if name == "Content-Type"), "")

    def was(self, one, side=0):
        """Members of an instance before the request."""
        return self.before[side].get((one.app, one.one), {})

    def now(self, one, side=0):
        return self.after[side].get((one.app, one.one), {})

    @property
    def by_peer(self):
        return self.step.kind == "batch" or any(
            name.lower() == "x-netflix-discovery-replication" for name, _ in self.step.headers
        )

    @property
    def codes(self):
        return self.theirs.status, self.ours.status

    @property
    def body(self):
        return self.step.body or b""

    def instance(self):
        """The instance of a body of JSON, where it can be read."""
        try:
            found = json.loads(self.body.decode().lstrip("\ufeff"))["instance"]
            return found if isinstance(found, dict) else {}
        except (ValueError, KeyError, TypeError, RecursionError):
            return {}

    def element(self):
        """The root of a body of XML, where it can be read."""
        try:
            return tree.fromstring(self.body.decode())
        except (ValueError, tree.ParseError):
            return tree.Element("none")


class Entry:
    def __init__(self, number, test, registry, shown):
        self.number, self.test, self.registry, self.shown = number, test, registry, shown

    def covers(self, one, context):
        if one.kind == "registry" and not self.registry:
            return False
        return bool(self.test(one, context))


def entry(number, registry=False, shown=False):
    def add(test):
        ENTRIES.append(Entry(number, test, registry or shown, shown))
        return test

    return add


def refused_here(d, c):
    """Taken there and refused here."""
    status = d.kind == "status" and c.theirs.status == 204 and c.ours.status == 400
    left = d.kind == "registry" and not d.member and d.ours == "absent" and c.codes == (204, 400)
    # Where the key was there before, what it holds is what the refusal left alone.
    return status or left or (d.kind == "registry" and d.member and c.codes == (204, 400))


def taken_here(d, c):
    """Refused there and taken here."""
    told = c.theirs.status == 400 and c.ours.status == 204
    return told and (d.kind == "status" or d.kind == "registry")


def reason(c, *words):
    """Our refusal names the member that it is about."""
    return any(re.match(word, c.ours.body.decode("utf-8", "replace"), re.S) for word in words)


def items(c):
    return told(c.step)


def told(step):
    """The items of a batch."""
    return step.sent if step.kind == "batch" and isinstance(step.sent, list) else []


def stamp_in(path):
    """The stamp that a call tells."""
    text = unquote(path.partition("lastDirtyTimestamp=")[2].partition("&")[0])
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else None


def place_in(d, c):
    """The place in a batch of the item whose answer a difference is in."""
    found = re.match(r"/responseList\[(\d+)\]/", d.place)
    place = int(found.group(1)) if found else None
    return place if place is not None and place < len(items(c)) else None


def item_of(d, c):
    """The item of a batch that a code is of."""
    place = place_in(d, c)
    return items(c)[place] if place is not None and d.place.endswith("/statusCode") else None


def same_instance(d, c):
    """What a batch tells of the instance that a difference is of, up to the item in whose answer the difference is."""
    place = place_in(d, c)
    one = d.one if place is None else items(c)[place].get("id")
    return [item for item in items(c)[:place] if item.get("id") == one]
