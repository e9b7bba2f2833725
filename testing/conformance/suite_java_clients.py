"""Clients of Netflix and Spring beside clients of the native interface.

`suite_java_clients.py PATH-OF-heureka BUILD-FOLDER NAME JAR TRANSPORT SETTING...`. TRANSPORT is the class that makes the
calls. A counting wire between client and server says what was asked.
"""

import sys
import time
import urllib.request

import life
from harness import Failed, Server, check, gone, require, seen, suite, until
from wire import Wire

if len(sys.argv) < 6:
    raise Failed("usage: suite_java_clients.py BINARY WORK NAME JAR TRANSPORT SETTING...")
NAME, JAR, TRANSPORT, *SETTINGS = sys.argv[3:]
APP, OTHER = "JAVA-APP", "COMPACT-APP"
ID = f"host:{APP}:80"
#: Fetches with churn between them in which no full one may be needed.
CYCLES = 30
#: What each method of the transport has to tell, in the order in which they are called.
CALLS = [
    "unknown: 404",
    "register: 204",
    "beat: 200",
    "overridden beat: 200",
    "application: 200 has it",
    "delta: 200 has it",
    "vip: 200 has it",
    "svip: 200 has it",
    "no vip: 200 has it not",
    "app: 200 1",
    "instance: 200 {} UP c$d",
    "by id: 200 {} UP c$d",
    "out: 200",
    "is out: 200 {} OUT_OF_SERVICE c$d",
    "back: 200",
    "is back: 200 {} UP c$d",
    "beat again: 200",
    "cancel: 200",
    "cancel again: 404",
    "no app: 404",
]
FULL, DELTA = "GET /eureka/apps", "GET /eureka/apps/delta"
POST, BEAT = f"POST /eureka/apps/{APP}", f"PUT /eureka/apps/{APP}/"


