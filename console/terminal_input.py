"""What is typed, pasted or clicked: bytes that are no UTF-8, or that no terminal sends, cost themselves and no more.

Textual's own reader ends the program on the first byte that is not UTF-8, as a terminal with another encoding sends, or
one that sets the eighth bit for Alt.
"""

from __future__ import annotations

import os
import selectors
import sys
from codecs import getincrementaldecoder
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_CHUNK = 4096
_POLL_S = 0.1
"""How often the parser may find that a lone escape is a key, and the thread that it should end."""


class TerminalInput(LinuxDriver):
    """The driver of a terminal whose input is not trusted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Textual draws on standard error; where that is a file (``2>errors``), standard output is the terminal."""
        super().__init__(*args, **kwargs)
        error, output = sys.__stderr__, sys.__stdout__
        if output is not None and output.isatty() and not (error is not None and error.isatty()):
            self._file = output

    def run_input_thread(self) -> None:
        """Read until the driver stops or the terminal is gone."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser = XTermParser(self._debug)
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                text = ""
                if selector.select(_POLL_S):
                    try:
                        chunk = os.read(self.fileno, _CHUNK)
                    except OSError:  # the terminal is gone: a hang-up follows
                        return
                    if not chunk:
                        return
                    text = decode(chunk)
                try:
                    messages = [*(parser.feed(text) if text else ()), *parser.tick()]
                except Exception:  # noqa: BLE001 - whatever a sequence does to the parser, the next key gets a new one
                    parser = XTermParser(self._debug)
                    continue
                for message in messages:
                    self.process_message(message)


__all__ = ["TerminalInput"]
