"""The side of a client's program on which it is asked: JSON lines, see harness.Program."""

import json
import sys


def say(**words):
    print(json.dumps(words), flush=True)


def answer(do):
    """Has `do` answer what is asked, until it is told to stop."""
    say(started=True)
    for line in sys.stdin:
        words = json.loads(line)
        say(answer=words["ask"], result=do(words))
        if words["do"] == "stop":
            break
