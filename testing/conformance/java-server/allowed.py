"""What may differ, by the numbers of `docs/eureka-compat.md`.

An entry says exactly of which requests and places. One that covers what a request left behind in the registries says so by
`registry`, and by `shown` where both hold the same and only show it differently; after any other such difference the
instance is removed at both servers, so that it explains nothing that comes later.
"""

import re
import unicodedata

from context import (
    CLASSES,
    EMPTY,
    JSON,
    STATUS_ITEMS,
    STATUSES,
    UNPARSED,
    XML,
    entry,
    item_of,
    items,
    place_in,
    reason,
    refused_here,
    same_instance,
    stamp_in,
    taken_here,
)
from documents import bare


def harmless(text):
    """A refusal that neither breaks a line of somebody's log nor repeats names of any length."""
    told = re.fullmatch(r"(Mismatched appName, expecting )(.*)( but was )(.*)", text, re.S)
    text = "".join(part[:256] for part in told.groups()) if told else text
    return "".join("\ufffd" if unicodedata.category(letter) == "Cc" else letter for letter in text)


@entry("D1")
def refusals_say_their_reason_as_plain_text(d, c):
    if c.ours.status < 400:
        return False
    if d.kind == "text":
        documents = d.theirs.startswith(("{", "<Map>", "<!doctype", "<html>", "<error>"))
        # What cannot be meant is met while reading, what is missing at the end.
        another = c.codes == (400, 400) and d.theirs.startswith("Missing ") and re.match(r"[\w.@]+: ", d.ours)
        return d.theirs in UNPARSED or documents or not d.theirs or harmless(d.theirs) == d.ours or another
    if d.place != "Content-Type":
        return False
    return d.ours == (
        "text/plain; charset=utf-8" if c.ours.body or c.step.verb == "HEAD" and c.ours.status == 400 else ""
    )


@entry("D2", registry=True)
def nobody_is_told_406(d, c):
    return c.theirs.status == 406 and c.ours.status in (200, 204, 404) and d.kind in ("status", "registry")


@entry("D3")
def roots_and_slashes(d, c):
    path = c.step.path.partition("?")[0]
    slashes = "//" in path[1:] and c.codes in ((404, 200), (404, 204), (404, 405))
    versions = re.match(r"/eureka/(v1|V2)/", path) and c.codes == (404, 200)
    odd = path.startswith("/eureka/v2x/") and c.codes == (200, 404)
    return d.kind == "status" and (slashes or odd or versions)


@entry("D4", registry=True)
def encoded_slashes(d, c):
    encoded = re.search(r"%(2f|5c|00)|%(?![0-9a-f]{2})|[^!-~]", c.step.path.partition("?")[0], re.I)
    return encoded and c.theirs.status == 400 and d.kind in ("status", "registry")


@entry("D5", shown=True)
def ids_are_printed(d, c):
    return d.member == "instanceId" and bare(d.theirs) in ("absent", "") and bare(d.ours) == d.one


@entry("D6", registry=True)
def bare_ports(d, c):
    if not taken_here(d, c):
        return False
    for port in (c.instance().get(name) for name in ("port", "securePort")):
        if isinstance(port, (int, str)) or (isinstance(port, dict) and set(port) - {"$", "@enabled"}):
            return True
    return any(not (port.text or "").isdigit() for name in ("port", "securePort") for port in c.element().iter(name))


@entry("D7", registry=True)
def data_center_class(d, c):
    center = c.instance().get("dataCenterInfo")
    if not isinstance(center, dict):
        return False
    known = center.get("@class") in CLASSES
    if d.kind == "text":
        return d.ours.startswith("Missing dataCenterInfo Name")
    twice = re.search(rb'"dataCenterInfo":\{[^}]*"(@class|name)":[^}]*"\1":', c.body)
    return taken_here(d, c) and (not known or twice or set(center) - {"@class", "name"})


@entry("D8", registry=True)
def ports_in_range(d, c):
    return refused_here(d, c) and reason(c, r"(port|securePort)(\.@enabled)?: ")


