"""An ordinary py-eureka-client program. Usage: py_client.py SERVERS APP PORT [LEASE-SECONDS [OPTIONS-AS-JSON]]; servers
between commas, options as the client's `init` takes them. Speaks JSON lines; see harness.Program."""

import json
import logging
import re
import sys

import py_eureka_client.eureka_client as eureka_client
from program import answer
from py_eureka_client.logger import set_handler, set_level

SERVERS, APP, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
LEASE = int(sys.argv[4]) if len(sys.argv) > 4 else 3
OPTIONS = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
CHECKED = re.compile(r"check hash, local\[(.*)\], remote\[(.*)\]")


class Log(logging.Handler):
    """What the client logs about its cycles: each begins with a heartbeat and ends with a fetch."""

    cycles = checks = mismatches = registrations = 0
    warnings = []

    def emit(self, record):
        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            Log.warnings.append(message)
        if message.startswith("sending heartbeat to eureka server "):
            Log.cycles += message.endswith("server ")
        Log.registrations += message == "register successfully!"
        found = CHECKED.match(message)
        if found:
            Log.checks += 1
            Log.mismatches += found[1] != found[2]


set_handler(Log())
set_level("DEBUG")


def report():
    """What the client holds, and how it came to it."""
    applications = eureka_client.get_client().applications.applications
    apps = {
        app.name: {one.instanceId: {"status": one.status, "metadata": dict(one.metadata)} for one in app.instances}
        for app in applications
    }
    return {
        "apps": {name: held for name, held in apps.items() if held},
        "cycles": Log.cycles,
        "checks": Log.checks,
        "mismatches": Log.mismatches,
        "warnings": len(Log.warnings),
        "last_warnings": Log.warnings[-3:],
        "registrations": Log.registrations,
        "complaints": Log.warnings,
    }


def now(coroutine):
    return eureka_client.get_event_loop().run_until_complete(coroutine)


def do(words):
    client = eureka_client.get_client()
    match words["do"]:
        case "report":
            return report()
        case "override":
            return now(client.status_update(words["status"]))
        case "clear":
            return now(client.delete_status_override())
        case "stop":
            return eureka_client.stop()


eureka_client.init(
    eureka_server=SERVERS,
    app_name=APP,
    instance_host="127.0.0.1",
    instance_ip="127.0.0.1",
    instance_port=PORT,
    renewal_interval_in_secs=1,
    duration_in_secs=LEASE,
    **OPTIONS,
)
answer(do)
