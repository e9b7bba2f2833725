"""Armeria 1.33 beside clients of the native interface. It has full lists only, and no call for a status.

`suite_armeria.py PATH-OF-heureka BUILD-FOLDER JAR http|h1c`: with HTTP/2 at once, or with HTTP/1.1.
"""

import sys

import life
from harness import Failed, Server, check, gone, require, seen, suite, until
from wire import Wire

if len(sys.argv) != 5:
    raise Failed("usage: suite_armeria.py BINARY WORK JAR http|h1c")
JAR, SCHEME = sys.argv[3:]
PROTOCOL = {"http": "HTTP/2", "h1c": "HTTP/1"}[SCHEME]
APP = "ARMERIA-APP"
ID = f"host:{APP}:80"
SELF = {f"{APP}/{ID}": "UP own 127.0.0.1:9601"}
#: Changes, each of which it has to see before the next.
STEADY = 30


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("armeria", server.address)

    def begin(url):
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dcom.linecorp.armeria.transportType=nio"]
        made = start(f"Armeria over {PROTOCOL}", *java, "-jar", JAR, url.replace("http:", f"{SCHEME}:"), APP)
        made.wait_for("started")
        return made

    with check("a registration is on REST and on the watches"):
        client = begin(wire.url)
        seen(watchers, APP, status="UP")
        one = server.instance(APP)
        told = one["instanceId"], one["port"], one["vipAddress"], one["metadata"]
        port = {"$": 9601, "@enabled": "true"}
        require(told == (ID, port, "armeria-vip", {"key": "own", "a_b": "c&d <e>"}), told)

    with check(f"all goes over {PROTOCOL}"):
        until(lambda: client.ask("held") == SELF, "itself")
        require(list(wire.protocols) == [PROTOCOL], wire.protocols)

    life.renews(watchers, APP, ID, wire)

    def mates():
        return {key: told for key, told in client.ask("held").items() if key.startswith("MATES/")}

    with check("what is registered over gRPC is there by the next fetches"):
        native.ask("register", app="MATES", id="one", port=9602, metadata={"key": "a"})
        other.ask("register", app="MATES", id="two", port=9603, metadata={"key": "a"})
        both = {"MATES/one": "UP a one:9602", "MATES/two": "UP a two:9603"}
        until(lambda: mates() == both, "both instances")

    with check(f"{STEADY} changes of metadata alone are each seen"):
        for number in range(STEADY):
            watchers[number % 2].ask("metadata", app="MATES", id="two", set={"key": str(number)})
            until(lambda n=number: mates()["MATES/two"] == f"UP {n} two:9603", "the new metadata")

    with check("a status set over gRPC takes it out and back"):
        native.ask("override", app="MATES", id="two", status="OUT_OF_SERVICE")
        until(lambda: list(mates()) == ["MATES/one"], "one instance")
        other.ask("clear", app="MATES", id="two")
        until(lambda: len(mates()) == 2, "both instances")

    with check("after a restart that lost everything it registers once"):
        wire.take()
        server.restart()
        life.settles(wire, APP, 1)
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        until(lambda: client.ask("held") == SELF, "itself alone")

    life.outlives_its_lease(client, server, watchers, APP, wire)

    life.is_asked_who_it_is(begin, APP, lambda one: one.ask("held") == SELF).kill()

    with check("stop cancels"):
        client.end()
        gone(watchers, APP, "CANCELLED")
        require(server.instances() == {}, server.instances())
        require(list(wire.protocols) == [PROTOCOL], wire.protocols)


suite(f"Armeria 1.33.1 over {PROTOCOL}", main, lambda: Server(**life.UNPROTECTED))
