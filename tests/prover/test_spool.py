"""The spool on real folders: what is taken and when, what appears, what is moved away, and what happens meanwhile."""

import contextlib
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path

import pytest
from kept_engine import Gate
from spool_rig import ReadingWorkload, spooling

from prover.pipeline import spool
from prover.pipeline.spool_files import JSON, WTNS, reject


def test_what_lies_there_and_what_comes_is_proved(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "first.json").write_text('{"n": 1}')
    with spooling(folder) as rig:
        rig.wait(lambda: rig.there("first"))
        rig.put("second.json", 2)
        rig.wait(lambda: rig.there("second"))
        assert (rig.public("first"), rig.public("second")) == ([1], [2])
        rig.wait_idle()
        assert rig.spool.counts.delivered == 2
    assert not [name for name in rig.names() if name.startswith(".")], "nothing hidden is left"


@pytest.mark.parametrize(
    ("kind", "name", "stem"),
    [
        (JSON, "a.json", "a"),
        (JSON, "a.proof.json", None),
        (JSON, "a.public.json", None),
        (JSON, ".a.json", None),
        (JSON, ".json", None),
        (JSON, "a.JSON", None),
        (JSON, "a.wtns", None),
        (JSON, "a.wtns.json", "a.wtns"),
        (WTNS, "a.wtns", "a"),
        (WTNS, "a.b.wtns", "a.b"),
        (WTNS, ".wtns", None),
        (WTNS, "a.json", None),
        (WTNS, "a.wtns.part", None),
    ],
)
def test_which_names_are_jobs(kind, name, stem):
    assert kind.stem(name) == stem


@pytest.mark.parametrize(
    "stem", ["with space", "new\nline", "ünï", "'quote\"", "-dash", "%41", "a\\b", "tab\t", "\u202e", "x" * 242]
)
def test_names_of_all_sorts(tmp_path, stem):
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.put(f"{stem}.json", 3)
        rig.wait(lambda: rig.there(stem))
        rig.put(f"{stem[:240]}2.json").write_text('{"bad": 1}')
        rig.wait(lambda: rig.spool.counts.rejected)
    assert all("\n" not in line for line in rig.lines)


def test_names_that_are_no_text(tmp_path):
    """Found by looking at the folder: no change of theirs is reported."""
    stem = os.fsdecode(b"\xff\xfe")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"{stem}.json").write_text('{"n": 7}')
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.wait(lambda: rig.there(stem))
        assert rig.public(stem) == [7]


def test_a_name_too_long_for_its_outputs_is_rejected(tmp_path):
    with spooling(tmp_path / "in") as rig:
        rig.put("x" * 250 + ".json", 1)
        rig.wait(lambda: rig.spool.counts.rejected)
        assert (rig.folder / "rejected" / ("x" * 250 + ".json")).exists()
        assert "too long" in (rig.folder / "rejected" / ("x" * 244 + ".reason.txt")).read_text()[:120]


def test_a_bad_one_moves_away_with_its_reason(tmp_path):
    with spooling(tmp_path / "in") as rig:
        rig.put("good.json", 1)
        (rig.folder / "worse.json").write_text('{"bad": 1}')
        rig.wait(lambda: rig.there("good") and rig.spool.counts.rejected)
        rejected = rig.folder / "rejected"
        assert {path.name for path in rejected.iterdir()} == {"worse.json", "worse.reason.txt"}
        assert (rejected / "worse.reason.txt").read_text() == "no input: KeyError\n"
        assert not (rig.folder / "worse.json").exists()
        (rig.folder / "worse.json").write_text('{"n": 5}')
        rig.wait(lambda: rig.there("worse"))
        (rig.folder / "worse.json").write_text('{"bad": 2}')
        rig.wait(lambda: rig.spool.counts.rejected == 2)
        assert (rejected / "worse.json").read_text() == '{"bad": 2}', "the newest"


