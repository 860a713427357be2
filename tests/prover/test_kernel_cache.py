"""The cache of compiled kernels: hits, misses, what breaks an entry, what must change the key."""

import threading

import pytest

from prover.device.errors import KernelCompileError
from prover.device.kernel_cache import KernelCache, cache_key, default_folder
from prover.device.nvrtc import Compiled


class CountingCompiler:
    def __init__(self, version=(13, 5)):
        self.version = version
        self.calls = []

    def compile(self, name, source, options):
        self.calls.append((name, source, tuple(options)))
        if "broken" in source:
            raise KernelCompileError(name, "failed", "k.cu(3): error: no such thing\n1 error detected\n")
        return Compiled(b"\0code of " + source.encode(), "a remark")


OPTIONS = ("--gpu-architecture=sm_90", "-DA=1")


def obtain(cache, compiler, source="int k;", options=OPTIONS):
    return cache.obtain("k", source, options, compiler)


def test_compiled_once(tmp_path):
    compiler, cache = CountingCompiler(), KernelCache(tmp_path / "new" / "folder")
    image, record = obtain(cache, compiler)
    assert image == b"\0code of int k;"
    assert (record.cached, record.stored, record.log, record.image_bytes) == (False, True, "a remark", len(image))
    again, record = obtain(KernelCache(tmp_path / "new" / "folder"), compiler)
    assert again == image
    assert record.cached
    assert len(compiler.calls) == 1


@pytest.mark.parametrize("damage", [b"", b"x", None, "cut", "flip"])
def test_a_broken_entry_is_compiled_again(tmp_path, damage):
    compiler, cache = CountingCompiler(), KernelCache(tmp_path)
    image, _ = obtain(cache, compiler)
    (entry,) = tmp_path.iterdir()
    data = entry.read_bytes()
    if damage == "cut":
        entry.write_bytes(data[:-1])
    elif damage == "flip":
        entry.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    elif damage is None:
        entry.unlink()
    else:
        entry.write_bytes(damage)
    assert obtain(cache, compiler)[0] == image
    assert len(compiler.calls) == 2
    assert obtain(cache, compiler)[1].cached


def test_everything_that_decides_the_code_is_in_the_key():
    keys = {
        cache_key("a", OPTIONS, (13, 5)),
        cache_key("b", OPTIONS, (13, 5)),
        cache_key("a", OPTIONS, (12, 9)),
        cache_key("a", (*OPTIONS, "-DB"), (13, 5)),
        cache_key("a", ("--gpu-architecture=sm_80", "-DA=1"), (13, 5)),
        cache_key("-DA=1a", OPTIONS[:1], (13, 5)),
    }
    assert len(keys) == 6
    assert cache_key("a", OPTIONS[::-1], (13, 5)) in keys


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("in the way")
    compiler, cache = CountingCompiler(), KernelCache(tmp_path / "file" / "kernels")
    for _ in range(2):
        image, record = obtain(cache, compiler)
        assert image
        assert not record.stored
    assert len(compiler.calls) == 2


def test_errors_are_one_line_and_not_stored(tmp_path):
    cache = KernelCache(tmp_path)
    with pytest.raises(
        KernelCompileError, match=r"kernel does not compile: k\.cu\(3\): error: no such thing: k: "
    ) as caught:
        obtain(cache, CountingCompiler(), "broken")
    assert "1 error detected" in caught.value.log
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_threads_and_two_caches_get_whole_entries(tmp_path):
    found = []

    def work():
        for i in range(20):
            found.append(obtain(KernelCache(tmp_path), CountingCompiler(), f"int k{i % 4};")[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert set(found) == {f"\0code of int k{i};".encode() for i in range(4)}


def test_the_users_cache_is_where_the_standard_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "cuzk-top" / "kernels"
