"""Genuine Eureka servers and ours, asked the same.

    suite.py PATH-OF-heureka BUILD-FOLDER VERSION=JAR... [--steps N] [--seed N | --history NAME] [--survey]

Both get the same requests one after the other: a tour of everything odd, then histories by number. After each request that may
write, the registries are compared as well. Whatever differs has to be covered by a numbered entry of `allowed.py`, and each
entry has to be needed. `--seed` or `--history` plays a part; `--survey` goes on and lists each difference once.
"""

import argparse
import itertools
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import Failed, _watch_parent  # noqa: E402

import allowed  # noqa: E402, F401
import compare  # noqa: E402
import context  # noqa: E402
import documents  # noqa: E402
import histories  # noqa: E402
import maker  # noqa: E402
import tour  # noqa: E402
from servers import Hangs, Ours, Theirs, request  # noqa: E402

#: Steps of a history.
LENGTH = 60
#: Longest life of a pair of servers in seconds, well below the three minutes after which a delta forgets.
LIFE = 100
LIST = histories.Step("read", "GET", "/eureka/apps", (("Accept", histories.JSON),))


class Unexplained(Exception):
    """Something differs and nothing says why: at which step, and what."""

    def __init__(self, number, step, problems):
        super().__init__(problems)
        self.number, self.step, self.problems = number, step, problems


class Pair:
    """Two servers that were told the same so far."""

    def __init__(self, theirs, ours, survey):
        self.theirs, self.ours = theirs, ours
        #: Differences by the entries that cover them.
        self.numbers = {}
        #: Differences that nothing covers, where they are only listed.
        self.survey = {} if survey else None
        self.tags = (f"T{number:04}X" for number in itertools.count())
        self.played = 0
        self.starting = 0
        self.start()

    def start(self):
        begun = time.monotonic()
        self.theirs.start()
        self.ours.start()
        self.begun = time.monotonic()
        self.starting += self.begun - begun

    def stop(self):
        self.theirs.stop()
        self.ours.stop()

    def renew(self):
        self.stop()
        self.start()

    def ask(self, step):
        """Both answers. Both servers work at the same time, each on one request at a time."""
        sent = request(step.verb, step.path, step.headers, step.body)
        self.theirs.begin(sent)
        self.ours.begin(sent)
        ours = self.ours.end(step.verb)
        return self.theirs.end(step.verb), ours

    def play(self, name, steps):
        """Plays a history and leaves nothing of it behind, but in deltas."""
        if time.monotonic() - self.begun > LIFE:
            self.renew()
        self.name, self.tag = name, next(self.tags)
        #: What the registries are known to have apart, and what they hold.
        self.known, self.held = set(), [{}, {}]
        #: Whom both were made to forget after a difference.
        self.removed = set()
        self.past = context.Past()
        for number, step in enumerate(steps):
            step = step.tagged(self.tag)
            try:
                problems = self.alone(step) if step.alone else self.one(step)
            except Hangs:
                self.renew()
                problems = ["no answer"]
            if problems:
                raise Unexplained(number, step, problems)
            self.played += 1
        self.forget({whom for held in self.held for whom in held})

    def one(self, step):
        """Problems of one request."""
        theirs, ours = self.ask(step)
        differences = [one for one in compare.answers(step, theirs, ours, self.tag) if not self.is_known(one)]
        before = self.held
        if step.kind != "read":
            differences += self.look()
        self.past.note(step, before[0])
        seen = context.Context(step, theirs, ours, before, self.held, self.past, self.ours.switches)
        problems, apart = [], set()
        for one in differences:
            entries = [entry for entry in context.ENTRIES if entry.covers(one, seen)]
            for entry in entries:
                self.numbers[entry.number] = self.numbers.get(entry.number, 0) + 1
            if not entries:
                problems.append(one)
            if not entries or not all(entry.shown for entry in entries):
                apart |= self.set_apart(one, step)
        if self.survey is not None:
            for one in problems:
                self.survey.setdefault((one.kind, one.place, one.theirs[:50], one.ours[:50], step.kind), []).append(
                    (one, step, self.name)
                )
            problems = []
        if apart and not problems:
            self.forget(apart)
        return problems

    def look(self):
        """What the registries have apart that is new."""
        self.held = self.registries()
        apart = compare.registries(*self.held)
        known, self.known = self.known, {compare.mark(one) for one in apart}
        return [one for one in apart if compare.mark(one) not in known]

    def registries(self):
        """What each holds of this history, by application and id."""
        answers = self.ask(LIST)
        held = [compare.grouped(documents.leaves(answer.body, self.tag)) for answer in answers]
        return [{whom: members for whom, members in one.items() if any(whom)} for one in held]

    def set_apart(self, one, step):
        """Of whom both hold something else after a difference, or may."""
        if one.kind == "registry":
            return {(one.app, one.one)}
        if one.place.endswith("/statusCode"):
            told = [(item.get("appName"), item.get("id")) for item in step.sent or []]
            return {whom for whom in told if all(whom)}
        return {(step.app, step.one)} if one.kind == "status" and step.kind != "read" and step.one else set()

    def is_known(self, difference):
        """Whether a reader only sees what is known of the registries. What was removed because they differed in it stands
        in deltas as it was."""
        whom = (difference.app, difference.one)
        gone = whom in self.removed and whom not in self.held[0]
        return difference.kind == "body" and (gone or compare.mark(difference) in self.known)

    def alone(self, step):
        """What would cost a genuine server a thread: ours takes or refuses it, and every list can be read after it."""
        answer = self.ours.ask(step.verb, step.path, step.headers, step.body)
        if answer.status not in (204, 400, 413, 415):
            return [f"ours answers {answer.status}"]
        for headers in histories.FORMS[:5]:
            documents.leaves(self.ours.ask("GET", "/eureka/apps", headers).plain())
        held = self.registries()
        self.forget({whom for whom in held[1] if whom not in held[0]} | {(step.app, step.one)})
        return []

    def forget(self, keys):
        """Both forget these, in the only way that reaches every name."""
        self.removed |= keys
        self.past.forget(keys)
        items = [{"appName": app, "id": one, "action": "Cancel"} for app, one in sorted(keys)]
        if items:
            self.ask(histories.batch(items))
        self.look()
        left = [whom for held in self.held for whom in held if whom in keys]
        if left:
            raise Failed(f"{left} is still there after its cancel")

    def shortest(self, steps, problems):
        """The steps without those that are not needed for the last of them to differ."""

        def differs(some):
            try:
                self.play(self.name, some)
            except Unexplained as found:
                self.forget({whom for held in self.held for whom in held})
                return found.number == len(some) - 1 and kinds(problems) <= kinds(found.problems)
            return False

        def kinds(some):
            return {(one.kind, one.place == "status") for one in some if one != "no answer"}

        last = steps[-1]
        told = last.sent if isinstance(last.sent, list) else []
        ids = {last.one, *(item.get("id") for item in told)}
        same = [step for step in steps[:-1] if step.one in ids or step.kind == "batch"] + [last]
        kept = same if differs(same) else steps
        for step in kept[-2::-1]:
            fewer = [one for one in kept if one is not step]
            if differs(fewer):
                kept = fewer
        return kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("work")
    parser.add_argument("versions", nargs="+", metavar="VERSION=JAR")
    parser.add_argument("--steps", type=int, default=10000, help="at least so many for each version")
    parser.add_argument("--seed", type=int, help="only this history")
    parser.add_argument("--history", help="only parts of the tour whose names begin so")
    parser.add_argument(
        "--survey", action="store_true", help="list every difference once instead of ending at the first"
    )
    options = parser.parse_args()
    _watch_parent()
    numbers = {}
    try:
        for version in options.versions:
            against(*version.split("=", 1), options, numbers)
        idle = [entry.number for entry in context.ENTRIES if entry.number not in numbers]
        if idle and options.seed is None and options.history is None:
            raise Failed(f"entries that nothing needs any more: {', '.join(idle)}")
    except Failed as fact:
        print(f"the same requests to genuine servers and ours: {fact}", flush=True)
        sys.exit(1)


