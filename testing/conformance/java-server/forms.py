"""The same registration written in other ways that mean the same, as clients, proxies and people write it."""

import json
import re

from bodies import as_json, as_xml


def another(random, body, xml):
    """The body in one of those ways."""
    name = random.choice(sorted(XML_WAYS if xml else JSON_WAYS))
    encoded = XML_WAYS[name](random, body) if xml else JSON_WAYS[name](random, body)
    return encoded if isinstance(encoded, bytes) else encoded.encode()


def _shuffled(random, body):
    names = list(body)
    random.shuffle(names)
    return {name: body[name] for name in names}


def _compact(body):
    return as_json(body).decode()


def _doubled(random, body):
    """A member that comes again: the last counts."""
    first = {"status": "DOWN", "vipAddress": "zztag-first", "metadata": {"first": "1"}}
    name = random.choice(sorted(name for name in first if name in body))
    start = '{"instance":{'
    return start + f'"{name}":{json.dumps(first[name])},' + _compact(body).removeprefix(start)


def _texts(_, body):
    """Numbers as texts."""

    def text(value):
        if isinstance(value, dict):
            return {name: text(inner) for name, inner in value.items()}
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    return _compact({name: text(value) for name, value in body.items()})


def _nulls(_, body):
    names = ("appGroupName", "sid", "secureHealthCheckUrl", "asgName", "actionType", "homePageUrl", "countryId")
    return _compact({**{name: None for name in names if name not in body}, **body})


def _unknown(random, body):
    more = random.choice([{"more": 1}, {"more": "x"}, {"more": None}, {"more": True, "evenMore": 1.5e3}])
    return _compact(_shuffled(random, {**body, **more}))


JSON_WAYS = {
    "shuffled": lambda random, body: as_json(_shuffled(random, body)),
    "indented": lambda _, body: json.dumps({"instance": body}, indent="\t", ensure_ascii=False),
    "windows": lambda _, body: "\r\n" + json.dumps({"instance": body}, indent=2).replace("\n", "\r\n") + "\r\n",
    "escaped": lambda _, body: json.dumps({"instance": body}).replace("/", "\\/"),
    "escaped names": lambda _, body: _compact(body).replace('"hostName"', '"h\\u006fstName"', 1),
    "marked": lambda _, body: b"\xef\xbb\xbf" + as_json(body),
    "doubled": _doubled,
    "texts": _texts,
    "nulls": _nulls,
    "unknown": _unknown,
}


def _element_text(body):
    return as_xml(body).decode()


def _broken_up(body, end):
    """Each element in a line of its own."""
    return re.sub(r"(</?[\w.:-]+(?: [^<>]*)?>)(?=<(?!/))|(</[\w.:-]+>)(?=</)", rf"\g<0>{end}  ", _element_text(body))


def _sections(body):
    return re.sub(r">([^<>&]+)</", r"><![CDATA[\1]]></", _element_text(body))


def _referenced(body):
    return re.sub(r"([^<>&;])</", lambda found: f"&#x{ord(found.group(1)):x};</", _element_text(body))


XML_WAYS = {
    "shuffled": lambda random, body: as_xml(_shuffled(random, body)),
    "indented": lambda _, body: _broken_up(body, "\n") + "\n",
    "windows": lambda _, body: _broken_up(body, "\r\n"),
    "declared": lambda _, body: '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + _element_text(body),
    "declared in small letters": lambda _, body: "<?xml version='1.0' encoding='utf-8'?>" + _element_text(body),
    "of another time": lambda _, body: '<?xml version="1.1"?>' + _element_text(body),
    "latin": lambda _, body: (
        b'<?xml version="1.0" encoding="ISO-8859-1"?>' + _element_text(body).encode("latin-1", "xmlcharrefreplace")
    ),
    "commented": lambda _, body: _element_text(body).replace("<status>", "<!-- now --><status>", 1),
    "instructed": lambda _, body: _element_text(body).replace("<status>", "<?now here?><status>", 1),
    "sections": lambda _, body: _sections(body),
    "referenced": lambda _, body: _referenced(body),
    "quoted": lambda _, body: re.sub(r'="([^"]*)"', r" = '\1'", _element_text(body)),
    "empty": lambda _, body: _element_text(body).replace("<metadata></metadata>", "<metadata/>"),
    "rooted": lambda _, body: re.sub(r"(</?)instance>", r"\1com.netflix.appinfo.InstanceInfo>", _element_text(body)),
    "named": lambda _, body: _element_text(body).replace("<instance>", '<instance xmlns:x="urn:x" x:y="z">', 1),
}
