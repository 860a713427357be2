"""Long work in the foreground that Ctrl-C ends at once and cleanly.

A native call keeps the main thread from Python, so the signal would be heard only after it. Work therefore runs in a
thread of its own; the main thread waits, hears the signal, asks the work to stop and waits for it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from prover.cancel import Cancelled, CancelToken

T = TypeVar("T")


class _Outcome(Generic[T]):
    def __init__(self) -> None:
        self.value: list[T] = []
        self.error: BaseException | None = None


def run_interruptibly(work: Callable[[CancelToken], T]) -> T:
    """What ``work`` returns or raises.

    Raises:
        KeyboardInterrupt: if a signal (interrupt, terminate, hang-up) asked to stop; ``work`` has ended by then.
    """
    token = CancelToken()
    outcome: _Outcome[T] = _Outcome()
    ended = threading.Event()

    def body() -> None:
        try:
            outcome.value.append(work(token))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.error = error
        finally:
            ended.set()

    thread = threading.Thread(target=body, name="work")
    with _termination_as_interrupt():
        thread.start()
        # Not join(): interrupted there, CPython 3.11 takes the thread for ended.
        while not ended.is_set():
            try:
                ended.wait()
            except KeyboardInterrupt:
                token.cancel()
    thread.join()
    if isinstance(outcome.error, Cancelled) and token.cancelled:
        raise KeyboardInterrupt
    if outcome.error is not None:
        raise outcome.error
    return outcome.value[0]


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does, so that no temporary file stays."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


__all__ = ["run_interruptibly"]