@entry("D9", registry=True)
def caller_faults_are_400(d, c):
    faults = c.codes in ((500, 400), (500, 415), (500, 404), (200, 400))
    named = c.ours.status != 400 or reason(
        c,
        r"value: ",
        r"lastDirtyTimestamp: ",
        r"overriddenstatus",
        r"cannot parse",
        r"Missing",
        r"replicationList",
        r"body",
    )
    return (
        faults
        and named
        and d.kind in ("status", "registry")
        and (c.theirs.status == 500 or "lastDirtyTimestamp" in c.query)
    )


@entry("D10", registry=True)
def null_metadata(d, c):
    given = c.instance().get("metadata") or {}
    none = [f"metadata/{name}" for name, value in given.items() if value is None]
    return none and (
        d.member in none and bare(d.theirs) == "null" and d.ours == "absent" or d.member == "metadata/@class"
    )


@entry("D11")
def single_xml_status(d, c):
    return d.kind == "body" and d.member == "status" and d.theirs == "DOWN" and d.ours in ("OUT_OF_SERVICE", "UNKNOWN")


@entry("D12")
def type_says_what_the_body_is(d, c):
    if d.kind == "document":
        return d.place == "format" and (d.theirs, d.ours) == ("XML", "JSON") and "json" in c.accept.lower()
    if d.place != "Content-Type" or c.ours.status != 200:
        return False
    essence = d.theirs.split(";")[0].lower()
    return essence == d.ours or ("json" in c.accept.lower() and d.ours == "application/json")


@entry("D13", registry=True)
def late_peer_copies(d, c):
    if item := item_of(d, c):
        return (item.get("appName"), item.get("id")) in c.past.cancelled and "404" in (d.theirs, d.ours)
    return c.by_peer and d.kind == "registry" and (d.app, d.one) in c.past.cancelled


@entry("D14", registry=True)
def lease_terms(d, c):
    terms = c.instance().get("leaseInfo") or {}
    if taken_here(d, c):
        return any(str(value).isdigit() and int(value) >= 2**31 for value in terms.values())
    return d.member.startswith("leaseInfo/") and d.ours == "86400" and d.theirs.isdigit() and int(d.theirs) > 86400


@entry("D15", registry=True)
def removed_override_restores(d, c):
    told = [item.get("action") for item in same_instance(d, c) if item.get("action") in STATUS_ITEMS]
    if c.step.kind == "clear":
        told = ["DeleteStatusOverride"]
    if "DeleteStatusOverride" not in told:
        return False
    if place_in(d, c) is not None:
        return d.place.endswith(("/responseEntity/status", "/responseEntity/leaseInfo/serviceUpTimestamp"))
    # What is told after the end of an override is an override only where something else is shown.
    again = "StatusUpdate" in told[told.index("DeleteStatusOverride") :]
    had = bare(c.was(d).get("overriddenStatus", "")) != "UNKNOWN" or told[0] == "StatusUpdate"
    members = ("status", "leaseInfo/serviceUpTimestamp", *["overriddenStatus"] * again)
    return d.kind == "registry" and had and d.member in members


@entry("D16", registry=True)
def owners_override_is_ignored(d, c):
    one = c.instance() or {element.tag: element.text for element in c.element()}
    sent = [str(one.get(name)).strip().upper() for name in ("overriddenStatus", "overriddenstatus")]
    if not STATUSES - {"UNKNOWN"} & set(sent):
        return False
    return d.kind == "registry" and d.member in ("status", "overriddenStatus", "leaseInfo/serviceUpTimestamp")


@entry("D17", registry=True)
def override_stamp_is_ignored(d, c):
    stamps = {str(item.get("lastDirtyTimestamp")) for item in same_instance(d, c) if item.get("action") in STATUS_ITEMS}
    if item := item_of(d, c):
        known = str(item.get("lastDirtyTimestamp")) in stamps
        return stamps and ((d.theirs, d.ours) == ("409", "200") or known and (d.theirs, d.ours) == ("200", "404"))
    if d.member != "lastDirtyTimestamp":
        return False
    if d.kind == "body":
        return "/delta" in c.step.path and bare(d.theirs) in c.past.raised.get((d.app, d.one), ())
    return stamps or "lastDirtyTimestamp" in c.query and c.step.kind in ("status", "clear")


