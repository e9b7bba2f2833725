"""Bodies of registrations: usual ones, odd ones, and ones that cannot be meant."""

import copy
import json
from xml.sax.saxutils import escape, quoteattr

DEFAULT = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"
AMAZON = "com.netflix.appinfo.AmazonInfo"
JSON, XML = "application/json", "application/xml"


def plain(app, one, **members):
    """A usual registration as a dictionary; a member of None is left out."""
    body = {
        "instanceId": one,
        "hostName": "h1.example",
        "app": app,
        "ipAddr": "10.0.0.1",
        "status": "UP",
        "overriddenStatus": "UNKNOWN",
        "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 8443, "@enabled": "false"},
        "countryId": 1,
        "dataCenterInfo": {"@class": DEFAULT, "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90},
        "metadata": {"zone": "z1", "my_key": "v_1"},
        "homePageUrl": "http://h1.example:8080/",
        "statusPageUrl": "http://h1.example:8080/info",
        "healthCheckUrl": "http://h1.example:8080/health",
        "vipAddress": app.lower(),
        "secureVipAddress": app.lower() + "-s",
        "lastDirtyTimestamp": "1000",
    }
    body.update(members)
    return {name: value for name, value in body.items() if value is not None}


def amazon(one):
    return {
        "@class": AMAZON,
        "name": "Amazon",
        "metadata": {"instance-id": one, "ami-id": "ami-7", "availability-zone": "eu-west-1b", "vpc-id": "v"},
    }


def as_json(body):
    return json.dumps({"instance": body}, ensure_ascii=False, separators=(",", ":")).encode()


def as_xml(body):
    return b"<instance>" + "".join(_element(*pair) for pair in body.items()).encode() + b"</instance>"


def _element(name, value):
    if name == "overriddenStatus":
        name = "overriddenstatus"
    if name in ("port", "securePort") and isinstance(value, dict):
        flag = f' enabled={quoteattr(_text(value["@enabled"]))}' if "@enabled" in value else ""
        return f'<{name}{flag}>{escape(_text(value.get("$", "")))}</{name}>'
    if name == "dataCenterInfo" and isinstance(value, dict):
        inner = "".join(_element(*pair) for pair in value.items() if pair[0] != "@class")
        kind = value.get("@class")
        return f"<{name}{f' class={quoteattr(kind)}' if kind else ''}>{inner}</{name}>"
    if name == "metadata" and isinstance(value, dict):
        return f"<{name}>{''.join(_pair(*pair) for pair in value.items())}</{name}>"
    if isinstance(value, dict):
        return f"<{name}>{''.join(_element(*pair) for pair in value.items())}</{name}>"
    return f"<{name}>{escape(_text(value))}</{name}>"


def _pair(key, value):
    name = "".join(_letter(letter, first == 0) for first, letter in enumerate(key))
    return f"<{name}>{escape(_text(value))}</{name}>"


def _letter(letter, first):
    if letter == "_":
        return "__"
    if letter == "$":
        return "_-"
    if letter.isalpha() or (not first and (letter.isdigit() or letter in ".-")):
        return letter
    return f"_.{ord(letter):04x}"


def _text(value):
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


#: Values that some member may have and should not.
SCALARS = [
    None,
    "",
    " ",
    " x ",
    "abc",
    "0",
    "007",
    "+7",
    "-1",
    "1e3",
    "1.5",
    0,
    -1,
    1.5,
    8e3,
    70000,
    2**31 - 1,
    2**31,
    2**63,
    10**25,
    True,
    False,
    "true",
    "TRUE",
    "null",
    "<a>&amp;",
    "é你😀",
    "tab\tnew\nline",
    "x" * 300,
]
STATUSES = [
    "UP",
    "DOWN",
    "STARTING",
    "OUT_OF_SERVICE",
    "UNKNOWN",
    "up",
    "Up",
    " UP",
    "UP ",
    "",
    "NONSENSE",
    None,
    1,
    True,
]
PORTS = [
    {},
    {"$": 1},
    {"@enabled": "true"},
    {"@enabled": True},
    {"@enabled": False, "$": "9"},
    {"$": None},
    {"$": 0, "@enabled": None},
    {"$": "  77 "},
    {"$": 65535, "@enabled": "false"},
    {"$": "65535"},
    {"$": 65536},
    {"$": 70000},
    {"$": -1},
    {"$": "x"},
    {"$": ""},
    {"$": 1.5},
    {"$": "1.5"},
    {"$": 9e3},
    {"$": "9e3"},
    {"$": True},
    {"$": 2**31},
    {"$": 5, "@enabled": ""},
    {"$": 5, "@enabled": "TRUE"},
    {"$": 5, "@enabled": "False"},
    {"$": 5, "@enabled": 1},
    {"$": 5, "@enabled": 0},
    {"$": 5, "@enabled": "yes"},
    {"$": 5, "@enabled": " true "},
    {"$": 5, "enabled": "true"},
    {"$": 5, "@enabled": "true", "more": 1},
    8080,
    "8080",
    None,
    True,
]
LEASES = [
    {},
    {"durationInSecs": 0},
    {"durationInSecs": -5, "renewalIntervalInSecs": -1},
    {"durationInSecs": "120"},
    {"durationInSecs": 120.9},
    {"durationInSecs": 86_400},
    {"durationInSecs": 86_401},
    {"durationInSecs": 2**31 - 1},
    {"durationInSecs": 2**31},
    {"renewalIntervalInSecs": 7},
    {"renewalIntervalInSecs": "abc"},
    {"durationInSecs": ""},
    {"durationInSecs": None, "renewalIntervalInSecs": None},
    {"evictionDurationInSecs": 60},
    {"renewalTimestamp": 5},
    {"registrationTimestamp": 5, "serviceUpTimestamp": 5, "evictionTimestamp": 5, "lastRenewalTimestamp": 5},
    {"more": "text"},
    {"durationInSecs": True},
    None,
]
METADATA = [
    {},
    {"@class": "java.util.Collections$EmptyMap"},
    {"@class": "x", "a": "b"},
    {"a": None},
    {"a": ""},
    {"a": 5},
    {"a": 1.5},
    {"a": True},
    {"a": "null"},
    {"a b": "c d"},
    {"a$b": "$"},
    {"_": "__"},
    {"a__b_c": "_"},
    {"1x": "1"},
    {"-": "-"},
    {".": "."},
    {"é你": "é你"},
    {"😀": "😀"},
    {"a<b": "<&>\"'"},
    {"a": " blanks "},
    {"a": "line\nbreak\ttab"},
    {"a": "x" * 5000},
    {"k" * 300: "v"},
    {"A": "1", "a": "2"},
    {"c:d": "e"},
    {"": "e"},
    {"a": "\x01"},
    {"a\x02": "b"},
    {"instanceId": "angel"},
    {"a": "]]>"},
    {"a;b": "c=d&e"},
    {str(number): str(number) for number in range(200)},
    None,
]
CENTERS = [
    {"name": "MyOwn"},
    {"@class": "", "name": "MyOwn"},
    {"@class": "x.Y", "name": "MyOwn"},
    {"@class": DEFAULT},
    {"@class": DEFAULT, "name": None},
    {"@class": DEFAULT, "name": "Netflix"},
    {"@class": DEFAULT, "name": "myown"},
    {"@class": DEFAULT, "name": ""},
    {"@class": DEFAULT, "name": "Other"},
    {"name": "MyOwn", "@class": DEFAULT},
    {"@class": "com.netflix.appinfo.MyDataCenterInfo", "name": "MyOwn"},
    {"@class": AMAZON, "name": "MyOwn", "metadata": {"a": "b"}},
    {"@class": AMAZON, "name": "Amazon", "metadata": {}},
    {"@class": AMAZON, "name": "Amazon", "metadata": {"instance-id": "i-1"}},
    {"@class": AMAZON, "name": "Amazon", "metadata": {"instance-id": "i-1", "odd key": "v", "x_y": 5}},
    {
        "@class": AMAZON,
        "name": "Amazon",
        "metadata": {"ami-id": "ami-1", "public-hostname": "p.example", "local-ipv4": "10.0.0.2"},
    },
    {"@class": DEFAULT, "name": "MyOwn", "more": 1},
    None,
]
TEXTS = [
    "hostName",
    "ipAddr",
    "app",
    "instanceId",
    "sid",
    "appGroupName",
    "homePageUrl",
    "statusPageUrl",
    "healthCheckUrl",
    "secureHealthCheckUrl",
    "vipAddress",
    "secureVipAddress",
    "asgName",
]
NUMBERS = ["countryId", "lastUpdatedTimestamp", "lastDirtyTimestamp"]
OTHERS = ["isCoordinatingDiscoveryServer", "actionType", "unknownMember"]


def odd_members():
    """Every member with every odd value, one at a time."""
    for name in TEXTS + NUMBERS + OTHERS:
        for value in SCALARS:
            yield name, value
    for name, values in (
        ("status", STATUSES),
        ("overriddenStatus", STATUSES),
        ("overriddenstatus", STATUSES),
        ("port", PORTS),
        ("securePort", PORTS),
        ("leaseInfo", LEASES),
        ("metadata", METADATA),
        ("dataCenterInfo", CENTERS),
        ("actionType", ["ADDED", "MODIFIED", "DELETED", "added"]),
    ):
        for value in values:
            yield name, value
    for name in TEXTS + NUMBERS + ["status", "port", "securePort", "leaseInfo", "metadata", "dataCenterInfo"]:
        yield name, ...


def with_member(body, name, value):
    """The body with a member of this value, or without it."""
    body = copy.deepcopy(body)
    if value is ...:
        body.pop(name, None)
    else:
        body[name] = value
    return body


#: What makes a genuine server lose a thread, or everybody's list: these go to ours alone.
HAZARDS = [
    b'{"instance":[]}',
    b'{"instance":[{}]}',
    b'{"instance":[{"app":"ZZTAG-H"}]}',
    b"[]",
    b'[{"instance":{}}]',
    b'{"instance":{"app":"ZZTAG-H","tags":["a",{"b":[]}],"hostName":"h","ipAddr":"1"}}',
    b'{"instance":{"app":"ZZTAG-H","hostName":["h"],"ipAddr":"1"}}',
    b'{"instance":{"app":"ZZTAG-H","hostName":{"a":1},"ipAddr":"1"}}',
    b'{"instance":{"app":"ZZTAG-H","metadata":[1,2]}}',
    b'{"instance":' * 4000,
    b"[" * 60000,
    b'{"a":' * 60000,
    b'{"instance":{"app":"ZZTAG-H","port":[1]}}',
    b'{"instance":{"app":"ZZTAG-H","leaseInfo":[]}}',
]


def hazards(app, one):
    yield from HAZARDS
    for center in (
        {"@class": DEFAULT, "name": "Amazon"},
        {"@class": AMAZON, "name": "Amazon", "metadata": []},
        {"@class": AMAZON, "name": "Amazon", "metadata": "x"},
        {"@class": AMAZON, "name": "Amazon"},
        {"metadata": {"instance-id": "i"}, "@class": AMAZON, "name": "Amazon"},
        [],
        "MyOwn",
        5,
    ):
        yield as_json(plain(app, one, dataCenterInfo=center))
    for name in ("hostName", "status", "port", "metadata", "leaseInfo", "lastDirtyTimestamp", "unknown"):
        for value in ([], [1], [{}], [[]], {"a": {"b": [1, {"c": None}]}}):
            yield as_json(with_member(plain(app, one), name, value))
    yield as_json(plain(app, one, metadata={"a": {"b": "c"}}))
    yield as_json(plain(app, one, metadata={"a": ["b"]}))
    yield as_json(plain(app, one, leaseInfo=90))
    yield as_json({**plain(app, one), "unknown": {"a": 1}})
