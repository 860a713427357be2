"""From the frame to what each panel shows: words, units and roles. Pure functions; the panels know no frame."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from console.frame import DeviceFrame, Frame
from console.screens import present_gpu
from prover.figures import GapCluster
from prover.model import DeviceState, DeviceView, JobState, KnobValue, KnobView, MemoryView, PacerView, StageView
from prover.pipeline.knobs import Effect, KnobSpec, KnobType, available_cores
from widgets.device import DeviceData, Figure, GapFigure
from widgets.devices import DevicesData
from widgets.figures import percent, rate, seconds, short_seconds, size, span, used_of
from widgets.header import HeaderData
from widgets.knobs import KnobRow, KnobsData, show
from widgets.partitions import PartitionsData
from widgets.pipeline import PipelineData, Stop
from widgets.sentences import Sentence, SentencesData

PANEL_KNOBS = (
    "synthesis_lookahead",
    "synthesis_concurrency",
    "gpu_workers_per_device",
    "gpu_lock",
    "slot_size",
    "paused",
)
"""The knobs that operators turn most come first; the others follow in the registry's order."""
_LANDED_S = 8.0
"""How long the panel says that a change has just come into force."""
_SIZES = tuple(half << power for power in range(29, 41) for half in (2, 3))
"""Steps of a knob that is a size: 1, 1.5, 2, 3, 4 GiB and so on, as far as the machine goes."""
_POOL_SHARE = 8
"""``pinned_pool_bytes`` ``auto`` is this part of the budget."""
_NO_STAGE = StageView("", 0, 0, 0, None)


def _share(value: float | None) -> str:
    return percent(None if value is None else 100 * value)


def device_name(view: DeviceView) -> str:
    """A device as people call it."""
    if view.kind == "host" and view.name == "host":
        cores = available_cores()
        return f"host CPU, {cores} core{'s' if cores > 1 else ''}"
    return view.name


def header(frame: Frame, frozen_at: float | None, now: float) -> HeaderData:
    """The first line."""
    snapshot = frame.snapshot
    what = snapshot.workload or snapshot.circuit
    circuit = what.partition(",")[0]
    name = circuit.removeprefix("built-in ")
    where, short = _where(frame.devices), _where(frame.devices, brief=True)
    home = "" if snapshot.simulated or frame.replay else "in-process · "
    subjects: tuple[tuple[str, str], ...] = (
        (f"{home}{what}", where),
        (what, where),
        (what, short),
        (circuit, short),
        (name, short),
    )
    brief = ""
    if snapshot.activity is not None:
        state, sentence = DeviceState.IDLE, f"starting: {snapshot.activity}"
    elif frame.devices:
        state, sentence, brief = _told(frame.devices)
    else:
        state, sentence = DeviceState.IDLE, "no device"
    freeze = "" if frozen_at is None else f"frozen {now - frozen_at:.0f} s"
    clock = time.strftime("%H:%M:%S", time.localtime(frame.wall))
    marks = (f"REPLAY {frame.replay}" if frame.replay else "", "SIMULATED" if snapshot.simulated else "")
    mark = " ".join(filter(None, marks))
    subjects = (*subjects, (name, "")) if mark else subjects  # that it is a model is more than what it models
    return HeaderData(subjects, state, sentence, clock, brief, freeze, mark)


def _where(devices: Sequence[DeviceFrame], *, brief: bool = False) -> str:
    """What it runs on: ``NVIDIA H200``, ``2 × NVIDIA H200``; in brief ``CPU``, ``H200``, ``2 × H200``."""
    names = [_brief_name(one.view) if brief else device_name(one.view) for one in devices]
    if len(names) > 1 and len(set(names)) == 1:
        return f"{len(names)} × {names[0]}"
    return " + ".join(names)


def _brief_name(view: DeviceView) -> str:
    return "CPU" if view.kind == "host" else view.name.removeprefix("NVIDIA ")


def _told(devices: Sequence[DeviceFrame]) -> tuple[DeviceState, str, str]:
    """The state in words and in brief; of several devices, of the first that does not compute."""
    one = next((d for d in devices if d.headline.state is not DeviceState.COMPUTING), devices[0])
    told, which = one.headline, f"GPU {one.view.ordinal}: " if len(devices) > 1 else ""
    return told.state, which + told.sentence, which + told.short if told.short else ""


def device(frame: Frame, one: DeviceFrame) -> DeviceData:
    """The device panel."""
    view = one.view
    if view.kind == "model":
        return _modelled(frame, one)
    return present_gpu.panel(frame, one, _shared(frame, one)) if view.kind == "cuda" else _host(frame, one)


