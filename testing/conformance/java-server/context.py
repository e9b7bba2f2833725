"""What an entry of the list of differences may look at, and the words in which it speaks."""

import json
import re
import xml.etree.ElementTree as tree

ENTRIES = []
#: Settings of ours by the version beside which it stands: where a switch restores the original, it has to.
SWITCHES = {"4.3.0": {"HEUREKA_OVERRIDES__EUREKA_RULE4": "true"}}
JSON, XML = "application/json", "application/xml"
EMPTY = '"java.util.Collections$EmptyMap"'
CLASSES = {
    f"com.netflix.appinfo.{name}" for name in ("AmazonInfo", "MyDataCenterInfo", "InstanceInfo$DefaultDataCenterInfo")
}
STATUSES = {"UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"}
UNPARSED = ('{"error": "cannot parse request body"}', "<error><message>cannot parse request body</message></error>")


class Context:
    """The request, both answers, and what both registries held before and after it."""

    def __init__(self, step, theirs, ours, before, after, cancelled, beats, switches):
        self.step, self.theirs, self.ours = step, theirs, ours
        self.before, self.after = before, after
        #: Settings of ours.
        self.switches = switches
        #: Instances that were cancelled before in this history.
        self.cancelled = cancelled
        #: Heartbeats in a row that carried a lower stamp than the stored one, by instance.
        self.beats = beats
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
    return c.step.sent if c.step.kind == "batch" and isinstance(c.step.sent, list) else []


def item_of(d, c):
    """The item of a batch that a code is of."""
    found = re.fullmatch(r"/responseList\[(\d+)\]/statusCode", d.place)
    return items(c)[int(found.group(1))] if found and int(found.group(1)) < len(items(c)) else None
