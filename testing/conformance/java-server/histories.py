"""What is asked of both servers: requests, and histories of them that are made from a number.

A history depends on its number alone, not on answers. Its names hold `ZZTAG`, in whose place each run puts another word,
so that histories at one server do not meet.
"""

import dataclasses
import json
import random
import re
from urllib.parse import quote

import bodies
from bodies import JSON, XML

JSON_BODY = ("Content-Type", JSON)
XML_BODY = ("Content-Type", XML)
PEER = ("x-netflix-discovery-replication", "true")
STATUSES = ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"]


@dataclasses.dataclass
class Step:
    """One request. `kind` says what it does, `app` and `one` to whom."""

    kind: str
    verb: str
    path: str
    headers: tuple = ()
    body: bytes = None
    app: str = ""
    one: str = ""
    #: What was sent in a form that the list of differences looks at.
    sent: object = None
    #: What is odd about it.
    note: str = ""
    #: Only ours gets it: a genuine server would not survive.
    alone: bool = False

    def tagged(self, tag):
        """The same with another word in the place of `ZZTAG`."""

        def swap(text):
            return text.replace("ZZTAG", tag).replace("zztag", tag.lower())

        body = self.body
        if body is not None:
            body = body.replace(b"ZZTAG", tag.encode()).replace(b"zztag", tag.lower().encode())
        sent = json.loads(swap(json.dumps(self.sent)))
        return dataclasses.replace(
            self, path=swap(self.path), app=swap(self.app), one=swap(self.one), body=body, sent=sent
        )

    def __str__(self):
        headers = "".join(f"\n      {name}: {value}" for name, value in self.headers)
        body = "" if self.body is None else f"\n      {self.body[:600]!r}{'…' if len(self.body) > 600 else ''}"
        note = f" ({self.note})" if self.note else ""
        return f"{'ours alone: ' if self.alone else ''}{self.verb} {self.path}{note}{headers}{body}"


def path_of(app, one=None, rest=""):
    place = f"/eureka/apps/{quote(app, safe=':')}"
    if one is not None:
        place += "/" + quote(one, safe=":")
    return place + rest


def register(app, body, xml=False, headers=None, **more):
    encoded = bodies.as_xml(body) if xml else bodies.as_json(body)
    headers = headers or (XML_BODY if xml else JSON_BODY,)
    one = body.get("instanceId") or body.get("hostName") or ""
    return Step("register", "POST", path_of(app), headers, encoded, app.upper(), str(one), body, **more)


def cancel(app, one, headers=()):
    return Step("cancel", "DELETE", path_of(app, one), headers, None, app.upper(), one)


def batch(items, headers=(JSON_BODY, ("Accept", JSON)), body=None):
    if body is None:
        body = json.dumps({"replicationList": items}, ensure_ascii=False).encode()
    return Step("batch", "POST", "/eureka/peerreplication/batch", headers, body, sent=items)


FORMS = [
    (("Accept", JSON),),
    (("Accept", XML),),
    (),
    (("Accept", JSON), ("X-Eureka-Accept", "compact")),
    (("X-Eureka-Accept", "compact"),),
    (("Accept", JSON), ("Accept-Encoding", "gzip")),
    (("Accept-Encoding", "gzip"),),
    (("Accept", "*/*"),),
    (("Accept", "application/json, application/*+json"),),
    (("Accept", JSON), ("X-Eureka-Accept", "full")),
    (("Accept", JSON), ("X-Eureka-Accept", "COMPACT")),
    (("Accept", JSON), ("Content-Type", JSON)),
]


class Key:
    """What the generator thinks of an instance. It may be wrong; then the steps are only less to the point."""

    def __init__(self, app, one):
        self.app = app
        self.one = one
        self.alive = False
        self.stamp = 1000
        self.status = "UP"
        self.members = {}


