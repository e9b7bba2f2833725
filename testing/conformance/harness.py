"""What every suite uses: a server that can be restarted where it was, programs that never outlive this one, named
checks, and waiting for a state instead of for a time.

Only the standard library. A suite is a file that calls `suite(name, facts)`; `run` gives it the server's binary and
the build folder.
"""

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

BINARY, WORK = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))

#: Longest wait for anything, far beyond what it takes. Who needs it has failed.
PATIENCE = 30

#: Starts a program that is killed when this one closes its input, for whatever reason: also when it was killed
#: itself. The line that comes before, if any, is the signal to use.
GUARD = '"$@" </dev/null & exec >&-; read -r signal; { kill -s "${signal:-KILL}" $!; wait $!; } 2>/dev/null'


class Failed(Exception):
    """A fact that does not hold."""


@contextlib.contextmanager
def check(fact):
    """One line for one fact."""
    begun = time.monotonic()
    try:
        yield
    except (Failed, OSError, KeyError, ValueError) as reason:
        print(f"  FAILED {fact}: {type(reason).__name__}: {reason}", flush=True)
        raise Failed(fact) from None
    print(f"  ok {fact} ({time.monotonic() - begun:.1f} s)", flush=True)


def until(holds, what, patience=PATIENCE):
    """Waits until `holds()` gives something true, and gives it back."""
    deadline = time.monotonic() + patience
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failed(f"{what} after {patience} s; last seen {found!r}")
        time.sleep(0.02)


def require(condition, seen):
    if not condition:
        raise Failed(f"saw {seen!r}")


class Program:
    """A child that says what it does, one JSON object a line, and does what it is told likewise. What else it prints is
    shown and kept."""

    def __init__(self, name, *command):
        self.name = name
        self.said = []
        self.printed = []
        self.answers = {}
        self.asked = 0
        self.ended = threading.Event()
        self.child = subprocess.Popen(
            command, cwd=WORK, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._show, args=(self.child.stderr,), daemon=True).start()

    def _show(self, lines):
        for line in lines:
            self.printed.append(line.rstrip())
            print(f"  {self.name} says: {line.rstrip()}", flush=True)

    def _read(self):
        for line in self.child.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                self._show([line])
                continue
            if "answer" in said:
                self.answers[said["answer"]] = said
            else:
                self.said.append(said)
                self.heard(said)
        self.ended.set()

    def heard(self, said):
        """Hook for those who keep a state."""

    def wait_for(self, key, **wanted):
        """The first thing said that has `key` and these values."""

        def found():
            matching = (said for said in list(self.said) if key in said)
            for said in matching:
                if all(said.get(name) == value for name, value in wanted.items()):
                    return said
            if self.ended.is_set():
                raise Failed(f"{self.name} ended before it said {key} {wanted or ''}")
            return None

        return until(found, f"{self.name} says {key} {wanted or ''}")

    def ask(self, command, **arguments):
        """Has the program do something and waits for what came of it."""
        self.asked += 1
        number = self.asked
        try:
            self.child.stdin.write(json.dumps({"ask": number, "do": command, **arguments}) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{self.name} has ended") from None

        def answered():
            if self.ended.is_set() and number not in self.answers:
                raise Failed(f"{self.name} ended before it answered {command}")
            return self.answers.get(number)

        answer = until(answered, f"{self.name} answers {command}")
        if "error" in answer:
            raise Failed(f"{self.name}: {command}: {answer['error']}")
        return answer.get("result")

    def end(self):
        """Tells it to end by itself."""
        self.ask("stop")
        self._close()
        code = self.child.wait(PATIENCE)
        require(code == 0, f"{self.name} ended with {code}")

    def kill(self):
        self._close()
        self.child.kill()
        self.child.wait()

    def pause(self):
        """Stands still with all its threads, as a machine does that is asleep."""
        self.child.send_signal(signal.SIGSTOP)

    def resume(self):
        self.child.send_signal(signal.SIGCONT)

    def _close(self):
        with contextlib.suppress(OSError):
            self.child.stdin.close()


class Server:
    """The server under test. `restart` brings an empty one to the same address."""

    def __init__(self, address="127.0.0.1:0", *flags, **settings):
        self.address = address
        self.flags = flags
        self.settings = settings
        self.child = None
        self.start()

    def start(self):
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", BINARY, "--log", "warn", "--listen", self.address, *self.flags],
            cwd=WORK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **self.settings},
        )
        for line in self.child.stdout:
            if " listening on " in line:
                self.address = line.split()[-1]
                threading.Thread(target=self.child.stdout.read, daemon=True).start()
                return
        raise Failed(f"the server did not listen on {self.address}")

    def stop(self, signal="KILL"):
        """The code with which it ended."""
        if self.child is None:
            return None
        with contextlib.suppress(OSError):
            self.child.stdin.write(signal + "\n")
            self.child.stdin.close()
        child, self.child = self.child, None
        return child.wait(PATIENCE)

    def restart(self, signal="KILL"):
        self.stop(signal)
        self.start()

    @property
    def targets(self):
        """Where gRPC clients find it, one after the other."""
        return itertools.repeat(self.address)

    @property
    def base(self):
        return f"http://{self.address}/eureka/"

    @property
    def known(self):
        """Name and password of whom it serves, where it asks who calls."""
        user = self.settings.get("HEUREKA_AUTH__USERS")
        return user and [urllib.parse.unquote(part) for part in user.split(":")]

    @property
    def credentials(self):
        """The header that it wants to see."""
        known = self.known
        return {"Authorization": "Basic " + base64.b64encode(":".join(known).encode()).decode()} if known else {}

    def fetch(self, path):
        """A document of the legacy surface; nothing where it answers 404."""
        request = urllib.request.Request(self.base + path, headers={"Accept": "application/json", **self.credentials})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def instances(self):
        """Ids of all instances by application, as the legacy surface tells them."""
        apps = self.fetch("apps")["applications"]["application"]
        return {app["name"]: sorted(i["instanceId"] for i in app["instance"]) for app in apps}

    def instance(self, app):
        """The only instance of an application."""
        found = self.fetch(f"apps/{app}")
        return found and found["application"]["instance"][0]


