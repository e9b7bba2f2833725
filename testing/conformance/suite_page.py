"""The status page in a real browser: live, searchable, readable for hostile registrations, by keyboard alone, behind a
proxy's prefix and with ten thousand instances. Leaves pictures of it in the build folder."""

import http.client
import json
import os
import time
import urllib.parse

import life
from browser import Browser, Prefixed
from harness import PATIENCE, WORK, Cluster, Failed, Server, check, require, suite, until

PICTURES = os.path.join(WORK, "page")
MANY = 10_000
ROWS = "JSON.stringify([...document.querySelectorAll('#list .row')].map((row) => [...row.children].map((cell) => cell.textContent)))"
HOSTILE = "</script><script>window.caught=1</script><img src=x onerror=window.caught=1>'\"&lt;"


class Beside(Server):
    """A server more."""

    def kill(self):
        self.stop()


class Guarded(Beside):
    """A server more, of one user."""

    def __init__(self):
        super().__init__(HEUREKA_AUTH__USERS=life.USER)


class Pair(Cluster):
    """Two servers more, peers of each other."""

    def __init__(self):
        super().__init__(2, HEUREKA_STARTUP__PEER_WAIT="1s")

    def kill(self):
        self.stop()


class Owner:
    """Registers over one connection."""

    def __init__(self, server):
        self.calls = http.client.HTTPConnection(server.address, timeout=PATIENCE)

    def call(self, verb, path, document=None):
        body = json.dumps(document) if document else None
        self.calls.request(verb, f"/eureka/{path}", body, {"Content-Type": "application/json"})
        answer = self.calls.getresponse()
        answer.read()
        require(answer.status in (200, 204), (verb, path, answer.status))

    def register(self, app, id, status="UP", lease=90, **more):
        number = sum(map(ord, id)) % 250
        instance = {
            "instanceId": id, "app": app, "hostName": f"{app.lower()}-{number}.example", "ipAddr": f"10.0.{number}.7",
            "status": status, "vipAddress": app.lower(), "port": {"$": 8080, "@enabled": "true"},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
            "leaseInfo": {"renewalIntervalInSecs": lease // 3, "durationInSecs": lease},
            "metadata": {"zone": f"zone-{'abc'[number % 3]}", "version": f"1.{number % 7}.0"}, **more,
        }
        self.call("POST", f"apps/{app}", {"instance": instance})

    def cancel(self, app, id):
        self.call("DELETE", f"apps/{app}/{urllib.parse.quote(id, safe='')}")


def rows(browser):
    return json.loads(browser.value(ROWS))


def has(browser, name, status=None):
    """Whether a row begins with the name, and ends with the status if one is named."""
    return any(row[0] == name and (status is None or row[-1] == status) for row in rows(browser))


def text(browser, id):
    return browser.value(f"document.getElementById('{id}')?.textContent")


def says(browser, id, *words):
    """Waits until a part of the page holds all the words, and otherwise tells what it holds."""
    try:
        until(lambda: all(word in (text(browser, id) or "") for word in words), f"{id} says {' and '.join(words)}")
    except Failed as failed:
        page = browser.value("[location.href, document.visibilityState, document.readyState].join(' ')")
        raise Failed(f"{failed}: {page} says {text(browser, id)!r}, {browser.complaints[-3:]}") from failed


def focus(browser):
    return browser.value("document.activeElement.id || document.activeElement.textContent")


def filtered(browser, words):
    """Types into the filter as somebody at a keyboard does."""
    browser.press("Escape")
    browser.press("/")
    until(lambda: focus(browser) == "filter", "the filter has the focus")
    browser.value("document.getElementById('filter').select()")
    browser.write(words)


def proved(browser):
    until(lambda: text(browser, "live") == "Live, proved complete", "the page proves its view")


def main(server, watchers, start):
    os.makedirs(PICTURES, exist_ok=True)
    browser = start(kind=Browser)
    browser.look()
    owner = Owner(server)

    def picture(name, **look):
        browser.look(**look)
        browser.value("new Promise((done) => setTimeout(done, 300))")
        browser.picture(os.path.join(PICTURES, f"{name}.png"))

    with check("an empty page opens, says so and proves it"):
        browser.open(f"http://{server.address}/")
        proved(browser)
        until(lambda: text(browser, "found") == "No instances available", "the page says that there is none")

    with check("what is registered over REST is shown within a second, and what is cancelled is gone within one"):
        seconds = []
        for number in range(5):
            begun = time.monotonic()
            owner.register("LIVE", f"live-{number}")
            until(lambda n=number: has(browser, f"live-{n}", "UP"), "the instance is shown")
            seconds.append(time.monotonic() - begun)
        begun = time.monotonic()
        owner.cancel("LIVE", "live-0")
        until(lambda: not has(browser, "live-0"), "the instance is not shown")
        seconds.append(time.monotonic() - begun)
        print(f"    shown after {', '.join(f'{second * 1000:.0f} ms' for second in seconds)}", flush=True)
        # The median, since a machine that is busy may stand still for once.
        require(sorted(seconds)[3] < 1, seconds)
        proved(browser)

    with check("an operator's status is shown, with the owner's own beside it, and its end"):
        owner.call("PUT", "apps/LIVE/live-1/status?value=OUT_OF_SERVICE")
        until(lambda: has(browser, "live-1", "OUT_OF_SERVICE"), "the override is shown")
        filtered(browser, "live-1")
        until(lambda: not has(browser, "live-2"), "others are filtered out")
        browser.press("ArrowDown")
        browser.press("ArrowDown")
        browser.press("Enter")
        says(browser, "detail", "OUT_OF_SERVICE by an operator", "Owner’s own statusUP", "status set by an operator", "registered over REST", "version", "left")
        owner.call("DELETE", "apps/LIVE/live-1/status")
        says(browser, "detail", "Overridenone", "operator’s status taken back")
        owner.cancel("LIVE", "live-1")
        says(browser, "detail", "GONE", "cancelled over REST")

    with check("search finds by name, status, zone, address and metadata, all words together"):
        owner.register("SEARCH", "needle", metadata={"team": "Payments", "zone": "zone-x"}, ipAddr="192.0.2.77")
        owner.register("SEARCH", "hay", status="STARTING", metadata={"team": "other"})
        for words, found in (
            ("needle", {"needle"}), ("NEED search", {"needle"}), ("starting", {"hay"}), ("zone-x", {"needle"}),
            ("192.0.2.77", {"needle"}), ("team=payments", {"needle"}), ("search team", {"needle", "hay"}), ("needle hay", set()),
        ):
            filtered(browser, words)
            ids = lambda: {row[0] for row in rows(browser) if row[0] in ("needle", "hay")}
            until(lambda: ids() == found and not has(browser, "live-2"), f"{words!r} finds {found}")

    with check("hostile registrations are text and nothing else"):
        id = f"evil {HOSTILE}"
        owner.register("HOSTILE", id, homePageUrl="javascript:window.caught=1", statusPageUrl=f"http://x/{HOSTILE}",
                       metadata={HOSTILE: HOSTILE, "__proto__": "x", "constructor": HOSTILE, "long": "x" * 3000})
        owner.register("HOSTILE", "__proto__", metadata={"\u202egpj.exe": "right to left"})
        filtered(browser, "evil")
        until(lambda: has(browser, id), "the name is shown as it is")
        browser.press("ArrowDown")
        browser.press("ArrowDown")
        browser.press("Enter")
        until(lambda: (text(browser, "detail") or "").count(HOSTILE) >= 4, "the metadata is shown as it is")
        says(browser, "detail", "Last events")
        markup = "document.querySelectorAll('#detail img, #detail script, #list img, #list script, a[href^=javascript]').length"
        require(browser.value(markup) == 0, browser.value(markup))
        require(browser.value("window.caught === undefined"), "a registration ran a script")
        blocked = browser.value("try { document.body.innerHTML += '' ; 'taken' } catch (refused) { refused.name }")
        require(blocked == "TypeError", f"markup from texts: {blocked}")
        browser.complaints[:] = [one for one in browser.complaints if "TrustedHTML" not in json.dumps(one)]
        owner.cancel("HOSTILE", id)

    with check("everything is reached by keyboard alone"):
        browser.open(f"http://{server.address}/")
        proved(browser)
        until(lambda: has(browser, "needle"), "the list is drawn")
        stops = []
        for _ in range(9):
            browser.press("Tab")
            stops.append(focus(browser))
        wanted = ["To the instances", "Instances", "Last 1,000", "Server", "filter"]
        require(stops[:5] == wanted and "expand" in stops and "list" in stops, stops)
        browser.press("/")
        browser.write("needle")
        until(lambda: has(browser, "needle") and not has(browser, "hay"), "the filter works")
        browser.press("Enter")
        require(focus(browser) == "list", focus(browser))
        browser.press("Home")
        browser.press("ArrowLeft")
        until(lambda: not has(browser, "needle"), "the application is closed")
        browser.press("ArrowRight")
        until(lambda: has(browser, "needle"), "the application is open")
        browser.press("End")
        require(browser.value("document.getElementById(document.getElementById('list').getAttribute('aria-activedescendant')).textContent").startswith("needle"), "the last row")
        browser.press("Enter")
        until(lambda: focus(browser) == "needle", "the detail has the focus")
        browser.press("Escape")
        until(lambda: focus(browser) == "list" and browser.value("document.getElementById('detail').hidden"), "the list has it again")

    with check("the last registrations and removals are told, newest first, with their reasons"):
        browser.open(f"http://{server.address}/lastn")
        events = lambda: json.loads(browser.value("JSON.stringify([...document.querySelectorAll('#recent .row')].map((row) => row.textContent))"))
        until(lambda: any("HOSTILE __proto__" in row and "registered over REST" in row for row in events()), "a registration is told")
        owner.register("LIVE", "late")
        until(lambda: events() and "LIVE late" in events()[0], "a new one comes first")
        browser.value("[...document.querySelectorAll('#kinds button')].find((one) => one.textContent === 'Removed').click()")
        until(lambda: any("LIVE live-0" in row and "cancelled over REST" in row for row in events()), "a removal is told")
        browser.value("location.hash = 'server'")
        says(browser, "preservation", "Leases")
        says(browser, "next", "lease runs out")

    with check("behind a proxy and below its prefix the page is the same"):
        proxy = start(server, kind=Prefixed)
        browser.open(f"{proxy.address}/")
        proved(browser)
        owner.register("LIVE", "through")
        until(lambda: has(browser, "through", "UP"), "the instance is shown")
        browser.open(f"{proxy.address}/eureka/")
        until(lambda: browser.value("location.href") == f"{proxy.address}/", "the original's place leads to the page")
        browser.open(f"{proxy.address}/lastn")
        says(browser, "recent", "LIVE through")
        require(not [path for path in proxy.strayed if path != "/favicon.ico"], proxy.strayed)

    with check("pictures in light, in the dark and on a phone"):
        stage(owner)
        browser.open(f"http://{server.address}/")
        proved(browser)
        filtered(browser, "")
        for name, look in (("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844, "phone": True}),
                           ("phone-dark", {"width": 390, "height": 844, "phone": True, "dark": True})):
            picture(name, **look)
        browser.look()
        filtered(browser, "orders-7")
        browser.press("ArrowDown")
        browser.press("ArrowDown")
        browser.press("Enter")
        says(browser, "detail", "Last events")
        picture("detail")
        picture("detail-phone", width=390, height=844, phone=True, dark=True)
        wide = browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        require(wide, "the page is wider than a phone")
        for view in ("server", "recent"):
            browser.value(f"location.hash = '{view}'")
            until(lambda v=view: not browser.value(f"document.getElementById('{v}-view').hidden"), "the view is shown")
            picture(view, height=900)
            picture(f"{view}-phone", width=390, height=844, phone=True)
            require(browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), f"{view} is wider than a phone")
        browser.look()

    with check("a server that comes back empty is shown as it is"):
        browser.open(f"http://{server.address}/")
        proved(browser)
        before = len(browser.complaints)
        server.restart("KILL")
        until(lambda: text(browser, "found") == "No instances available", "the page is empty")
        proved(browser)
        # Browsers themselves complain of each connection that is refused.
        browser.complaints[before:] = [one for one in browser.complaints[before:] if "net::ERR" not in json.dumps(one)]

    with check("held leases are told with their number and what comes next, and other servers with their state"):
        protecting(start, browser, picture)

    with check("where a password is asked for, an address that holds it is enough, and the browser remembers it"):
        guarded(start, browser)

    with check(f"{MANY:,} instances are usable"):
        many(start, browser, picture)

    with check("nothing was wrong on the console"):
        require(not browser.complaints, json.dumps(browser.complaints)[:2000])


def stage(owner):
    """A registry to be looked at."""
    for app, ids in (("LIVE", ("live-2", "live-3", "live-4", "late", "through")), ("SEARCH", ("needle", "hay")), ("HOSTILE", ("__proto__",))):
        for id in ids:
            owner.cancel(app, id)
    for app, size in (("ORDERS", 9), ("PAYMENTS", 4), ("INVENTORY", 5), ("GATEWAY", 3), ("SHIPPING-AND-RETURNS", 6)):
        for number in range(size):
            status = "DOWN" if (app, number) == ("INVENTORY", 2) else "STARTING" if (app, number) == ("PAYMENTS", 3) else "UP"
            owner.register(app, f"{app.lower()}-{number}:8080", status=status, homePageUrl=f"http://{app.lower()}.example:8080/",
                           healthCheckUrl=f"http://{app.lower()}.example:8080/actuator/health",
                           metadata={"zone": f"eu-central-1{'abc'[number % 3]}", "version": f"2.{number}.1", "management.port": "9090"})
            owner.call("PUT", f"apps/{app}/{app.lower()}-{number}:8080")
    owner.call("PUT", "apps/ORDERS/orders-7:8080/status?value=OUT_OF_SERVICE")


def guarded(start, browser):
    server = start(kind=Guarded)
    for words in (f"{life.USER}@", ""):
        browser.open(f"http://{words}{server.address}/")
        proved(browser)


def protecting(start, browser, picture):
    alone = start(kind=Beside)
    owner = Owner(alone)
    for number in range(20):
        owner.register("SILENT", f"s-{number:02}", lease=3)
        owner.call("PUT", f"apps/SILENT/s-{number:02}")
    browser.open(f"http://{alone.address}/")
    says(browser, "banners", "Nobody renews at all, so 20 leases")
    says(browser, "found", "20 instances of 1 application")
    picture("protecting")
    one, two = start(kind=Pair).servers
    browser.open(f"http://{two.address}/#server")
    says(browser, "peers", "available")
    picture("replicas", dark=True)
    one.stop()
    says(browser, "peers", "unreachable")
    browser.look()


def many(start, browser, picture):
    server = start(kind=Beside)
    owner = Owner(server)
    for number in range(MANY):
        owner.register(f"SERVICE-{number % 100:03}", f"i-{number:05}")
    begun = time.monotonic()
    browser.open(f"http://{server.address}/")
    proved(browser)
    print(f"    proved {time.monotonic() - begun:.1f} s after it was opened", flush=True)
    until(lambda: text(browser, "found") == f"{MANY:,} instances of 100 applications", "all are counted")
    picture("many")
    browser.look()
    drawn = "document.querySelectorAll('#list .row').length"
    browser.value("document.getElementById('expand').click()")
    until(lambda: has(browser, "i-00000"), "all are open")
    require(browser.value(drawn) < 100, browser.value(drawn))
    for key, wanted in (("End", "i-09999"), ("Home", "SERVICE-000")):
        browser.value("document.getElementById('list').focus()")
        browser.press(key)
        until(lambda w=wanted: has(browser, w), f"{key} shows {wanted}")
    filtered(browser, "i-07321")
    until(lambda: has(browser, "i-07321") and len(rows(browser)) == 2, "one of all is found")
    owner.register("SERVICE-021", "i-07321", status="DOWN")
    until(lambda: has(browser, "i-07321", "DOWN"), "a change is shown")
    spent = "(() => { const begun = performance.now(); document.getElementById('filter').dispatchEvent(new Event('input')); return performance.now() - begun })()"
    print(f"    a letter in the filter takes {browser.value(spent):.0f} ms", flush=True)
    filtered(browser, "")
    until(lambda: has(browser, "i-00000"), "all are shown again")
    require(browser.value(drawn) < 100, browser.value(drawn))
    picture("many-open", dark=True)
    picture("many-phone", width=390, height=844, phone=True)
    browser.look()
    proved(browser)


suite("the status page", main)
