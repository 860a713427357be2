"""A program on a real pseudo-terminal, its screen as text, and the modes that it leaves on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte

# What pyte would draw as text: private sequences (key protocols, mode questions), strings, and character set marks.
_UNKNOWN = re.compile(
    rb"\x1b\[[<>=?][\d;:]*[^\d;:hl]|\x1b\[[\d;?]*\$[a-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^].*?\x1b\\", re.S
)
_MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_UNFINISHED = re.compile(rb"\x1b[^a-zA-Z]{0,40}\Z")
LASTING = {
    1000: "mouse",
    1002: "mouse drag",
    1003: "mouse moves",
    1004: "focus",
    1006: "mouse format",
    1049: "screen",
    2004: "paste",
}


class Terminal:
    """Starts ``command``; everything is read in ``pump``, which the waiting methods call."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (100, 30)) -> None:
        columns, rows = size
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._rest = b""
        self.modes: set[int] = set()
        self.code: int | None = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], list(command), dict(env))
        self.before = termios.tcgetattr(self.fd)

    def pump(self, seconds: float) -> bool:
        """Read what comes within ``seconds``; False at the end of the program's output."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            chunk = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        if not chunk:
            return False
        for numbers, letter in _MODES.findall(chunk):
            for number in numbers.split(b";"):
                (self.modes.add if letter == b"h" else self.modes.discard)(int(number))
        data = self._rest + chunk
        cut = _UNFINISHED.search(data)
        self._rest = data[cut.start() :] if cut else b""
        self._stream.feed(_UNKNOWN.sub(b"", data[: cut.start()] if cut else data))
        return True

    def text(self) -> str:
        """The screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """The screen once it matches."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if re.search(pattern, self.text()):
                return self.text()
            if not self.pump(0.1):
                break
        raise AssertionError(f"{pattern!r} never showed:\n{self.text()}")

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.fd, keys.encode())

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def end(self, seconds: float = 20.0) -> int:
        """Wait for the program to end; its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.pump(0.05) and select.select([self.fd], [], [], 0)[0]:
                    pass
                self.code = os.waitstatus_to_exitcode(status)
                return self.code
        raise AssertionError(f"still running:\n{self.text()}")

    def left_on(self) -> list[str]:
        """Terminal modes that a program must not leave behind."""
        return [name for number, name in LASTING.items() if number in self.modes]

    def close(self) -> None:
        """Make sure that nothing stays."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self.fd)


def console_environment(home: Path) -> dict[str, str]:
    """The environment of a console with a home of its own: nothing of this machine's user is read or written."""
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX", "LINES", "COLUMNS")}
    env |= {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
    root = str(Path(__file__).parents[2])
    return env | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": root, "LANG": "C.UTF-8"}
