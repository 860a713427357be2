"""Lines of every kind and in every state: chunk borders, service managers, torn and mutated ones."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logs.logical import LogicalLines
from console.feeds.logs.physical import LONGEST, PhysicalLines
from console.feeds.logs.record import Form
from console.feeds.logs.stream import LogStream

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
SNAP = (LOGS / "snap-two-workers.mixed.log").read_bytes()
PLAIN = (LOGS / "porep-partitions.plain.log").read_bytes()
JSON = (LOGS / "porep-partitions.json.log").read_bytes()
INFO = b"2026-09-01T04:13:31.187218Z  INFO "
JOINED = {
    "crlf": PLAIN.replace(b"\n", b"\r\n"),
    "journald": b"".join(b"Sep 01 04:13:31 box cuzk-daemon[1234]: " + line for line in PLAIN.splitlines(True)),
    "journald short-iso": b"".join(
        b"2026-09-01T04:13:31+0000 box cuzk-daemon[1234]: " + line for line in PLAIN.splitlines(True)
    ),
    "syslog": b"".join(
        b"<14>1 2026-09-01T04:13:31.000000+02:00 box cuzk 12 - - " + line for line in PLAIN.splitlines(True)
    ),
    "container": b"".join(b"2026-09-01T04:13:31.123456789Z stdout F " + line for line in PLAIN.splitlines(True)),
    "compose": b"".join(b"cuzk-1  | " + line for line in PLAIN.splitlines(True)),
    "nul": PLAIN.replace(b"cuzk", b"\0cu\0zk"),
    "sparse beginning": b"\0" * (3 * LONGEST) + PLAIN,
}


def read(data, cuts=()):
    stream = LogStream()
    records, events = [], []
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        batch = stream.feed(data[begin:end])
        records += batch.records
        events += batch.events
    batch = stream.finish()
    return stream, records + batch.records, events + batch.events


def told(records):
    return [(record.form, record.offset, record.same_event()) for record in records]


def one(line):
    _, records, _ = read(line + b"\n")
    (record,) = records
    return record


PIECES = [
    b"\x1b[2m2026-02-18T16:19:26.983822Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mcuzk::engine\x1b[0m\x1b[2m:\x1b[0m job x",
    b"TIMELINE,151455",
    b",SYNTH_END,ps-snap-1000-1-88213,partition=8,synth_ms=32717",
    b"CUZK_TIMING: mutex_held_ms=2625 total_start_fn_ms=5321",
    INFO + b"cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=a partition=3 synth_ms=7",
    b'{"timestamp":"2026-09-01T04:12:55.002218Z","level":"INFO","fields":{"message":"m"},"target":"t"}',
    b"caused by: \xff\xfe something",
    b"\0\0",
    b"\r",
    b"\n",
    b"\n",
    b"\xe2\x80\x94",
    b"x" * (LONGEST - 3),
    b"thread 'main' panicked at",
]


class TestChunks:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.integers(0, len(SNAP)), max_size=40))
    def test_where_chunks_are_cut_changes_nothing(self, cuts):
        whole, parts = read(SNAP), read(SNAP, sorted(cuts))
        assert told(whole[1]) == told(parts[1])
        assert whole[2] == parts[2]
        assert whole[0].warnings() == parts[0].warnings()

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=24), st.data())
    def test_nor_in_lines_of_every_kind(self, pieces, data):
        text = b"".join(pieces)
        cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
        whole, parts = read(text), read(text, sorted(cuts))
        assert told(whole[1]) == told(parts[1])
        assert whole[0].reader.physical.cut == parts[0].reader.physical.cut

    def test_byte_by_byte(self):
        data = SNAP[:20_000]
        assert told(read(data)[1]) == told(read(data, range(1, len(data)))[1])

    def test_offsets_are_those_of_the_lines(self):
        _, records, _ = read(SNAP)
        for record in records:
            line = SNAP[record.offset : SNAP.index(b"\n", record.offset)]
            assert record.offset == 0 or SNAP[record.offset - 1 : record.offset] == b"\n"
            if record.form is Form.TRACING:
                stamp = datetime.fromtimestamp(record.at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
                assert f"{stamp}.{record.at_us % 1_000_000:06}Z".encode() in line


class TestDress:
    @pytest.mark.parametrize("name", JOINED)
    def test_the_same_events_in_any_dress(self, name):
        plain, dressed = read(PLAIN), read(JOINED[name])
        assert [record.same_event() for record in dressed[1]] == [record.same_event() for record in plain[1]]
        assert dressed[2] == plain[2]

    def test_invalid_utf8_is_replaced(self):
        record = one(INFO + b"cuzk_core::engine: job enqueued job_id=a\xffb proof_kind=porep-c2")
        assert record.fields["job_id"] == "a\ufffdb"

    def test_a_line_of_megabytes_is_cut_and_the_next_is_whole(self):
        stream, records, _ = read(
            INFO + b"cuzk_core::engine: x" + b"y" * 5_000_000 + b"\n" + INFO + b"cuzk_daemon: z\n"
        )
        assert [record.message[:1] for record in records] == ["x", "z"]
        assert len(records[0].message) < LONGEST
        assert "cut" in stream.warnings()[0]


class TestTorn:
    def test_a_tear_within_a_tear(self):
        text = (
            b"TIMELINE,15" + INFO + b"cuzk_core::engine: first\n"
            b"0,SYNTH_" + INFO + b"cuzk_core::engine: second\n"
            b"END,job,partition=8,synth_ms=32717\n"
        )
        _, records, _ = read(INFO + b"cuzk_core::engine: starting cuzk engine pipeline_enabled=true\n" + text)
        (timeline,) = [record for record in records if record.form is Form.TIMELINE]
        assert timeline.fields == {"job_id": "job", "offset_ms": 150, "partition": 8, "synth_ms": 32717}
        assert [record.message for record in records if record.form is Form.TRACING][1:] == ["first", "second"]

    def test_a_timing_line_in_between(self):
        _, records, _ = read(INFO + b"a::b: c\nTIMELINE,1CUZK_TIMING: async_dealloc_ms=3\n,GPU_QUEUE,j,monolithic\n")
        assert [record.form for record in records] == [Form.TRACING, Form.TIMING, Form.TIMELINE]

    def test_a_rest_that_never_comes_is_counted(self):
        stream, _, _ = read(INFO + b"a::b: c\nTIMELINE,1,GPU_" + INFO + b"a::b: d\n" + (INFO + b"a::b: e\n") * 300)
        assert stream.reader.logical.lost == 1
        assert "torn lines whose rest never came: 1" in stream.warnings()

    @settings(max_examples=60, deadline=None)
    @given(st.integers(1, 54), st.integers(0, 2))
    def test_a_tear_anywhere(self, at, between):
        line = b"TIMELINE,151455,SYNTH_END,ps-snap-1000-1-88213,partition=8"
        text = (
            INFO + b"a::b: c\n" + line[:at] + INFO + b"a::b: d\n" + (INFO + b"a::b: e\n") * between + line[at:] + b"\n"
        )
        _, records, _ = read(text)
        if at < len(b"TIMELINE"):
            return  # a head that short is not known as one
        (record,) = [record for record in records if record.form is Form.TIMELINE]
        assert record.fields == {"job_id": "ps-snap-1000-1-88213", "offset_ms": 151455, "partition": 8}


class TestFields:
    def test_an_id_in_three_ways(self):
        head = b"cuzk_core::engine: "
        for job in (b"job_id=a-1", b'job_id="a-1"'):
            assert one(INFO + head + b"AwaitProof " + job).get("job_id") == "a-1"
            assert one(INFO + b"gpu_worker{" + job + b" partition=Some(3)}: " + head + b"m").about("partition") == 3
        assert one(INFO + head + b"m partition=None").fields == {"partition": None}
        assert one(INFO + head + b"AwaitProof job_id=77").get("job_id") == "77"

    def test_quoted_numbers_are_numbers_and_texts_stay(self):
        record = one(INFO + b'a::b: pacer: status total=3 ema_waiting="1.25" gpu_proc_ms="2741" bootstrap=false')
        assert record.fields == {"total": 3, "ema_waiting": 1.25, "gpu_proc_ms": 2741, "bootstrap": False}

    def test_a_free_text_keeps_what_looks_like_a_field(self):
        record = one(INFO + b"a::b: partition synthesis failed error=io: code=5 at x job_id=a b partition=2")
        assert record.fields == {"error": "io: code=5 at x", "job_id": "a b", "partition": 2}

    def test_a_new_field_of_a_known_message_is_its_own(self):
        record = one(INFO + b"a::b: partition synthesis complete partition=2 synth_ms=5 tree=oak is_pinned=true")
        assert record.fields == {"partition": 2, "synth_ms": 5, "tree": "oak", "is_pinned": True}

    def test_braces_in_a_span_do_not_lose_the_line(self):
        record = one(INFO + b'synth{job_id="a}b{c"}: cuzk_core::engine: AwaitProof job_id=z')
        assert (record.target, record.message, record.get("job_id")) == ("cuzk_core::engine", "AwaitProof", "z")

    def test_a_message_that_begins_like_a_target(self):
        record = one(INFO + b"cuzk_daemon: error: no such file")
        assert (record.target, record.message) == ("cuzk_daemon", "error: no such file")

    def test_workers_outside_a_daemon(self):
        record = one(b"2021-01-12T15:43:33.114 INFO bellperson::groth16::prover > synthesis time: 31.4s")
        assert (record.form, record.target, record.message) == (
            Form.WORKER,
            "bellperson::groth16::prover",
            "synthesis time: 31.4s",
        )
        record = one(b"2020-08-20T11:34:23.154+0800\tINFO\tstorageminer\tstorage/miner.go:226\tstarting up")
        assert (record.target, record.message) == ("storageminer", "starting up")
        assert record.at_us == 1597894463154000


class TestFuzz:
    def test_mutated_lines(self):
        rng = random.Random(7)
        source = SNAP.splitlines(True)[:200] + PLAIN.splitlines(True)[:200] + JSON.splitlines(True)[:100]
        stream = LogStream()
        for _ in range(12_000):
            line = bytearray(rng.choice(source))
            for _ in range(rng.randrange(4)):
                at = rng.randrange(len(line))
                kind = rng.randrange(4)
                if kind == 0:
                    line[at] = rng.randrange(256)
                elif kind == 1:
                    del line[at : at + rng.randrange(1, 30)]
                elif kind == 2:
                    line[at:at] = rng.choice((b"{", b"}: ", b'"', b"=", b" job_id=", b"\n", b"\x1b[", b"\0", b"[[["))
                else:
                    line[at:at] = line[: rng.randrange(1, 60)]
                if not line:
                    break
            stream.feed(bytes(line))
        stream.finish()
        book = stream.translator.book
        assert len(book.live) + len(book._ended) < 2000

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=3000))
    def test_any_bytes(self, data):
        _, records, _ = read(data)
        for record in records:
            assert record.fields is not None and record.spans is not None

    def test_nothing_grows_without_bound(self):
        physical, logical = PhysicalLines(), LogicalLines()
        for _ in range(400):
            assert logical.feed(physical.feed(b"q" * 100_000)) == []
        assert physical._kept <= LONGEST
        for _ in range(400):
            logical.feed(physical.feed(b"continued " * 100 + b"\n"))
        assert logical._length <= LONGEST
        assert len(logical._goes_on) <= 256

    def test_deep_json_and_hard_braces_end_soon(self):
        assert one(b'{"timestamp":' + b"[" * 60_000).form is Form.TEXT
        assert one(INFO + b"a{}:" * 10_000 + b" x").form is Form.TEXT
        assert one(INFO + b"a{" * 10_000).form is Form.TEXT
        assert one(b"CUZK_TIMING: " + b"x" * 60_000).fields == {}