def main(server, watchers, start):
    native, other = watchers
    wire = Wire(NAME, server.address)
    java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-jar", JAR, wire.url]

    with check("a registration is on REST and on the watches"):
        client = start(NAME, *java, APP, "full", *SETTINGS)
        require(client.wait_for("started")["over"] == TRANSPORT, client.said)
        seen(watchers, APP, status="UP")
        require(server.instance(APP)["status"] == "UP", server.instance(APP))
        require(server.instances() == {APP: [ID]}, server.instances())

    def held(which=client):
        return which.ask("held")

    def asked(seconds=0):
        """Requests since the last time."""
        time.sleep(seconds)
        return wire.take()[1]

    with check("a heartbeat renews what REST and gRPC see"):
        before = native.ask("renewed", app=APP, id=ID)
        until(lambda: native.ask("renewed", app=APP, id=ID) > before, "a renewal on gRPC")
        since = server.instance(APP)["leaseInfo"]["lastRenewalTimestamp"]
        require(since >= before, (since, before))

    with check("the client finds itself"):
        until(lambda: held() == {f"{APP}/{ID}": "UP"}, "itself")

    with check("what is registered over gRPC is there by the next delta"):
        native.ask("register", app="MATES", id="one", metadata={"key": "0"})
        other.ask("register", app="MATES", id="two", port=8081, metadata={"key": "0"})
        until(lambda: held().get("MATES/one") == held().get("MATES/two") == "UP 0", "both instances")

    with check("a change of metadata alone, under an equal hash, is there"):
        other.ask("metadata", app="MATES", id="two", set={"key": "1"})
        until(lambda: held().get("MATES/two") == "UP 1", "the new metadata")

    with check("one instance in place of another leaves the client with the server's set"):
        native.ask("register", app="MATES", id="three", port=8082, metadata={"key": "0"})
        native.ask("cancel", app="MATES", id="one")
        until(lambda: sorted(held()) == [f"{APP}/{ID}", "MATES/three", "MATES/two"], "the server's set")

    with check(f"{CYCLES} fetches with churn between them need no full one"):
        asked()
        deltas, connections = 0, wire.protocols.total()
        for number in range(CYCLES):
            writer = watchers[number % 2]
            writer.ask("metadata", app="MATES", id="two", set={"key": str(number)})
            writer.ask(
                "register", app=f"MORE-{number % 5}", id=f"more-{number}", port=8100 + number, metadata={"key": "m"}
            )
            if number > 2:
                writer.ask("cancel", app=f"MORE-{(number - 3) % 5}", id=f"more-{number - 3}")
            counts = until(lambda: wire.requests.get(DELTA, 0) > deltas and dict(wire.requests), "the next delta")
            deltas = counts[DELTA]
            require(counts.get(FULL, 0) == 0, counts)
        until(lambda: held().get("MATES/two") == f"UP {CYCLES - 1}", "the last metadata")
        require(asked().get(FULL, 0) == 0, "a full fetch")
        connections = wire.protocols.total() - connections
        require(connections <= 3, f"{connections} connections")
        ids = sorted(key.split("/", 1)[1] for key in held())
        require(ids == sorted(sum(server.instances().values(), [])), (ids, server.instances()))

    with check("an operator's status goes on and off"):
        native.ask("override", app=APP, id=ID, status="OUT_OF_SERVICE")
        until(lambda: held().get(f"{APP}/{ID}") == "OUT_OF_SERVICE", "out of service")
        require(server.instance(APP)["overriddenStatus"] == "OUT_OF_SERVICE", server.instance(APP))
        other.ask("clear", app=APP, id=ID)
        until(lambda: held().get(f"{APP}/{ID}") == "UP", "in service")

    with check("the client's own changes are seen by all"):
        client.ask("status", value="DOWN")
        seen(watchers, APP, status="DOWN")
        client.ask("status", value="UP")
        seen(watchers, APP, status="UP")
        client.ask("metadata", value="mine")
        until(lambda: server.instance(APP)["metadata"].get("key") == "mine", "its metadata")

    def registers_once():
        """One registration, or two where both of the client's threads find out at the same time, and then none."""
        until(lambda: server.instance(APP), "itself again")
        counts = asked(2)
        require(counts.get(POST, 0) in (1, 2), counts)
        counts = asked(3)
        require(POST not in counts and any(path.startswith(BEAT) for path in counts), counts)

    with check("after a restart that lost everything it registers again"):
        asked()
        server.restart()
        registers_once()
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        until(lambda: held() == {f"{APP}/{ID}": "UP mine"}, "itself alone")

    with check("after somebody else's cancel it registers again"):
        asked()
        request = urllib.request.Request(f"{server.base}apps/{APP}/{ID}", method="DELETE")
        require(urllib.request.urlopen(request).status == 200, "a cancel")
        registers_once()

    with check("a client that asks for the compact shape finds everybody"):
        compact = start(f"{NAME} compact", *java, OTHER, "compact", *SETTINGS)
        compact.wait_for("started")
        until(lambda: sorted(held(compact)) == [f"{OTHER}/host:{OTHER}:80", f"{APP}/{ID}"], "both")

    with check("every method of its transport is answered as it expects"):
        # One of them asks for what stands before a # where it reads.
        one = "host a:1" if NAME == "Spring 4.3.0 over RestClient" else "host a#b:1"
        if NAME in ("Spring 5.0.3 over RestClient", "Spring 5.0.3 over WebClient"):
            one = "host a/b#c:1"
        told = client.ask("calls", id=one)
        expected = [call.format(one) for call in CALLS]
        if TRANSPORT.startswith("MetricsCollecting"):
            # Netflix's decorator asks for the plain address where the secure one is wanted.
            expected[CALLS.index("svip: 200 has it")] = "svip: 200 has it not"
        wrong = [pair for pair in zip(told, expected) if pair[0] != pair[1]]
        require(not wrong and len(told) == len(expected), wrong or told)

    with check("its log has no complaint"):
        words = ("was unable", "Unrecognized", "reconcile", "Cannot execute request", "exception")
        # Apache's client tells of a connection that broke with the server, and goes on with another.
        told = [line for line in client.printed if "I/O exception" not in line]
        lines = [line for line in told if any(word in line for word in words)]
        require(not lines, lines[:3])

    life.outlives_its_lease(client, server, watchers, APP, wire, most=2)

    def asked_who(url):
        # Told what it has to be told, it says so at length.
        silent = [*java[:3], "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-jar", JAR, url, APP, "full", *SETTINGS]
        made = start(f"{NAME} asked", *silent, *["--logging.level.com.netflix=OFF"][:len(SETTINGS)])
        made.wait_for("started")
        return made

    life.is_asked_who_it_is(asked_who, APP, lambda one: held(one) == {f"{APP}/{ID}": "UP"}).kill()

    with check("stop cancels"):
        compact.end()
        gone(watchers, OTHER, "CANCELLED")
        client.end()
        gone(watchers, APP, "CANCELLED")
        require(server.instances() == {}, server.instances())


suite(NAME, main, lambda: Server(**life.UNPROTECTED))
