"""Prometheus, which looks for what it watches at an Eureka server, beside clients of the native interface."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.request

import life
from harness import GUARD, PATIENCE, WORK, Failed, Server, check, require, suite, until
from wire import Wire

#: What a label of the discovery begins with.
META = "__meta_eureka_app_"
METADATA = {"prometheus.port": "9100", "a_b": "c&d <e>", "odd key$1": "'\"é"}
#: Keys as XML has them, with everything else than letters and digits as `_`, and values as they stand there.
LABELS = {
    "prometheus_port": "9100",
    "a__b": "c&amp;d &lt;e&gt;",
    "odd__0020key__1": "&apos;&quot;é",
}


class Prometheus:
    """A server of Prometheus' own that asks each of `servers` (url, name, password) once a second, one job for each."""

    def __init__(self, *servers):
        self.folder = tempfile.mkdtemp(prefix="prometheus-")
        jobs = [job(number, *server) for number, server in enumerate(servers)]
        config = os.path.join(self.folder, "prometheus.json")
        with open(config, "w") as file:
            json.dump({"global": {"scrape_interval": "1h"}, "scrape_configs": jobs}, file)
        command = [os.path.join(WORK, "prometheus", "usr", "bin", "prometheus"), f"--config.file={config}"]
        command += [f"--storage.tsdb.path={self.folder}/data", "--web.listen-address=127.0.0.1:0"]
        self.printed = []
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", *command], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.listening = threading.Event()
        self.address = None
        threading.Thread(target=self._read, daemon=True).start()
        require(self.listening.wait(PATIENCE) and self.address, self.printed[-5:])

    def _read(self):
        for line in self.child.stderr:
            self.printed.append(line.rstrip())
            found = re.search(r'msg="Listening on" address=(\S+)', line)
            if found:
                self.address = found[1]
                self.listening.set()
        self.listening.set()

    def targets(self, number):
        """What a job found, by address: the labels that it was found with."""
        with urllib.request.urlopen(f"http://{self.address}/api/v1/targets?state=active", timeout=PATIENCE) as answer:
            active = json.load(answer)["data"]["activeTargets"]
        found = [one["discoveredLabels"] for one in active if one["discoveredLabels"]["job"] == f"job-{number}"]
        return {labels["__address__"]: labels for labels in found}

    def kill(self):
        self.child.stdin.close()
        self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def job(number, url, name=None, password=None):
    discovery = {"server": url.rstrip("/"), "refresh_interval": "1s"}
    if name:
        discovery["basic_auth"] = {"username": name, "password": password}
    return {"job_name": f"job-{number}", "eureka_sd_configs": [discovery]}


def register(server, app, name):
    """Registers over REST, with the server's credentials."""
    one = {
        "app": app, "instanceId": name, "hostName": name, "ipAddr": "127.0.0.1", "status": "UP",
        "port": {"$": 9301, "@enabled": "true"}, "dataCenterInfo": {"name": "MyOwn"},
    }
    headers = {"Content-Type": "application/json", **server.credentials}
    body = json.dumps({"instance": one}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{server.base}apps/{app}", body, headers)) as answer:
        require(answer.status == 204, answer.status)


def main(server, watchers, start):
    native, other = watchers
    wire = Wire("prometheus", server.address)
    asking = Server(HEUREKA_AUTH__USERS=life.USER)
    register(asking, "GUARDED", "guarded")
    guarded, refused = Wire("guarded", asking.address), Wire("refused", asking.address)

    with check("Prometheus starts with three jobs"):
        found = start((wire.url,), (guarded.url, *asking.known), (refused.url, "ops", "another"), kind=Prometheus)

    def addresses(job=0):
        return sorted(found.targets(job))

    with check("what is registered is watched, whatever its status"):
        native.ask("register", app="MATES", id="one", port=9401, metadata=METADATA)
        other.ask("register", app="MATES", id="two", port=9402, status="DOWN")
        native.ask("register", app="OTHERS", id="three", port=9403, status="STARTING")
        until(lambda: addresses() == ["one:9401", "three:9403", "two:9402"], "three targets")

    with check("its labels are those that rules in the field are written against"):
        labels = found.targets(0)["one:9401"]
        wanted = {
            "name": "MATES", "instance_id": "one", "instance_hostname": "one", "instance_ip_addr": "127.0.0.1",
            "instance_status": "UP", "instance_port": "9401", "instance_port_enabled": "true",
            "instance_vip_address": "mates", "instance_datacenterinfo_name": "MyOwn", "instance_country_id": "1",
            **{f"instance_metadata_{name}": value for name, value in LABELS.items()},
        }
        wrong = {name: labels.get(META + name) for name, value in wanted.items() if labels.get(META + name) != value}
        require(not wrong, (wrong, labels))
        require(found.targets(0)["two:9402"][META + "instance_status"] == "DOWN", found.targets(0))

    def shown(name, label):
        return found.targets(0)[name][META + label]

    with check("a change of metadata alone, a status and a cancel are there by the next looks"):
        other.ask("metadata", app="MATES", id="one", set={"prometheus.port": "9101"})
        native.ask("override", app="MATES", id="one", status="OUT_OF_SERVICE")
        other.ask("cancel", app="OTHERS", id="three")
        until(lambda: shown("one:9401", "instance_metadata_prometheus_port") == "9101", "the new metadata")
        until(lambda: shown("one:9401", "instance_status") == "OUT_OF_SERVICE", "the new status")
        until(lambda: addresses() == ["one:9401", "two:9402"], "two targets")
        native.ask("clear", app="MATES", id="one")
        until(lambda: shown("one:9401", "instance_status") == "UP", "its own status")

    def looks(count):
        wire.take()
        until(lambda: wire.requests.get("GET /eureka/apps", 0) >= count, f"{count} looks")

    with check("a server that is not ready, or away, leaves it what it has"):
        server.settings["HEUREKA_STARTUP__HOLD"] = "1h"
        server.restart()
        looks(2)
        require(addresses() == ["one:9401", "two:9402"], addresses())
        server.stop()
        begun = len(found.printed)
        complained = re.compile(f"Unable to refresh.*{wire.address}")
        until(lambda: any(map(complained.search, found.printed[begun:])), "a complaint")
        require(addresses() == ["one:9401", "two:9402"], addresses())

    with check("and what is registered at one that came back empty takes its place"):
        del server.settings["HEUREKA_STARTUP__HOLD"]
        server.start()
        register(server, "LATER", "later")
        until(lambda: addresses() == ["later:9301"], "the new target")

    with check("with name and password it is served, with a wrong one it asks and is not"):
        until(lambda: addresses(1) == ["guarded:9301"], "the guarded target")
        until(lambda: refused.requests.get("GET /eureka/apps", 0) > 1, "two refusals")
        require(addresses(2) == [], addresses(2))
        asking.stop()

    with check("it asks nobody for anything but the list"):
        asked = {path for one in (wire, guarded, refused) for path in one.take()[1]}
        require(asked == {"GET /eureka/apps"}, asked)
        request = urllib.request.Request(f"{server.base}apps/LATER/later", method="DELETE")
        with urllib.request.urlopen(request) as answer:
            require(answer.status == 200, answer.status)


if not os.access(os.path.join(WORK, "prometheus", "usr", "bin", "prometheus"), os.X_OK):
    raise Failed("Prometheus is not installed")
suite("Prometheus", main)
