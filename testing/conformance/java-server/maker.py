"""Histories that are made from a number."""

import random
import re
from urllib.parse import quote

import bodies
import clients
import forms
from bodies import JSON
from histories import (
    FORMS,
    JSON_BODY,
    ODD,
    PEER,
    STATUSES,
    XML_BODY,
    Step,
    batch,
    cancel,
    hazardous,
    path_of,
    register,
)

#: Headers that change nothing for a server of this kind.
NEEDLESS = [
    ("If-None-Match", '"x"'),
    ("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ("Range", "bytes=0-9"),
    ("Cookie", "a=b; c"),
    ("Origin", "http://other.example"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("Upgrade", "h2c"),
    ("TE", "trailers"),
    ("X-Forwarded-Proto", "https"),
    ("Authorization", "Basic YTpi"),
    ("DiscoveryIdentity-Name", "DefaultClient"),
    ("X-Discovery-AllowRedirect", "true"),
    ("User-Agent", "Java-EurekaClient/v1.10.18"),
    ("Accept-Language", "tr-TR"),
    ("Accept-Charset", "utf-16"),
    ("Connection", "close"),
    ("Accept", "text/plain;q=0.1, */*"),
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
        #: Registrations as they were told, the last last.
        self.told = []


class Maker:
    """One history."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        apps = self.random.sample(["ZZTAG-APP", "ZZTAG_B", "ZZTAG.c", "ZZTAG x", "ZZTAG-éß", "ZZTAG%41"], 2)
        names = ["host:zztag:8080", "zztag-2", "zztag 3", "zztag#4%5", "zztag+é", "zztag&6=7", "ZZTAG.lan"]
        chosen = self.random.sample([*names, "zztag;v=1", "zztag/9", "zztag~😀", "delta"], 4)
        self.keys = [Key(self.random.choice(apps), one) for one in chosen]
        if self.random.random() < 0.2:
            # The same id in both applications.
            first = self.keys[0]
            self.keys[3] = Key(apps[first.app == apps[0]], first.one)
        self.vips = ["zztag-vip", "zztag-a,zztag-b", "ZZTAG-vip", "zztag-a,,zztag-a,", "zztag-b, zztag-a ", "zztag:80"]

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
        return self._headed(self.random.choices(makers, weights)[0](key))

    def _headed(self, step):
        """Sometimes with a header that counts for nothing, or a body in pieces."""
        one = self.random
        if one.random() < 0.06:
            step.headers = (*step.headers, one.choice(NEEDLESS))
        if step.body and one.random() < 0.04:
            step.headers = (*step.headers, ("Transfer-Encoding", "chunked"))
        elif step.body and one.random() < 0.02:
            step.headers = (*step.headers, ("Expect", "100-continue"))
        return step

    def _register(self, key):
        one = self.random
        change = one.choice(["same", "newer", "newer", "newer", "older", "absent", "late"]) if key.alive else "newer"
        if change == "newer":
            key.stamp += one.choice([1, 10, 1000])
            key.status = one.choices(STATUSES, [12, 4, 3, 1, 1])[0]
            if one.random() < 0.7:
                key.members = self._members(key)
        stamp = {"older": str(key.stamp - 1), "absent": None}.get(change, str(key.stamp))
        members = {**key.members, "status": key.status, "lastDirtyTimestamp": stamp}
        make = bodies.plain
        if change != "absent":
            make = one.choice([bodies.plain] * 6 + [clients.of_spring] * 3 + [clients.minimal] * 3 + [*clients.EVERY])
        key.alive = True
        headers = (JSON_BODY,)
        xml = one.random() < 0.2 and make is bodies.plain
        if one.random() < 0.1:
            headers = (JSON_BODY, PEER)
        elif one.random() < 0.1:
            headers = (("Content-Type", "application/json;charset=UTF-8"), ("Accept", "application/json, text/html"))
        headers = tuple(XML_BODY if xml and name == "Content-Type" else (name, value) for name, value in headers)
        app = key.app.lower() if one.random() < 0.2 else key.app
        body = make(key.app, key.one, **members)
        if change == "late" and key.told:
            body = one.choice(key.told)
        elif body.get("instanceId") == key.one:
            key.told = [*key.told[-3:], body]
        step = register(app, body, xml, headers)
        if one.random() < 0.15:
            step.body = forms.another(one, body, xml)
        return step

    def _members(self, key):
        one = self.random
        metadata = [{}, {"zone": "z1"}, {"a_b": one.choice("xyz"), "$": "1"}, {"instanceId": "zztag-angel"}]
        return {
            "metadata": one.choice(metadata),
            "vipAddress": one.choice(self.vips),
            "secureVipAddress": one.choice([None, "zztag-s"]),
            "asgName": one.choice([None, None, "asg"]),
            "appGroupName": one.choice([None, "GROUP"]),
            "dataCenterInfo": one.choice([None, None, bodies.amazon(key.one)]) or plain_center(),
        }

    def _beat(self, key):
        one = self.random
        stamp = one.choice(
            [None, None, key.stamp, key.stamp, key.stamp - 1, key.stamp + 1, 0, -1, f"%2B{key.stamp}", 10**18]
        )
        query = [] if stamp is None else [f"lastDirtyTimestamp={stamp}"]
        if one.random() < 0.5:
            query.insert(0, f"status={one.choice(STATUSES + ['nonsense'])}")
        if one.random() < 0.08:
            query.append(f"lastDirtyTimestamp={key.stamp + 7}" if query else "LASTDIRTYTIMESTAMP=x")
        headers = one.choice([(), (), (("Accept", JSON),), (JSON_BODY,)])
        if one.random() < 0.25:
            headers = (*headers, PEER)
            if one.random() < 0.3:
                query.append(f"overriddenstatus={one.choice(STATUSES + ['', 'nonsense'])}")
        body = b"{}" if one.random() < 0.2 else b""
        between = "&" if one.random() < 0.95 else "&&"
        path = path_of(key.app, key.one) + ("?" + between.join(query) if query else "")
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
        pairs = self.random.choice(METADATA)
        path = path_of(key.app, key.one, "/metadata") + "?" + pairs
        return Step("metadata", "PUT", path, (), b"", key.app.upper(), key.one)

    def _batch(self, key):
        one = self.random
        items = [self._item(one.choice(self.keys)) for _ in range(one.randint(1, 4))]
        if one.random() < 0.1:
            items.insert(one.randrange(len(items) + 1), self._odd_item(key))
        kind = one.choice(["application/json"] * 4 + ["application/json;charset=UTF-8", "APPLICATION/JSON"])
        return batch(items, (("Content-Type", kind), ("Accept", JSON)))

    def _item(self, key):
        one = self.random
        action = one.choice(["Heartbeat", "Register", "Cancel", "StatusUpdate", "DeleteStatusOverride"])
        item = {"appName": key.app.upper(), "id": key.one, "action": action}
        if action == "Register":
            if key.told and one.random() < 0.4:
                # A server passes on what it knows.
                body = {name: value for name, value in one.choice(key.told).items() if name != "somethingNew"}
            else:
                key.stamp += 1
                status = one.choice(STATUSES[:3])
                stamp = str(key.stamp)
                body = bodies.plain(key.app, key.one, **{**key.members, "status": status}, lastDirtyTimestamp=stamp)
                key.told = [*key.told[-3:], body]
            key.alive = True
            item["instanceInfo"] = body
            item["lastDirtyTimestamp"] = int(body.get("lastDirtyTimestamp", 0))
        elif action != "Cancel":
            item["lastDirtyTimestamp"] = key.stamp + one.choice([-1, 0, 0, 0, 1])
            item["status"] = one.choice(["UP", "OUT_OF_SERVICE", "DOWN"])
            if action == "Heartbeat" and one.random() < 0.2:
                item["overriddenStatus"] = one.choice(["OUT_OF_SERVICE", "UNKNOWN", "DOWN"])
        else:
            key.alive = False
        return item

    def _odd_item(self, key):
        """An item that no server sends."""
        one = self.random
        item = self._item(key)
        return one.choice(
            [
                None,
                5,
                {},
                {**item, "more": 1},
                {**item, "action": "Nonsense"},
                {**item, "id": ""},
                {**item, "appName": None},
                {**item, "status": "nonsense"},
                {**item, "lastDirtyTimestamp": str(item.get("lastDirtyTimestamp", "x"))},
                {**item, "lastDirtyTimestamp": None},
                {**item, "instanceInfo": None},
                {**item, "instanceInfo": {"instanceId": key.one, "app": key.app}},
            ]
        )

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
        vip = quote(one.choice(one.choice(self.vips).split(",")).strip() or "zztag-b", safe=":")
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
                # Of several that have the id any may be told.
                *["/eureka/instances/" + quote(key.one, safe=":")] * (len({key.one for key in self.keys}) == 4),
                f"/eureka/vips/{vip}",
                f"/eureka/svips/{vip}",
                "/eureka/svips/zztag-s",
                "/eureka/vips/zztag-none",
                "/eureka/apps?regions=",
                "/eureka/apps?regions=nowhere",
                "/eureka/apps/delta?regions=x,y",
                path_of("ZZTAG-NONE"),
                path_of(key.app, "zztag-none"),
                _spelt_out(path_of(key.app, key.one)),
                "http://eureka.example" + path_of(key.app, key.one),
            ]
        )
        verb = "HEAD" if one.random() < 0.05 else "GET"
        return Step("read", verb, path, headers, None, key.app.upper(), key.one)


METADATA = [
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
    "a=%zz",
    "a=b;c=d",
    "&&a=b&",
    "a==b",
    "%61=b",
    "a=%F0%9F%98%80",
    "a=%26%3D%25",
    "@class=x",
    "a=" + "x" * 3000,
]


def _spelt_out(path):
    """A path in which more is coded than has to be, in small letters."""
    return re.sub(r"[a-z](?=[^/%]*$)|:", lambda found: f"%{ord(found.group()):02x}", path, count=2)


def plain_center():
    return {"@class": bodies.DEFAULT, "name": "MyOwn"}
