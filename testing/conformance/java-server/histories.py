"""What is asked of both servers: histories made from a number, and a tour of everything odd.

A history depends on its number alone, not on answers. Its names hold `ZZTAG`, in whose place each run puts another word,
so that histories at one server do not meet.
"""

import dataclasses
import itertools
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
        return dataclasses.replace(self, path=swap(self.path), app=swap(self.app), one=swap(self.one), body=body, sent=sent)

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
    (("Accept", JSON),), (("Accept", XML),), (), (("Accept", JSON), ("X-Eureka-Accept", "compact")),
    (("X-Eureka-Accept", "compact"),), (("Accept", JSON), ("Accept-Encoding", "gzip")), (("Accept-Encoding", "gzip"),),
    (("Accept", "*/*"),), (("Accept", "application/json, application/*+json"),),
    (("Accept", JSON), ("X-Eureka-Accept", "full")), (("Accept", JSON), ("X-Eureka-Accept", "COMPACT")),
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
            (20, self._register), (16, self._beat), (6, self._cancel), (9, self._status), (6, self._clear), (7, self._metadata),
            (6, self._batch), (6, self._odd), (5, self._broken), (25, self._read),
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
                "vipAddress": one.choice(self.vips), "secureVipAddress": one.choice([None, "zztag-s"]),
                "asgName": one.choice([None, None, "asg"]), "appGroupName": one.choice([None, "GROUP"]),
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
            ["a=b", "a=b&a=c", "", "?", "a", "a=", "zone=z%202", "a+b=c+d", "é=é".encode().decode("latin-1"), "%C3%A9=1", "x_y=1&z$=2", "=v", "a=%3C%26"]
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
                    other.app, other.one, **{**other.members, "status": one.choice(STATUSES[:3])},
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
                del encoded[place:place + one.randint(1, 8)]
            elif change == "double":
                encoded[place:place] = encoded[place:place + one.randint(1, 30)]
            elif change == "swap":
                encoded[place] = one.choice(b'{}":,<>&/ \x00\xff\xe9A1-')
            else:
                encoded[place:place] = one.choice([b"\xef\xbb\xbf", b" ", b"null", b'"', b"<!-- -->", b"&#0;", b"&amp;", b"\\u0041"])
            if not encoded:
                break
        return Step(
            "broken", "POST", path_of(key.app), (XML_BODY if xml else JSON_BODY,), bytes(encoded), key.app.upper(), key.one,
            alone=hazardous(bytes(encoded), xml),
        )

    def _read(self, key):
        one = self.random
        headers = one.choice(FORMS)
        vip = quote(one.choice(self.vips).split(",")[0])
        path = one.choice([
            "/eureka/apps", "/eureka/apps/", "/eureka/v2/apps", "/eureka/apps/delta", "/eureka/apps/delta",
            path_of(key.app), path_of(key.app.lower()), path_of(key.app, key.one), path_of(key.app, key.one),
            "/eureka/instances/" + quote(key.one, safe=":"), f"/eureka/vips/{vip}", f"/eureka/svips/{vip}",
            "/eureka/svips/zztag-s", "/eureka/vips/zztag-none", "/eureka/apps?regions=", "/eureka/apps?regions=nowhere",
            "/eureka/apps/delta?regions=x,y", path_of("ZZTAG-NONE"), path_of(key.app, "zztag-none"),
        ])
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
#: So many bodies stand in one list.
SHELF = 12


def last():
    """What a genuine server does not recover from for minutes."""
    yield "soiling", list(_shelf(0, SOILING, False))


