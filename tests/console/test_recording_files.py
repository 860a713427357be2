"""Recordings: what went in comes out, to the last bit; torn, full, rotated, foreign and later files."""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import sys
import threading
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from engine_rig import Rig, rig
from fake_feed import FakeFeed
from gpu_feed import GpuFeed
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.nvml.card import CardProcess, CardState
from console.recording import frames
from console.recording.frames import MAGIC
from console.recording.reader import Recording
from console.recording.recorder import Recorder, description
from console.recording.segments import Segments, numbered
from console.recording.values import CLASSES, ENUMS, Decoder, Encoder, UnknownValueError
from prover.errors import InputError, MachineLacks
from prover.model import (
    Counters,
    DeviceSample,
    Event,
    EventKind,
    KnobView,
    PartitionState,
    PartitionView,
    Phase,
    Priority,
    Snapshot,
    Span,
    StageView,
)

DOCUMENT = description(1000.0, simulated=False, version="1")


def there_and_back(values: list[Any]) -> list[Any]:
    """Each as its difference from the one before, through one encoder and one decoder."""
    encoder, decoder, out, before = Encoder(), Decoder(), bytearray(), None
    for value in values:
        encoder.write(out, value, before)
        before = value
    decoder.feed(bytes(out))
    found: list[Any] = []
    before = None
    while decoder.more:
        before = decoder.read(before)
        found.append(before)
    return found


plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
mappings = st.dictionaries(st.text(max_size=4), plain, max_size=4)
spans = st.builds(Span, st.sampled_from(Phase), st.floats(allow_nan=False), st.floats(0, 1e9), st.none() | st.text())
partitions = st.builds(
    PartitionView,
    st.integers(0, 9),
    st.sampled_from(PartitionState),
    st.lists(spans, max_size=4).map(tuple),
    st.none() | st.floats(0, 1e9),
)
events = st.builds(
    Event,
    st.integers(1, 10**12),
    st.floats(0, 1e9),
    st.sampled_from(EventKind),
    st.none() | st.text(max_size=4),
    st.lists(st.integers(0, 20), max_size=3).map(tuple),
    st.none() | st.sampled_from(Phase),
    start=st.none() | st.floats(0, 1e9),
    fields=mappings,
)
values = st.one_of(plain, events, st.lists(st.one_of(plain, partitions, events), max_size=6).map(tuple), mappings)


