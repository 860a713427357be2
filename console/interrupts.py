"""Long work in the foreground that Ctrl-C ends at once and cleanly.

A native call keeps the main thread from Python, so a signal would be heard only after it. Work therefore runs in a
thread of its own, and the main thread waits at a pipe that a signal writes to, whichever thread it reaches.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prover.cancel import Cancelled, CancelToken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_interruptibly(work: Callable[[CancelToken], T]) -> T:
    """What ``work`` returns or raises.

    Raises:
        KeyboardInterrupt: if a signal (interrupt, terminate, hang-up) stopped it; it has ended by then. Work that ended
            in spite of the signal is done and returns.
    """
    token = CancelToken()
    values: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()
    reader, writer = os.pipe()

    def body() -> None:
        try:
            values.append(work(token))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            errors.append(error)
        ended.set()
        os.write(writer, b"\0")

    thread = threading.Thread(target=body, name="work")
    try:
        with _signals_cancel(token, writer):
            thread.start()
            while not ended.is_set():
                os.read(reader, 64)
            thread.join()
    finally:
        os.close(reader)
        os.close(writer)
    if errors:
        if isinstance(errors[0], Cancelled) and token.cancelled:
            raise KeyboardInterrupt from None
        raise errors[0]
    return values[0]


@contextmanager
def _signals_cancel(token: CancelToken, writer: int) -> Iterator[None]:
    """Signals that end a program ask the token instead; those that are ignored stay so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    os.set_blocking(writer, False)
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        for number, handler in previous.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda *_: token.cancel())
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in previous.items():
            signal.signal(number, handler)


__all__ = ["run_interruptibly"]
