"""What two answers, or two registries, have apart."""

import dataclasses
import re

import documents
from documents import Malformed, bare

#: Members of XML by the names that they have in JSON.
NAMES = {"overriddenstatus": "overriddenStatus", "port": "port/$", "securePort": "securePort/$"}


@dataclasses.dataclass(frozen=True)
class Difference:
    """One place. `kind` is `status`, `header`, `text`, `document`, `body`, or `registry` for what a request left behind."""

    kind: str
    place: str
    theirs: str
    ours: str
    #: Whom it is of, where it is of an instance.
    app: str = ""
    one: str = ""
    #: The member of the instance; empty where the instance as a whole is there or not.
    member: str = ""

    def __str__(self):
        whom = f"{self.app}/{self.one} " if self.one else ""
        return f"{self.kind}: {whom}{self.member or self.place}: theirs {self.theirs[:300]}, ours {self.ours[:300]}"


def answers(step, theirs, ours, word):
    """Where two answers to a request differ; of lists only applications with this word."""
    if theirs.status != ours.status:
        return [Difference("status", "status", str(theirs.status), str(ours.status))]
    found = _headers(step, theirs, ours)
    if step.verb in ("HEAD", "OPTIONS"):
        return found
    if ours.status in (200, 409):
        found += _documents(step, theirs, ours, word)
    elif ours.status == 400:
        said, told = (answer.body.decode("utf-8", "replace") for answer in (theirs, ours))
        if said != told:
            found.append(Difference("text", "text", said, told))
    elif ours.body:
        found.append(Difference("text", "text", "", ours.body.decode("utf-8", "replace")))
    return found


def _headers(step, theirs, ours):
    found = []
    for name in ("Content-Type", "Content-Encoding", "Allow", "Location"):
        values = [answer.header(name) for answer in (theirs, ours)]
        if name == "Allow":
            values = [", ".join(sorted(_verbs(value))) for value in values]
        if name == "Content-Type" and step.verb == "OPTIONS":
            continue
        if values[0] != values[1]:
            found.append(Difference("header", name, *values))
    return found


def _verbs(allow):
    """`HEAD` is named by a genuine server or not by the code of its answer."""
    return {verb.strip() for verb in allow.split(",")} - {"", "HEAD"}


def _documents(step, theirs, ours, word):
    bodies = theirs.plain(), ours.plain()
    if not bodies[0] or not bodies[1]:
        return [] if bodies[0] == bodies[1] else [Difference("body", "body", *(one.decode()[:300] for one in bodies))]
    read = []
    for body in bodies:
        try:
            read.append(documents.leaves(body, word))
        except (Malformed, UnicodeDecodeError) as problem:
            read.append(str(problem))
    if isinstance(read[1], str):
        return [Difference("document", "ours", "", f"{read[1]}: {bodies[1][:300]!r}")]
    if isinstance(read[0], str):
        return [Difference("document", "theirs", read[0], "well-formed")]
    forms = [body[:1] == b"{" for body in bodies]
    if forms[0] != forms[1]:
        return [Difference("document", "format", *("JSON" if form else "XML" for form in forms))]
    return list(_apart("body", *(grouped(leaves, step) for leaves in read)))


def _apart(kind, there, here):
    for whom in sorted(there.keys() | here.keys()):
        if any(whom) and (whom not in there or whom not in here):
            presence = ["present" if whom in side else "absent" for side in (there, here)]
            yield Difference(kind, "instance", *presence, *whom)
            continue
        first, second = there.get(whom, {}), here.get(whom, {})
        for member in sorted(first.keys() | second.keys()):
            values = first.get(member, "absent"), second.get(member, "absent")
            if re.match(r"/responseList\[\d+\]/responseEntity", member) and "absent" in values:
                # Only one of the codes is a 409, which is told already.
                continue
            if values[0] != values[1]:
                yield Difference(kind, member, *values, *whom, member if any(whom) else "")


def grouped(leaves, step=None):
    """Members by the application and id of the instance that they are of; those of no instance under empty texts."""
    found = {}
    for place, value in leaves.items():
        of = documents.instance_of(place)
        if of is None:
            if not place.endswith(("/name", "/application", "/instance")):
                found.setdefault(("", ""), {})[place] = value
            continue
        app, one, member = of
        whom = (app or (step.app if step else ""), one or (step.one if step else ""))
        found.setdefault(whom, {})[NAMES.get(member, member)] = value
    return found


def registries(theirs, ours):
    """Where two registries differ, each given by whom it holds."""
    return list(_apart("registry", theirs, ours))


def mark(difference):
    """What makes two differences the same to readers of either format."""
    return difference.app, difference.one, difference.member, bare(difference.theirs), bare(difference.ours)