@entry("D18", registry=True)
def unknown_override_is_none(d, c):
    return (
        c.step.kind == "status" and c.query.get("value") == "UNKNOWN" and d.kind == "registry" and c.codes == (200, 200)
    )


@entry("D19", shown=True)
def modified_when_it_was_there(d, c):
    if "actionType" not in (d.member, d.place.rpartition("/")[2]):
        return False
    if (bare(d.theirs), bare(d.ours)) == ("MODIFIED", "ADDED"):
        return c.step.kind == "batch" and d.kind == "registry" and not c.was(d)
    again = len(same_instance(d, c)) > 1
    return (bare(d.theirs), bare(d.ours)) == ("ADDED", "MODIFIED") and (d.kind != "registry" or c.was(d) or again)


@entry("D20", registry=True)
def other_encodings_of_bodies(d, c):
    encoding = next((value for name, value in c.step.headers if name == "Content-Encoding"), "")
    return encoding and d.kind in ("status", "registry") and c.codes == ((204, 415) if encoding == "br" else (400, 204))


@entry("D21")
def gzip_negotiation(d, c):
    coding = next((value for name, value in c.step.headers if name == "Accept-Encoding"), "")
    return d.place == "Content-Encoding" and coding in ("GZIP", "gzip;q=0")


@entry("D22")
def delta_number(d, c):
    return d.place == "/applications/versions__delta" and "/delta" in c.step.path and int(bare(d.ours)) > 1


@entry("D23", registry=True)
def stamp_conflicts(d, c):
    if d.kind != "registry" or c.step.kind not in ("register", "broken"):
        return False
    believed = c.past.beats.get((d.app, d.one), 0) >= 2
    moved = any(
        c.was(d).get(name) != c.now(d, 1).get(name) for name in ("hostName", "ipAddr", "port/$", "securePort/$")
    )
    return (believed or moved) and c.was(d).get("lastDirtyTimestamp") == c.now(d).get("lastDirtyTimestamp")


@entry("D24", registry=True)
def empty_texts(d, c):
    return d.kind == "registry" and bare(d.theirs) == "" and d.ours == "absent" and "metadata" not in d.member


CLOCKED = ("countryId", "lastDirtyTimestamp")


@entry("D27", registry=True)
def junk_numbers(d, c):
    if refused_here(d, c):
        return reason(
            c, r"(countryId|lastDirtyTimestamp|lastUpdatedTimestamp|leaseInfo\.\w+): (expected|[-\d]+ is outside)"
        )
    one = c.instance() or {element.tag: element.text for element in c.element()}
    if d.kind == "registry" and (d.app, d.one) != (c.step.app, c.step.one) and c.step.kind != "batch":
        # A blank one that came with what was stored shows when anything else changes.
        return d.member == "lastDirtyTimestamp" and d.ours == '"now"'
    if d.kind == "registry" and c.codes == (204, 204):
        # A stamp of 0 loses, and one that is absent is this moment.
        lost = "lastDirtyTimestamp" in one and c.was(d) and c.was(d).get(d.member) == c.now(d).get(d.member)
        given = one.get("lastDirtyTimestamp" if lost else d.member) if lost or d.member in CLOCKED else "0"
        return not str(given or "").strip().isdigit()
    unread = any(
        re.fullmatch(r"\d{10,}", str(one.get(name)))
        for name in ("lastUpdatedTimestamp", "isCoordinatingDiscoveryServer")
    )
    return unread and taken_here(d, c) or taken_here(d, c) and not str(one.get("countryId") or "").strip().isdigit()


