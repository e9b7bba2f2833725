"""The watch as server-sent events, and many subscriptions on one stream, through a drain and a crash of two servers."""

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


def written(writer, app, number, turn):
    """Whether the write was taken; a call that a dying server took along is made again."""
    try:
        writer.ask("register", app=app, id=f"f{number % 5}", metadata={"turn": f"{turn}.{number}"})
    except Failed as reason:
        if "UNAVAILABLE" in str(reason):
            return False
        raise
    return True


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
            until(lambda w=writer, n=number: written(w, app, n, turn), "a write is taken")

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
            # One that came back a moment ago may not know yet that it has everything.
            if signal == "TERM":
                for program, before in zip((feed, many), told):
                    require("FULL" not in modes(program.said[before:]), program.said[before:])
            server.start()
            until(lambda s=server: ready(s), "the server is back")

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
