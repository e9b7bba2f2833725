"""hudl/fargo, the client of Go that others are built on, beside clients of the native interface.

`suite_fargo.py PATH-OF-heureka BUILD-FOLDER json|xml`.
"""

import os
import sys

import life
from harness import WORK, Failed, Server, check, gone, require, seen, suite, until
from wire import Wire

FORMAT = sys.argv[3] if len(sys.argv) == 4 else ""
APP = f"FARGO-{FORMAT.upper()}"
ID = f"fargo:{APP}:1"
#: Changes, each of which it has to see before the next.
STEADY = 30
#: In XML fargo shows keys as the wire has them, where `_` is written twice.
KEY = "a_b" if FORMAT == "json" else "a__b"
OWN = {
    "id": ID, "app": APP, "host": "127.0.0.1", "address": "127.0.0.1", "status": "UP", "overridden": "UNKNOWN",
    "port": 9201, "enabled": True, "secured": False, "vip": "fargo-vip", "svip": "fargo-svip",
    "home": "http://127.0.0.1:9201/?a=1&b=2", "country": 0, "center": "MyOwn", "renewal": 1, "duration": 4,
}


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("fargo", server.address)

    def begin(url):
        made = start(f"fargo-{FORMAT}", os.path.join(WORK, "fargo", "fargo"), url, APP, FORMAT)
        made.wait_for("started")
        return made

    with check("it looks for itself, registers and reads itself back, equal in every field"):
        client = begin(wire.url)
        seen(watchers, APP, status="UP")
        own = f"GET /eureka/apps/{APP}/{ID}"
        requests = wire.take()[1]
        require(requests.get(own) == 2 and requests.get(f"POST /eureka/apps/{APP}") == 1, requests)
        for found in (client.ask("self"), client.ask("instance", app=APP, id=ID)):
            metadata = found.pop("metadata")
            require({name: found.get(name) for name in OWN} == OWN, found)
            require(metadata == {KEY: "c&d <e>", "team.name": "bars"}, metadata)
        stored = server.instance(APP)["metadata"]
        require(stored == {"a_b": "c&d <e>", "team.name": "bars"}, stored)

    life.renews(watchers, APP, ID, wire, registrations=0)

    with check("it finds what is there, by list, application, address and id, and nothing else"):
        native.ask("register", app="MATES", id="one", metadata={"round": "a"})
        other.ask("register", app="MATES", id="two", port=8081, metadata={"round": "a"})
        until(lambda: client.ask("mates") == {"one": "a", "two": "a"}, "both instances")
        require(client.ask("held") == {f"{APP}/{ID}": "UP", "MATES/one": "UP", "MATES/two": "UP"}, client.ask("held"))
        for vip, ids in [("fargo-vip", [ID]), ("fargo-svip", [ID]), ("mates", ["one", "two"]), ("nobody", [])]:
            require(sorted(client.ask("vip", vip=vip)) == ids, (vip, client.ask("vip", vip=vip)))
        require(client.ask("instance", app=APP, id="nobody") is None, "an instance")
        require(client.ask("instance", app="NOBODY", id="nobody") is None, "an instance")

    with check(f"{STEADY} changes of metadata alone are each seen"):
        for number in range(STEADY):
            turn = f"turn-{number}"
            watchers[number % 2].ask("metadata", app="MATES", id="two", set={"round": turn})
            until(lambda t=turn: client.ask("mates") == {"one": "a", "two": t}, "the new metadata")

    with check("an instance that is not up is kept from those who ask for one that is"):
        native.ask("override", app="MATES", id="two", status="OUT_OF_SERVICE")
        require(client.ask("vip", vip="mates") == ["one"], client.ask("vip", vip="mates"))
        other.ask("clear", app="MATES", id="two")
        require(sorted(client.ask("vip", vip="mates")) == ["one", "two"], client.ask("vip", vip="mates"))

    with check("its own status goes out and comes back"):
        client.ask("status", value="OUT_OF_SERVICE")
        seen(watchers, APP, status="OUT_OF_SERVICE")
        found = client.ask("instance", app=APP, id=ID)
        require((found["status"], found["overridden"]) == ("OUT_OF_SERVICE",) * 2, found)
        client.ask("status", value="UP")
        seen(watchers, APP, status="UP")

    with check("metadata that it adds is seen by all"):
        client.ask("metadata", key="late.key", value="v+1&2 %")
        until(lambda: server.instance(APP)["metadata"].get("late.key") == "v+1&2 %", "its metadata")
        until(lambda: client.ask("instance", app=APP, id=ID)["metadata"].get("late.key") == "v+1&2 %", "its own")

    with check("after a restart that lost everything it registers once"):
        wire.take()
        server.restart()
        life.settles(wire, APP, 1)
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        until(lambda: client.ask("mates") == {}, "no mates")
        require(client.ask("held") == {f"{APP}/{ID}": "UP"}, client.ask("held"))

    life.outlives_its_lease(client, server, watchers, APP, wire)

    life.is_asked_who_it_is(begin, APP, lambda one: one.ask("held") == {f"{APP}/{ID}": "UP"}).kill()

    with check("stop cancels"):
        client.end()
        gone(watchers, APP, "CANCELLED")
        require(server.instances() == {}, server.instances())


if FORMAT not in ("json", "xml"):
    raise Failed("usage: suite_fargo.py BINARY WORK json|xml")
suite(f"fargo 1.4.0 in {FORMAT}", main, lambda: Server(**life.UNPROTECTED))
