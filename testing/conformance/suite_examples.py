"""The programs and the document of docs/examples, unchanged, as the documents tell a reader to use them."""

import os
import re
import urllib.request

from examples import EXAMPLES, Example, Owner
from harness import PATIENCE, check, require, seen, suite, until

LANGUAGES = ("py", "js")
#: Until an owner renews, and so hears that its server was replaced.
RENEWAL = 30
#: All that a watch may print: changes, whole sets, that a digest agrees, and that the server could not be reached.
PRINTED = re.compile(r"(ADDED|MODIFIED|REMOVED) [A-Z]+/\S+ UP|(SYNCED|PROVED) \d+|UNAVAILABLE .*")
REST_OWNER = "BILLING/n7:billing:9100"


def register(server):
    """Registers billing.json as `curl -X POST -H 'Content-Type: application/json' -d @billing.json` does."""
    with open(os.path.join(EXAMPLES, "billing.json"), "rb") as file:
        body = file.read().replace(b"\r", b"").replace(b"\n", b"")
    headers = {"Content-Type": "application/json", "Accept": "*/*", "User-Agent": "curl/8.0.0"}
    request = urllib.request.Request(server.base + "apps/BILLING", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        require(response.status == 204, response.status)


def main(server, watchers, start):
    wide, narrow, owners = [], [], []

    def all_print(word, key, since):
        for watch in wide + (narrow if key.startswith("SHIPPING/") else []):
            watch.prints(f"{word} {key} UP", since[watch])

    def told_live(since):
        """A view that lost a change mends itself with another stream, which must not have been needed."""
        for watch in wide + narrow:
            printed = watch.printed[since[watch] :]
            require(not any(line.startswith("SYNCED") for line in printed), f"{watch.name} began again: {printed}")

    def all_prove(count, since):
        """What each holds is what the server says that it holds; of the narrow ones, nothing of BILLING."""
        for watch in wide + narrow:
            watch.prints(f"PROVED {count[watch in narrow]}", since[watch])

    def marks():
        """How much each has printed so far."""
        return {program: len(program.printed) for program in wide + narrow + owners}

    def owner(language, app, port):
        return start(language, server.address, app, port, kind=Owner)

    with check("billing.json registers as curl sends it"):
        register(server)
        found = server.instance("BILLING")["instanceId"]
        require(found == "n7:billing:9100", found)
        seen(watchers, "BILLING", status="UP")

    with check("watch.py and watch.js print what is there, then SYNCED, restricted to an application or not"):
        for language in LANGUAGES:
            wide.append(start(f"watch.{language}", server.address, kind=Example))
            narrow.append(start(f"watch.{language}", server.address, "SHIPPING", kind=Example))
        for watch in wide + narrow:
            watch.prints("PROVED ")
            whole = [f"ADDED {REST_OWNER} UP", "SYNCED 1", "PROVED 1"] if watch in wide else ["SYNCED 0", "PROVED 0"]
            require(watch.printed == whole, watch.printed)

    with check("serve.py and serve.js register, and the watches print ADDED"):
        before = marks()
        owners += [owner("py", "BILLING", "9100"), owner("js", "SHIPPING", "9200")]
        for one in owners:
            one.registers()
            all_print("ADDED", one.key, before)
        all_prove((3, 1), before)
        told_live(before)

    with check("after a drain and an empty server on the same address they print REMOVED and what is new, and prove it"):
        drained = marks()
        server.restart("TERM")
        for key in [REST_OWNER, *(one.key for one in owners)]:
            all_print("REMOVED", key, drained)
        replaced = marks()
        register(server)
        all_print("ADDED", REST_OWNER, replaced)
        all_prove((1, 0), drained)

    with check("and after a crash likewise"):
        crashed = marks()
        server.restart("KILL")
        all_print("REMOVED", REST_OWNER, crashed)
        for watch in wide + narrow:
            watch.prints("SYNCED ", crashed[watch])
        all_prove((0, 0), crashed)

    with check("the owners register again when they renew, and the watches print ADDED and prove what they hold"):
        for one in owners:
            one.registers(crashed[one], RENEWAL + PATIENCE)
            all_print("ADDED", one.key, crashed)
        all_prove((2, 1), crashed)

    with check("an owner ended with Ctrl-C cancels, and the watches print REMOVED"):
        before = marks()
        for one in owners:
            one.cancels("INT")
            all_print("REMOVED", one.key, before)
        told_live(before)

    with check("and so does one ended with SIGTERM"):
        before = marks()
        for one in [owner("py", "SHIPPING", "9101"), owner("js", "BILLING", "9201")]:
            one.registers()
            all_print("ADDED", one.key, before)
            one.cancels("TERM")
            all_print("REMOVED", one.key, before)
        told_live(before)
        require(server.instances() == {}, server.instances())

    with check("an owner whose registration is refused says why and ends with 1"):
        for language in LANGUAGES:
            refused = owner(language, "BILLING", "70000")
            until(refused.ended.is_set, f"{refused.name} ends")
            code = refused.end("KILL")
            require(code == 1 and "port" in refused.printed[-1], (code, refused.printed))
            require(refused.printed[-1].startswith("INVALID_ARGUMENT "), refused.printed)

    with check("Ctrl-C ends the watches, which printed nothing else and nothing of other applications"):
        for watch in wide + narrow:
            code = watch.end("INT")
            # Node leaves Ctrl-C to the system, and so does the example.
            require(code == (0 if watch.name.startswith("watch.py") else 130), f"{watch.name} ended with {code}")
            odd = [line for line in watch.printed if not PRINTED.fullmatch(line)]
            require(not odd, f"{watch.name} printed {odd}")
        for watch in narrow:
            require(not any("BILLING" in line for line in watch.printed), watch.printed)


suite("examples of the documents", main)