class Cluster:
    """Servers that are peers of each other, each on a port of its own that is kept for it while it is away."""

    def __init__(self, size, **settings):
        self.servers = []
        self.places = [socket.socket() for _ in range(size)]
        for place in self.places:
            # Bound and never listening, next to the server: nobody else is given the port, and nobody is answered.
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind(("127.0.0.1", 0))
        addresses = ["%s:%d" % place.getsockname() for place in self.places]
        for number, address in enumerate(addresses):
            peers = [flag for other in addresses if other != address for flag in ("--peer", other)]
            self.servers.append(Server(address, "--node-id", f"node-{number}", *peers, **settings))

    def orders(self):
        """The servers with each of them in the first place, over and over."""
        for first in itertools.cycle(range(len(self.servers))):
            yield self.servers[first:] + self.servers[:first]

    @property
    def targets(self):
        """Names that generic channels of gRPC take: all addresses, in one order after another."""
        return ("ipv4:" + ",".join(server.address for server in order) for order in self.orders())

    def instances(self):
        """What all of them hold."""
        held = [server.instances() for server in self.servers]
        require(all(one == held[0] for one in held), held)
        return held[0]

    def stop(self):
        for server in self.servers:
            server.stop()
        for place in self.places:
            place.close()


class Watcher(Program):
    """A program generated from the protos, which watches, writes when told to, and records what it sees."""

    def __init__(self, suite, language, target):
        self.view = {}
        self.removals = []
        name = re.sub(r"[^a-z0-9.]+", "-", f"{suite} {language}".lower()).strip("-")
        self.recording = os.path.join(WORK, "recordings", name + ".jsonl")
        if language == "python":
            command = [sys.executable, os.path.join(HERE, "watch.py"), os.path.join(WORK, "stubs")]
        else:
            command = ["node", os.path.join(HERE, "watch.js"), os.path.join(HERE, "..", "..", "proto")]
        super().__init__(f"watch.{language}", *command, target, self.recording)

    def heard(self, said):
        if "view" in said:
            self.view = said["view"]
        if "removed" in said:
            self.removals.append((said["removed"], said["reason"]))

    def has(self, app, **wanted):
        """Whether the view has an instance of the application with these values."""
        found = [held for key, held in self.view.items() if key.split("/", 1)[0] == app]
        return any(all(held.get(name) == value for name, value in wanted.items()) for held in found)


def seen(watchers, app, **wanted):
    for watcher in watchers:
        until(lambda w=watcher: w.has(app, **wanted), f"{watcher.name} holds {app} {wanted or ''}")


def gone(watchers, app, reason=None):
    for watcher in watchers:
        until(lambda w=watcher: not w.has(app), f"{watcher.name} holds no {app}")
        if reason:
            told = any(key.startswith(app + "/") and why == reason for key, why in watcher.removals)
            require(told, f"{watcher.name} was told {watcher.removals}")


def _watch_parent():
    """Ends with the one who started this, however that ended; the children end with this."""
    parent = os.getppid()

    def loop():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=loop, daemon=True).start()


def suite(name, facts, serve=Server):
    """Runs `facts(server, watchers, start)` beside a watcher of each language, judged when they end. `start` makes
    a program that is ended with the suite, `serve` the server or cluster."""
    _watch_parent()
    begun = time.monotonic()
    started = []
    server = None

    def start(*arguments, kind=Program):
        started.append(kind(*arguments))
        return started[-1]

    try:
        os.makedirs(os.path.join(WORK, "recordings"), exist_ok=True)
        server = serve()
        targets = zip(("python", "node"), server.targets)
        watchers = [start(name, language, target, kind=Watcher) for language, target in targets]
        with check("generated clients in Python and JavaScript watch"):
            for watcher in watchers:
                watcher.wait_for("settled")
        facts(server, watchers, start)
        with check("their views agree with each other and with the server's digests"):
            rest(server, watchers)
        _judge(watchers)
    except Failed as fact:
        print(f"{name} failed after {time.monotonic() - begun:.1f} s: {fact}", flush=True)
        sys.exit(1)
    finally:
        for program in started:
            program.kill()
        if server:
            server.stop()
    print(f"{name} passed in {time.monotonic() - begun:.1f} s", flush=True)


def rest(server, watchers):
    """At rest everybody holds the same."""
    for watcher in watchers:
        watcher.ask("rest")
    views = [{key: held["version"] for key, held in watcher.view.items()} for watcher in watchers]
    require(all(view == views[0] for view in views), views)
    ids = sorted(key.split("/", 1)[1] for key in views[0])
    require(ids == sorted(sum(server.instances().values(), [])), (ids, server.instances()))
    for watcher in watchers:
        told = watcher.ask("digests")
        require(told["equal"] > 0 and told["unequal"] == 0, told)


def _judge(watchers):
    for watcher in watchers:
        watcher.end()
    with check("their recordings break no guarantee"):
        judge = os.path.join(os.path.dirname(BINARY), "heureka-history")
        files = [watcher.recording for watcher in watchers]
        done = subprocess.run([judge, *files], capture_output=True, text=True, timeout=PATIENCE)
        for line in (done.stdout + done.stderr).splitlines():
            print(f"    {line.removeprefix(WORK + '/')}", flush=True)
        require(done.returncode == 0, f"heureka-history ended with {done.returncode}")
