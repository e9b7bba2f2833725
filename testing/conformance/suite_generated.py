"""Clients generated from the protos, in Python and JavaScript, through cuts, a drain and a crash of the server."""

from harness import check, gone, require, rest, seen, suite, until

#: Writes of each program between two events.
WRITES = 60


def main(server, watchers, start):
    def write(turn):
        """Both write and see what the other wrote."""
        for number in range(WRITES):
            writer = watchers[number % 2]
            name = f"n{number % 7}"
            match number % 5:
                case 0 | 1 | 2:
                    writer.ask("register", app=f"GEN-{number % 3}", id=name, metadata={"turn": f"{turn}.{number}"})
                case 3:
                    writer.ask("cancel", app=f"GEN-{number % 2}", id=name)
                case _:
                    writer.ask("register", app="LAST", id="last", metadata={"turn": f"{turn}.{number}"})
        mark = {"turn": f"{turn}.end"}
        watchers[0].ask("register", app="LAST", id="last", metadata=mark)
        seen(watchers, "LAST", metadata=mark)

    with check("each sees what the other writes"):
        write("first")
        rest(server, watchers)

    with check("a status set by one is seen by both, and so is its end"):
        watchers[0].ask("override", app="LAST", id="last", status="OUT_OF_SERVICE")
        seen(watchers, "LAST", status="OUT_OF_SERVICE")
        watchers[1].ask("clear", app="LAST", id="last")
        seen(watchers, "LAST", status="UP")

    with check("a cut stream resumes where it was, under writes"):
        for turn in range(4):
            watchers[0].ask("register", app="CUT", id=f"c{turn}")
            modes = [watcher.ask("reconnect") for watcher in watchers]
            require(modes == ["RESUME", "RESUME"], modes)
            watchers[1].ask("register", app="CUT", id="again", metadata={"turn": str(turn)})
        seen(watchers, "CUT", metadata={"turn": "3"})
        rest(server, watchers)

    with check("what is cancelled is told with its reason"):
        for number in range(4):
            watchers[number % 2].ask("cancel", app="CUT", id=f"c{number}")
        watchers[0].ask("cancel", app="CUT", id="again")
        gone(watchers, "CUT", "CANCELLED")

    for signal, fact in (("TERM", "a drain"), ("KILL", "a crash")):
        with check(f"after {fact} that lost everything the views start again from nothing"):
            before = [len(watcher.said) for watcher in watchers]
            server.restart(signal)
            for watcher, old in zip(watchers, before):
                until(lambda w=watcher, o=old: whole(w.said[o:]), f"{watcher.name} starts with a whole set")
            if signal == "TERM":
                for watcher, old in zip(watchers, before):
                    require(any("away" in said for said in watcher.said[old:]), f"{watcher.name} heard no GoAway")
            until(lambda: all(watcher.view == {} for watcher in watchers), "empty views")
        with check(f"and go on after {fact}"):
            write(fact)
            rest(server, watchers)


def whole(said):
    return any(words.get("mode") == "FULL" for words in said)


suite("generated clients", main)
