"""A tour of everything odd, each once: what genuine servers and ours are asked before histories by number."""

import bodies
import calls
import clients
from bodies import JSON, XML
from histories import FORMS, JSON_BODY, ODD, SOILING, STATUSES, XML_BODY, Step, path_of, register

#: So many bodies stand in one list.
SHELF = 12


def last():
    """What a genuine server does not recover from for minutes."""
    yield "soiling", list(_shelf(0, SOILING, False))


def tour():
    """Everything odd once, as histories with names."""
    for form, xml in (("json", False), ("xml", True)):
        for start in range(0, len(ODD), SHELF):
            yield f"odd-{form}-{start // SHELF}", list(_shelf(start // SHELF, ODD[start : start + SHELF], xml))
    yield "shapes", list(_shapes())
    yield "types", list(_types())
    yield "negotiation", list(_negotiation())
    yield "paths", list(calls.paths())
    yield "verbs", list(calls.verbs())
    yield "batches", list(calls.batches())
    yield "peers", list(calls.peers())
    for owner in STATUSES:
        yield f"overrides-{owner}", list(calls.overrides(owner))
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
    for name, value in (("lastDirtyTimestamp", "soon"), ("port", {"$": "80a", "@enabled": "true"}), ("countryId", "x")):
        nowhere = {member: told for member, told in bodies.plain(app, "zztag-two").items() if member != "ipAddr"}
        yield register(app, {**nowhere, name: value}, note=f"two faults: {name}")
    for number, make in enumerate((bodies.plain, *clients.EVERY)):
        body = make(app, f"zztag-{number}")
        yield register(app, body)
        yield register(app, bodies.plain(app, f"zztag-x{number}"), xml=True)
        yield register(app, {**body, "dataCenterInfo": bodies.amazon(f"i-zztag-{number}")})
        yield register(app, bodies.plain(app, f"zztag-y{number}", dataCenterInfo=bodies.amazon("i-zztag")), xml=True)
    for path in (
        "/eureka/apps",
        path_of(app),
        "/eureka/apps/delta",
        "/eureka/vips/zztag-shapes",
        "/eureka/svips/zztag-shapes-s",
    ):
        for headers in FORMS:
            yield Step("read", "GET", path, headers, None, app)
    yield register(app, bodies.plain(app, "zztag-v", vipAddress="zztag-va, zztag-vb "))
    for name in ("zztag-va", "zztag-vb", "zztag-vc"):
        yield Step("read", "GET", f"/eureka/vips/{name}", FORMS[0], None, app)
    body = bodies.as_json(bodies.plain(app, "zztag-w"))
    for wrapped in (
        body[len('{"instance":') : -1],
        body + b"x",
        body + body,
        b" " + body,
        b"\xef\xbb\xbf" + body,
        body[:-1],
        body[1:],
        body.replace(b'"instance":', b'"Instance":'),
        body[:-1] + b',"more":1}',
        b'{"more":1,' + body[1:],
        body.decode().encode("utf-16"),
        body.decode().encode("utf-16-le"),
        body.replace(b'"z1"', b'"\xe9"'),
        body.replace(b'"z1"', b'"\\ud83d"'),
        body.replace(b'"z1"', b'"\\ud83d\\ude00"'),
        body.replace(b'"z1"', b'"\\ude00\\ud83d"'),
        b"",
        b"null",
        b"{}",
        b'""',
        b"5",
        b'{"instance":null}',
        b'{"instance":5}',
        b'{"instance":"x"}',
        b'{"instance":{}}',
    ):
        yield Step("broken", "POST", path_of(app), (JSON_BODY,), wrapped, app, "zztag-w")
    body = bodies.as_xml(bodies.plain(app, "zztag-w"))
    for wrapped in (
        body + b"x",
        body + body,
        b" " + body,
        b"\xef\xbb\xbf" + body,
        body[:-1],
        body[1:],
        b"",
        b"<instance/>",
        b"<a/>",
        b'<?xml version="1.0" encoding="UTF-8"?>' + body,
        b'<?xml version="1.0"?>\n' + body,
        '<?xml version="1.0" encoding="UTF-16"?>'.encode("utf-16") + body.decode().encode("utf-16-le"),
        b'<?xml version="1.0" encoding="ISO-8859-1"?>' + body.replace(b"z1", b"\xe9"),
        b'<?xml version="1.0" encoding="windows-1252"?>' + body.replace(b"z1", b"\x80"),
        b'<?xml version="1.0" encoding="nonsense"?>' + body,
        b'<?xml version="1.0" encoding="US-ASCII"?>' + body.replace(b"z1", b"\xe9"),
        body.replace(b"z1", b"\xe9"),
        b"<!-- c -->" + body,
        body + b"<!-- c -->",
        b'<!DOCTYPE instance [<!ENTITY e "x">]>' + body,
        body.replace(b"<status>UP", b"<status>&e;"),
        body.replace(b"<status>UP", b"<status><![CDATA[UP]]>"),
        body.replace(b"<status>UP", b"<status>U&#80;"),
        body.replace(b"<instance>", b'<instance a="b">'),
        body.replace(b"<instance>", b"<com.netflix.appinfo.InstanceInfo>").replace(
            b"</instance>", b"</com.netflix.appinfo.InstanceInfo>"
        ),
        body.replace(b"<status>", b"<unknown><a><b>1</b></a></unknown><status>"),
        body.replace(b"<status>UP</status>", b""),
        b"<applications>" + body + b"</applications>",
        b"<application/>",
        b"<string>x</string>",
        body.replace(b"<status>UP", b"<status>down"),
        body.replace(b"<zone>", b"<zone x='1'>"),
        body.replace(b"z1", b"z<b>1</b>"),
    ):
        yield Step("broken", "POST", path_of(app), (XML_BODY,), wrapped, app, "zztag-w")


def _types():
    app = "ZZTAG-TYPES"
    number = 0
    for kind in (
        None,
        "",
        "json",
        "text/json",
        "text/plain",
        "text/xml",
        "application/x+json",
        "application/vnd.x+xml",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=ISO-8859-1",
        "application/json;charset=utf-16",
        "application/json;charset=nonsense",
        "application/json;q=1",
        "application/xml",
        "application/xml;charset=UTF-8",
        "*/*",
        "application/*",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json, application/json",
        "a/b/c",
    ):
        for xml in (False, True):
            number += 1
            body = bodies.plain(app, f"zztag-{number}")
            headers = () if kind is None else (("Content-Type", kind),)
            encoded = bodies.as_xml(body) if xml else bodies.as_json(body)
            yield Step("register", "POST", path_of(app), headers, encoded, app, f"zztag-{number}", body)
        yield Step("beat", "PUT", path_of(app, "zztag-1"), headers, b"", app, "zztag-1")
        yield Step("read", "GET", path_of(app), headers, None, app)
    for name, value in (
        ("Content-Encoding", "gzip"),
        ("Content-Encoding", "identity"),
        ("Content-Encoding", "br"),
        ("Expect", "nonsense"),
    ):
        number += 1
        body = bodies.plain(app, f"zztag-{number}")
        yield Step(
            "register",
            "POST",
            path_of(app),
            (JSON_BODY, (name, value)),
            bodies.as_json(body),
            app,
            f"zztag-{number}",
            body,
        )


ACCEPTS = [
    None,
    "",
    "*/*",
    "application/*",
    JSON,
    XML,
    "APPLICATION/JSON",
    "application/json;charset=utf-8",
    "application/json;q=0",
    "application/xml;q=0.1, application/json",
    "application/json, application/xml",
    "application/xml, application/json",
    "text/html",
    "text/plain",
    "text/xml",
    "text/json",
    "application/*+json",
    "application/vnd.spring-boot.actuator.v3+json",
    "text/html, */*;q=0.1",
    "nonsense",
    "application/json, application/*+json",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
]


def _negotiation():
    app, one = "ZZTAG-ACCEPT", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for accept in ACCEPTS:
        headers = () if accept is None else (("Accept", accept),)
        for path in (
            "/eureka/apps",
            "/eureka/apps/delta",
            path_of(app),
            path_of(app, one),
            f"/eureka/instances/{one}",
            "/eureka/vips/zztag-accept",
        ):
            yield Step("read", "GET", path, headers, None, app, one)
        yield Step("read", "GET", path_of(app, "zztag-none"), headers, None, app)
        yield Step("beat", "PUT", path_of(app, one), headers, b"", app, one)
        yield Step("beat", "PUT", path_of(app, "zztag-none"), headers, b"", app, "zztag-none")
        yield register(app, bodies.plain(app, one, lastDirtyTimestamp="1000"), headers=(JSON_BODY, *headers))
    for coding in (
        "gzip",
        "x-gzip",
        "GZIP",
        "gzip;q=0",
        "gzip;q=0.5, identity",
        "deflate",
        "br",
        "*",
        "identity",
        "",
        "gzip, gzip",
    ):
        for path in (
            "/eureka/apps",
            "/eureka/apps/delta",
            path_of(app),
            path_of(app, one),
            "/eureka/vips/zztag-accept",
        ):
            for verb in ("GET", "HEAD"):
                yield Step("read", verb, path, (("Accept", JSON), ("Accept-Encoding", coding)), None, app, one)
    for shape in ("full", "compact", "Compact", "nonsense", ""):
        for path in (
            "/eureka/apps",
            "/eureka/apps/delta",
            path_of(app),
            path_of(app, one),
            "/eureka/vips/zztag-accept",
        ):
            for accept in (JSON, XML):
                yield Step("read", "GET", path, (("Accept", accept), ("X-Eureka-Accept", shape)), None, app, one)


def _hazards():
    app = "ZZTAG-H"
    for number, body in enumerate(bodies.hazards(app, "zztag-h")):
        yield Step("broken", "POST", path_of(app), (JSON_BODY,), body, app, "zztag-h", alone=True)
        if number % 8 == 0:
            yield register(app, bodies.plain(app, f"zztag-{number}"))