def devices(frame: Frame) -> DevicesData:
    """The panel of several devices."""
    names = {device_name(one.view) for one in frame.devices}
    of = f"{len(frame.devices)} × {next(iter(names))}" if len(names) == 1 else ", ".join(sorted(names))
    data = tuple(device(frame, one) for one in frame.devices)
    return DevicesData(f"GPUs · {of}", data, data[0].notes)


def _host(frame: Frame, one: DeviceFrame) -> DeviceData:
    newest = one.samples[-1] if one.samples else None
    why = present_gpu.no_gpu(frame.census)
    return replace(
        _shared(frame, one),
        title=f"Device {one.view.ordinal} · {device_name(one.view)}",
        notes=tuple(f"{line} · last {span(frame.window)}" for line in why),
        asides=present_gpu.asides(frame.census),
        figures=_figures(one),
        usage_now=percent(newest.cpu if newest is not None else None),
        samples=tuple((sample.at, sample.cpu) for sample in one.samples if sample.cpu is not None),
    )


def _modelled(frame: Frame, one: DeviceFrame) -> DeviceData:
    """A modelled device: no counters, and the chart shows the modelled machine's memory."""
    known = [sample for sample in one.samples if sample.memory_used is not None and sample.memory_total]
    pairs = tuple((sample.at, 100 * (sample.memory_used or 0) / (sample.memory_total or 1)) for sample in known)
    over = span(frame.window)
    return replace(
        _shared(frame, one),
        notes=(f"a model, no proofs are made · last {over}", f"last {over}"),
        figures=_figures(one),
        usage_name="mem",
        usage_now=percent(pairs[-1][1] if pairs else None),
        samples=pairs,
    )


def _shared(frame: Frame, one: DeviceFrame) -> DeviceData:
    """What the panels of all kinds of devices have in common."""
    return DeviceData(
        title=f"GPU {one.view.ordinal} · {device_name(one.view)}",
        now=frame.at,
        window=frame.window,
        state=one.view.state,
        lane=one.lane,
        markers=frame.markers,
        gaps_title=f"gaps, last {span(frame.window)}",
        gaps=tuple(GapFigure(c.cause, _cluster_text(c)) for c in sorted(one.clusters, key=_cost)),
        gaps_in_window=one.gaps_in_window,
        alarms=_bad_proofs(one.view),
    )


def _bad_proofs(view: DeviceView) -> tuple[Figure, ...]:
    """A device that ever made a proof that did not verify is not to be overlooked."""
    bad, made = view.proofs_bad, view.proofs_good + view.proofs_bad
    return (Figure("bad proofs", f"{bad} of {made}", "bad"),) if bad else ()


def _figures(one: DeviceFrame) -> tuple[Figure, ...]:
    figures = [
        Figure(name, _share(one.utilisation_by.get(name)))
        for name in ("kernels", "lock", "timeline", "sm", "driver")
        if one.utilisation_by.get(name) is not None or name == "kernels"
    ]
    newest = one.samples[-1] if one.samples else None
    if newest is not None and newest.cpu is not None:
        figures.append(Figure("cpu", percent(newest.cpu)))
    if newest is not None and newest.memory_total is not None:
        figures.append(Figure("memory", used_of(newest.memory_used, newest.memory_total)))
    if one.view.proofs_good:
        figures.append(Figure("good proofs", str(one.view.proofs_good)))
    return tuple(figures)


def _cost(cluster: GapCluster) -> float:
    """What a cluster cost in all, the dearest first."""
    return -cluster.count * cluster.centre_s


def _cluster_text(cluster: GapCluster) -> str:
    text = f"{cluster.count} × {seconds(cluster.centre_s)}"
    low, high = cluster.low_s, cluster.high_s
    if high < 0.0995:
        spread, same = f"{1000 * low:.0f}–{1000 * high:.0f} ms", round(1000 * low) == round(1000 * high)
    else:
        spread = f"{short_seconds(low)}–{short_seconds(high)} s"
        same = short_seconds(low) == short_seconds(high)
    return text if same else f"{text} ({spread})"


