"""Who held a GPU's lock: the C++ library's timing lines, which name neither job nor partition, put together.

``pre_lock_cpu_ms`` opens an ownership, ``gpu_tid`` and ``CUZK_NTT_H`` lines belong to it, ``mutex_held_ms`` closes it.
The next ``prove_start`` line whose time is just above ``total_start_fn_ms`` then names the worker and the partition.
With several GPUs more than one is open at once: arithmetic tells which one a line closes, or it stays unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from console.feeds.logs.record import LogRecord
from console.feeds.logs.values import timing_fields
from prover.model import FieldValue

_MOST = 32
_SLACK_MS = 5
"""By how much the parts of a call may differ from its whole: each was cut to milliseconds."""
_RELEASE_MS = 2000
"""The most by which ``prove_start_ms`` exceeds the call: the memory of a, b and c is given back in between."""
_ALIKE_MS = 2
_OF_OWNER = ("ntt_msm_h_ms", "barrier_wait_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms", "ntt_kernels")


@dataclass(slots=True)
class Ownership:
    """One stay under the lock, in milliseconds."""

    pre_lock_cpu_ms: int
    mutex_wait_ms: int
    mutex_held_ms: int = 0
    total_start_fn_ms: int = 0
    parts: dict[str, FieldValue] = field(default_factory=dict)
    """What the lines in between told: host times."""


class LockOwners:
    """The state machine."""

    def __init__(self) -> None:
        self.unknown = 0
        """Ownerships that could not be told apart."""
        self.closed = 0
        self._open: list[Ownership] = []
        self._closed: list[Ownership] = []

    def timing(self, record: LogRecord) -> None:
        """A timing line."""
        text = record.message
        if "mutex_" not in text and (len(self._open) != 1 or ("gpu_tid" not in text and "ntt_kernels" not in text)):
            return
        fields = timing_fields(text)
        wait, held = fields.get("mutex_wait_ms"), fields.get("mutex_held_ms")
        if isinstance(wait, int):
            self._open.append(Ownership(_int(fields.get("pre_lock_cpu_ms")), wait))
            if len(self._open) > _MOST:
                del self._open[0]
                self.unknown += 1
        elif isinstance(held, int):
            self._close(held, _int(fields.get("total_start_fn_ms")))
        elif len(self._open) == 1:
            for key in _OF_OWNER:
                if key in fields:
                    self._open[0].parts[key] = fields[key]

    def _close(self, held: int, total: int) -> None:
        self.closed += 1
        matching = [
            owner
            for owner in self._open
            if abs(total - owner.pre_lock_cpu_ms - owner.mutex_wait_ms - held) <= _SLACK_MS
        ]
        if len(matching) != 1:
            self.unknown += 1
            # it belonged to one of these; which one is not known, so none of them may be used for another
            for owner in matching or self._open[:1]:
                self._open.remove(owner)
            return
        owner = matching[0]
        self._open.remove(owner)
        owner.mutex_held_ms, owner.total_start_fn_ms = held, total
        self._closed.append(owner)
        if len(self._closed) > _MOST:
            del self._closed[0]
            self.unknown += 1

    def claim(self, prove_start_ms: int) -> Ownership | None:
        """The ownership of the call that took this long, if it can be told."""
        near = sorted(
            (owner for owner in self._closed if -1 <= prove_start_ms - owner.total_start_fn_ms <= _RELEASE_MS),
            key=lambda owner: prove_start_ms - owner.total_start_fn_ms,
        )
        if not near:
            return None
        if len(near) > 1 and near[0].total_start_fn_ms - near[1].total_start_fn_ms <= _ALIKE_MS:
            self._closed.remove(near[0])
            self.unknown += 1
            return None
        self._closed.remove(near[0])
        return near[0]


def _int(value: int | None) -> int:
    return 0 if value is None else value
