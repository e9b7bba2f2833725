"""The part of the tour that is about calls: paths, verbs, overrides, what peers say alone and in batches."""

import itertools

import bodies
import clients
from bodies import JSON, XML
from histories import FORMS, JSON_BODY, PEER, STATUSES, Step, batch, cancel, path_of, register


def paths():
    app, one = "ZZTAG-PATHS", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for path in (
        "/eureka",
        "/eureka/",
        "/eureka/v2",
        "/eureka/v2/",
        "/eureka/v1/apps",
        "/eureka/V2/apps",
        "/eureka/v2x/apps",
        "/eureka/x/apps",
        "/eureka/v2/v2/apps",
        "/Eureka/apps",
        "/eureka/Apps",
        "/eureka/appsX",
        "/eureka/apps/DELTA",
        "/eureka/apps/delta/",
        "/eureka/apps/delta/x",
        "/eureka/apps/ALL_APPS",
        "/eureka/apps/ALL_APPS_DELTA",
        "//eureka/apps",
        "/eureka//apps",
        "/eureka/apps//ZZTAG-PATHS",
        "/eureka/apps/ZZTAG-PATHS/",
        "/eureka/apps/ZZTAG-PATHS//zztag-1",
        "/eureka/apps/ZZTAG-PATHS/zztag-1/",
        "/eureka/apps/zztag-paths/ZZTAG-1",
        "/eureka/apps/ZZTAG-PATHS;x=1",
        "/eureka/apps/ZZTAG-PATHS/zztag-1;x=1",
        "/eureka/apps/ZZTAG-PATHS/zztag-1/nonsense",
        "/eureka/apps/ZZTAG-PATHS/zztag-1/status",
        "/eureka/apps/ZZTAG-PATHS/zztag-1/metadata",
        "/eureka/apps/ZZTAG-PATHS/%7A%7atag-1",
        "/eureka/apps/%ZZ",
        "/eureka/apps/%",
        "/eureka/apps/a%00b",
        "/eureka/apps/a%2Fb",
        "/eureka/apps/a%5Cb",
        "/eureka/apps/%2e%2e",
        "/eureka/./apps",
        "/eureka/x/../apps",
        "/eureka/apps/..",
        "/eureka/apps?x=1",
        "/eureka/apps?regions=%zz",
        "/eureka/apps/?",
        "/eureka/vips",
        "/eureka/vips/",
        "/eureka/vips/a/b",
        "/eureka/vips/zztag-paths/",
        "/eureka/vips/ZZTAG-PATHS",
        "/eureka/vips/zztag%2Dpaths",
        "/eureka/svips",
        "/eureka/svips/zztag-paths-s",
        "/eureka/secureVips/a",
        "/eureka/instances",
        "/eureka/instances/",
        "/eureka/instances/zztag-1",
        "/eureka/instances/ZZTAG-1",
        "/eureka/peerreplication",
        "/eureka/peerreplication/batch",
        "/eureka/peerreplication/batch/",
        "/eureka/status",
        "/eureka/status/",
        "/eureka/asg",
        "/eureka/asg/a",
        "/eureka/asg/a/status",
        "/eureka/serverinfo",
        "/eureka/serverinfo/statusoverrides",
        "/eureka/v2/serverinfo/statusoverrides",
        "/eureka/lastn",
        "/eureka/nonsense",
        "/eureka/apps/" + "x" * 300,
        "/eureka/apps/ZZTAG-PATHS/" + "y" * 3000,
    ):
        for headers in ((("Accept", JSON),), ()):
            yield Step("read", "GET", path, headers, None, app, one)
        yield Step("read", "OPTIONS", path, (("Accept", JSON),), None, app, one)
        yield Step("read", "HEAD", path, (("Accept", JSON),), None, app, one)