@entry("D25", registry=True)
def unknown_objects(d, c):
    lifted = re.search(rb'\{"instance":\{.*"\w*":\{"(instanceId|hostName|app|ipAddr)"', c.body)
    objects = {name for name, value in c.instance().items() if isinstance(value, dict)}
    unknown = objects - {"port", "securePort", "dataCenterInfo", "leaseInfo", "metadata"}
    # One that is cut off may count as whole.
    nested = re.search(rb'"leaseInfo":\{[^{}]*"\w*":\{', c.body)
    return (lifted or unknown or nested) and c.codes in ((204, 400), (400, 204)) and d.kind in ("status", "registry")


@entry("D26", registry=True)
def broken_blocks_cost_nothing(d, c):
    junk = next(
        (lease for lease in c.element().iter("leaseInfo") if any(not (one.text or "").isdigit() for one in lease)), None
    )
    overflow = any(len(one.text or "") > 9 for lease in c.element().iter("leaseInfo") for one in lease)
    return (
        d.kind == "registry"
        and c.type.startswith(XML)
        and (junk is not None or overflow)
        and (d.theirs in ("absent", '"now"', "90", EMPTY) or c.was(d, 1).get(d.member) == c.now(d, 1).get(d.member))
    )


@entry("D28", registry=True)
def nested_metadata(d, c):
    nested = re.search(rb'"metadata":\{[^{}]*"\w*":\{', c.body)
    return refused_here(d, c) and (nested or reason(c, r"metadata\.\w+: expected a text"))


@entry("D29", registry=True)
def flags_ignore_case(d, c):
    flag = re.search(rb'enabled"?[=:] ?"( *(TRUE|FALSE|False|True) *| +true +)"', c.body)
    return d.kind == "registry" and d.member in ("port/@enabled", "securePort/@enabled") and flag


@entry("D30")
def metadata_keys_in_xml(d, c):
    held = [pair for members in c.after[0].values() for pair in members.items()]
    names = [member.removeprefix("metadata/") for member, _ in held if member.startswith("metadata/")]
    values = [value for _, value in held]
    odd = any(":" in name or not name or re.search(r"[\x00-\x1f]", name) for name in names) or any(
        "\\u00" in value for value in values
    )
    coded = (
        d.kind == "body"
        and d.member.startswith("metadata/")
        and c.step.kind == "read"
        and (d.ours == "absent" and not d.member[9:].isascii() or d.theirs == "absent" and "_." in d.member)
    )
    return coded or d.kind == "document" and d.place == "theirs" and odd


@entry("D31", registry=True)
def control_characters(d, c):
    return refused_here(d, c) and reason(c, r"\w+: holds a control character")


@entry("D33")
def compact_extra(d, c):
    return d.place == "/applications/registeredApplicationsEmpty" and d.ours == "absent"


@entry("D34")
def reserved_names(d, c):
    return d.kind == "status" and re.search(r"apps/ALL_APPS(_DELTA)?$", c.step.path) and c.codes == (200, 404)


@entry("D32", registry=True)
def half_a_pair(d, c):
    return refused_here(d, c) and re.search(rb"\\ud[89a-f]", c.body, re.I) and reason(c, r".*is no valid text")


@entry("D35")
def blanks_in_address_lists(d, c):
    if not re.search(r"/s?vips/", c.step.path) or d.kind != "body":
        return False
    members = c.after[0].get((d.app, d.one), {})
    listed = any(" " in members.get(name, "") for name in ("vipAddress", "secureVipAddress"))
    others = any(" " in one.get("vipAddress", "") for one in c.after[0].values())
    return listed or d.place.endswith(("/apps__hashcode", "/application")) and others


@entry("D38", registry=True)
def other_encodings_of_texts(d, c):
    declared = re.match(rb"<\?xml[^>]*nonsense", c.body) and c.codes == (400, 204)
    return declared or refused_here(d, c) and (reason(c, r".*not UTF-8") or b"\0" in c.body[:4])


@entry("D36", registry=True)
def path_parameters(d, c):
    raw = not c.step.path.isascii() and c.theirs.status == 400
    return (
        raw
        and d.kind in ("status", "registry")
        or (d.kind == "status" and ";x=1" in c.step.path and c.codes == (200, 404))
    )


