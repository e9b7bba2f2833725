"""What is asked of both servers: requests, of which histories are made.

A history does not depend on answers. Its names hold `ZZTAG`, in whose place each run puts another word,
so that histories at one server do not meet.
"""

import dataclasses
import json
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
            for coding in ("utf-8", "utf-16-le"):
                body = body.replace("ZZTAG".encode(coding), tag.encode(coding))
                body = body.replace("zztag".encode(coding), tag.lower().encode(coding))
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
    sent = [item if isinstance(item, dict) else {} for item in items]
    return Step("batch", "POST", "/eureka/peerreplication/batch", headers, body, sent=sent)


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