@settings(max_examples=300, deadline=None)
@given(st.lists(values, max_size=8))
def test_any_row_of_values_comes_back(row: list[Any]) -> None:
    found = there_and_back(row)
    assert found == row
    assert [type(one) for one in found if not hasattr(one, "items")] == [
        type(one) for one in row if not hasattr(one, "items")
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_floats_come_back_bit_for_bit(row: list[float]) -> None:
    found = there_and_back([tuple(row)])
    assert [struct.pack("<d", one) for one in found[0]] == [struct.pack("<d", one) for one in row]


def test_a_picture_that_changed_little_takes_little() -> None:
    before = tuple(PartitionView(index, PartitionState.PENDING) for index in range(100))
    after = (*before[:50], replace(before[50], state=PartitionState.SYNTHESIS, phase_began=12.5), *before[51:])
    encoder, out = Encoder(), bytearray()
    encoder.write(out, before, None)
    size = len(out)
    encoder.write(out, after, before)
    assert len(out) - size < 200
    assert there_and_back([before, after, before]) == [before, after, before]


def test_every_class_of_the_vocabulary_is_known() -> None:
    assert {"Snapshot", "Event", "JobView", "DeviceSample", "GpuCard", "Census", "KnobView"} <= set(CLASSES)
    assert {"EventKind", "Phase", "JobState", "Priority", "Cause"} <= set(ENUMS)
    with pytest.raises(UnknownValueError, match="cannot record a object"):
        there_and_back([object()])


def test_choices_that_share_a_word_stay_apart() -> None:
    row = [PartitionState.MSM, Phase.MSM, PartitionState.MSM, "msm", 1, True, 1.0, Priority.HIGH, 1]
    assert [type(one) for one in there_and_back(row)] == [type(one) for one in row]
    assert [type(one) for one in there_and_back([tuple(row)])[0]] == [type(one) for one in row]


def as_of_later(text: bytes, **changes: bytes) -> bytes:
    """What another version would have written: names are spelled in the file."""
    for old, new in changes.items():
        assert len(old) == len(new)
        text = text.replace(old.encode(), new)
    return text


def test_names_that_this_version_does_not_know_are_left_out() -> None:
    out = bytearray()
    counters = Counters(3, 2)
    stage = StageView("gpu", 2, 1, 0, 4)
    Encoder().write(out, (counters, Phase.SETUP, stage), None)
    data = as_of_later(bytes(out), jobs_done=b"jobs_gone", SETUP=b"SETIN", StageView=b"StageShow")
    decoder = Decoder()
    decoder.feed(data)
    assert decoder.read(None) == (replace(counters, jobs_done=0), None, None)
    assert not decoder.more


def test_a_field_that_is_needed_and_missing_is_said() -> None:
    out = bytearray()
    Encoder().write(out, KnobView("paused", True, False), None)
    decoder = Decoder()
    decoder.feed(as_of_later(bytes(out), wanted=b"hunted"))
    with pytest.raises(UnknownValueError, match="KnobView without wanted"):
        decoder.read(None)


# -- a session --------------------------------------------------------------------------------------------------------


def record(r: Rig, path: Path, seconds: float = 0.1, **options: Any) -> tuple[list[Snapshot], Recorder]:
    """Record a rig until its jobs have ended; the pictures that were shown meanwhile."""
    recorder = Recorder(path, r.engine, DOCUMENT, pace=r.time, **options)
    shown = []
    while not all(future.done() for future in r.futures.values()):
        r.run_for(seconds)
        picture = r.engine.snapshot()
        shown.append(picture)
        recorder.show(picture)
        recorder.take()
    return shown, recorder


def a_session(path: Path, jobs: int = 6, **options: Any) -> tuple[list[Event], list[Snapshot]]:
    with rig({"synthesis_concurrency": 3, "synthesis_lookahead": 2}) as r:
        r.faults["msm", 1, 1] = MemoryError("full")
        r.workload.lies[2, 0] = 1
        for inputs in range(jobs):
            r.submit(inputs, 4)
        shown, recorder = record(r, path, **options)
        r.set("synthesis_lookahead", 1)
    recorder.stop()
    assert recorder.trouble is None and recorder.missed == 0
    return r.events(), shown


def test_a_session_comes_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    told, shown = a_session(path)
    recording = Recording(path)
    assert list(recording.events()) == told
    pictures = [picture for number in range(recording.groups) for picture in recording.group(number).pictures]
    for picture in shown:
        assert picture in pictures
    assert recording.begin == told[0].at and recording.end >= told[-1].at
    assert recording.wall_offset_s == 1000.0 and recording.header["schema"] == "cuzk-top/recording/1"
    assert path.stat().st_size < 60 * len(told), "bytes an event, pictures included"


def test_groups_can_be_read_alone(tmp_path: Path) -> None:
    told, _ = a_session(tmp_path / "x.rec", jobs=30)
    recording = Recording(tmp_path / "x.rec")
    assert recording.groups > 2
    middle = recording.groups // 2
    alone = Recording(tmp_path / "x.rec").group(middle)
    for event in alone.events:
        assert told[event.seq - 1] == event
    assert recording.place(alone.events[-1].at) in (middle, middle + 1)
    assert recording.place(recording.begin - 5) == 0 and recording.place(recording.end + 5) == recording.groups - 1


@pytest.mark.parametrize("cut", [1, 2, 17, 60, 300, 2000])
def test_what_is_torn_off_costs_no_more_than_itself(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.rec"
    told, _ = a_session(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    recording = Recording(path)
    found = list(recording.events())
    assert found == told[: len(found)]
    assert len(found) > 0.5 * len(told)


def test_a_file_cut_anywhere_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    path, cut = tmp_path / "x.rec", tmp_path / "cut.rec"
    told, _ = a_session(path, jobs=2)
    data = path.read_bytes()
    for length in [*range(0, 400, 7), *range(400, len(data), 97)]:
        cut.write_bytes(data[:length])
        try:
            found = list(Recording(cut).events())
        except InputError as error:
            assert "\n" not in str(error) and "cut.rec" in str(error)
        else:
            assert found == told[: len(found)]


def test_damage_ends_a_group_and_the_next_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    told, _ = a_session(path, jobs=30)
    places = Recording(path)._places
    target = places[1].frames[3]
    data = bytearray(path.read_bytes())
    data[target.begin + target.length // 2] ^= 0xFF
    path.write_bytes(data)
    recording = Recording(path)
    assert recording.groups == len(places)
    found = list(recording.events())
    assert 0 < len(told) - len(found) < 0.5 * len(told)
    assert found == [told[event.seq - 1] for event in found]
    assert found[-1] == told[-1]


def test_it_is_rotated_and_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    told, _ = a_session(path, jobs=30, limit=12_000, kept=50)
    files = sorted(file.name for file in tmp_path.iterdir())
    assert len(files) > 3 and "x.rec.1" in files
    assert list(Recording(path).events()) == told


def test_only_so_many_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    told, _ = a_session(path, jobs=30, limit=6000, kept=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.rec", "x.rec.1", "x.rec.2"]
    assert all(file.stat().st_size < 12_000 for file in tmp_path.iterdir())
    recording = Recording(path)
    found = list(recording.events())
    assert found == told[-len(found) :] and recording.begin > told[0].at
    picture = recording.group(0).pictures[0]
    assert picture.counters.partitions_done > 0, "a key frame has the whole picture"


def test_another_sessions_files_are_not_read_as_this_ones(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    first, _ = a_session(path, jobs=2)
    other = {**DOCUMENT, "session": "other"}
    with rig() as r:
        r.submit(1)
        recorder = Recorder(path, r.engine, other, pace=r.time)
        r.run()
    recorder.stop()
    assert list(Recording(path).events()) == r.events()
    assert list(Recording(numbered(path, 1)).events()) == first


# -- trouble ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_it_goes_on_with_the_whole_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.rec"
    real, full = os.write, False

    def write(descriptor: int, data: bytes) -> int:
        if full and data[8:9] in (frames.KEY, frames.MORE):
            real(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    with rig({"synthesis_concurrency": 2}) as r:
        recorder = Recorder(path, r.engine, DOCUMENT, pace=r.time)
        troubles = []
        for inputs in range(12):
            r.submit(inputs, 4)
        while not all(future.done() for future in r.futures.values()):
            full = 110 < r.time() < 130
            r.run_for(0.1)
            recorder.take()
            troubles.append(recorder.trouble)
    recorder.stop()
    told = {trouble for trouble in troubles if trouble}
    assert told == {f"not recorded: {path}: No space left on device: it goes on when that is mended"}
    assert troubles[-1] is None
    found = list(Recording(path).events())
    assert found[0].seq == 1 and found[-1] == r.events()[-1]
    assert 0 < len(found) < len(r.events())
    by_seq = {event.seq: event for event in r.events()}
    assert found == [by_seq[event.seq] for event in found]
    last = Recording(path)
    assert last.group(last.groups - 1).pictures[-1].counters == r.engine.snapshot().counters


def test_what_cannot_be_recorded_is_one_line_and_harms_nothing(tmp_path: Path) -> None:
    with rig() as r:
        recorder = Recorder(tmp_path / "x.rec", r.engine, DOCUMENT)
        recorder.show(object())  # type: ignore[arg-type]
        recorder.start()
        recorder._thread.join(10)
        assert recorder.trouble is not None and recorder.trouble.count("\n") == 0
        assert "cannot record a object" in recorder.trouble
        job = r.submit(1)
        r.run()
        r.check_delivered(job, 1, 1)
        recorder.stop()


def test_a_file_that_is_none_of_ours_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a recording")
    with pytest.raises(InputError, match=r"file is no recording: .*notes\.txt: it stays"):
        Segments(path, DOCUMENT)
    assert path.read_text() == "not a recording"
    with pytest.raises(InputError, match="is no recording"):
        Recording(path)
    path.write_bytes(MAGIC.replace(b"1", b"2") + b"x")
    with pytest.raises(InputError, match="of a later version"):
        Recording(path)
    path.write_bytes(MAGIC + frames.pack(frames.HEADER, 0.0, b"[]"))
    with pytest.raises(InputError, match="is damaged"):
        Recording(path)
    path.write_bytes(frames.header(DOCUMENT))
    with pytest.raises(InputError, match="holds nothing"):
        Recording(path)
    with pytest.raises(InputError, match="cannot be read"):
        Recording(tmp_path / "nothing.rec")


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "made.rec"
    path.touch()
    Segments(path, DOCUMENT).close()
    assert path.read_bytes() == frames.header(DOCUMENT)


def test_two_writers_do_not_share_a_name(tmp_path: Path) -> None:
    first = Segments(tmp_path / "x.rec", DOCUMENT)
    with pytest.raises(InputError, match="is being written"):
        Segments(tmp_path / "x.rec", DOCUMENT)
    first.close()
    Segments(tmp_path / "x.rec", DOCUMENT).close()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineLacks, match="cannot record"):
        Segments(tmp_path / "file" / "x.rec", DOCUMENT)


def test_a_killed_recorder_leaves_what_it_wrote(tmp_path: Path) -> None:
    program = """
import os, signal, sys, time
from pathlib import Path
from fake_workload import FakeWorkload, fake_device
from console.recording.recorder import Recorder, description
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
engine = Engine(FakeWorkload(), [fake_device()])
recorder = Recorder(Path(sys.argv[1]), engine, description(0.0, simulated=False, version="1"))
engine.start()
recorder.start()
for number in range(50):
    engine.submit(JobRequest(number, 4)).result()
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "x.rec"
    root = Path(__file__).parents[2]
    env = dict(os.environ, PYTHONPATH=f"{root}{os.pathsep}{root / 'tests' / 'support'}")
    subprocess.run([sys.executable, "-c", program, str(path)], env=env, cwd=root, check=False, timeout=60)
    done = [event for event in Recording(path).events() if event.kind is EventKind.JOB_DONE]
    assert len(done) == 50


# -- samples ----------------------------------------------------------------------------------------------------------


def test_samples_and_cards_of_gpus_are_recorded(tmp_path: Path) -> None:
    feed = GpuFeed()
    recorder = Recorder(
        tmp_path / "x.rec", feed.engine, DOCUMENT, machine=feed._sampler, gpus=feed.sampler, pace=feed.engine.clock
    )
    for _ in range(30):
        feed.play(0.5)
        recorder.take()
    recorder.stop()
    recording = Recording(tmp_path / "x.rec")
    groups = [recording.group(number) for number in range(recording.groups)]
    (card,) = feed.sampler.cards(feed.engine.clock())
    uuid = card.identity.uuid
    for name, own in (
        (uuid, feed.sampler.samples(uuid, 0.0)),
        (f"{uuid}/driver", feed.sampler.driver(uuid, 0.0)),
    ):
        found = [sample for group in groups for _, sample in group.samples.get(name, [])]
        assert own and set(found) >= set(own)
        assert [sample.at for sample in found] == sorted({sample.at for sample in found})
    assert groups[-1].cards[-1][1] == (card,)
    assert groups[-1].census[-1][1] == feed.sampler.census
    assert any(sample.source == "host" for group in groups for _, sample in group.samples["machine"])


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    """Read with nothing but the documentation: the header, then frames with their checksums."""
    path = tmp_path / "x.rec"
    a_session(path, jobs=2)
    data = path.read_bytes()
    assert data.startswith(b"cuzk-top recording 1\n")
    at = 21
    kinds = []
    stream = zlib.decompressobj(-15)
    while at < len(data):
        length, crc, kind, since = struct.unpack_from("<IIcd", data, at)
        payload = data[at + 17 : at + 17 + length]
        assert zlib.crc32(data[at + 8 : at + 17 + length]) == crc
        if kind == b"H":
            assert json.loads(payload)["schema"] == "cuzk-top/recording/1"
        else:
            if kind == b"K":
                stream = zlib.decompressobj(-15)
            assert stream.decompress(payload)[0] in range(1, 7) and since >= 100.0
        kinds.append(kind)
        at += 17 + length
    assert kinds[:2] == [b"H", b"K"] and set(kinds[2:]) <= {b"K", b"M"}


def test_the_recorder_waits_for_nobody_and_nobody_for_it(tmp_path: Path) -> None:
    """Its thread over an engine that works for real, to the end, with every event."""
    before = set(threading.enumerate())
    feed = FakeFeed()
    recorder = Recorder(tmp_path / "x.rec", feed.engine, DOCUMENT)
    recorder.start()
    for _ in range(20):
        feed.engine.advance(0.5)
        threading.Event().wait(0.02)
    recorder.stop()
    recorder.stop()
    assert list(Recording(tmp_path / "x.rec").events()) == list(feed.engine.events(0))
    assert set(threading.enumerate()) <= before


def test_unused_fields_of_the_vocabulary_have_no_cost() -> None:
    sample = DeviceSample(1.0, 0, "host", cpu=50.0)
    out = bytearray()
    encoder = Encoder()
    encoder.write(out, sample, None)
    size = len(out)
    encoder.write(out, replace(sample, at=1.25), sample)
    assert len(out) - size < 16 < len(fields(DeviceSample))
    assert there_and_back([CardState(processes=(CardProcess(1, "x", None, False),))])