@entry("D37", registry=True)
def content_type_of_others(d, c):
    return (
        c.theirs.status == 400
        and c.step.kind in ("read", "beat", "register")
        and c.type in ("", "json", "application/json, application/json", "a/b/c")
        and d.kind == "status"
    )


@entry("D39", registry=True)
def group_in_upper_case(d, c):
    return d.member == "appGroupName" and d.theirs.upper() == d.ours and c.type.startswith("application/xml")


@entry("D41")
def allow_of_odd_verbs(d, c):
    return c.step.verb == "TRACE" and (d.place == "Allow" or c.codes == (405, 404))


@entry("D42", registry=True)
def a_peers_override_shows_at_once(d, c):
    told = any(item.get("overriddenStatus") for item in items(c)) or "overriddenstatus" in c.query
    return told and d.kind == "registry" and d.member in ("status", "overriddenStatus")


@entry("D43", registry=True)
def a_bad_item_costs_itself(d, c):
    if c.step.kind != "batch":
        return False
    if d.place.endswith("/statusCode"):
        return (d.theirs, d.ours) in (("500", "400"), ("200", "400"), ("404", "400"), ("500", "200"))
    # Theirs goes by the instance alone, whatever else the item tells.
    nameless = [item for item in items(c) if not item.get("id") or not item.get("appName")]
    if d.kind == "registry" and any((item.get("instanceInfo") or {}).get("instanceId") == d.one for item in nameless):
        return True
    return d.kind in ("status", "registry") and c.codes in ((400, 200), (500, 200))


@entry("D45")
def batches_are_answered_in_json(d, c):
    told = (d.place, d.theirs, d.ours)
    return c.step.kind == "batch" and told in (("Content-Type", XML, JSON), ("format", "XML", "JSON"))


@entry("D46", registry=True)
def sizes_are_bounded(d, c):
    return refused_here(d, c) and reason(c, r"[\w.]+: has \d+, more than the limit of \d+")


@entry("D47", registry=True)
def expectations_that_nobody_knows(d, c):
    return c.theirs.status == 417 and d.kind in ("status", "registry")


@entry("D48")
def removed_entries_show_no_override(d, c):
    gone = not c.now(d) and "/delta" in c.step.path
    return d.kind == "body" and gone and d.member in ("status", "overriddenStatus", "leaseInfo/serviceUpTimestamp")


@entry("D49", registry=True)
def owners_move_between_up_and_out_of_service(d, c):
    statuses = {bare(d.theirs), bare(d.ours)}
    kept = bare(c.was(d).get("status", "")) == bare(d.theirs) or d.member != "status"
    registered = c.step.kind in ("register", "broken", "metadata", "batch")
    return (
        not c.switches
        and d.kind == "registry"
        and registered
        and kept
        and (
            (d.member == "status" and statuses == {"UP", "OUT_OF_SERVICE"})
            or (d.member == "leaseInfo/serviceUpTimestamp" and bare(c.now(d).get("status", "")) == "OUT_OF_SERVICE")
        )
    )


@entry("D50", registry=True)
def operators_newest_word_is_kept(d, c):
    told = [item.get("status") for item in same_instance(d, c) if item.get("action") == "StatusUpdate"]
    value = told[0] if told else c.query.get("value")
    shown = (told or c.step.kind == "status") and bare(c.was(d).get("status", "")) == value
    return d.kind == "registry" and d.member == "overriddenStatus" and shown and bare(d.ours) == value