def pipeline(frame: Frame) -> PipelineData:
    """The pipeline panel."""
    snapshot = frame.snapshot
    stages = {stage.name: stage for stage in snapshot.stages}
    synthesis, gpu = stages.get("synthesis", _NO_STAGE), stages.get("gpu", _NO_STAGE)
    finalizing = stages.get("finalizing", _NO_STAGE)
    in_flight = sum(job.state in (JobState.WAITING, JobState.RUNNING) for job in snapshot.jobs)
    counters = snapshot.counters
    word = "GPU" if any(one.view.kind != "host" for one in frame.devices) else "device"
    capacity = gpu.capacity
    stops = (
        Stop("requests", "req", f"{in_flight}", "draining" if snapshot.draining else ""),
        Stop(
            "synthesis",
            "synth",
            f"{synthesis.busy}/{synthesis.workers}",
            "held" if synthesis.blocked and not synthesis.busy else "busy",
        ),
        Stop(
            f"{word} queue",
            "queue",
            f"{gpu.queued}/{capacity}" if capacity is not None else f"{gpu.queued}",
            filled=gpu.queued,
            capacity=capacity or 0,
        ),
        Stop(f"{word} workers", word.lower(), f"{gpu.busy}/{gpu.workers}", "busy"),
        Stop("finalizing", "final", f"{finalizing.busy + finalizing.queued}"),
        Stop("done", "done", f"{counters.jobs_done}", role="good" if counters.jobs_done else "value"),
        Stop(
            "failed", "failed", f"{counters.jobs_failed}", role="bad" if counters.jobs_failed else "value", beside=True
        ),
    )
    return PipelineData(stops, _results(frame), _totals(frame))


def _results(frame: Frame) -> tuple[Figure, ...]:
    output = frame.throughput
    arrow = {1: " ↗", -1: " ↘"}.get(output.trend, "  ")
    return (
        Figure("proofs/min", rate(output.proofs_per_minute) + arrow),
        Figure("s/proof", rate(output.seconds_per_proof)),
        Figure("steady use", _share(output.steady_utilisation)),
        Figure("ceiling", f"{rate(output.ceiling_proofs_per_minute)} proofs/min"),
    )


def _totals(frame: Frame) -> tuple[Figure, ...]:
    counters = frame.snapshot.counters
    figures = [Figure("partitions verified", str(counters.proofs_verified))]
    if counters.proofs_withheld:
        figures.append(Figure("withheld", str(counters.proofs_withheld), "bad"))
    if counters.workers_replaced:
        figures.append(Figure("workers replaced", str(counters.workers_replaced), "bad"))
    memory = frame.snapshot.memory
    if memory is not None:
        role = "value" if memory.waits_for is None else "warn"
        figures.append(Figure("memory budget", used_of(memory.used, memory.total), role))
    elif frame.snapshot.memory_used is not None:
        figures.append(Figure("memory", size(frame.snapshot.memory_used)))
    return tuple(figures)


def partitions(frame: Frame) -> PartitionsData:
    """The partitions panel: what runs, then what waits; the last ended job only when nothing else is there."""
    jobs = frame.snapshot.jobs
    live = tuple(job for job in jobs if job.state in (JobState.RUNNING, JobState.WAITING))
    empty = "paused: nothing runs" if frame.snapshot.paused else "nothing asked yet"
    if frame.snapshot.activity is not None:
        empty = f"{frame.snapshot.activity} …"
    wait = frame.snapshot.critical_wait_s
    words = "" if wait is None else f"waits for one slot a device: {seconds(wait)} at most"
    return PartitionsData(frame.at, live or jobs[-1:], empty, words)


def knobs(
    views: Sequence[KnobView],
    now: float,
    specs: Mapping[str, KnobSpec],
    read_only: bool,
    devices: Sequence[int] = (),
    pacer: PacerView | None = None,
    memory: MemoryView | None = None,
) -> KnobsData:
    """The knobs panel. ``devices`` are the ordinals that there are; ``pacer`` is the state of the queue's controller,
    which its knob shows, and ``memory`` bounds the steps of sizes.
    """
    by_name = {view.name: view for view in views}
    order = [name for name in PANEL_KNOBS if name in by_name]
    order += [name for name in by_name if name not in order and name in specs]
    rows = tuple(
        _knob_row(by_name[name], specs[name], now, read_only, _choices(by_name[name], specs[name], devices, memory))
        for name in order
        if name in specs
    )
    if pacer is not None and pacer.limit is not None:
        places = next((row.value for row in rows if row.name == "synthesis_lookahead"), None)
        rows = tuple(_paced(row, pacer, places) if row.name == "max_gpu_queue_depth" else row for row in rows)
    return KnobsData(rows, "read-only" if read_only else "")


def _paced(row: KnobRow, pacer: PacerView, places: KnobValue | None) -> KnobRow:
    """The controller's knob: how many wait, and how many may be on their way; no more wait than the lookahead holds."""
    if row.status_role != "faint":
        return row
    way = pacer.waiting + pacer.in_work
    more = ", holds back" if pacer.holding else ""
    if isinstance(places, int) and places < pacer.target:
        return replace(row, status=f"{pacer.waiting} wait, lookahead {places} holds {places}", status_role="warn")
    return replace(
        row,
        status=f"{pacer.waiting} wait, {way} of {pacer.limit} on the way{more}",
        short_status=f"{pacer.waiting} wait",
    )


