"""vcctl in a pseudo-terminal: keys go in, the screen as it was last drawn comes out."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

WITHIN = 20.0
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\].*?\x07|[@-Z\\-_=>])")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d)(?:;\d+)*m")
HOME = "\x1b[H"


def _own_terminal() -> None:
    """Makes the new terminal the one whose keys interrupt the command."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """One command in a terminal of its own; use as a context manager."""

    def __init__(
        self, *words: str, kubeconfig: Path | str = "", columns: int = 120, lines: int = 30,
        environment: Mapping[str, str] | None = None, command: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        variables |= {"TERM": "xterm-256color", "KUBECONFIG": str(kubeconfig), **(environment or {})}
        self._process = subprocess.Popen(
            command or (sys.executable, "-m", "volcano.cmd.vcctl", *words),
            stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True, preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(slave)
        self.output = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def send(self, keys: str) -> None:
        """Hits keys."""
        os.write(self._master, keys.encode())

    @property
    def screen(self) -> str:
        """What is on the screen, without colours: what was drawn since the cursor last went home."""
        return CONTROL.sub("", self.output.rpartition(HOME)[2]).replace("\r", "")

    def until(self, text: str, *, without: str = "") -> str:
        """Reads until the screen shows a text (and no longer shows another); returns the screen."""
        deadline = time.monotonic() + WITHIN
        while not (text in self.screen and (not without or without not in self.screen)):
            if time.monotonic() > deadline or not self._read(0.2):
                raise AssertionError(
                    f"{text!r} does not come; there is:\n{self.screen}\n---\n{self.output[-2000:]!r}"
                )
        return self.screen

    def ends(self) -> int:
        """Waits for the end; returns the exit code."""
        deadline = time.monotonic() + WITHIN
        while self._process.poll() is None and time.monotonic() < deadline:
            self._read(0.1)
        while self._read(0.05):
            if not select.select([self._master], [], [], 0)[0]:
                break
        return self._process.wait(1)

    def _read(self, seconds: float) -> bool:
        """Takes in what was printed; False at the end of the output."""
        if not select.select([self._master], [], [], seconds)[0]:
            return self._process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.output += data.decode(errors="replace")
        return bool(data)
