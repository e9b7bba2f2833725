"""What befalls every client of the legacy surface sooner or later, and what it has to do then."""

import urllib.parse

from harness import Server, check, gone, require, seen, until
from wire import Wire

#: A user with letters in the password that stand for something else in a URL, as URLs and settings hold both.
USER = "ops:p%40ss%25w%26rd"
#: The same user with a password that is not told to the client.
OTHER = "ops:another"
#: A lapse shows at once, however many there are.
UNPROTECTED = {"HEUREKA_PRESERVATION__MODE": "off"}


def sent(wire, verb, app):
    """How many registrations (POST) or heartbeats (PUT) of an application went over the wire."""
    begin = f"{verb} /eureka/apps/{app}".upper()
    with wire.lock:
        found = [(path.upper(), count) for path, count in wire.requests.items()]
    own = [(path, count) for path, count in found if path == begin or path.startswith(begin + "/")]
    return sum(count for path, count in own if not path.endswith(("/STATUS", "/METADATA")))


def renews(watchers, app, instance, wire, registrations=1):
    """What it renews is renewed wherever one looks; over the wire, since that was last read, went so many registrations."""
    native, other = watchers
    with check("each heartbeat renews what REST and gRPC see, and nothing is registered again"):
        for _ in range(3):
            before = native.ask("renewed", app=app, id=instance)
            until(lambda b=before: other.ask("renewed", app=app, id=instance) > b, "a renewal on gRPC")
        require(sent(wire, "POST", app) == registrations, wire.take())


def settles(wire, app, most):
    """Registers, not more often than it may, and then only renews."""
    until(lambda: sent(wire, "POST", app), f"a registration of {app}")
    beats = sent(wire, "PUT", app)
    until(lambda: sent(wire, "PUT", app) >= beats + 2, f"two heartbeats of {app}")
    registrations = sent(wire, "POST", app)
    require(1 <= registrations <= most, f"{registrations} registrations")
    beats = sent(wire, "PUT", app)
    until(lambda: sent(wire, "PUT", app) >= beats + 2, f"two more heartbeats of {app}")
    require(sent(wire, "POST", app) == registrations, f"{sent(wire, 'POST', app)} registrations")


def outlives_its_lease(client, server, watchers, app, wire, most=1):
    """Where a client may find out in several ways at the same time, it registers `most` times."""
    with check("standing still for longer than its lease it is removed, and it registers again when it goes on"):
        client.pause()
        gone(watchers, app, "EXPIRED")
        require(server.instance(app) is None, server.instance(app))
        wire.take()
        client.resume()
        settles(wire, app, most)
        seen(watchers, app, status="UP")


def is_asked_who_it_is(begin, app, fits=lambda client: True):
    """Has `begin(url)` start a client of a server that serves one user, who stands in the url. `fits` says whether the
    client sees what it should."""
    server = Server(**UNPROTECTED, HEUREKA_AUTH__USERS=USER)
    wire = Wire("guarded", server.address)

    def serving(users):
        server.stop()
        server.settings["HEUREKA_AUTH__USERS"] = users
        server.start()

    def renewed():
        one = server.instance(app)
        path = f"apps/{app}/{urllib.parse.quote(one['instanceId'], safe='')}"
        return server.fetch(path)["instance"]["leaseInfo"]["lastRenewalTimestamp"]

    try:
        with check("with name and password in its url it registers, renews and reads"):
            client = begin(f"http://{USER}@{wire.address}/eureka/")
            until(lambda: server.instance(app), "its registration")
            since = renewed()
            until(lambda: renewed() > since, "a renewal")
            until(lambda: fits(client), "what it reads")
        with check("it is not served where the password is another, and is again where it is right"):
            wire.take()
            serving(OTHER)
            until(lambda: sent(wire, "PUT", app) + sent(wire, "POST", app) > 2, "three tries")
            require(server.instances() == {}, server.instances())
            serving(USER)
            until(lambda: server.instance(app), "its registration")
    finally:
        server.stop()
    return client