class Maker:
    """One history."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        apps = self.random.sample(["ZZTAG-APP", "ZZTAG_B", "ZZTAG.c", "Zztag x".replace("Zztag", "ZZTAG")], 2)
        names = ["host:zztag:8080", "zztag-2", "zztag 3", "zztag#4%5", "zztag+é", "zztag&6=7", "ZZTAG.lan", "zztag;v=1"]
        chosen = self.random.sample(names[:7], 4)
        self.keys = [Key(self.random.choice(apps), one) for one in chosen]
        self.vips = ["zztag-vip", "zztag-a,zztag-b", "ZZTAG-vip"]

    def steps(self, count):
        made = [self._register(key) for key in self.keys[:2]]
        while len(made) < count:
            step = self._step()
            made += step if isinstance(step, list) else [step]
        return made

    def _step(self):
        key = self.random.choice(self.keys)
        choices = [
            (20, self._register),
            (16, self._beat),
            (6, self._cancel),
            (9, self._status),
            (6, self._clear),
            (7, self._metadata),
            (6, self._batch),
            (6, self._odd),
            (5, self._broken),
            (25, self._read),
        ]
        weights, makers = zip(*choices)
        return self.random.choices(makers, weights)[0](key)

    def _register(self, key):
        one = self.random
        change = one.choice(["same", "newer", "newer", "newer", "older", "absent"]) if key.alive else "newer"
        if change == "newer":
            key.stamp += one.choice([1, 10, 1000])
            key.status = one.choices(STATUSES, [12, 4, 3, 1, 1])[0]
            key.members = {
                "metadata": one.choice([{}, {"zone": "z1"}, {"a_b": one.choice("xyz"), "$": "1"}]),
                "vipAddress": one.choice(self.vips),
                "secureVipAddress": one.choice([None, "zztag-s"]),
                "asgName": one.choice([None, None, "asg"]),
                "appGroupName": one.choice([None, "GROUP"]),
                "dataCenterInfo": one.choice([None, None, bodies.amazon(key.one)]) or plain_center(),
            }
        stamp = {"older": str(key.stamp - 1), "absent": None}.get(change, str(key.stamp))
        members = {**key.members, "status": key.status, "lastDirtyTimestamp": stamp}
        make = bodies.plain
        if change != "absent":
            make = one.choice([bodies.plain, bodies.plain, bodies.of_spring, bodies.minimal])
        key.alive = True
        headers = (JSON_BODY,)
        xml = one.random() < 0.2 and make is bodies.plain
        if one.random() < 0.1:
            headers = (JSON_BODY, PEER)
        elif one.random() < 0.1:
            headers = (("Content-Type", "application/json;charset=UTF-8"), ("Accept", "application/json, text/html"))
        headers = tuple(XML_BODY if xml and name == "Content-Type" else (name, value) for name, value in headers)
        app = key.app.lower() if one.random() < 0.2 else key.app
        return register(app, make(key.app, key.one, **members), xml, headers)

    def _beat(self, key):
        one = self.random
        stamp = one.choice(
            [None, None, key.stamp, key.stamp, key.stamp - 1, key.stamp + 1, 0, -1, f"%2B{key.stamp}", 10**18]
        )
        query = [] if stamp is None else [f"lastDirtyTimestamp={stamp}"]
        if one.random() < 0.5:
            query.insert(0, f"status={one.choice(STATUSES + ['nonsense'])}")
        headers = one.choice([(), (), (("Accept", JSON),), (JSON_BODY,)])
        if one.random() < 0.25:
            headers = (*headers, PEER)
        body = b"{}" if one.random() < 0.2 else b""
        path = path_of(key.app, key.one) + ("?" + "&".join(query) if query else "")
        return Step("beat", "PUT", path, headers, body, key.app.upper(), key.one)

    def _cancel(self, key):
        key.alive = False
        headers = (PEER,) if self.random.random() < 0.2 else ()
        return cancel(key.app, key.one, headers)

    def _status(self, key):
        one = self.random
        value = one.choices(STATUSES + ["up", "", None], [4, 2, 1, 6, 1, 1, 1, 1])[0]
        query = [] if value is None else [f"value={value}"]
        if one.random() < 0.3:
            query.append(f"lastDirtyTimestamp={one.choice([key.stamp, key.stamp + 5, key.stamp - 5])}")
        headers = (PEER,) if one.random() < 0.1 else ()
        path = path_of(key.app, key.one, "/status") + ("?" + "&".join(query) if query else "")
        return Step("status", "PUT", path, headers, b"", key.app.upper(), key.one)

    def _clear(self, key):
        value = self.random.choice(["", "", "", "?value=UP", "?value=DOWN", "?value=nonsense", "?value="])
        path = path_of(key.app, key.one, "/status") + value
        return Step("clear", "DELETE", path, (), None, key.app.upper(), key.one)

    def _metadata(self, key):
        pairs = self.random.choice(
            [
                "a=b",
                "a=b&a=c",
                "",
                "?",
                "a",
                "a=",
                "zone=z%202",
                "a+b=c+d",
                "é=é".encode().decode("latin-1"),
                "%C3%A9=1",
                "x_y=1&z$=2",
                "=v",
                "a=%3C%26",
            ]
        )
        path = path_of(key.app, key.one, "/metadata") + "?" + pairs
        return Step("metadata", "PUT", path, (), b"", key.app.upper(), key.one)

    def _batch(self, key):
        one = self.random
        items = []
        for _ in range(one.randint(1, 4)):
            other = one.choice(self.keys)
            action = one.choice(["Heartbeat", "Register", "Cancel", "StatusUpdate", "DeleteStatusOverride"])
            item = {"appName": other.app.upper(), "id": other.one, "action": action}
            if action == "Register":
                other.stamp += 1
                other.alive = True
                item["instanceInfo"] = bodies.plain(
                    other.app,
                    other.one,
                    **{**other.members, "status": one.choice(STATUSES[:3])},
                    lastDirtyTimestamp=str(other.stamp),
                )
                item["lastDirtyTimestamp"] = other.stamp
            elif action != "Cancel":
                item["lastDirtyTimestamp"] = other.stamp + one.choice([-1, 0, 0, 0, 1])
                item["status"] = one.choice(["UP", "OUT_OF_SERVICE", "DOWN"])
            else:
                other.alive = False
            items.append(item)
        return batch(items)

    def _odd(self, key):
        """A body with one odd member, in either format."""
        name, value = self.random.choice(ODD)
        key.stamp += 1
        body = bodies.with_member(bodies.plain(key.app, key.one, lastDirtyTimestamp=str(key.stamp)), name, value)
        return register(key.app, body, xml=self.random.random() < 0.3, note=f"{name}: {value!r:.60}")

    def _broken(self, key):
        """A body with a few bytes changed, lost or doubled."""
        one = self.random
        key.stamp += 1
        xml = one.random() < 0.4
        body = bodies.plain(key.app, key.one, lastDirtyTimestamp=str(key.stamp))
        encoded = bytearray(bodies.as_xml(body) if xml else bodies.as_json(body))
        for _ in range(one.randint(1, 3)):
            place = one.randrange(len(encoded))
            change = one.choice(["cut", "drop", "double", "swap", "put"])
            if change == "cut":
                del encoded[place:]
            elif change == "drop":
                del encoded[place : place + one.randint(1, 8)]
            elif change == "double":
                encoded[place:place] = encoded[place : place + one.randint(1, 30)]
            elif change == "swap":
                encoded[place] = one.choice(b'{}":,<>&/ \x00\xff\xe9A1-')
            else:
                encoded[place:place] = one.choice(
                    [b"\xef\xbb\xbf", b" ", b"null", b'"', b"<!-- -->", b"&#0;", b"&amp;", b"\\u0041"]
                )
            if not encoded:
                break
        return Step(
            "broken",
            "POST",
            path_of(key.app),
            (XML_BODY if xml else JSON_BODY,),
            bytes(encoded),
            key.app.upper(),
            key.one,
            alone=hazardous(bytes(encoded), xml),
        )

    def _read(self, key):
        one = self.random
        headers = one.choice(FORMS)
        vip = quote(one.choice(self.vips).split(",")[0])
        path = one.choice(
            [
                "/eureka/apps",
                "/eureka/apps/",
                "/eureka/v2/apps",
                "/eureka/apps/delta",
                "/eureka/apps/delta",
                path_of(key.app),
                path_of(key.app.lower()),
                path_of(key.app, key.one),
                path_of(key.app, key.one),
                "/eureka/instances/" + quote(key.one, safe=":"),
                f"/eureka/vips/{vip}",
                f"/eureka/svips/{vip}",
                "/eureka/svips/zztag-s",
                "/eureka/vips/zztag-none",
                "/eureka/apps?regions=",
                "/eureka/apps?regions=nowhere",
                "/eureka/apps/delta?regions=x,y",
                path_of("ZZTAG-NONE"),
                path_of(key.app, "zztag-none"),
            ]
        )
        verb = "HEAD" if one.random() < 0.05 else "GET"
        return Step("read", verb, path, headers, None, key.app.upper(), key.one)


def plain_center():
    return {"@class": bodies.DEFAULT, "name": "MyOwn"}


def hazardous(body, xml):
    """Whether a genuine server may lose a thread over it, or everybody's list."""
    return not xml and (b"[" in body or b'"Amazon"' in body)


def soils(value):
    """Whether a genuine server's lists and deltas cannot be read as XML with this in them."""
    texts = [*value, *map(str, value.values())] if isinstance(value, dict) else [value]
    return any(isinstance(text, str) and re.search(r"[\x00-\x08\x0b-\x1f]", text) for text in texts) or (
        isinstance(value, dict) and any(":" in name or not name for name in value)
    )


ODD = [(name, value) for name, value in bodies.odd_members() if not soils(value)]
SOILING = [(name, value) for name, value in bodies.odd_members() if soils(value)]