def _knob_row(view: KnobView, spec: KnobSpec, now: float, read_only: bool, choices: tuple[KnobValue, ...]) -> KnobRow:
    status, role, short = _status(view, spec, now)
    return KnobRow(
        name=view.name,
        value=view.wanted,
        choices=choices,
        minimum=spec.minimum or 0,
        maximum=spec.maximum if spec.maximum is not None else 0,
        step=spec.step,
        zero=spec.zero or "",
        size=spec.type is KnobType.BYTES,
        status=status,
        status_role=role,
        short_status=short,
        hint=_hint(spec),
        locked="read-only" if read_only else "",
    )


def _choices(
    view: KnobView, spec: KnobSpec, devices: Sequence[int], memory: MemoryView | None
) -> tuple[KnobValue, ...]:
    """What the arrows of a knob that is no number go through."""
    if spec.type is KnobType.BOOL:
        return (False, True)
    if spec.type is KnobType.BYTES:
        return _sizes(view, memory)
    if spec.type is KnobType.ORDINALS:
        return tuple(dict.fromkeys(("all", *map(str, devices), "none", view.wanted)))
    return spec.choices


def _sizes(view: KnobView, memory: MemoryView | None) -> tuple[KnobValue, ...]:
    """The steps of a size, ``auto`` among them where its value stands: the next step is next to what holds now."""
    total = memory.total or 0 if memory is not None else 0
    budget = view.name == "total_budget"
    most = max(total, memory.automatic or 0) if budget and memory is not None else total
    automatic = ((memory.automatic or total) if budget else total // _POOL_SHARE) if memory is not None else 0
    steps = {size for size in _SIZES if size < most}
    if not budget:
        steps.add(0)  # no pool is a choice, no memory is none
    if isinstance(view.wanted, int):
        steps.add(view.wanted)
    below = sorted(size for size in steps if size < automatic)
    return (*below, "auto", *sorted(steps.difference(below)))


def _status(view: KnobView, spec: KnobSpec, now: float) -> tuple[str, str, str]:
    """Status, role, and the status in few cells. What is asked for stands between the arrows, so this says what is
    still in force, and until what."""
    if view.lagging or view.in_force != view.wanted:
        still = f"still {show(view.in_force, spec.zero or '')}"
        return f"{still} {_until(view, spec)}", "pending", still
    if view.landed is not None and view.changed is not None and now - view.landed < _LANDED_S:
        return f"in force after {seconds(view.landed - view.changed)}", "good", "landed"
    return "in force", "faint", ""


def _until(view: KnobView, spec: KnobSpec) -> str:
    """What has to happen before a change is in force, from the engine's words for who lags: ``queue 6``, ``job 0012``,
    ``synthesis 3 of 1`` (threads there are, of those wanted), or the names of workers that are busy."""
    who = view.lagging
    if not who:
        return "for a moment" if spec.effect is Effect.NOW else f"until the {spec.effect.value}"
    words = [one.split(" ") for one in who]
    if words[0][0] == "queue":
        return f"until the queue is at {view.wanted}" if view.wanted else "until the queue is empty"
    if words[0][0] == "memory":
        return f"until {' '.join(words[0][1:])} are freed"
    if words[0][0] == "job":
        return f"until {who[0]} ends" if len(who) == 1 else f"until {len(who)} jobs end"
    if all(len(part) == 4 for part in words):
        more = sum(int(wanted) - int(there) for _, there, _, wanted in words)
        noun = "synthesiser" if words[0][0] == "synthesis" else "worker"
        verb = "start" if more > 0 else "end"
        return f"until {abs(more)} {noun}s {verb}" if abs(more) != 1 else f"until 1 {noun} {verb}s"
    return f"until {who[0]} ends" if len(who) == 1 else f"until {len(who)} workers end"


def _hint(spec: KnobSpec) -> str:
    when = "now" if spec.effect.value == "now" else f"from the {spec.effect.value}"
    if spec.type is KnobType.INT:
        return f"{spec.minimum} to {spec.maximum}, {when}"
    if spec.type is KnobType.BYTES:
        return f"auto, or GiB, {when}"
    if spec.type is KnobType.ORDINALS:
        return f"{spec.accepts.removeprefix('give ')}, {when}"
    return f"{' or '.join(spec.choices) or 'yes or no'}, {when}"


def why(frame: Frame) -> SentencesData:
    """The diagnosis in sentences."""
    word = "GPU" if any(one.view.kind != "host" for one in frame.devices) else "device"
    return SentencesData(
        f"Why is the {word} not busy?",
        tuple(Sentence(remark.text, remark.kind) for remark in frame.diagnosis.remarks),
    )