def against(version, jar, options, numbers):
    begun = time.monotonic()
    pair = Pair(Theirs(version, jar), Ours(**context.SWITCHES.get(version, {})), options.survey)
    try:
        for name, steps in wanted(options, pair):
            try:
                pair.play(name, steps)
            except Unexplained as found:
                report(pair, version, name, steps, found)
                raise Failed(f"{version} answers otherwise") from None
    finally:
        pair.stop()
    for key, count in pair.numbers.items():
        numbers[key] = numbers.get(key, 0) + count
    summary(pair, version, time.monotonic() - begun)


def wanted(options, pair):
    """Histories by their names: those that are asked for, or all."""
    if options.seed is not None:
        yield f"seed {options.seed}", maker.Maker(options.seed).steps(LENGTH)
        return
    for name, steps in tour.tour():
        if name.startswith(options.history or ""):
            yield name, steps
    for seed in itertools.count():
        if options.history is not None or pair.played >= options.steps:
            break
        yield f"seed {seed}", maker.Maker(seed).steps(LENGTH)
    for name, steps in tour.last():
        if name.startswith(options.history or ""):
            yield name, steps


def report(pair, version, name, steps, found):
    print(f"  FAILED {version}, {name}, step {found.number + 1}:", flush=True)
    for problem in found.problems[:12]:
        print(f"      {problem}")
    for step in pair.shortest(steps[: found.number + 1], found.problems):
        print(f"    {step}")
    again = f"--seed {name.split()[1]}" if name.startswith("seed") else f"--history {name}"
    print(f"    again: {' '.join(sys.argv[:3])} {version}=JAR {again}", flush=True)


def summary(pair, version, took):
    for signature, found in (pair.survey or {}).items():
        one, step, name = found[0]
        print(f"{len(found)} × {signature}\n    {one}\n    {name}: {step}")
    rate = pair.played / max(took - pair.starting, 1)
    print(
        f"  {version}: {pair.played} steps in {took:.0f} s, of which {pair.starting:.0f} s were starts: {rate:.0f} steps/s"
    )
    by_number = sorted(pair.numbers.items(), key=lambda one: int(one[0][1:]))
    print(f"    differences by entry: {', '.join(f'{key} {count}' for key, count in by_number)}", flush=True)


main()
