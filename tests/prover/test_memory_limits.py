"""Limits of machine and control groups, from made-up ``/proc`` and group folders of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.memory_limits import MemoryLimits, memory_limits

GIB = 1 << 30
MEMINFO = f"MemTotal:       {64 * GIB // 1024} kB\nMemFree:  1 kB\nMemAvailable:   {60 * GIB // 1024} kB\n"


def system(root: Path, groups: str, mounts: str, files: dict[str, str | int]) -> Path:
    for name, text in {
        "proc/meminfo": MEMINFO,
        "proc/self/status": f"Name:\tpython\nVmRSS:\t  {2 * GIB // 1024} kB\n",
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": mounts,
        **files,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n" if isinstance(text, int) else text)
    return root


V2_MOUNT = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup memory rw,memory\n"


def test_a_bare_machine(tmp_path: Path):
    found = memory_limits(system(tmp_path, "0::/\n", V2_MOUNT, {}))
    assert found == MemoryLimits(64 * GIB, None, 60 * GIB, 2 * GIB)
    assert found.ceiling == 64 * GIB and found.source == "machine"
    assert found.automatic() == 62 * GIB - 5 * GIB, "what the others hold, and a margin"


def test_version_2_takes_the_lowest_limit_of_all_groups_above(tmp_path: Path):
    slices = "sys/fs/cgroup/user.slice"
    files: dict[str, str | int] = {
        f"{slices}/memory.max": 16 * GIB,
        f"{slices}/memory.high": "max\n",
        f"{slices}/memory.current": 9 * GIB,
        f"{slices}/memory.stat": f"anon 1\nfile 2\ninactive_file {GIB}\n",
        f"{slices}/app.scope/memory.max": "max\n",
        f"{slices}/app.scope/memory.high": 20 * GIB,
        f"{slices}/app.scope/memory.current": 3 * GIB,
    }
    found = memory_limits(system(tmp_path, "0::/user.slice/app.scope\n", V2_MOUNT, files))
    assert found.limit == 16 * GIB and found.source == "control group"
    assert found.available == 8 * GIB, "file cache that goes first is not in use"
    assert found.automatic() == 10 * GIB - 2 * GIB


def test_version_2_throttles_at_high(tmp_path: Path):
    files: dict[str, str | int] = {"sys/fs/cgroup/a/memory.max": 16 * GIB, "sys/fs/cgroup/a/memory.high": 12 * GIB}
    assert memory_limits(system(tmp_path, "0::/a\n", V2_MOUNT, files)).limit == 12 * GIB


def test_version_1(tmp_path: Path):
    groups = "9:name=systemd:/\n8:pids:/\n4:cpu,memory:/docker/abc\n0::/\n"
    folder = "sys/fs/cgroup/memory/docker"
    files: dict[str, str | int] = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
        f"{folder}/memory.limit_in_bytes": 9223372036854771712,
        f"{folder}/abc/memory.limit_in_bytes": 4 * GIB,
        f"{folder}/abc/memory.usage_in_bytes": 3 * GIB,
        f"{folder}/abc/memory.stat": f"cache 1\ntotal_inactive_file {GIB}\n",
    }
    found = memory_limits(system(tmp_path, groups, V1_MOUNT, files))
    assert (found.limit, found.available) == (4 * GIB, 2 * GIB)
    assert found.automatic() == 4 * GIB - GIB // 2


@pytest.mark.parametrize("inside", ["/docker/abc", "/", "/../other"])
def test_a_container_sees_its_own_group_at_the_root_of_the_mount(tmp_path: Path, inside: str):
    mount = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup memory rw,memory\n"
    files: dict[str, str | int] = {"sys/fs/cgroup/memory/memory.limit_in_bytes": 4 * GIB}
    assert memory_limits(system(tmp_path, f"4:memory:{inside}\n", mount, files)).limit == 4 * GIB


def test_what_cannot_be_read_is_unknown(tmp_path: Path):
    found = memory_limits(tmp_path)
    assert found == MemoryLimits(None, None, None, 0)
    assert found.ceiling is None and found.automatic() is None and found.source == "unknown"


@pytest.mark.parametrize("others", [0, 10 * GIB, 63 * GIB, 64 * GIB])
def test_the_automatic_budget_never_exceeds_what_can_be_had(others: int):
    for total in (GIB, 4 * GIB, 64 * GIB, 1024 * GIB):
        available = max(total - others, 0)
        found = MemoryLimits(total, None, available, 0).automatic()
        assert found is not None and 0 <= found <= available


def test_this_machine():
    found = memory_limits()
    assert found.ceiling is not None and found.ceiling > 0 and found.resident > 0
    automatic = found.automatic()
    assert automatic is not None and 0 < automatic < found.ceiling