def test_a_reason_names_the_file_where_it_lies(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("bad")
    moved = tmp_path / "rejected" / "a.json"
    assert reject(path, "a", f"not good: {path}: do better") == f"not good: {moved}: do better"
    assert (tmp_path / "rejected" / "a.reason.txt").read_text() == f"not good: {moved}: do better\n"
    assert moved.read_text() == "bad"


def test_a_file_that_is_still_written_is_waited_for(tmp_path):
    """A writer that pauses for longer than a file has to be quiet, but not for longer than patience lasts."""
    with spooling(tmp_path / "in", patience_s=20) as rig:
        path = rig.folder / "slow.json"
        with path.open("w") as stream:
            for piece in ('{"n"', ": 4", ', "more": {"x": 1}'):  # the last one ends with a brace and is cut short
                stream.write(piece)
                stream.flush()
                time.sleep(0.15)
            assert path.exists()
            assert not rig.there("slow")
            stream.write("}")
        rig.wait(lambda: rig.there("slow"))
        assert rig.public("slow") == [4]
        assert rig.spool.counts.rejected == 0


def test_patience_ends(tmp_path):
    with spooling(tmp_path / "in", patience_s=0.3) as rig:
        (rig.folder / "cut.json").write_text('{"n": ')
        (rig.folder / "cut2.json").write_text('{"n": {"x": 1}')
        (rig.folder / "empty.json").touch()
        rig.wait(lambda: rig.spool.counts.rejected == 3)
        assert {path.suffix for path in (rig.folder / "rejected").iterdir()} == {".json", ".txt"}


def test_what_is_answered_is_left_alone_unless_it_is_newer(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for stem in ("old", "new", "half"):
        (folder / f"{stem}.json").write_text('{"n": 9}')
        (folder / f"{stem}.proof.json").write_text("before")
        (folder / f"{stem}.public.json").write_text("before")
    os.utime(folder / "new.json", ns=(time.time_ns() + 10**9, time.time_ns() + 10**9))
    (folder / "half.public.json").unlink()
    with spooling(folder) as rig:
        rig.wait(lambda: rig.spool.counts.delivered == 2 and rig.spool.counts.found == 1)
        rig.wait_idle()
        assert (folder / "old.proof.json").read_text() == "before"
        assert (rig.public("new"), rig.public("half")) == ([9], [9])


def test_outputs_that_are_taken_away_do_not_come_again(tmp_path):
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.there("a"))
        rig.wait_idle()
        for name in ("a.proof.json", "a.public.json"):
            (rig.folder / name).unlink()
        rig.put("b.json", 2)
        rig.wait(lambda: rig.there("b"))
        assert not rig.there("a")
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.wait(lambda: any("was proved before" in line for line in rig.lines))
        rig.wait_idle()
        assert not rig.there("a"), "nor after a restart"
        os.utime(rig.folder / "a.json")
        rig.wait(lambda: rig.there("a"))


def test_a_replaced_input_is_another_job(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate)) as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        rig.put("a.json", 2)
        rig.wait(lambda: any("replaced" in line for line in rig.lines))
        gate.open.set()
        rig.wait(lambda: rig.there("a"))
        rig.wait_idle()
        assert rig.public("a") == [2]
        assert (rig.spool.counts.delivered, rig.spool.counts.cancelled) == (1, 1)


def test_a_removed_input_cancels_its_job(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate), journal=tmp_path / "journal") as rig:
        path = rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        path.unlink()
        rig.wait(lambda: any("removed" in line for line in rig.lines))
        gate.open.set()
        rig.wait_idle()
        rig.put("b.json", 2)
        rig.wait(lambda: rig.there("b"))
        assert not rig.there("a")
        assert rig.engine.snapshot().counters.jobs_failed == 0


def test_links_lead_to_files_and_all_else_is_no_job(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "below.json").mkdir()
    (folder / "below.json" / "x.json").write_text('{"n": 1}')
    os.mkfifo(folder / "pipe.json")
    (folder / "lost.json").symlink_to(tmp_path / "nowhere.json")
    (folder / "round.json").symlink_to(folder / "round.json")
    (tmp_path / "kept.json").write_text('{"n": 6}')
    (folder / "link.json").symlink_to(tmp_path / "kept.json")
    with spooling(folder) as rig:
        rig.wait(lambda: rig.there("link"))
        rig.wait_idle()
        assert rig.spool.counts.taken == 1
        rig.put("other.json", 1)
        rig.wait(lambda: rig.there("other"))
        assert rig.lines == ["lost.json: a link that leads to no file, it is not taken"]
        (tmp_path / "nowhere.json").write_text('{"n": 8}')
        os.utime(folder / "lost.json", follow_symlinks=False)
        rig.wait(lambda: rig.there("lost"))


