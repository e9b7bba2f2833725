"""The watch as server-sent events, and many subscriptions on one stream, with readings and choices of the best among
them, through a drain and a crash of two servers."""

import json
import os
import sys
import urllib.error
import urllib.request

from harness import HERE, WORK, Cluster, Failed, check, require, rest, suite, until

CHANGES = 20


class Views:
    """What a program told of its views."""

    def __init__(self, program):
        self.program = program

    def last(self, **where):
        told = [said for said in list(self.program.said) if "view" in said]
        told = [said for said in told if all(said.get(name) == value for name, value in where.items())]
        return told[-1] if told else {"view": None, "equal": None}

    def proved(self, view, **where):
        """The view is this one, and the server's digest says so."""

        def holds():
            last = self.last(**where)
            return last["view"] == view and last["equal"]

        until(holds, f"{self.program.name} proves {view} {where or ''}")


    def read(self, readings, **where):
        """These were told last of the instances that are held."""

        def holds():
            told = [said for said in list(self.program.said) if "readings" in said]
            told = [said for said in told if all(said.get(name) == value for name, value in where.items())]
            return told and told[-1]["readings"] == readings

        until(holds, f"{self.program.name} reads {readings} {where or ''}")

    def marked_again(self, **where):
        """Waits for another mark."""

        def marks():
            return len([said for said in list(self.program.said) if "view" in said and said["id"] == where["id"]])

        before = marks()
        until(lambda: marks() > before + 1, f"{self.program.name} is told another mark")


def numbers(slots, load):
    return {"available": {"slots": slots}, "gauges": {"load": load}}


def taken(writer, call, **words):
    """Whether a call was answered; one that a dying server took along is made again."""
    try:
        writer.ask(call, **words)
    except Failed as reason:
        if "UNAVAILABLE" in str(reason):
            return False
        raise
    return True


def knows(server, reports):
    """Whether a server tells these readings to a reader who comes now."""
    told = {}
    with urllib.request.urlopen(f"http://{server.address}/v1/watch?app=pool&readings=true", timeout=5) as feed:
        kind = None
        for line in feed:
            word, _, rest_of_line = line.decode().strip().partition(": ")
            if word == "event":
                kind = rest_of_line
            elif word == "data" and kind == "reading":
                reading = json.loads(rest_of_line)
                told[f"{reading['app']}/{reading['id']}"] = {name: reading[name] for name in ("available", "gauges")}
                if told == reports:
                    return True
            elif word == "data" and kind == "bookmark":
                return False
    return False


