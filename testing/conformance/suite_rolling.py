"""Two servers, restarted one after the other while real clients of every kind know both. Nobody may notice.

Every client fails over by its own means, the addresses in one order or the other:

* py-eureka-client takes several urls between commas, keeps to one, and goes through the list when that fails.
* eureka-js-client takes `serviceUrls`; a request that failed, or was answered by 5xx, goes to the next one after a
  wait. Its requests turn one list, so that two of them may turn it away from the server that answers, and its three
  retries may not reach it: `maxRetries` and `requestRetryDelay` are set for that.
* Spring's client takes urls between commas as well, and asks the next one within the same call. Its lease is 4 s.
* Clients made from the protos take all addresses in the name of the channel (`ipv4:…,…`), and so do the programs of
  docs/examples. The owners among these keep leases of 90 s, as they come.
"""

import http.client
import json
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request

from examples import Example, Owner
from harness import HERE, WORK, Cluster, check, require, rest, seen, suite, until

ROUNDS = 2
#: Of the clients whose lease can be chosen; they renew every 1 s to 2 s.
LEASE = 6
#: How long a server stays away: who does not find the other one in this time has lost its lease.
AWAY = LEASE + 2
#: A lapse shows at once, and a first start does not wait long for a cluster that is not there.
SETTINGS = {"HEUREKA_PRESERVATION__MODE": "off", "HEUREKA_STARTUP__PEER_WAIT": "2s"}
#: Pause between two looks at the servers.
GLANCE = 0.2
PACKAGES = ("eureka-js-client", "@rocketsoftware/eureka-js-client")
#: All that a client may say while a server is away: that it asks the next one.
MOVES = re.compile(
    r"Eureka server \[\S+\] is down, use next url to try\."
    r"|Problem making eureka request Error: (connect ECONNREFUSED .*|read ECONNRESET|socket hang up)"
    r"|Eureka request failed to endpoint \S+, next server retry in \d+ms"
    r"|UNAVAILABLE .*"
    # Of an example that watches: its view is the server's.
    r"|PROVED \d+"
    # Of Node, to the authors of the packages.
    r"|\(node:\d+\) .*DeprecationWarning: .*|\(Use `node --trace-deprecation .*"
)
#: What an example that watches prints of a change; Spring's client begins before it is up.
CHANGE = re.compile(r"(ADDED|MODIFIED|REMOVED) (\S+) (?:UP|STARTING)")
COUNTED = re.compile(r'heureka_(?:lease_expired_total|rest_requests_total\{.*code="4xx"\}) (\d+)')


