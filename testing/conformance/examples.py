"""The programs of docs/examples as somebody has them in a terminal."""

import contextlib
import os
import subprocess
import sys
import threading

from harness import GUARD, HERE, PATIENCE, WORK, Failed, require, until

EXAMPLES = os.path.join(HERE, "..", "..", "docs", "examples")
#: A shell has what it starts in the background ignore Ctrl-C, a terminal does not; and a terminal shows both outputs.
AS_IN_A_TERMINAL = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.dup2(1, 2);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Example:
    """A program of docs/examples and the lines that it printed."""

    def __init__(self, file, *arguments):
        self.name = " ".join([file, *arguments[1:]])
        self.printed = []
        self.ended = threading.Event()
        program = sys.executable if file.endswith(".py") else "node"
        command = [program, os.path.join(EXAMPLES, file), *arguments]
        self.child = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", sys.executable, "-c", AS_IN_A_TERMINAL, *command],
            cwd=WORK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.path.join(WORK, "stubs")},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            self.printed.append(line.rstrip("\n"))
        self.ended.set()

    def prints(self, line, since=0, patience=PATIENCE):
        """Waits for a line that begins so, among those after the first `since`."""

        def found():
            over = self.ended.is_set()
            if any(printed.startswith(line) for printed in self.printed[since:]):
                return True
            require(not over, "its end")
            return False

        try:
            until(found, line, patience)
        except Failed as reason:
            raise Failed(f"{self.name} prints {line!r}: {reason}; printed {self.printed[-20:]}") from None

    def end(self, signal):
        """Sends a signal and gives back the code with which the program ends, as a shell tells it."""
        with contextlib.suppress(OSError):
            self.child.stdin.write(signal + "\n")
            self.child.stdin.close()
        until(lambda: self.child.poll() is not None, f"{self.name} ends by {signal}")
        until(self.ended.is_set, f"{self.name} closes its output")
        return self.child.returncode

    def kill(self):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        self.child.wait(PATIENCE)


class Owner(Example):
    """serve.py or serve.js, with the key that it registers."""

    def __init__(self, language, address, app, port):
        self.app, self.id = app, f"localhost:{app.lower()}:{port}"
        self.key = f"{self.app}/{self.id}"
        super().__init__(f"serve.{language}", address, app, port)

    def registers(self, since=0, patience=PATIENCE):
        self.prints(f"registered {self.app} {self.id}", since, patience)

    def cancels(self, signal):
        code = self.end(signal)
        require(code == 0, f"{self.name} ended with {code}: {self.printed}")
        require(self.printed[-1].lower() == "cancelled, was there: true", self.printed)
