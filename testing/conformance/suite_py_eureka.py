"""py-eureka-client 0.13.3 beside clients of the native interface."""

import json
import os
import sys

import life
from harness import HERE, Server, check, gone, require, seen, suite, until
from wire import Wire

APP = "PY-APP"
#: Cycles of heartbeat and fetch within which a change has to be there.
SOON = 2
#: Cycles with churn in which no full fetch may be needed.
STEADY = 30
LEASE = 3
FULL, DELTA = "GET /eureka/apps", "GET /eureka/apps/delta"


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("py", server.address)

    def begin(url, app="py-app", **options):
        script = os.path.join(HERE, "py_client.py")
        made = start(f"{app}.py", sys.executable, script, url, app, "9101", str(LEASE), json.dumps(options))
        made.wait_for("started")
        return made

    with check("a registration is on REST and on the watches"):
        client = begin(wire.url)
        seen(watchers, APP, status="UP")
        require(server.instance(APP)["status"] == "UP", server.instance(APP))
    own = server.instance(APP)["instanceId"]

    def report():
        return client.ask("report")

    def within(holds, what):
        """A state of the client that it reaches within its next cycles."""
        begun = report()["cycles"]
        # The cycle under way may have fetched already.
        found = until(lambda: holds(report()), what)
        cycles = report()["cycles"] - begun
        require(cycles <= SOON + 1, f"{what} after {cycles} cycles")
        return found

    def mates(state):
        return {name: held["metadata"].get("round") for name, held in state["apps"].get("MATES", {}).items()}

    with check("a heartbeat renews what REST and gRPC see"):
        before = native.ask("renewed", app=APP, id=own)
        until(lambda: native.ask("renewed", app=APP, id=own) > before, "a renewal on gRPC")
        since = server.instance(APP)["leaseInfo"]["lastRenewalTimestamp"]
        require(since >= before, (since, before))
        until(lambda: other.ask("renewed", app=APP, id=own) > since, "the next renewal")

    with check("the client finds itself"):
        until(lambda: APP in report()["apps"], "its own application")

    with check("what is registered over gRPC is there by the next delta"):
        native.ask("register", app="MATES", id="one", metadata={"round": "0"})
        other.ask("register", app="MATES", id="two", port=8081, metadata={"round": "0"})
        within(lambda state: mates(state) == {"one": "0", "two": "0"}, "both instances")

    with check("a change of metadata alone, under an equal hash, is there within two intervals"):
        other.ask("metadata", app="MATES", id="two", set={"round": "1"})
        within(lambda state: mates(state) == {"one": "0", "two": "1"}, "the new metadata")

    with check("one instance in place of another leaves the client with the server's set"):
        native.ask("register", app="MATES", id="three", port=8082, metadata={"round": "0"})
        native.ask("cancel", app="MATES", id="one")
        within(lambda state: sorted(mates(state)) == ["three", "two"], "the other instance")
        sets = {app: sorted(held) for app, held in report()["apps"].items()}
        require(sets == server.instances(), (sets, server.instances()))

    with check(f"{STEADY} cycles of churn need no full fetch"):
        steady = report()
        wire.take()
        for number in range(STEADY):
            turn = str(number)
            writer = watchers[number % 2]
            cycle = report()["cycles"]
            writer.ask("metadata", app="MATES", id="two", set={"round": turn})
            writer.ask("register", app="MATES", id=f"more-{number}", port=8100 + number, metadata={"round": turn})
            if number:
                writer.ask("cancel", app="MATES", id=f"more-{number - 1}")
            until(lambda c=cycle: report()["cycles"] > c, "the next cycle")
        last = f"more-{STEADY - 1}"
        within(lambda state: mates(state) == {"two": turn, "three": "0", last: turn}, "the last state")
        now, requests = report(), wire.take()[1]
        require(FULL not in requests and requests[DELTA] >= STEADY, requests)
        require(now["checks"] > steady["checks"], "no delta was compared")
        require(now["mismatches"] == steady["mismatches"], now)
        require(now["warnings"] == 0, now["last_warnings"])

    with check("a status override goes on and off"):
        client.ask("override", status="OUT_OF_SERVICE")
        seen(watchers, APP, status="OUT_OF_SERVICE")
        require(server.instance(APP)["status"] == "OUT_OF_SERVICE", server.instance(APP))
        within(lambda state: state["apps"][APP][own]["status"] == "OUT_OF_SERVICE", "its own status")
        client.ask("clear")
        seen(watchers, APP, status="UP")
        within(lambda state: state["apps"][APP][own]["status"] == "UP", "its own status")

    with check("after a restart that lost everything the client registers once"):
        wire.take()
        server.restart()
        life.settles(wire, APP, 1)
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        until(lambda: server.instances() == {APP: [own]}, "the client alone")
        within(lambda state: {app: list(held) for app, held in state["apps"].items()} == {APP: [own]}, "itself alone")

    with check("a renewal after that reaches the new registration"):
        before = native.ask("renewed", app=APP, id=own)
        until(lambda: native.ask("renewed", app=APP, id=own) > before, "a renewal on gRPC")

    life.outlives_its_lease(client, server, watchers, APP, wire)

    with check("a client that only looks sees all and registers nothing"):
        reader = begin(wire.url, "py-reader", should_register=False)
        until(lambda: {app: list(held) for app, held in reader.ask("report")["apps"].items()} == {APP: [own]}, "the other")
        native.ask("register", app="LATER", id="one")
        until(lambda: "LATER" in reader.ask("report")["apps"], "what came later")
        native.ask("cancel", app="LATER", id="one")
        require(server.instances() == {APP: [own]}, server.instances())
        reader.end()

    with check("a client that only registers asks for no list"):
        silent = begin(wire.url, "py-silent", should_discover=False)
        seen(watchers, "PY-SILENT", status="UP")
        client.end()
        gone(watchers, APP, "CANCELLED")
        wire.take()
        until(lambda: life.sent(wire, "PUT", "PY-SILENT") > 1, "further heartbeats")
        requests = wire.take()[1]
        require(not any(path.startswith("GET") for path in requests), requests)
        silent.end()
        gone(watchers, "PY-SILENT", "CANCELLED")
        require(server.instances() == {}, server.instances())

    # One that fetches stands still for ever where its server answers again between its heartbeat and its fetch.
    life.is_asked_who_it_is(lambda url: begin(url, should_discover=False), APP).kill()

    with check("it reads with a name and a password, in its url or as arguments"):
        asking = Server(HEUREKA_AUTH__USERS=life.USER)
        name, password = asking.known
        argued = begin(asking.base, eureka_basic_auth_user=name, eureka_basic_auth_password=password)
        reader = begin(asking.base.replace("//", f"//{life.USER}@"), "py-reader", should_register=False)
        for one in (argued, reader):
            until(lambda: list(one.ask("report")["apps"]) == [APP], "the one that is registered")
        argued.end()
        require(asking.instances() == {}, asking.instances())
        asking.stop()


suite("py-eureka-client 0.13.3", main, lambda: Server(**life.UNPROTECTED))
