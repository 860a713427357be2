"""The first line's sentence: what the device does and why, calm enough to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.frame import Headline
from prover.model import Cause, DeviceState, DeviceView
from prover.timeline import Segment

LASTING_S = 1.5
"""A state that holds for this long is told as it is; shorter ones are told as shares of the last stretch."""
STRETCH_S = 10.0
_MOSTLY = 0.9

REASON: Mapping[Cause, str] = {
    Cause.REQUESTS: "nothing asked",
    Cause.PAUSED: "paused",
    Cause.SYNTHESIS: "nothing synthesised",
    Cause.MEMORY: "no memory for another slot",
    Cause.LOCK: "a worker holds it for CPU work",
    Cause.TRANSFER: "data on the move",
    Cause.WORKERS: "work waits, no worker is free",
    Cause.LOST: "it does not answer",
}
"""A cause as the end of a sentence."""


def headline(view: DeviceView, recent: Sequence[Segment], now: float) -> Headline:
    """The sentence, from the state as it stands and the ``recent`` segments of the last ``STRETCH_S`` seconds."""
    lasted = now - view.since
    if view.state is DeviceState.COMPUTING:
        if lasted >= LASTING_S:
            return Headline(view.state, "computing")
    elif view.state is DeviceState.IDLE and view.cause is Cause.PAUSED and lasted < LASTING_S:
        return Headline(view.state, "idle: paused", "paused")  # the operator's own doing: told at once
    elif lasted >= LASTING_S and view.cause is not None:
        short = f"{view.state.value} for {_long(lasted)}"
        return Headline(view.state, f"{short}: {REASON[view.cause]}", short)
    lost: dict[tuple[DeviceState, Cause], float] = {}
    busy = total = 0.0
    for segment in recent:
        seconds = segment.end - segment.start
        total += seconds
        if segment.cause is None:
            busy += seconds
        else:
            key = (segment.state, segment.cause)
            lost[key] = lost.get(key, 0.0) + seconds
    if total <= 0 or not lost or busy >= _MOSTLY * total:
        return Headline(DeviceState.COMPUTING if busy else view.state, "computing" if busy else view.state.value)
    (state, cause), seconds = max(lost.items(), key=lambda item: item[1])
    short = f"computing {_share(busy, total)}, {state.value} {_share(seconds, total)}"
    return Headline(state, f"{short}: {REASON[cause]}", short)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _long(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