def test_a_folder_that_vanishes_and_comes_back(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate)) as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        rig.folder.rename(tmp_path / "away")
        gate.open.set()
        rig.wait(lambda: rig.spool.trouble)
        assert "\n" not in str(rig.spool.trouble)
        (tmp_path / "away").rename(rig.folder)
        rig.wait(lambda: rig.there("a"))
        rig.wait(lambda: rig.spool.trouble is None)
    with spooling(tmp_path / "in") as rig:
        rig.wait_idle()
        rig.folder.rename(tmp_path / "away")
        rig.folder.mkdir()
        rig.put("b.json", 2)
        rig.wait(lambda: rig.there("b"))


def test_outputs_that_cannot_be_written_are_kept_until_they_can(tmp_path):
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        (rig.folder / "a.proof.json").mkdir()
        rig.put("a.json", 4)
        rig.wait(lambda: rig.spool.trouble)
        rig.put("b.json", 5)
        rig.wait(lambda: rig.there("b"))
        (rig.folder / "a.proof.json").rmdir()
        rig.wait(lambda: rig.there("a"))
        rig.wait(lambda: rig.spool.trouble is None)
        assert rig.public("a") == [4]
        assert rig.workload.calls["synthesize"] == 2, "neither was proved twice"


def test_many_outputs_that_cannot_be_written_are_told_with_a_count_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "RETRY_S", 0.05)
    folder, tries = tmp_path / "in", []
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.proof.json").mkdir()
        (folder / f"{number}.json").write_text(json.dumps({"n": number}))
    workload = ReadingWorkload()
    documents = workload.documents
    workload.documents = lambda item, proof: tries.append(item) or documents(item, proof)
    with spooling(folder, workload) as rig:
        rig.wait(lambda: len(tries) > 100)
        assert len(rig.lines) == 1 and "cannot be written" in rig.lines[0], rig.lines
        monkeypatch.setattr(spool, "TELL_AGAIN_S", 0.0)
        rig.wait(lambda: any("8 proofs cannot be written, they are kept" in line for line in rig.lines))
        for number in range(8):
            (folder / f"{number}.proof.json").rmdir()
        rig.wait(lambda: rig.spool.counts.delivered == 8)
        rig.wait(lambda: rig.spool.trouble is None)


def test_a_bad_one_that_cannot_be_moved_is_told_once(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rejected").write_text("a file")
    with spooling(folder) as rig:
        (folder / "bad.json").write_text('{"bad": 1}')
        rig.put("good.json", 1)
        rig.wait(lambda: rig.there("good") and any("it stays" in line for line in rig.lines))
        rig.wait_idle()
        assert (folder / "bad.json").exists()
        assert sum("it stays" in line for line in rig.lines) == 1


def test_very_many_at_once_are_taken_a_few_at_a_time(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    count, most = 800, 16
    for number in range(count):
        (folder / f"{number}.json").write_text(json.dumps({"n": number}))
    with spooling(folder, most_in_flight=most) as rig:
        seen = 0
        while rig.spool.counts.delivered < count:
            counters = rig.engine.snapshot().counters
            living = sum(job.ended is None for job in rig.engine.snapshot().jobs)
            seen = max(seen, living)
            assert rig.spool.trouble is None
            assert counters.jobs_failed == 0
            time.sleep(0.01)
        rig.wait_idle()
        assert 0 < seen <= most
        assert all(rig.public(str(number)) == [number] for number in range(count))


def test_jobs_wait_for_the_disk_together_and_room_is_filled_before_anything_is_handed_over(tmp_path):
    folder, most = tmp_path / "in", 4
    folder.mkdir()
    for number in range(3 * most):
        path = folder / f"{number}.json"
        path.write_text(json.dumps({"n": number}))
        os.utime(path, (number, number))
    workload = ReadingWorkload()
    with spooling(folder, workload, start=False, most_in_flight=most, journal=tmp_path / "journal") as rig:
        submit, documents = rig.engine.submit, workload.documents
        first, taken = threading.Barrier(most), []

        def together(request):
            if rig.spool.counts.taken == 0:
                first.wait(20)  # one after the other they would never get past it
            return submit(request)

        def written(item, proof):
            taken.append(rig.spool.counts.taken)
            return documents(item, proof)

        rig.engine.submit, workload.documents = together, written
        rig.spool.start()
        rig.wait(lambda: rig.spool.counts.delivered == 3 * most)
        assert min(taken) > most
        assert not rig.lines


def test_an_engines_failure_is_no_fault_of_the_input(tmp_path):
    def step(name, inputs, partitions, cancel):
        if name == "msm" and failing.is_set():
            raise RuntimeError("the device had a bad day")

    failing = threading.Event()
    failing.set()
    with spooling(tmp_path / "in", ReadingWorkload(step=step)) as rig:
        path = rig.put("a.json", 1)
        rig.wait(lambda: any("left where it is" in line for line in rig.lines))
        rig.wait_idle()
        assert path.exists()
        failing.clear()
        os.utime(path)
        rig.wait(lambda: rig.there("a"))


def test_a_draining_engine_gets_nothing_until_it_takes_jobs_again(tmp_path):
    with spooling(tmp_path / "in") as rig:
        rig.engine.drain()
        rig.put("a.json", 1)
        rig.wait(lambda: not rig.spool.idle)
        time.sleep(0.2)
        assert rig.spool.counts.taken == 0
        rig.engine.resume()
        rig.wait(lambda: rig.there("a"))


def test_an_operators_cancel_is_not_undone(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate)) as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        [job] = [job.id for job in rig.engine.snapshot().jobs]
        assert job.startswith("a-")
        rig.engine.cancel(job)
        rig.wait(lambda: any("was cancelled" in line for line in rig.lines))
        gate.open.set()
        rig.wait_idle()
        assert not rig.there("a")


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_what_a_stop_cut_short_goes_on_under_its_id(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate), journal=tmp_path / "journal") as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        [first] = [job.id for job in rig.engine.snapshot().jobs]
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.wait(lambda: rig.there("a"))
        assert [job.id for job in rig.engine.snapshot().jobs] == [first]
        assert rig.spool.counts.taken == 0


