"""Finding, refusing and calling the host library."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from prover import host_library, native
from prover.cancel import Cancelled, CancelToken
from prover.curves import BLS12_381, BN254
from prover.field import pack, pack_points

SHOW = "from prover import native; print(native.cpu_variant())"
LOADS = "import sys, prover.native; print(*(name in sys.modules for name in ('numpy', 'cupy', 'textual')))"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_import_loads_nothing_heavy() -> None:
    assert python(LOADS).stdout.split() == ["False", "False", "False"]


def test_variants_are_ordered_and_selectable() -> None:
    variants = native.cpu_variants()
    assert variants[0] == "portable"
    before = native.cpu_variant()
    for name in variants:
        native.select_variant(name)
        assert native.cpu_variant() == name
    native.select_variant(before)
    with pytest.raises(native.NativeError, match="does not run the variant z80"):
        native.select_variant("z80")
    assert native.cpu_variant() == before


@pytest.mark.parametrize("name", native.cpu_variants())
def test_environment_names_a_variant(name: str) -> None:
    assert python(SHOW, CUZK_TOP_CPU=name).stdout.strip() == name


def test_unknown_variant_in_the_environment_changes_nothing() -> None:
    assert python(SHOW, CUZK_TOP_CPU="z80").stdout.strip() == native.cpu_variants()[-1]


def refused(path: Path) -> str:
    """The last line of what a process says that is given this library."""
    result = python(SHOW, CUZK_TOP_LIBRARY=str(path))
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("prover.errors.MachineLacks: ")
    assert str(path) in last
    return last


def test_missing_library(tmp_path: Path) -> None:
    assert "not found" in refused(tmp_path / "nothing.so")


def test_unusable_library(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("no library")
    assert "cannot be loaded" in refused(path)


def test_stale_library(tmp_path: Path) -> None:
    """A library that is older than a source and whose digest is not that of the sources is not served."""
    built = Path(host_library.library_path()).read_bytes()
    digest = host_library.library().czk_source_digest()
    assert digest.decode() == host_library.source_digest()
    assert built.count(digest) == 1
    path = tmp_path / host_library.LIBRARY
    path.write_bytes(built.replace(digest, b"0" * len(digest)))
    os.utime(path, (0, 0))
    assert "older than its sources" in refused(path)


def test_a_copy_older_than_unchanged_sources_is_served(tmp_path: Path) -> None:
    path = tmp_path / host_library.LIBRARY
    path.write_bytes(Path(host_library.library_path()).read_bytes())
    os.utime(path, (0, 0))
    assert python(SHOW, CUZK_TOP_LIBRARY=str(path)).returncode == 0


def test_digest_covers_every_source(tmp_path: Path) -> None:
    kernels = Path(host_library.__file__).with_name("kernels")
    names = [p for suffix in ("cuh", "h", "hpp", "cpp") for p in kernels.rglob(f"*.{suffix}")]
    assert len(names) > 15
    for name in names:
        copy = tmp_path / name.relative_to(kernels)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(name.read_bytes())
    whole = host_library.source_digest(str(tmp_path))
    assert whole == host_library.source_digest(str(kernels))
    for name in names:
        copy = tmp_path / name.relative_to(kernels)
        copy.write_bytes(name.read_bytes() + b"\n")
        assert host_library.source_digest(str(tmp_path)) != whole
        copy.write_bytes(name.read_bytes())


def test_no_sources_no_digest(tmp_path: Path) -> None:
    assert host_library.source_digest(str(tmp_path)) is None


def test_unknown_numbers_are_refused_in_one_line() -> None:
    calls = [
        ("field_op", (9, 0, None, None, None, 0), "unknown field 9"),
        ("field_op", (0, 99, None, None, None, 0), "unknown field operation 99"),
        ("field_check", (-1, None, 0, None), "unknown field -1"),
        ("group_op", (7, 1, 0, None, None, None, 0), "unknown curve 7"),
        ("group_op", (0, 3, 0, None, None, None, 0), "unknown group 3"),
        ("group_op", (0, 1, 5, None, None, None, 0), "unknown group operation 5"),
    ]
    for function, arguments, text in calls:
        with pytest.raises(native.NativeError) as raised:
            host_library.call(function, *arguments)
        assert str(raised.value) == f"{text}: {function}"


def test_threads_below_one_are_refused() -> None:
    point = pack_points([BN254.g1], BN254, 1)
    with pytest.raises(native.NativeError, match="threads must be at least 1, not 0"):
        native.group_mul(BN254, 1, point, pack([1], BN254.fr, "canonical"), threads=0)


def test_more_threads_than_work() -> None:
    point = pack_points([BN254.g1], BN254, 1)
    out = native.group_mul(BN254, 1, point, pack([1], BN254.fr, "canonical"), threads=64)
    assert np.array_equal(np.asarray(out), point)


def threads_here() -> int:
    """Threads of this process, the library's among them."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_threads_are_bounded_by_the_processors() -> None:
    """Whoever asks for thousands gets a few a processor."""
    curve, n = BN254, 6000
    base = pack_points([curve.g2], curve, 2)
    scalars = pack([curve.fr.modulus - 1 - i for i in range(n)], curve.fr, "canonical")
    points = np.asarray(native.fixed_base_mul(curve, 2, base, scalars, threads=5000))
    before = threads_here()
    most, calls = (
        [before],
        [
            lambda: native.group_mul(curve, 2, points, scalars, threads=5000),
            lambda: native.msm(curve, 2, points, scalars, threads=5000),
        ],
    )
    for call in calls:
        running = threading.Thread(target=call)
        running.start()
        while running.is_alive():
            most.append(threads_here())
    assert before + 1 < max(most) <= before + 1 + 4 * (os.cpu_count() or 1)


def test_a_running_call_is_cancelled_from_another_thread() -> None:
    """The call holds no GIL: this thread runs on, and stops work of minutes."""
    n = 1 << 18
    points = np.repeat(pack_points([BLS12_381.g2], BLS12_381, 2), n, axis=0)
    scalars = np.repeat(pack([BLS12_381.fr.modulus - 1], BLS12_381.fr, "canonical"), n, axis=0)
    token, outcome = CancelToken(), []

    def multiply() -> None:
        try:
            native.group_mul(BLS12_381, 2, points, scalars, threads=2, cancel=token)
            outcome.append("finished")
        except Cancelled:
            outcome.append("cancelled")

    thread = threading.Thread(target=multiply)
    before = time.process_time()
    thread.start()
    while time.process_time() < before + 0.2:  # all that burns the processor is the call
        time.sleep(0.01)
    token.cancel()
    thread.join()
    assert outcome == ["cancelled"]