def verbs():
    app, one = "ZZTAG-VERBS", "zztag-1"
    yield register(app, bodies.plain(app, one))
    for path in (
        "/eureka/apps",
        "/eureka/apps/delta",
        path_of(app),
        path_of(app, one),
        path_of(app, one, "/status"),
        path_of(app, one, "/metadata"),
        f"/eureka/instances/{one}",
        "/eureka/vips/x",
        "/eureka/svips/x",
        "/eureka/peerreplication/batch",
        "/eureka/asg/x/status",
        "/eureka/status",
        "/eureka/nothing",
        path_of(app, "zztag-none"),
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
    for stamp in (
        "",
        "abc",
        "1e3",
        "0x10",
        "+5",
        "%2B5",
        "-1",
        "9" * 19,
        "9" * 25,
        "%20",
        "1.5",
        "1000",
        "999",
        "1001",
    ):
        for verb, place, more in (("PUT", "", ""), ("PUT", "/status", "&value=DOWN"), ("DELETE", "/status", "")):
            kind = {"": "beat", "/status": "status" if verb == "PUT" else "clear"}[place]
            yield Step(kind, verb, path_of(app, one, place) + f"?lastDirtyTimestamp={stamp}{more}", (), b"", app, one)
            yield register(app, bodies.plain(app, one))
    for headers in (
        (PEER,),
        (("X-Netflix-Discovery-Replication", "TRUE"),),
        (("x-netflix-discovery-replication", "false"),),
    ):
        for stamp in ("999", "1000", "1001"):
            for override in (
                "",
                "&overriddenstatus=OUT_OF_SERVICE",
                "&overriddenstatus=UNKNOWN",
                "&overriddenstatus=nonsense",
                "&overriddenstatus=",
            ):
                yield Step(
                    "beat",
                    "PUT",
                    path_of(app, one) + f"?lastDirtyTimestamp={stamp}{override}",
                    (*headers, ("Accept", JSON)),
                    b"",
                    app,
                    one,
                )
                yield Step("cancel", "DELETE", path_of(app, one), (), None, app, one)
                yield register(app, bodies.plain(app, one))


def batches():
    app, one = "ZZTAG-BATCH", "zztag-1"
    info = bodies.plain(app, one)
    item = {"appName": app, "id": one, "lastDirtyTimestamp": 1000, "status": "UP"}
    yield batch([])
    yield batch([{**item, "action": "Register", "instanceInfo": info}])
    for action in (
        "Heartbeat",
        "Register",
        "Cancel",
        "StatusUpdate",
        "DeleteStatusOverride",
        "heartbeat",
        "",
        "Nonsense",
        None,
    ):
        for more in (
            {},
            {"instanceInfo": info},
            {"status": None},
            {"lastDirtyTimestamp": None},
            {"id": None},
            {"appName": None},
            {"overriddenStatus": "DOWN"},
            {"lastDirtyTimestamp": "1000"},
            {"lastDirtyTimestamp": "x"},
            {"more": 1},
        ):
            made = {**item, "action": action, **more}
            yield batch([{name: value for name, value in made.items() if value is not None or name == "action"}])
            yield register(app, info)
    for body in (
        b"",
        b"{}",
        b"null",
        b"[]",
        b'{"replicationList":null}',
        b'{"replicationList":{}}',
        b'{"replicationList":[null]}',
        b'{"replicationList":[{}]}',
        b'{"replicationList":[5]}',
        b'{"replicationList":[],"more":1}',
        b"{",
        b'{"replicationList":[]',
    ):
        yield batch([], body=body)
    for headers in (
        (),
        (("Content-Type", XML),),
        (JSON_BODY,),
        (JSON_BODY, ("Accept", XML)),
        (JSON_BODY, ("Accept", "text/html")),
    ):
        yield batch([{**item, "action": "Heartbeat"}], headers)


def overrides(owner):
    """An owner's status under every override, and what may follow on it."""
    app = "ZZTAG-OVER"
    follow_ups = [("status", value) for value in STATUSES] + [("clear", value) for value in ("", *STATUSES[:4])]
    follow_ups += [(what, value) for what in ("register", "both") for value in STATUSES]
    for number, (override, (what, value)) in enumerate(itertools.product(("", *STATUSES[:4]), follow_ups)):
        one = f"zztag-{number}"
        place = path_of(app, one, "/status")
        yield register(app, clients.minimal(app, one, status=owner))
        if override:
            yield Step("status", "PUT", f"{place}?value={override}", (), b"", app, one)
        yield Step("beat", "PUT", path_of(app, one), (), b"", app, one)
        if what in ("register", "both"):
            yield register(app, clients.minimal(app, one, status=value, lastDirtyTimestamp="1001"))
        if what in ("status", "both"):
            yield Step("status", "PUT", f"{place}?value={value}", (), b"", app, one)
        if what == "clear":
            yield Step(what, "DELETE", place + (f"?value={value}" if value else ""), (), None, app, one)
        yield Step("beat", "PUT", path_of(app, one), (), b"", app, one)
        yield cancel(app, one)
    yield Step("read", "GET", "/eureka/apps/delta", FORMS[0])


def peers():
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
    # Late copies of what the owner said again since, and one that is as new.
    yield copy("zztag-r", ())
    yield copy("zztag-r", (), lastDirtyTimestamp="2000")
    for stamp in ("999", "1500", "2000"):
        yield copy("zztag-r", (PEER,), lastDirtyTimestamp=stamp, status="DOWN", vipAddress=f"zztag-{stamp}")
    yield copy("zztag-c", ())
    older = {"appName": app, "id": "zztag-c", "lastDirtyTimestamp": 999, "status": "UP"}
    yield batch(
        [
            {**older, "action": "Heartbeat"},
            {**older, "action": "StatusUpdate", "status": "DOWN"},
            {**older, "action": "Cancel"},
        ]
    )
    for number, stamp in enumerate((999, 1000, 1001)):
        one = f"zztag-u{number}"
        yield copy(one, (), status="UNKNOWN")
        yield Step("beat", "PUT", path_of(app, one, f"?lastDirtyTimestamp={stamp}"), (PEER,), b"", app, one)
        yield copy(one, (), status="UNKNOWN")
        yield batch([{"appName": app, "id": one, "action": "Heartbeat", "lastDirtyTimestamp": stamp, "status": "UP"}])