def test_what_was_proved_and_not_handed_over_is_not_proved_again(tmp_path):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate), journal=tmp_path / "journal") as rig:
        rig.put("a.json", 3)
        rig.wait(lambda: rig.workload.calls["synthesize"])
        (rig.folder / "a.public.json").mkdir()
        gate.open.set()
        rig.wait(lambda: rig.spool.trouble)
    (tmp_path / "in" / "a.public.json").rmdir()
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.wait(lambda: rig.there("a"))
        assert rig.public("a") == [3]
        assert rig.workload.calls["synthesize"] == 0


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_an_input_that_changed_between_sessions(tmp_path, change):
    gate = Gate("synthesize")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate), journal=tmp_path / "journal") as rig:
        path = rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["synthesize"])
    path.unlink()
    if change == "replaced":
        path.write_text('{"n": 22}')
    with spooling(tmp_path / "in", journal=tmp_path / "journal") as rig:
        rig.put("b.json", 2)
        rig.wait(lambda: rig.there("b"))
        rig.wait_idle()
        if change == "replaced":
            assert rig.public("a") == [22]
        else:
            assert not rig.there("a")


def test_what_a_drain_lets_end_is_handed_over(tmp_path):
    gate = Gate("msm")
    with spooling(tmp_path / "in", ReadingWorkload(step=gate)) as rig:
        rig.put("a.json", 1)
        rig.wait(lambda: rig.workload.calls["msm"])
        rig.spool.stop_taking()
        rig.put("b.json", 2)
        opener = threading.Timer(0.2, gate.open.set)
        opener.start()
        rig.engine.stop(drain_timeout_s=20)
        rig.spool.stop()
        opener.join()
        assert rig.there("a")
        assert not rig.there("b")


def _as_nobody(folder, told) -> int:
    """In a process of its own: a user who may read the folder, until it is opened."""
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    with spooling(folder) as rig:
        rig.wait(lambda: rig.spool.trouble)
        assert "cannot be written" in rig.spool.trouble and "\n" not in rig.spool.trouble
        assert rig.spool.counts.taken == 0
        os.write(told, b"trouble\n")
        rig.wait(lambda: rig.there("a"))
        rig.wait(lambda: rig.spool.trouble is None)
        assert len(rig.lines) == 2, rig.lines
    return 0


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_folder_that_may_not_be_written_is_one_line_and_nothing_is_taken():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "in"
        folder.mkdir()
        Path(name).chmod(0o755)
        (folder / "a.json").write_text('{"n": 1}')
        (folder / "a.json").chmod(0o644)
        folder.chmod(0o555)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = _as_nobody(folder, writing)
            finally:
                os._exit(code)
        os.close(writing)
        assert os.read(reading, 100) == b"trouble\n"
        folder.chmod(0o777)
        assert os.waitpid(child, 0)[1] == 0
        os.close(reading)
        assert json.loads((folder / "a.public.json").read_bytes()) == [1]


