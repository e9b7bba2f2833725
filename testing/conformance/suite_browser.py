"""docs/examples/watch.html, unchanged, in a real browser: it proves its view through a break, restarts and a lie."""

import json
import os

from browser import Browser, Origin
from digest import instance_hash, set_hash
from examples import EXAMPLES
from harness import Failed, check, require, suite, until

APP = "PAGE"
ROWS = "JSON.stringify([...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)))"


def shown(browser):
    """What the page says of itself, and the instances on it with their statuses."""
    rows = json.loads(browser.value(ROWS))
    state = {name: browser.value(f"document.getElementById('{name}').value") for name in ("feed", "proof")}
    return {**state, "rows": sorted((f"{app}/{id}", status) for app, id, status in rows)}


def held(watcher):
    """What a generated client holds of the application: instances, and the digest that the contract gives them."""
    keys = {key: one for key, one in watcher.view.items() if key.startswith(APP + "/")}
    versions = {key: [int(part) for part in one["version"].split(".")] for key, one in keys.items()}
    hashes = (instance_hash("", *key.split("/", 1), version) for key, version in versions.items())
    return sorted((key, one["status"]) for key, one in keys.items()), f"{set_hash(hashes):016x}"


def taken(writer, command, **what):
    """Whether a write was taken; one that went to a server on its way is made again."""
    try:
        writer.ask(command, **what)
    except Failed as reason:
        if "UNAVAILABLE" in str(reason):
            return False
        raise
    return True


def main(server, watchers, start):
    origin = start(os.path.join(EXAMPLES, "watch.html"), server, kind=Origin)
    browser = start(kind=Browser)

    def proves(count, feed=""):
        """The page holds what a generated client holds, and says so by the same digest."""

        def agrees():
            seen = shown(browser)
            rows, digest = held(watchers[0])
            proof = f"proved: {count} with digest {digest}"
            return seen["rows"] == rows and seen["proof"] == proof and seen["feed"].startswith(feed)

        try:
            until(agrees, f"the page proves {count}")
        except Failed as reason:
            raise Failed(f"{reason}; shows {shown(browser)}; a client holds {held(watchers[0])}") from None

    def write(number, command="register", **more):
        until(lambda: taken(watchers[0], command, app=APP, id=f"p{number}", **more), "a write is taken")

    with check("a page of the same origin shows a set and proves it"):
        for number in range(3):
            write(number, metadata={"turn": "first"})
        browser.open(f"{origin.address}/watch.html?app={APP}&interval=1")
        proves(3, "FULL")

    with check("changes and a removal arrive on the feed that it has"):
        write(3, metadata={})
        write(1, "override", status="OUT_OF_SERVICE")
        write(0, "cancel")
        proves(3, "FULL")
        require(len(origin.stood) == 1, origin.stood)

    with check("where the connection breaks the browser comes back by itself and is told what it missed"):
        origin.cut()
        write(4, metadata={})
        proves(4, "RESUME")
        require(len(origin.stood) == 2 and origin.stood[1], origin.stood)

    for signal, count in (("TERM", 2), ("KILL", 5)):
        with check(f"{signal} of the server, and an empty one on its address: the page proves what is there"):
            feeds = len(origin.stood)
            server.restart(signal)
            proves(0)
            require(len(origin.stood) > feeds, origin.stood)
            for number in range(count):
                write(number, metadata={"turn": signal})
            proves(count)

    with check("a server that is away is asked again, although a proxy answers for it"):
        feeds = len(origin.stood)
        server.stop("KILL")
        until(lambda: len(origin.stood) >= feeds + 3, "three more feeds are asked for")
        server.start()
        proves(0)
        write(7, metadata={})
        proves(1)

    with check("a change that is kept from it is found by the digest, and mended by another whole set"):
        feeds = len(origin.stood)
        origin.lies = True
        write(8, metadata={})
        until(lambda: shown(browser)["proof"].startswith("not equal: 1 "), "the page says that something is missing")
        proves(2, "FULL")
        require(origin.stood[feeds:] == [None], origin.stood)


suite("a page in a browser", main)
