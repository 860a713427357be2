"""From what NVML and the engine know of a GPU to what its panel shows: figures with their names, alarms, notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from console.feeds.nvml import words
from console.feeds.nvml.card import CardState, GpuCard
from console.feeds.nvml.census import Census
from console.frame import DeviceFrame, Frame
from prover.model import DeviceSample, DeviceView
from widgets.device import DeviceData, Figure
from widgets.figures import UNKNOWN, percent, rate, seconds, size, span, used_of

LOWEST_UP_TO_S = 60.0
"""Up to this window a column of the chart shows its lowest sample, so that a gap shorter than a column is seen."""
_FRESH_S = 3.0
"""Older samples say nothing of now."""
_XID_TOLD_S = 3600.0
_BUSY = 5.0
"""SM utilisation from which a slow bus is no power saving."""
_LEAK = float(64 << 20)
"""Bytes an hour by which the memory's floor may rise before it is told."""


def panel(frame: Frame, one: DeviceFrame, shared: DeviceData) -> DeviceData:
    """The panel of a GPU."""
    newest = _newest(one, frame.at)
    by_counters = any(sample.sm is not None for sample in one.samples[-50:])
    series = one.samples if by_counters else one.driver
    over = span(frame.window)
    lowest = by_counters and frame.window <= LOWEST_UP_TO_S
    shown = newest.sm if by_counters and newest is not None else newest.driver if newest is not None else None
    return replace(
        shared,
        notes=(f"last {over}, lowest in each column", f"last {over}") if lowest else (f"last {over}",),
        alarms=tuple(sorted([*alarms(one.card, newest, frame.at), *shared.alarms], key=_severity)),
        figures=tuple(_figures(one, newest)),
        brief=tuple(_brief(one, newest)),
        health=(*_health(one.card, newest), *_good_proofs(one.view)),
        usage_name="SM" if by_counters else "drv",
        usage_now=percent(shown),
        samples=tuple(_pairs(series, by_counters)),
        lowest=lowest,
    )


def _severity(alarm: Figure) -> bool:
    return alarm.role != "bad"


def _good_proofs(view: DeviceView) -> Iterable[Figure]:
    if view.proofs_good:
        yield Figure("good proofs", str(view.proofs_good))


def no_gpu(census: Census | None) -> tuple[str, ...]:
    """Why no GPU proves here: the longest line first, the panel takes one that fits."""
    if census is None:
        return ("no GPU in use, proving on the CPU",)
    if census.why is None:
        return (
            f"proving on the CPU, a GPU could be used (GPUs: {census.counts})",
            f"on the CPU, GPUs: {census.counts}",
        )
    return (
        f"proving on the CPU, {census.line}",
        f"proving on the CPU, GPUs: {census.counts}: {census.short_why}",
        f"GPUs: {census.counts}: {census.short_why}",
        f"GPUs: {census.counts}",
    )


def asides(census: Census | None) -> tuple[str, ...]:
    """The same for a panel of few lines."""
    if census is None:
        return ()
    why = census.short_why
    lines = (census.line, f"GPUs: {census.counts}: {why}", f"{census.counts}: {why}")
    return (*(lines if why else ()), f"GPUs: {census.counts}", census.counts)


def alarms(card: GpuCard | None, newest: DeviceSample | None, now: float) -> Iterable[Figure]:
    """What must not be overlooked, the worst first."""
    if card is None:
        yield Figure("", "not seen by NVML", "warn")
        return
    if card.problem is not None:
        yield Figure("", card.problem, "bad" if card.lost else "warn")
    state = card.state
    heard = [event for event in state.events if now - event.at < _XID_TOLD_S]
    if heard:
        yield Figure("", f"{words.xid(heard[-1].xid)}, {seconds(now - heard[-1].at)} ago", "bad")
    yield from _memory_alarms(card)
    if state.throttle:
        yield Figure("clocks held by", ", ".join(state.throttle), "warn")
    if (bus := _slow_bus(card, newest)) is not None:
        yield Figure("", bus, "warn")
    foreign = [process for process in state.processes if not process.ours]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        first = foreign[0]
        yield Figure("also on it", f"{first.name} {size(first.memory)} (pid {first.pid}){more}", "warn")
    if state.refused:
        yield Figure("no permission for", ", ".join(state.refused), "label")


def _memory_alarms(card: GpuCard) -> Iterable[Figure]:
    state = card.state
    if state.ecc_uncorrected:
        yield Figure("", f"{state.ecc_uncorrected} uncorrected memory errors", "bad")
    if state.rows_failed:
        yield Figure("", "a memory row cannot be replaced", "bad")
    elif state.rows_pending:
        yield Figure("", "a memory row waits for a reset", "warn")
    if card.memory_floor_rise is not None and card.memory_floor_rise > _LEAK:
        yield Figure("memory floor", f"+{size(card.memory_floor_rise)} an hour", "warn")