def test_one_process_at_a_time_works_on_a_folder(tmp_path):
    """A lock of another open file, as another process would have."""
    with spooling(tmp_path / "in") as first:
        first.put("a.json", 1)
        first.wait(lambda: first.there("a"))
        with spooling(tmp_path / "in") as second:
            second.wait(lambda: second.spool.trouble)
            assert "another process works on this spool" in str(second.spool.trouble)
            first.put("b.json", 2)
            first.wait(lambda: first.there("b"))
            assert second.spool.counts.taken == 0
            first.spool.stop()
            second.put("c.json", 3)
            second.wait(lambda: second.there("c"))


def test_who_takes_a_folder_over_proves_nothing_twice(tmp_path):
    """What came and was proved while it waited is found; what was not is proved. Each has a journal of its own."""
    with (
        spooling(tmp_path / "in", journal=tmp_path / "one") as first,
        spooling(tmp_path / "in", journal=tmp_path / "two") as second,
    ):
        second.wait(lambda: second.spool.trouble)
        for number in range(6):
            first.put(f"{number}.json", number)
        first.wait(lambda: first.spool.counts.delivered == 6)
        time.sleep(0.3)  # the second one hears of them and of their outputs
        proofs = {path: path.stat() for path in first.folder.glob("*.proof.json")}
        first.spool.stop()
        second.put("late.json", 7)
        second.wait(lambda: second.there("late"))
        second.wait_idle()
        assert {path: path.stat() for path in proofs} == proofs, "none was replaced"
        assert (second.spool.counts.taken, second.spool.counts.found) == (1, 6)


def test_a_bad_one_in_a_batch_is_rejected_alone(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.json").write_text('{"bad": 1}' if number == 3 else json.dumps({"n": number}))
    with spooling(folder, knobs={"max_batch_size": 4, "max_batch_wait_ms": 200}) as rig:
        rig.wait(lambda: rig.spool.counts.delivered == 7 and rig.spool.counts.rejected == 1)
        assert (folder / "rejected" / "3.json").exists()
        assert all(rig.public(str(number)) == [number] for number in range(8) if number != 3)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_to_the_files_the_last_content_counts(tmp_path, seed):
    """Inputs put, replaced, rewritten in pieces, spoilt, touched and removed, faster than they are proved."""
    chance = random.Random(seed)
    last: dict[str, int] = {}
    with spooling(tmp_path / "in", journal=tmp_path / "journal", patience_s=1.0) as rig:
        for n in range(1, 121):
            stem = chance.choice("abcdefgh")
            path = rig.folder / f"{stem}.json"
            match chance.choice(["put", "put", "pieces", "spoil", "touch", "remove"]):
                case "put":
                    rig.put(path.name, n)
                    last[stem] = n
                case "pieces":
                    with path.open("w") as stream:
                        stream.write(f'{{"n": {n}')
                        stream.flush()
                        time.sleep(chance.uniform(0, 0.08))
                        stream.write("}")
                    last[stem] = n
                case "spoil":
                    path.write_text(f'{{"bad": {n}}}')
                    last[stem] = -n
                case "touch" if path.exists():
                    with contextlib.suppress(FileNotFoundError):  # it was rejected in between
                        os.utime(path)
                case "remove":
                    path.unlink(missing_ok=True)
                    last.pop(stem, None)
            time.sleep(chance.choice([0, 0, 0.01, 0.1]))

        def settled(stem: str, n: int) -> bool:
            if n > 0:
                return rig.there(stem) and rig.public(stem) == [n]
            moved = rig.folder / "rejected" / f"{stem}.json"
            gone = not (rig.folder / moved.name).exists()
            return gone and moved.exists() and moved.read_text() == f'{{"bad": {-n}}}'

        rig.wait(lambda: all(settled(*each) for each in last.items()))
        rig.wait_idle()
        assert all(settled(*each) for each in last.items())
        assert not any("stumbled" in line for line in rig.lines), rig.lines
        assert rig.spool.trouble is None
    assert not [name for name in rig.names() if name.startswith(".")]
