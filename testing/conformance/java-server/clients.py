"""Registrations as clients in the field write them."""

from bodies import DEFAULT, plain

SPRING = {
    "appGroupName": None,
    "sid": "na",
    "secureHealthCheckUrl": None,
    "isCoordinatingDiscoveryServer": False,
    "actionType": None,
    "asgName": None,
}


def of_spring(app, one, **members):
    """As RestClient sends it: nulls for what is not set, numbers for clocks, what is long at the end."""
    body = plain(app, one, **members)
    body.update({name: value for name, value in SPRING.items() if name not in members})
    body["lastUpdatedTimestamp"] = 1000
    body["lastDirtyTimestamp"] = int(body.get("lastDirtyTimestamp", 1000))
    body["leaseInfo"] = {
        **body["leaseInfo"],
        "registrationTimestamp": 0,
        "lastRenewalTimestamp": 0,
        "evictionTimestamp": 0,
        "serviceUpTimestamp": 0,
    }
    for name in ("port", "securePort", "metadata"):
        body[name] = body.pop(name)
    return body


def of_javascript(app, one, **members):
    """As the packages for Node do by default: no id, an application in small letters."""
    body = plain(app, one, **members)
    body = {
        name: body[name] for name in ("app", "hostName", "ipAddr", "port", "vipAddress", "dataCenterInfo", "status")
    }
    return {**body, "app": app.lower(), "hostName": one}


def minimal(app, one, **members):
    names = ("instanceId", "hostName", "app", "ipAddr", "dataCenterInfo", "status", "lastDirtyTimestamp")
    body = plain(app, one, **members)
    return {name: body[name] for name in names if name in body}


def of_fargo(app, one, **members):
    """As older clients in Go do: no id and no class, empty texts and zeros for what is not set."""
    body = plain(app, one, **members)
    zeros = ("renewalIntervalInSecs", "durationInSecs", "registrationTimestamp", "serviceUpTimestamp")
    return {
        "hostName": one,
        "app": app,
        "ipAddr": "10.0.0.9",
        "vipAddress": body["vipAddress"],
        "secureVipAddress": "",
        "status": body["status"],
        "overriddenstatus": "",
        "port": {"$": "6000", "@enabled": "true"},
        "securePort": {"$": "0", "@enabled": ""},
        "homePageUrl": "",
        "countryId": 0,
        "dataCenterInfo": {"name": "MyOwn", "metadata": None},
        "leaseInfo": dict.fromkeys(zeros, 0),
        "metadata": body["metadata"],
    }


def of_steeltoe(app, one, **members):
    """As clients for .NET do: texts for flags and clocks, nulls, an action, and an unknown object at the end."""
    body = plain(app, one, **members)
    body.update({name: None for name in ("appGroupName", "secureHealthCheckUrl", "asgName") if name not in members})
    clocks = ("registrationTimestamp", "renewalTimestamp", "evictionTimestamp", "serviceUpTimestamp")
    return {
        **body,
        "sid": "na",
        "leaseInfo": {**body["leaseInfo"], **dict.fromkeys(clocks, "0")},
        "isCoordinatingDiscoveryServer": "false",
        "lastUpdatedTimestamp": "1000",
        "actionType": "ADDED",
        "somethingNew": {"x": 1},
    }


def of_go(app, one, **members):
    """As current clients in Go do: no id, the class after the name, a term that nobody knows."""
    body = plain(app, one, **members)
    center = {"name": "MyOwn", "@class": DEFAULT}
    names = ("app", "ipAddr", "status", "vipAddress", "metadata")
    short = {name: body[name] for name in names}
    lease = {"evictionDurationInSecs": 30}
    return {"hostName": one, **short, "port": {"$": 80, "@enabled": True}, "dataCenterInfo": center, "leaseInfo": lease}


#: All of them.
EVERY = (of_spring, of_javascript, of_fargo, of_steeltoe, of_go, minimal)