@entry("D51", registry=True)
def peers_copies_are_compared_with_our_version(d, c):
    if item := item_of(d, c):
        stamp = item.get("lastDirtyTimestamp")
        copies = [one for one in same_instance(d, c) if one.get("action") == "Register"]
        told = (d.theirs, d.ours) == ("200", "404") and stamp in [one.get("lastDirtyTimestamp") for one in copies]
        told = told or (d.theirs, d.ours) == ("409", "200") and copies
        beat = item.get("action") == "Heartbeat"
        return told or beat and is_of_our_version(d, c, stamp, (item.get("appName"), item.get("id")))
    if c.step.kind == "beat" and d.kind == "status":
        return c.by_peer and is_of_our_version(d, c, stamp_in(c.step.path), (c.step.app, c.step.one))
    if "/responseEntity/" in d.place:
        return "Register" in [item.get("action") for item in same_instance(d, c)]
    if d.kind == "body":
        return "/delta" in c.step.path and not c.now(d) and (d.app, d.one) in c.past.replaced
    kept = c.was(d, 1).get(d.member, "absent") == d.ours
    ruled = any(item.get("action") in STATUS_ITEMS for item in same_instance(d, c))
    if not c.by_peer or d.kind != "registry" or not c.was(d) or not (kept or ruled):
        return False
    sent = [item["instanceInfo"] for item in items(c) if item.get("instanceInfo") and item.get("id") == d.one] or [
        c.step.sent
    ]
    stamp = sent[0].get("lastDirtyTimestamp") if isinstance(sent[0], dict) else None
    stored = bare(c.was(d).get("lastDirtyTimestamp", ""))
    if stamp is None:
        # It counts as now, and what came back after a cancel may have a version beyond.
        return (d.app, d.one) in c.past.cancelled
    return stored.isdigit() and int(stamp) - int(stored) < 64


def is_of_our_version(d, c, stamp, whom):
    """A peer's heartbeat between the owner's stamp and our version."""
    ours = stamp is not None and (whom in c.past.cancelled or stamp - c.past.highest.get(whom, 0) < 64)
    return ours and d.theirs in ("404", "500") and d.ours == "200"


@entry("D52")
def peers_renew_whatever_the_status(d, c):
    item = item_of(d, c)
    beat = c.step.kind == "beat" or item and item.get("action") == "Heartbeat"
    whom = (item.get("appName"), item.get("id")) if item else (c.step.app, c.step.one)
    unknown = bare(c.before[0].get(whom, {}).get("status", "")) == "UNKNOWN"
    return c.by_peer and beat and unknown and d.theirs == "404" and d.ours in ("200", "409")


@entry("D53", shown=True)
def a_newer_stamp_alone_is_no_change(d, c):
    if d.kind != "registry" or d.member != "lastDirtyTimestamp" or c.step.kind not in ("register", "broken", "batch"):
        return False
    clocks = ("lastDirtyTimestamp", "actionType", "lastUpdatedTimestamp")
    same = {k: v for k, v in c.was(d, 1).items() if k not in clocks} == {
        k: v for k, v in c.now(d, 1).items() if k not in clocks
    }
    return same and bare(d.theirs).isdigit() and d.ours == c.was(d, 1).get("lastDirtyTimestamp")


@entry("D54")
def the_server_tells_of_itself(d, c):
    path = c.step.path.partition("?")[0].rstrip("/")
    if path.endswith("/serverinfo/statusoverrides"):
        return d.kind == "status" and c.codes in ((404, 200), (404, 405))
    if not path.endswith("/eureka/status"):
        return False
    return (d.kind == "status" and c.codes == (500, 200)) or (d.kind == "body" and c.codes == (200, 200))


@entry("D55")
def records_in_answers_are_of_their_item(d, c):
    found = re.match(r"/responseList\[(\d+)\]/responseEntity/", d.place)
    if not found or d.kind != "body":
        return False
    place = int(found.group(1))
    return any(item.get("id") == items(c)[place].get("id") for item in items(c)[place + 1 :])


@entry("D56", registry=True)
def an_override_is_of_one_application(d, c):
    shared = {app for app in c.past.overridden.get(d.one, ()) if app != d.app}
    members = ("status", "overriddenStatus", "leaseInfo/serviceUpTimestamp", "actionType")
    # A heartbeat brings it to the record that its answer may hold.
    told = d.kind == "registry" or d.kind == "body" and c.step.kind == "beat"
    return told and shared and d.member in members
