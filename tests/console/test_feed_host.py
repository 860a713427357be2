from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.feeds.host import HostSampler, parse_cpu_times, parse_memory

MEMINFO = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   18000000 kB\n"


def proc(folder: Path, user: int, idle: int, guest: int = 0) -> None:
    (folder / "stat").write_text(f"cpu  {user} 0 0 {idle} 0 0 0 0 {guest} 0\ncpu0 1 2 3 4\n")
    (folder / "meminfo").write_text(MEMINFO)


def test_use_is_what_changed_between_two_looks(tmp_path: Path):
    now = [10.0]
    sampler = HostSampler(proc=tmp_path, clock=lambda: now[0])
    proc(tmp_path, 1000, 1000)
    sampler.sample_once()
    assert sampler.samples() == ()
    proc(tmp_path, 1030, 1010, guest=500)
    now[0] = 10.25
    sampler.sample_once()
    (sample,) = sampler.samples()
    assert sample.cpu == pytest.approx(75.0) and sample.at == 10.25
    assert sample.memory_used == 6_000_000 * 1024 and sample.memory_total == 24_000_000 * 1024
    assert sampler.samples(since=10.25) == ()


def test_no_time_passed_is_no_sample(tmp_path: Path):
    sampler = HostSampler(proc=tmp_path)
    proc(tmp_path, 1000, 1000)
    sampler.sample_once()
    sampler.sample_once()
    assert sampler.samples() == () and sampler.problem is None


def test_no_proc_is_told(tmp_path: Path):
    sampler = HostSampler(proc=tmp_path / "none")
    sampler.sample_once()
    assert sampler.problem is not None and "stat" in sampler.problem
    (tmp_path / "stat").write_text("something else\n")
    (tmp_path / "meminfo").write_text("")
    other = HostSampler(proc=tmp_path)
    other.sample_once()
    assert other.problem is not None and "unknown format" in other.problem


@given(st.text())
def test_foreign_text_is_refused_not_misread(text: str):
    assert parse_cpu_times("x" + text) is None
    parse_memory("".join(c for c in text if c not in ":"))


def test_the_ring_is_bounded_and_in_order(tmp_path: Path):
    now = [0.0]
    sampler = HostSampler(period=1.0, span=5.0, proc=tmp_path, clock=lambda: now[0])
    for step in range(20):
        now[0] = float(step)
        proc(tmp_path, 100 + step * 10, 100 + step * 5)
        sampler.sample_once()
    assert [sample.at for sample in sampler.samples()] == [15.0, 16.0, 17.0, 18.0, 19.0]
    assert [sample.at for sample in sampler.samples(since=17.0)] == [18.0, 19.0]


def test_a_real_sampler_starts_and_stops():
    sampler = HostSampler(period=0.01)
    sampler.start()
    sampler.stop(2.0)
    assert not sampler._thread.is_alive()