def _slow_bus(card: GpuCard, newest: DeviceSample | None) -> str | None:
    """PCIe below what card and board can do. An idle GPU may lower the generation, never the width."""
    identity, state = card.identity, card.state
    if not state.pcie_width or not identity.pcie_width_max or not identity.pcie_generation_max:
        return None
    busy = newest is not None and (newest.sm or 0.0) > _BUSY
    slow = busy and (state.pcie_generation or 0) < identity.pcie_generation_max
    if state.pcie_width >= identity.pcie_width_max and not slow:
        return None
    return f"PCIe {_bus(state)} of {identity.pcie_generation_max}×{identity.pcie_width_max}"


def _bus(state: CardState) -> str:
    return f"{state.pcie_generation or UNKNOWN}×{state.pcie_width or UNKNOWN}"


def _figures(one: DeviceFrame, newest: DeviceSample | None) -> Iterable[Figure]:
    """How busy, each way of asking by its name; what the multiprocessors did; power, heat, memory."""
    shares = one.utilisation_by
    for name in ("kernels", "lock", "driver"):
        if name == "kernels" or shares.get(name) is not None:
            yield _use(name, shares)
    if one.card is not None and one.card.identity.gpm:
        yield Figure("sm", _level(newest.sm if newest else None))
        yield Figure("occ", _level(newest.occupancy if newest else None))
        yield Figure("int", _level(newest.integer_pipe if newest else None))
        yield Figure("fp64", _level(newest.fp64_pipe if newest else None))
        yield Figure("dram", _level(newest.dram if newest else None))
    yield from _physics(newest, brief=False)
    if shares.get("timeline") is not None:
        yield _use("timeline", shares)


def _brief(one: DeviceFrame, newest: DeviceSample | None) -> Iterable[Figure]:
    """The figures of a single line."""
    yield _use("kernels", one.utilisation_by)
    if one.card is not None and one.card.identity.gpm:
        yield Figure("sm", _level(newest.sm if newest else None))
    else:
        yield _use("driver", one.utilisation_by)
    yield from _physics(newest, brief=True)


def _physics(newest: DeviceSample | None, *, brief: bool) -> Iterable[Figure]:
    if newest is None:
        return
    if newest.power_w is not None:
        limit = "" if brief or newest.power_limit_w is None else f"/{newest.power_limit_w:.0f}"
        yield Figure("", f"{newest.power_w:3.0f}{limit} W")
    if newest.temperature_c is not None:
        yield Figure("", f"{newest.temperature_c:2.0f} °C")
    if newest.memory_total is not None:
        yield Figure("", _memory(newest.memory_used, newest.memory_total))


def _health(card: GpuCard | None, newest: DeviceSample | None) -> Iterable[Figure]:
    """The second line: clock, bus, memory's floor, errors, who is on it."""
    if card is None:
        return
    identity, state = card.identity, card.state
    if newest is not None and newest.sm_clock_mhz is not None:
        most = f" of {identity.sm_clock_max_mhz}" if identity.sm_clock_max_mhz else ""
        yield Figure("clock", f"{newest.sm_clock_mhz:4.0f}{most} MHz")
    if state.pcie_width:
        yield Figure("PCIe", _bus(state))
    if newest is not None and newest.pcie_rx is not None:
        yield Figure("in", f"{_gigabytes(newest.pcie_rx)} GB/s")
        yield Figure("out", f"{_gigabytes(newest.pcie_tx)} GB/s")
    if card.memory_floor is not None:
        yield Figure("memory floor", size(card.memory_floor), line=card.memory_floor_line)
    if state.ecc_corrected is not None:
        yield Figure("ECC corrected", str(state.ecc_corrected), "warn" if state.ecc_corrected else "value")
    ours = [process for process in state.processes if process.ours]
    if ours:
        yield Figure("ours", size(ours[0].memory))


def _newest(one: DeviceFrame, now: float) -> DeviceSample | None:
    """The sample that tells of now; what is old is not shown as if it were."""
    newest = one.samples[-1] if one.samples else None
    return newest if newest is not None and now - newest.at < _FRESH_S else None


def _pairs(series: Sequence[DeviceSample], by_counters: bool) -> list[tuple[float, float]]:
    """Thousands in a long window, four times a second: hence no generator."""
    if by_counters:
        return [(sample.at, sample.sm) for sample in series if sample.sm is not None]
    return [(sample.at, sample.driver) for sample in series if sample.driver is not None]


def _use(name: str, shares: Mapping[str, float | None]) -> Figure:
    share = shares.get(name)
    return Figure(name, percent(None if share is None else 100 * share))


def _memory(used: int | None, total: int) -> str:
    """``41.2/140 GiB``: what little is used of much is still told."""
    amount, unit = size(total).split(" ")
    if used is None or unit != "GiB":
        return used_of(used, total)
    return f"{rate(used / 2**30)}/{amount} {unit}"


def _level(value: float | None) -> str:
    """A percentage in three cells, its sign left to the name."""
    return f"{UNKNOWN if value is None else f'{value:.0f}':>3}"


def _gigabytes(value: float | None) -> str:
    return rate(None if value is None else value / 1e9)
