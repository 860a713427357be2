"""``cuzk-top`` whose built-in workload fails where the environment says. The product knows nothing of it.

``CUZK_TEST_FAULTS`` holds ``STEP@JOB=WHAT``, separated by blanks: in this step of the job of this number (that of its
inputs, from 0) the workload raises (``error``), kills its thread (``death``), or takes so many seconds longer
(``3.5``), unless it is cancelled meanwhile. Each happens once.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from prover.cancel import Cancelled, CancelToken


class Death(BaseException):
    """What no handler of a workload's failures catches."""


class Tagged(list[Any]):
    """A job's inputs, with its number."""

    job = -1


class Faults:
    """What is still to happen."""

    def __init__(self, text: str) -> None:
        self._lock = threading.Lock()
        self._left: dict[tuple[str, int], str] = {}
        for one in text.split():
            where, _, what = one.partition("=")
            step, _, job = where.partition("@")
            self._left[step, int(job)] = what

    def meet(self, step: str, job: int, cancel: CancelToken | None) -> None:
        """Let happen what is to happen here."""
        with self._lock:
            what = self._left.pop((step, job), None)
        if what == "error":
            raise RuntimeError(f"the fault of the test, in {step}")
        if what == "death":
            raise Death(f"the fault of the test, in {step}")
        end = time.monotonic() + float(what or 0)
        while time.monotonic() < end:
            if cancel is not None and cancel.cancelled:
                raise Cancelled
            time.sleep(0.01)


class Carried:
    """What a step made, with the job's number."""

    def __init__(self, job: int, made: Any) -> None:
        self.job = job
        self.made = made


class FaultyProver:
    """A slot's steps on the device."""

    def __init__(self, faults: Faults, job: int, inner: Any, cancel: CancelToken) -> None:
        self._faults, self._job, self._inner, self._cancel = faults, job, inner, cancel

    def __getattr__(self, step: str) -> Any:
        inner = getattr(self._inner, step)

        def go() -> Any:
            made = inner()  # first, so that a fault in ``release`` leaves nothing behind
            self._faults.meet(step, self._job, None if step == "release" else self._cancel)
            return Carried(self._job, made) if step == "d2h" else made

        return go


class FaultyWorkload:
    """Everything else is the real one's."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self.__dict__.update(_inner=inner, _faults=faults)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def sample_inputs(self, job: int, partitions: int) -> Tagged:
        made = Tagged(self._inner.sample_inputs(job, partitions))
        made.job = job
        return made

    def synthesize(self, inputs: Tagged, partitions: Sequence[int], threads: int, cancel: CancelToken) -> Carried:
        self._faults.meet("synthesize", inputs.job, cancel)
        return Carried(inputs.job, self._inner.synthesize(inputs, partitions, threads, cancel))

    def prover(self, synthesis: Carried, device: Any, threads: int, cancel: CancelToken) -> FaultyProver:
        self._faults.meet("prover", synthesis.job, cancel)
        inner = self._inner.prover(synthesis.made, device, threads, cancel)
        return FaultyProver(self._faults, synthesis.job, inner, cancel)

    def finish(self, pending: Carried) -> Any:
        self._faults.meet("finish", pending.job, None)
        return self._inner.finish(pending.made)

    def verify(self, inputs: Tagged, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        self._faults.meet("verify", inputs.job, None)
        return bool(self._inner.verify(inputs, partitions, proofs))


def main() -> int:
    from console.cli import main as console
    from prover.groth16.workload import CircuitWorkload

    real, faults = CircuitWorkload.open, Faults(os.environ.get("CUZK_TEST_FAULTS", ""))
    CircuitWorkload.open = lambda *args, **named: FaultyWorkload(real(*args, **named), faults)  # type: ignore[assignment,method-assign,return-value]
    return console()


if __name__ == "__main__":
    sys.exit(main())