def tour():
    """Everything odd once, as histories with names."""
    for form, xml in (("json", False), ("xml", True)):
        for start in range(0, len(ODD), SHELF):
            yield f"odd-{form}-{start // SHELF}", list(_shelf(start // SHELF, ODD[start:start + SHELF], xml))
    yield "shapes", list(_shapes())
    yield "types", list(_types())
    yield "negotiation", list(_negotiation())
    yield "paths", list(_paths())
    yield "verbs", list(_verbs())
    yield "batches", list(_batches())
    yield "peers", list(_peers())
    for owner in STATUSES:
        yield f"overrides-{owner}", list(_overrides(owner))
    yield "hazards", list(_hazards())


def _shelf(place, odd, xml):
    app = "ZZTAG-ODD"
    for number, (name, value) in enumerate(odd):
        body = bodies.plain(app, f"zztag-{number}")
        yield register(app, bodies.with_member(body, name, value), xml, note=f"{name}: {value!r:.60}")
    for headers in FORMS[:5]:
        yield Step("read", "GET", path_of(app), headers, None, app)
    for number in range(place % 3, len(odd), 3):
        one = f"zztag-{number}"
        yield Step("read", "GET", path_of(app, one), FORMS[number % 2], None, app, one)
        yield Step("beat", "PUT", path_of(app, one), (), b"", app, one)
    if place % 8 == 0:
        yield Step("read", "GET", "/eureka/apps/delta", FORMS[place // 8 % 5])


def _shapes():
    app = "ZZTAG-SHAPES"
    for number, make in enumerate((bodies.plain, bodies.of_spring, bodies.of_javascript, bodies.minimal)):
        body = make(app, f"zztag-{number}")
        yield register(app, body)
        yield register(app, bodies.plain(app, f"zztag-x{number}"), xml=True)
        yield register(app, {**body, "dataCenterInfo": bodies.amazon(f"i-zztag-{number}")})
        yield register(app, bodies.plain(app, f"zztag-y{number}", dataCenterInfo=bodies.amazon("i-zztag")), xml=True)
    for path in ("/eureka/apps", path_of(app), "/eureka/apps/delta", "/eureka/vips/zztag-shapes", "/eureka/svips/zztag-shapes-s"):
        for headers in FORMS:
            yield Step("read", "GET", path, headers, None, app)
    body = bodies.as_json(bodies.plain(app, "zztag-w"))
    for wrapped in (
        body[len('{"instance":'):-1], body + b"x", body + body, b" " + body, b"\xef\xbb\xbf" + body, body[:-1], body[1:],
        body.replace(b'"instance":', b'"Instance":'), body[:-1] + b',"more":1}', b'{"more":1,' + body[1:], b"", b"null", b"{}", b'""', b"5",
        b'{"instance":null}', b'{"instance":5}', b'{"instance":"x"}', b'{"instance":{}}',
    ):
        yield Step("broken", "POST", path_of(app), (JSON_BODY,), wrapped, app, "zztag-w")
    body = bodies.as_xml(bodies.plain(app, "zztag-w"))
    for wrapped in (
        body + b"x", body + body, b" " + body, b"\xef\xbb\xbf" + body, body[:-1], body[1:], b"", b"<instance/>", b"<a/>",
        b'<?xml version="1.0" encoding="UTF-8"?>' + body, b'<?xml version="1.0"?>\n' + body, b"<!-- c -->" + body, body + b"<!-- c -->",
        b'<!DOCTYPE instance [<!ENTITY e "x">]>' + body, body.replace(b"<status>UP", b"<status>&e;"),
        body.replace(b"<status>UP", b"<status><![CDATA[UP]]>"), body.replace(b"<status>UP", b"<status>U&#80;"),
        body.replace(b"<instance>", b'<instance a="b">'), body.replace(b"<instance>", b"<com.netflix.appinfo.InstanceInfo>").replace(b"</instance>", b"</com.netflix.appinfo.InstanceInfo>"),
        body.replace(b"<status>", b"<unknown><a><b>1</b></a></unknown><status>"), body.replace(b"<status>UP</status>", b""),
        b"<applications>" + body + b"</applications>", b"<application/>", b"<string>x</string>",
        body.replace(b"<status>UP", b"<status>down"), body.replace(b"<zone>", b"<zone x='1'>"), body.replace(b"z1", b"z<b>1</b>"),
    ):
        yield Step("broken", "POST", path_of(app), (XML_BODY,), wrapped, app, "zztag-w")


def _types():
    app = "ZZTAG-TYPES"
    number = 0
    for kind in (
        None, "", "json", "text/json", "text/plain", "text/xml", "application/x+json", "application/vnd.x+xml", "APPLICATION/JSON",
        "application/json; charset=utf-8", "application/json;charset=ISO-8859-1", "application/json;charset=utf-16",
        "application/json;charset=nonsense", "application/json;q=1", "application/xml", "application/xml;charset=UTF-8", "*/*",
        "application/*", "application/octet-stream", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "application/json, application/json", "a/b/c",
    ):
        for xml in (False, True):
            number += 1
            body = bodies.plain(app, f"zztag-{number}")
            headers = () if kind is None else (("Content-Type", kind),)
            encoded = bodies.as_xml(body) if xml else bodies.as_json(body)
            yield Step("register", "POST", path_of(app), headers, encoded, app, f"zztag-{number}", body)
        yield Step("beat", "PUT", path_of(app, "zztag-1"), headers, b"", app, "zztag-1")
        yield Step("read", "GET", path_of(app), headers, None, app)
    for name, value in (("Content-Encoding", "gzip"), ("Content-Encoding", "identity"), ("Content-Encoding", "br"), ("Expect", "nonsense")):
        number += 1
        body = bodies.plain(app, f"zztag-{number}")
        yield Step("register", "POST", path_of(app), (JSON_BODY, (name, value)), bodies.as_json(body), app, f"zztag-{number}", body)


ACCEPTS = [
    None, "", "*/*", "application/*", JSON, XML, "APPLICATION/JSON", "application/json;charset=utf-8", "application/json;q=0",
    "application/xml;q=0.1, application/json", "application/json, application/xml", "application/xml, application/json", "text/html",
    "text/plain", "text/xml", "text/json", "application/*+json", "application/vnd.spring-boot.actuator.v3+json", "text/html, */*;q=0.1",
    "nonsense", "application/json, application/*+json", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
]


def _negotiation():
    app, one = "ZZTAG-ACCEPT", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for accept in ACCEPTS:
        headers = () if accept is None else (("Accept", accept),)
        for path in ("/eureka/apps", "/eureka/apps/delta", path_of(app), path_of(app, one), f"/eureka/instances/{one}", "/eureka/vips/zztag-accept"):
            yield Step("read", "GET", path, headers, None, app, one)
        yield Step("read", "GET", path_of(app, "zztag-none"), headers, None, app)
        yield Step("beat", "PUT", path_of(app, one), headers, b"", app, one)
        yield Step("beat", "PUT", path_of(app, "zztag-none"), headers, b"", app, "zztag-none")
        yield register(app, bodies.plain(app, one, lastDirtyTimestamp="1000"), headers=(JSON_BODY, *headers))
    for coding in ("gzip", "x-gzip", "GZIP", "gzip;q=0", "gzip;q=0.5, identity", "deflate", "br", "*", "identity", "", "gzip, gzip"):
        for path in ("/eureka/apps", "/eureka/apps/delta", path_of(app), path_of(app, one), "/eureka/vips/zztag-accept"):
            for verb in ("GET", "HEAD"):
                yield Step("read", verb, path, (("Accept", JSON), ("Accept-Encoding", coding)), None, app, one)
    for shape in ("full", "compact", "Compact", "nonsense", ""):
        for path in ("/eureka/apps", "/eureka/apps/delta", path_of(app), path_of(app, one), "/eureka/vips/zztag-accept"):
            for accept in (JSON, XML):
                yield Step("read", "GET", path, (("Accept", accept), ("X-Eureka-Accept", shape)), None, app, one)


def _paths():
    app, one = "ZZTAG-PATHS", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for path in (
        "/eureka", "/eureka/", "/eureka/v2", "/eureka/v2/", "/eureka/v1/apps", "/eureka/V2/apps", "/eureka/v2x/apps", "/eureka/x/apps", "/eureka/v2/v2/apps", "/Eureka/apps",
        "/eureka/Apps", "/eureka/appsX", "/eureka/apps/DELTA", "/eureka/apps/delta/", "/eureka/apps/delta/x", "/eureka/apps/ALL_APPS",
        "/eureka/apps/ALL_APPS_DELTA", "//eureka/apps", "/eureka//apps", "/eureka/apps//ZZTAG-PATHS", "/eureka/apps/ZZTAG-PATHS/",
        "/eureka/apps/ZZTAG-PATHS//zztag-1", "/eureka/apps/ZZTAG-PATHS/zztag-1/", "/eureka/apps/zztag-paths/ZZTAG-1",
        "/eureka/apps/ZZTAG-PATHS;x=1", "/eureka/apps/ZZTAG-PATHS/zztag-1;x=1", "/eureka/apps/ZZTAG-PATHS/zztag-1/nonsense",
        "/eureka/apps/ZZTAG-PATHS/zztag-1/status", "/eureka/apps/ZZTAG-PATHS/zztag-1/metadata", "/eureka/apps/ZZTAG-PATHS/%7A%7atag-1",
        "/eureka/apps/%ZZ", "/eureka/apps/%", "/eureka/apps/a%00b", "/eureka/apps/a%2Fb", "/eureka/apps/a%5Cb", "/eureka/apps/%2e%2e", "/eureka/./apps",
        "/eureka/x/../apps", "/eureka/apps/..", "/eureka/apps?x=1", "/eureka/apps?regions=%zz", "/eureka/apps/?", "/eureka/vips", "/eureka/vips/", "/eureka/vips/a/b",
        "/eureka/vips/zztag-paths/", "/eureka/vips/ZZTAG-PATHS", "/eureka/vips/zztag%2Dpaths", "/eureka/svips", "/eureka/svips/zztag-paths-s", "/eureka/secureVips/a", "/eureka/instances", "/eureka/instances/",
        "/eureka/instances/zztag-1", "/eureka/instances/ZZTAG-1", "/eureka/peerreplication", "/eureka/peerreplication/batch", "/eureka/peerreplication/batch/",
        "/eureka/status", "/eureka/status/", "/eureka/asg", "/eureka/asg/a", "/eureka/asg/a/status", "/eureka/serverinfo", "/eureka/serverinfo/statusoverrides",
        "/eureka/v2/serverinfo/statusoverrides", "/eureka/lastn", "/eureka/nonsense", "/eureka/apps/" + "x" * 300, "/eureka/apps/ZZTAG-PATHS/" + "y" * 3000,
    ):
        for headers in ((("Accept", JSON),), ()):
            yield Step("read", "GET", path, headers, None, app, one)
        yield Step("read", "OPTIONS", path, (("Accept", JSON),), None, app, one)
        yield Step("read", "HEAD", path, (("Accept", JSON),), None, app, one)


def _verbs():
    app, one = "ZZTAG-VERBS", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for path in (
        "/eureka/apps", "/eureka/apps/delta", path_of(app), path_of(app, one), path_of(app, one, "/status"), path_of(app, one, "/metadata"),
        f"/eureka/instances/{one}", "/eureka/vips/x", "/eureka/svips/x", "/eureka/peerreplication/batch", "/eureka/asg/x/status", "/eureka/status",
        "/eureka/nothing", path_of(app, "zztag-none"),
    ):
        for verb in ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "OPTIONS"):
            body = b"{}" if verb in ("POST", "PUT", "PATCH") else None
            kind = "cancel" if verb == "DELETE" else "other"
            yield Step(kind, verb, path, (JSON_BODY, ("Accept", JSON)), body, app, one)
        yield register(app, bodies.plain(app, one))
    for value in ("UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN", "up", "", "NONSENSE", None):
        query = "" if value is None else f"?value={value}"
        yield Step("status", "PUT", path_of(app, one, "/status") + query, (), b"", app, one)
        yield Step("status", "PUT", path_of(app, "zztag-none", "/status") + query, (), b"", app, "zztag-none")
        yield Step("clear", "DELETE", path_of(app, one, "/status") + query, (), None, app, one)
        yield Step("clear", "DELETE", path_of(app, "zztag-none", "/status") + query, (), None, app, "zztag-none")
        yield Step("asg", "PUT", "/eureka/asg/x/status" + query, (), b"", app, one)
    for stamp in ("", "abc", "1e3", "0x10", "+5", "%2B5", "-1", "9" * 19, "9" * 25, "%20", "1.5", "1000", "999", "1001"):
        for verb, place, more in (("PUT", "", ""), ("PUT", "/status", "&value=DOWN"), ("DELETE", "/status", "")):
            kind = {"": "beat", "/status": "status" if verb == "PUT" else "clear"}[place]
            yield Step(kind, verb, path_of(app, one, place) + f"?lastDirtyTimestamp={stamp}{more}", (), b"", app, one)
            yield register(app, bodies.plain(app, one))
    for headers in ((PEER,), (("X-Netflix-Discovery-Replication", "TRUE"),), (("x-netflix-discovery-replication", "false"),)):
        for stamp in ("999", "1000", "1001"):
            for override in ("", "&overriddenstatus=OUT_OF_SERVICE", "&overriddenstatus=UNKNOWN", "&overriddenstatus=nonsense", "&overriddenstatus="):
                yield Step("beat", "PUT", path_of(app, one) + f"?lastDirtyTimestamp={stamp}{override}", (*headers, ("Accept", JSON)), b"", app, one)
                yield Step("cancel", "DELETE", path_of(app, one), (), None, app, one)
                yield register(app, bodies.plain(app, one))


def _batches():
    app, one = "ZZTAG-BATCH", "zztag-1"
    info = bodies.plain(app, one)
    item = {"appName": app, "id": one, "lastDirtyTimestamp": 1000, "status": "UP"}
    yield batch([])
    yield batch([{**item, "action": "Register", "instanceInfo": info}])
    for action in ("Heartbeat", "Register", "Cancel", "StatusUpdate", "DeleteStatusOverride", "heartbeat", "", "Nonsense", None):
        for more in ({}, {"instanceInfo": info}, {"status": None}, {"lastDirtyTimestamp": None}, {"id": None}, {"appName": None}, {"overriddenStatus": "DOWN"}, {"lastDirtyTimestamp": "1000"}, {"lastDirtyTimestamp": "x"}, {"more": 1}):
            made = {**item, "action": action, **more}
            yield batch([{name: value for name, value in made.items() if value is not None or name == "action"}])
            yield register(app, info)
    for body in (b"", b"{}", b"null", b"[]", b'{"replicationList":null}', b'{"replicationList":{}}', b'{"replicationList":[null]}', b'{"replicationList":[{}]}', b'{"replicationList":[5]}', b'{"replicationList":[],"more":1}', b"{", b'{"replicationList":[]'):
        yield batch([], body=body)
    for headers in ((), (("Content-Type", XML),), (JSON_BODY,), (JSON_BODY, ("Accept", XML)), (JSON_BODY, ("Accept", "text/html"))):
        yield batch([{**item, "action": "Heartbeat"}], headers)


def _overrides(owner):
    """An owner's status under every override, and what may follow on it."""
    app = "ZZTAG-OVER"
    follow_ups = [("status", value) for value in STATUSES] + [("clear", value) for value in ("", *STATUSES[:4])]
    follow_ups += [(what, value) for what in ("register", "both") for value in STATUSES]
    for number, (override, (what, value)) in enumerate(itertools.product(("", *STATUSES[:4]), follow_ups)):
        one = f"zztag-{number}"
        place = path_of(app, one, "/status")
        yield register(app, bodies.minimal(app, one, status=owner))
        if override:
            yield Step("status", "PUT", f"{place}?value={override}", (), b"", app, one)
        yield Step("beat", "PUT", path_of(app, one), (), b"", app, one)
        if what in ("register", "both"):
            yield register(app, bodies.minimal(app, one, status=value, lastDirtyTimestamp="1001"))
        if what in ("status", "both"):
            yield Step("status", "PUT", f"{place}?value={value}", (), b"", app, one)
        if what == "clear":
            yield Step(what, "DELETE", place + (f"?value={value}" if value else ""), (), None, app, one)
        yield Step("beat", "PUT", path_of(app, one), (), b"", app, one)
        yield cancel(app, one)
    yield Step("read", "GET", "/eureka/apps/delta", FORMS[0])


def _peers():
    """What another server says beside what clients do here."""
    app = "ZZTAG-PEERS"

    def copy(one, headers, **members):
        return register(app, bodies.plain(app, one, **members), headers=(JSON_BODY, *headers))

    for number, headers in enumerate(((PEER,), ())):
        # A copy of what a metadata call here has changed since, and one of what was cancelled here.
        one = f"zztag-{number}"
        yield copy(one, ())
        for value in "abc":
            yield Step("metadata", "PUT", path_of(app, one, f"/metadata?k={value}"), (), b"", app, one)
        yield copy(one, headers, vipAddress="zztag-other")
        yield copy(one, headers, lastDirtyTimestamp="2000", vipAddress="zztag-third")
        yield cancel(app, one)
        yield copy(one, headers, lastDirtyTimestamp="2000")
        yield cancel(app, one, (PEER,))
    yield copy("zztag-c", ())
    older = {"appName": app, "id": "zztag-c", "lastDirtyTimestamp": 999, "status": "UP"}
    yield batch([{**older, "action": "Heartbeat"}, {**older, "action": "StatusUpdate", "status": "DOWN"}, {**older, "action": "Cancel"}])
    for number, stamp in enumerate((999, 1000, 1001)):
        one = f"zztag-u{number}"
        yield copy(one, (), status="UNKNOWN")
        yield Step("beat", "PUT", path_of(app, one, f"?lastDirtyTimestamp={stamp}"), (PEER,), b"", app, one)
        yield copy(one, (), status="UNKNOWN")
        yield batch([{"appName": app, "id": one, "action": "Heartbeat", "lastDirtyTimestamp": stamp, "status": "UP"}])


def _hazards():
    app = "ZZTAG-H"
    for number, body in enumerate(bodies.hazards(app, "zztag-h")):
        yield Step("broken", "POST", path_of(app), (JSON_BODY,), body, app, "zztag-h", alone=True)
        if number % 8 == 0:
            yield register(app, bodies.plain(app, f"zztag-{number}"))
