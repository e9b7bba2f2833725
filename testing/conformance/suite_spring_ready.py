"""spring-ready-python 1.1.2 beside clients of the native interface."""

import os
import sys

import life
from harness import HERE, Server, check, gone, require, seen, suite, until
from wire import Wire

APP = "READY-APP"
ID = "ready-app:127.0.0.1:9501"
#: Looks with a change before each.
STEADY = 30


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("spring-ready", server.address)

    def begin(url):
        script = os.path.join(HERE, "spring_ready_client.py")
        made = start("spring_ready.py", sys.executable, "-W", "ignore", script, url, "ready-app")
        made.wait_for("started")
        return made

    with check("a registration is on REST and on the watches"):
        client = begin(wire.url)
        seen(watchers, APP, status="UP")
        found = server.instance(APP)
        require((found["instanceId"], found["metadata"]) == (ID, {"a_b": "c&d <e>"}), found)

    def looks(app="mates", every=False):
        return client.ask("found", app=app, every=every)

    life.renews(watchers, APP, ID, wire)

    with check("what is registered over gRPC is found, and what is not there is not"):
        native.ask("register", app="MATES", id="one", metadata={"round": "0"})
        other.ask("register", app="MATES", id="two", port=8081, status="DOWN", metadata={"round": "0"})
        require(looks() == {"one": ["UP", "http://127.0.0.1:8080", "0"]}, looks())
        require(looks(every=True)["two"] == ["DOWN", "http://127.0.0.1:8081", "0"], looks(every=True))
        require(client.ask("url", app="mates") == "http://127.0.0.1:8080", client.ask("url", app="mates"))
        require(looks("nobody") == {}, looks("nobody"))
        require(sorted(client.ask("apps")) == ["MATES", APP], client.ask("apps"))

    with check(f"{STEADY} changes of metadata alone are each seen by the next look"):
        for number in range(STEADY):
            watchers[number % 2].ask("metadata", app="MATES", id="one", set={"round": str(number)})
            require(looks()["one"][2] == str(number), looks())

    with check("a status set over gRPC takes it out and back"):
        native.ask("override", app="MATES", id="one", status="OUT_OF_SERVICE")
        require(looks() == {} and looks(every=True)["one"][0] == "OUT_OF_SERVICE", looks(every=True))
        other.ask("clear", app="MATES", id="one")
        require(list(looks()) == ["one"], looks())

    with check("its own status goes out and comes back, whatever its heartbeats say"):
        client.ask("status", value="OUT_OF_SERVICE")
        seen(watchers, APP, status="OUT_OF_SERVICE")
        wire.take()
        until(lambda: life.sent(wire, "PUT", APP) > 1, "two heartbeats")
        require(server.instance(APP)["status"] == "OUT_OF_SERVICE", server.instance(APP))
        client.ask("status", value="UP")
        seen(watchers, APP, status="UP")

    with check("after a restart that lost everything it registers once"):
        wire.take()
        server.restart()
        life.settles(wire, APP, 1)
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        require(client.ask("apps") == [APP], client.ask("apps"))

    life.outlives_its_lease(client, server, watchers, APP, wire)

    life.is_asked_who_it_is(begin, APP, lambda one: one.ask("apps") == [APP]).kill()

    with check("stop cancels"):
        client.end()
        gone(watchers, APP, "CANCELLED")
        require(server.instances() == {}, server.instances())


suite("spring-ready-python 1.1.2", main, lambda: Server(**life.UNPROTECTED))