def ask(server, path):
    request = urllib.request.Request(f"http://{server.address}{path}", headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


def ready(server):
    try:
        return ask(server, "/health/ready").startswith("ready")
    except (OSError, http.client.HTTPException):
        return False


def told(server):
    """Keys of what a server tells to be UP; nothing where it is away, or sends readers elsewhere."""
    try:
        apps = json.loads(ask(server, "/eureka/apps"))["applications"]["application"]
    except urllib.error.HTTPError as refusal:
        require(refusal.code == 503, f"{server.address} answers {refusal.code}")
        return None
    except (OSError, http.client.HTTPException):
        return None
    return {f"{app['name']}/{one['instanceId']}" for app in apps for one in app["instance"] if one["status"] == "UP"}


class Lookout:
    """Looks at the answers of all servers, and at the views of the watchers, a few times a second."""

    def __init__(self, servers, watchers):
        self.servers, self.watchers = servers, watchers
        #: What has to be in every answer, and how many of them there were.
        self.living = set()
        self.answers = {server.address: 0 for server in servers}
        self.amiss = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        begun = time.monotonic()
        while not self.over.wait(GLANCE):
            try:
                self._look()
            except Exception as reason:
                self.amiss.append(f"after {time.monotonic() - begun:.1f} s: {type(reason).__name__}: {reason}")

    def _look(self):
        answered = 0
        for server in self.servers:
            before = self.living
            keys = told(server)
            if keys is not None:
                answered += 1
                self.answers[server.address] += 1
                self._miss(before - keys, server.address)
        require(answered, "no server answers readers")
        for watcher in self.watchers:
            self._miss(self.living - watcher.view.keys(), watcher.name)

    def _miss(self, keys, where):
        """Counts what still has to be there: it may have been taken away while the answer was on its way."""
        missing = keys & self.living
        require(not missing, f"{where} tells nothing of {sorted(missing)}")

    def add(self, *keys):
        """From now on: once every server and watcher has them."""
        for server in self.servers:
            until(lambda s=server: set(keys) <= (told(s) or set()), f"{server.address} tells {keys}")
        for watcher in self.watchers:
            until(lambda w=watcher: set(keys) <= w.view.keys(), f"{watcher.name} holds {keys}")
        self.living = self.living | set(keys)

    def remove(self, *keys):
        self.living = self.living - set(keys)

    def judge(self):
        require(not self.amiss, (len(self.amiss), self.amiss[:5]))

    def end(self):
        self.over.set()
        self.thread.join()
        self.judge()


class Real:
    """A client that keeps a lease of its own: how it is asked, and what must have become of it."""

    def __init__(self, program, app, id):
        self.program, self.key = program, f"{app}/{id}"

    def report(self):
        return self.program.ask("report")

    def keys(self):
        return {f"{app}/{id}" for app, held in self.report()["apps"].items() for id in self.ids(held)}

    def judge(self):
        report = self.report()
        require(self.registrations(report) == 1, f"{self.program.name} registered {self.registrations(report)} times")
        only_moves(self.program.name, report["complaints"] + self.program.printed)


class Python(Real):
    def __init__(self, start, servers, number):
        urls = ",".join(server.base for server in servers)
        script = os.path.join(HERE, "py_client.py")
        app, port = f"py-{number}", str(9400 + number)
        program = start("py-eureka-client", sys.executable, script, urls, app, port, str(LEASE))
        super().__init__(program, app.upper(), f"127.0.0.1:{app}:{port}")
        program.wait_for("started")

    def ids(self, held):
        return held

    def registrations(self, report):
        return report["registrations"]


class JavaScript(Real):
    def __init__(self, start, servers, number):
        package, app = PACKAGES[number % 2], f"JS-{number}"
        instance = {
            "app": app, "instanceId": f"js:{number}", "hostName": "localhost", "ipAddr": "127.0.0.1",
            "port": {"$": 9500 + number, "@enabled": True}, "vipAddress": app,
            "leaseInfo": {"renewalIntervalInSecs": 1, "durationInSecs": LEASE},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        }
        eureka = {
            "serviceUrls": {"default": [server.base + "apps/" for server in servers]},
            "heartbeatInterval": 1000, "registryFetchInterval": 1300, "maxRetries": 6, "requestRetryDelay": 100,
        }
        options = json.dumps({"instance": instance, "delta": number % 4 < 2, "eureka": eureka})
        script = os.path.join(HERE, "js_client.js")
        super().__init__(start(package, "node", script, package, "", "0", options), app, instance["instanceId"])
        self.program.wait_for("event", event="started")

    def ids(self, held):
        return [one["id"] for one in held]

    def registrations(self, report):
        counts = report["counts"]
        return max(counts["POST"], counts["registered"])


class Spring(Real):
    def __init__(self, start, servers):
        urls, app = ",".join(server.base for server in servers), "SPRING"
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar"]
        java += [os.path.join(WORK, "client-spring-5", "client.jar"), urls, app, "full"]
        # What it says of a server that is away fills pages.
        java += ["--eureka.client.jersey.enabled=false", "--logging.level.com.netflix=OFF"]
        java += ["--logging.level.org.springframework=ERROR"]
        super().__init__(start("Spring", *java), app, f"host:{app}:80")

    def keys(self):
        return set(self.program.ask("held"))

    def judge(self):
        """How often it registered is not known: what it is answered is, by the servers."""
        require(not self.program.printed, self.program.printed[:5])


def only_moves(name, said):
    odd = [line for line in said if not MOVES.fullmatch(line)]
    require(not odd, f"{name} says {odd[:5]}")


def shown(watch):
    """What an example that watches has told to be there, in the end."""
    changes = [found.groups() for found in map(CHANGE.fullmatch, list(watch.printed)) if found]
    there = set()
    for word, key in changes:
        (there.discard if word == "REMOVED" else there.add)(key)
    return there


def unnoticed(server):
    """A server has counted no lease that ran out, and no caller that it sent away: every renewal found its lease."""
    counted = [int(count) for count in COUNTED.findall(ask(server, "/metrics"))]
    require(len(counted) > 1 and not any(counted), counted)


def main(cluster, watchers, start):
    servers, native = cluster.servers, watchers[0]
    orders, targets = cluster.orders(), cluster.targets
    owners, views = [], []

    with check("both servers are ready, each hears the other"):
        for server in servers:
            until(lambda s=server: ready(s), f"{server.address} is ready")
        native.ask("register", app="MATES", id="0")
        seen(watchers, "MATES")
        lookout = Lookout(servers, watchers)
        lookout.add("MATES/0")

    with check("real clients of every kind register and hold each other"):
        # It takes longest to start.
        spring = Spring(start, next(orders))
        clients = [Python(start, next(orders), number) for number in range(2)]
        clients += [JavaScript(start, next(orders), number) for number in range(4)]
        native.ask("keep", app="KEPT", id="native", lease=LEASE)
        for app, language in (("PAY", "py"), ("SHIP", "js")):
            owners.append(start(language, next(targets), app, "9600", kind=Owner))
            views.append(start(f"watch.{language}", next(targets), kind=Example))
        for owner in owners:
            owner.registers()
        spring.program.wait_for("started")
        clients.append(spring)
        lookout.add("KEPT/native", *(one.key for one in clients + owners))

    def agree():
        for client in clients:
            until(lambda c=client: c.keys() == lookout.living, f"{client.program.name} holds all")
        for view in views:
            until(lambda v=view: shown(v) == lookout.living, f"{view.name} has told all")

    with check("each holds all of them"):
        agree()

    def churn(turn, writer):
        """While a server is away, one comes and another goes."""
        lookout.remove(f"MATES/{turn - 1}")
        writer.ask("register", app="MATES", id=str(turn))
        writer.ask("cancel", app="MATES", id=str(turn - 1))

    for turn in range(1, ROUNDS * len(servers) + 1):
        server = servers[(turn - 1) % len(servers)]
        with check(f"server {server.flags[1]} is drained, away for {AWAY} s, and back"):
            unnoticed(server)
            code = server.stop("TERM")
            require(code == 0, f"the server ended with {code}")
            churn(turn, watchers[turn % 2])
            time.sleep(AWAY)
            server.start()
            until(lambda s=server: ready(s), f"{server.address} is ready")
            lookout.add(f"MATES/{turn}")
            lookout.judge()

    with check("no instance was missing from any answer or watch at any time"):
        lookout.end()
        require(all(count > 20 for count in lookout.answers.values()), lookout.answers)

    with check("every client holds all of them"):
        agree()
        rest(cluster, watchers)

    with check("no client registered again, or said more than that it asks the next server"):
        for server in servers:
            unnoticed(server)
        for client in clients:
            client.judge()
        kept = native.ask("kept")
        require(kept["registered"] == 1 and set(kept["failed"]) <= {"UNAVAILABLE"}, kept)
        for owner in owners:
            words = [line for line in owner.printed if line != f"registered {owner.app} {owner.id}"]
            require(len(words) == len(owner.printed) - 1, owner.printed)
            only_moves(owner.name, words)
        for view in views:
            words = [line for line in view.printed if not CHANGE.fullmatch(line) and not line.startswith("SYNCED ")]
            only_moves(view.name, words)
        for watcher in watchers:
            require(not watcher.printed, watcher.printed)

    with check("each is cancelled on both servers when it ends"):
        for owner in owners:
            owner.cancels("TERM")
        for client in clients:
            client.program.end()
        native.ask("release")
        native.ask("cancel", app="MATES", id=str(ROUNDS * len(servers)))
        until(lambda: cluster.instances() == {}, "two empty servers")


suite("a rolling restart", main, lambda: Cluster(2, **SETTINGS))
