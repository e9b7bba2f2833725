"""A JavaScript client beside clients of the native interface. The package's name and version are the arguments."""

import json
import os
import sys

import life
from harness import HERE, Failed, Server, check, gone, require, seen, suite, until
from wire import Wire

PACKAGE, VERSION = sys.argv[3:5]
APP = "JS-APP"
#: Fetches within which a change has to be there.
SOON = 2
#: Fetches of a delta reader in which no full one may be needed.
STEADY = 30
FULL, DELTA = "GET /eureka/apps", "GET /eureka/apps/delta"
CLASS = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"


def instance(app, number, **more):
    return {
        "app": app,
        "instanceId": f"js:{app}:{number}",
        "hostName": "localhost",
        "ipAddr": "127.0.0.1",
        "port": {"$": number, "@enabled": True},
        "vipAddress": app,
        "leaseInfo": {"renewalIntervalInSecs": 1, "durationInSecs": 3},
        "dataCenterInfo": {"@class": CLASS, "name": "MyOwn"},
        **more,
    }


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("js", server.address)

    def client(through=wire, **options):
        host, port = through.address.rsplit(":", 1)
        script = os.path.join(HERE, "js_client.js")
        return start(PACKAGE, "node", script, PACKAGE, host, port, json.dumps(options))

    def report():
        return observer.ask("report")

    def fetches():
        return report()["counts"]["GET"]

    def within(holds, what):
        """A state of the observer that it reaches within its next fetches."""
        begun = fetches()
        found = until(lambda: holds(report()["apps"]), what)
        # The fetch under way may have been answered already.
        require(fetches() - begun <= SOON + 1, f"{what} after {fetches() - begun} fetches")
        return found

    with check("delta mode with an empty delta complains about nothing"):
        quiet = client(delta=True, register=False, instance=instance("none", 1))
        quiet.wait_for("event", event="started")
        until(lambda: quiet.ask("report")["counts"]["GET"] > 4, "several fetches")
        require(quiet.ask("report")["complaints"] == [], quiet.ask("report"))

    with check("registered, registryUpdated and started come in that order"):
        main_client = client(instance=instance("js-app", 9102))
        main_client.wait_for("event", event="started")
        order = [said["event"] for said in main_client.said if said.get("event") != "heartbeat"]
        require(order[:3] == ["registered", "registryUpdated", "started"], order)

    with check("a registration is on REST and on the watches"):
        seen(watchers, APP, status="UP")
        own = server.instance(APP)["instanceId"]

    with check("each heartbeat renews what REST and gRPC see"):
        for _ in range(3):
            beats = main_client.ask("report")["counts"]["heartbeat"]
            before = native.ask("renewed", app=APP, id=own)
            until(lambda b=before: other.ask("renewed", app=APP, id=own) > b, "a renewal on gRPC")
            until(lambda b=beats: main_client.ask("report")["counts"]["heartbeat"] > b, "a heartbeat")
        counts = main_client.ask("report")["counts"]
        require(counts["PUT"] - counts["heartbeat"] <= 1, counts)

    observer = client(register=False, instance=instance("none", 1))
    observer.wait_for("event", event="started")

    with check("what is registered over gRPC is there by the next fetch"):
        native.ask("register", app="MATES", id="one", port=8080, metadata={"round": "0"})
        other.ask("register", app="MATES", id="two", port=8081, metadata={"round": "0"})
        within(lambda apps: sorted(i["id"] for i in apps.get("MATES", [])) == ["one", "two"], "both instances")

    with check("a change of metadata is there within two fetches"):
        other.ask("metadata", app="MATES", id="one", set={"round": "1"})
        within(lambda apps: any(i["metadata"].get("round") == "1" for i in apps["MATES"]), "the new metadata")

    with check("a status set over gRPC takes it out and back"):
        native.ask("override", app="MATES", id="two", status="OUT_OF_SERVICE")
        within(lambda apps: [i["id"] for i in apps["MATES"]] == ["one"], "one instance")
        other.ask("clear", app="MATES", id="two")
        within(lambda apps: len(apps["MATES"]) == 2, "both instances")

    with check("after a restart that lost everything one new registration is sent"):
        before = main_client.ask("report")["counts"]
        server.restart()
        seen(watchers, APP, status="UP")
        gone(watchers, "MATES")
        beats = main_client.ask("report")["counts"]["heartbeat"]
        until(lambda: main_client.ask("report")["counts"]["heartbeat"] > beats + 2, "heartbeats go on")
        now = main_client.ask("report")["counts"]
        sent = now["POST"] - before["POST"], now["registered"] - before["registered"]
        require(sent == (1, 1), sent)

    life.outlives_its_lease(main_client, server, watchers, APP, wire)

    with check("a delta reader follows one instance"):
        apart = Wire("js delta", server.address)
        delta = client(apart, delta=True, register=False, instance=instance("none", 1))
        delta.wait_for("event", event="started")

        def metadata():
            return [i["metadata"].get("round") for i in delta.ask("report")["apps"].get("SINGLE", [])]

        native.ask("register", app="SINGLE", id="only", port=8083, metadata={"round": "0"})
        until(lambda: metadata() == ["0"], "the instance")
        native.ask("metadata", app="SINGLE", id="only", set={"round": "1"})
        until(lambda: metadata() == ["1"], "the new metadata")

    with check(f"{STEADY} of its fetches with a change between each two need no full one"):
        apart.take()
        for number in range(STEADY):
            turn = str(number + 2)
            (native, other)[number % 2].ask("metadata", app="SINGLE", id="only", set={"round": turn})
            until(lambda t=turn: metadata() == [t], "the new metadata")
        requests = apart.take()[1]
        require(FULL not in requests and requests[DELTA] >= STEADY, requests)

    with check("it sees one go, and complains about nothing"):
        other.ask("cancel", app="SINGLE", id="only")
        until(lambda: metadata() == [], "nothing")
        complaints = delta.ask("report")["complaints"]
        require(complaints == [], complaints)

    with check("a bare port and no @class register"):
        bare = instance("bare", 9103, port=9103, dataCenterInfo={"name": "MyOwn"})
        del bare["instanceId"], bare["leaseInfo"]
        other_client = client(instance=bare)
        other_client.wait_for("event", event="started")
        seen(watchers, "BARE", status="UP")
        found = server.instance("BARE")
        require((found["instanceId"], found["port"]["$"]) == ("localhost", 9103), found)
        other_client.end()
        gone(watchers, "BARE", "CANCELLED")

    with check("a killed client is gone with its lease"):
        killed = client(instance=instance("killed", 9104))
        killed.wait_for("event", event="started")
        seen(watchers, "KILLED", status="UP")
        killed.kill()
        gone(watchers, "KILLED", "EXPIRED")

    def asked(url):
        services = {"serviceUrls": {"default": [url + "apps/"]}}
        return client(instance=instance("js-app", 9105), eureka=services)

    guarded = life.is_asked_who_it_is(asked, APP, lambda one: APP in one.ask("report")["apps"])
    guarded.kill()

    with check("with a wrong password its start fails and says so"):
        asking = Server(HEUREKA_AUTH__USERS=life.OTHER)
        refused = asked(f"http://{life.USER}@{asking.address}/eureka/")
        require("401" in refused.wait_for("failed")["failed"], refused.said)
        require(asking.instances() == {}, asking.instances())
        asking.stop()

    with check("stop tells deregistered and cancels"):
        until(lambda: APP in report()["apps"], "the client, seen by the observer")
        main_client.end()
        main_client.wait_for("event", event="deregistered")
        gone(watchers, APP, "CANCELLED")

    with check("with the last instance gone the client is empty"):
        require(server.instances() == {}, server.instances())
        within(lambda apps: apps == {}, "nothing")
        require(observer.ask("instances", app=APP) == [], observer.ask("instances", app=APP))

    for reader in (observer, delta, quiet):
        reader.end()


if not (PACKAGE and VERSION):
    raise Failed("usage: suite_js_eureka.py BINARY WORK PACKAGE VERSION")
suite(f"{PACKAGE} {VERSION}", main, lambda: Server(**life.UNPROTECTED))
