"""Documents as maps from places to texts, so that two of them can be compared whatever their order is."""

import json
import re
import time
import xml.etree.ElementTree as tree

#: Members that hold readings of the server's clock, or what a caller said.
CLOCKS = {
    "lastUpdatedTimestamp",
    "lastDirtyTimestamp",
    "lastRenewalTimestamp",
    "registrationTimestamp",
    "serviceUpTimestamp",
    "evictionTimestamp",
}
#: What is this near to now is a reading of a clock. Callers here never send such.
NEAR = 2 * 86_400_000


class Malformed(Exception):
    """What is no document."""


def leaves(body, word=""):
    """Places and values. Applications stand under their names and instances under their ids; a value of JSON shows its type.
    Of a list only applications with this word in their names."""
    text = body.decode("utf-8", "strict") if body else ""
    found = {}
    try:
        if text[:1] == "{":
            document = json.loads(text, object_pairs_hook=_pairs)
            apps = document.get("applications", {})
            if "application" in apps:
                apps["application"] = [app for app in apps["application"] if word in app["name"]]
            _json(document, "", found)
        else:
            root = tree.fromstring(text)
            for app in root.findall("application") if root.tag == "applications" else []:
                if word not in app.findtext("name"):
                    root.remove(app)
            _xml(root, "/" + root.tag, found)
    except (ValueError, tree.ParseError) as problem:
        raise Malformed(str(problem)) from None
    return {place: _masked(place, value) for place, value in found.items()}


def member(place):
    return place.rsplit("/", 1)[-1]


def bare(value):
    """A value without what shows its type."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def instance_of(place):
    """Application and id of the instance that a place belongs to, as far as the place tells them, and the place within
    it; nothing where it belongs to none."""
    found = re.match(r"(?:/applications)?/application(?:\[(.*?)\])?/instance\[(.*?)\](?:/(.*))?$", place, re.S)
    if found:
        return tuple(part or "" for part in found.groups())
    return ("", "", place.removeprefix("/instance/")) if place.startswith("/instance/") else None


def _pairs(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"a member twice: {names}")
    return dict(pairs)


def _id(one):
    """The id by which an instance goes where it tells none."""
    center = one.get("dataCenterInfo", {}).get("metadata", {}).get("instance-id")
    return one.get("instanceId") or center or one.get("hostName") or "?"


def _json(value, place, found):
    if isinstance(value, dict):
        if not value:
            found[place] = "{}"
        for name, inner in value.items():
            _json(inner, f"{place}/{name}", found)
    elif isinstance(value, list):
        if not value:
            found[place] = "[]"
        for number, inner in enumerate(value):
            _json(inner, f"{place}[{_named(place, inner, number)}]", found)
    else:
        found[place] = json.dumps(value, ensure_ascii=False)


def _named(place, inner, number):
    if place.endswith("/application"):
        return inner["name"]
    if place.endswith("/instance"):
        return _id(inner)
    return number


def _xml(element, place, found):
    for name, value in element.attrib.items():
        found[f"{place}/@{name}"] = value
    children = list(element)
    if not children:
        found[place] = element.text or ""
    for child in children:
        inner = f"{place}/{child.tag}"
        if child.tag == "application":
            inner += f"[{child.findtext('name')}]"
        if child.tag == "instance":
            center = child.findtext("dataCenterInfo/metadata/instance-id")
            inner += f"[{child.findtext('instanceId') or center or child.findtext('hostName')}]"
        _xml(child, inner, found)


def _masked(place, value):
    digits = bare(value)
    if member(place) in CLOCKS and len(digits) == 13 and digits.isdigit():
        if abs(int(digits) - time.time() * 1000) < NEAR:
            return value.replace(digits, "now")
    return value