def status(server, query):
    try:
        with urllib.request.urlopen(f"http://{server.address}/v1/watch{query}", timeout=5) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def main(cluster, watchers, start):
    first, second = cluster.servers
    addresses = [server.address for server in cluster.servers]

    def write(turn, app="FED"):
        for number in range(CHANGES):
            writer = watchers[number % 2]
            words = {"app": app, "id": f"f{number % 5}", "metadata": {"turn": f"{turn}.{number}"}}
            until(lambda w=writer, words=words: taken(w, "register", **words), "a write is taken")

    def report(reports):
        for name, told in reports.items():
            app, id = name.split("/")
            until(lambda: taken(watchers[0], "report", app=app, id=id, **told), "a report is taken")

    everything = {f"FED/f{number}": "UP" for number in range(5)}
    feed = start("feed.py", sys.executable, os.path.join(HERE, "feed.py"), "?app=fed&client=suite&interval=1", *addresses)
    many = start(
        "many.py", sys.executable, os.path.join(HERE, "many.py"), os.path.join(WORK, "stubs"), *addresses
    )
    views, subscribed = Views(feed), Views(many)

    with check("a feed and a subscription of many are told a set and prove it"):
        many.ask("subscribe", id=1, app="FED")
        many.ask("subscribe", id=2, app="OTHER")
        write("first")
        views.proved(everything)
        subscribed.proved(everything, id=1)
        subscribed.proved({}, id=2)

    with check("a change tells the one whom it concerns"):
        watchers[0].ask("register", app="OTHER", id="o1", metadata={})
        subscribed.proved({"OTHER/o1": "UP"}, id=2)

    with check("a subscription that is refused or ends leaves the others"):
        closed = many.ask("subscribe", id=3, app="x" * 2000)
        require(closed == {"code": 3, "reason": "INVALID_SELECTOR"}, closed)
        closed = many.ask("unsubscribe", id=2)
        require(closed == {"code": 0, "reason": ""}, closed)
        watchers[1].ask("override", app="FED", id="f1", status="OUT_OF_SERVICE")
        changed = {**everything, "FED/f1": "OUT_OF_SERVICE"}
        views.proved(changed)
        subscribed.proved(changed, id=1)
        watchers[1].ask("clear", app="FED", id="f1")
        views.proved(everything)

    with check("reports are read by those who ask, and decide who is among the best and who has room"):
        for number in range(3):
            watchers[0].ask("register", app="POOL", id=f"p{number}", metadata={})
        many.ask("subscribe", id=4, app="POOL", readings=True)
        many.ask("subscribe", id=5, app="POOL", best={"gauge": "load", "ascending": True, "limit": 1, "hysteresis": 5})
        many.ask("subscribe", id=6, app="POOL", available={"slots": 2})
        reports = {"POOL/p0": numbers(3, 10), "POOL/p1": numbers(1, 30), "POOL/p2": numbers(0, 50)}
        report(reports)
        subscribed.read(reports, id=4)
        subscribed.proved({"POOL/p0": "UP"}, id=5)
        subscribed.proved({"POOL/p0": "UP"}, id=6)

    with check("of reports in a row the last one counts, and one that is little better takes nobody's place"):
        for slots in (9, 8, 4):
            reports["POOL/p1"] = numbers(slots, 6)
            watchers[0].ask("report", app="POOL", id="p1", **reports["POOL/p1"])
        subscribed.read(reports, id=4)
        subscribed.proved({"POOL/p0": "UP", "POOL/p1": "UP"}, id=6)
        subscribed.marked_again(id=5)
        subscribed.proved({"POOL/p0": "UP"}, id=5)
        reports["POOL/p2"] = numbers(0, 1)
        watchers[0].ask("report", app="POOL", id="p2", **reports["POOL/p2"])
        subscribed.proved({"POOL/p2": "UP"}, id=5)
        subscribed.read(reports, id=4)

    with check("a request that cannot be meant is refused and named"):
        code, text = status(first, "?application=fed")
        require(code == 400 and text.startswith("application"), (code, text))

    for signal, server in (("TERM", first), ("KILL", second)):
        with check(f"{signal} of one server: both go on at the other"):
            told = len(feed.said), len(many.said)
            server.stop(signal)
            write(signal)
            views.proved(everything)
            subscribed.proved(everything, id=1)
            # What was reported to one server the other knows.
            subscribed.read(reports, id=4)
            subscribed.proved({"POOL/p2": "UP"}, id=5)
            subscribed.proved({"POOL/p0": "UP", "POOL/p1": "UP"}, id=6)
            # One that came back a moment ago may not know yet that it has everything.
            if signal == "TERM":
                for program, before in zip((feed, many), told):
                    resumed = [said for said in program.said[before:] if said.get("id", 1) < 5]
                    require("FULL" not in modes(resumed), resumed)
            server.start()
            until(lambda s=server: ready(s), "the server is back")
            # It knows what is reported from now on.
            report(reports)
            until(lambda s=server: knows(s, reports), "the server knows what is reported")

    with check("nobody saw anything leave"):
        require(not [said for said in feed.said + many.said if "removed" in said], "removals")
    rest(cluster, watchers)


def modes(said):
    return [words["mode"] for words in said if "mode" in words]


def ready(server):
    try:
        with urllib.request.urlopen(f"http://{server.address}/health/ready", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


suite("feeds and many subscriptions", main, serve=lambda: Cluster(2))
