import gc
import mmap

import numpy as np
import pytest

from prover import buffers


@pytest.mark.parametrize("n", [1, 3, 2047, 2048, 5000])
def test_zeros_are_zero_writable_and_shared_with_numpy(n):
    rows = buffers.zeros(n, 4)
    assert rows.shape == (n, 4)
    array = np.asarray(rows)
    assert not array.any()
    array[n - 1] = (1, 2, 3, 4)
    assert buffers.rows(rows, n - 1, n, 4).tolist() == [[1, 2, 3, 4]]
    assert buffers.address(rows) == array.ctypes.data


@pytest.mark.parametrize("n", [7, 1 << 14])
def test_memory_is_reported_free_once_and_only_when_the_last_view_goes(n):
    calls = []
    rows = buffers.zeros(n, 4, lambda: calls.append(n))
    part = np.asarray(buffers.rows(rows, 1, 3, 4))
    del rows
    gc.collect()
    assert not calls
    part[0] = 5
    del part
    gc.collect()
    assert calls == [n]


def test_addresses_agree_for_every_kind_of_buffer(tmp_path):
    array = np.arange(16, dtype=np.uint64)
    assert buffers.address(array) == array.ctypes.data
    assert buffers.address(memoryview(array).cast("B")[8:]) == array.ctypes.data + 8
    path = tmp_path / "file"
    path.write_bytes(array.tobytes())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = memoryview(mapped)
    assert buffers.address(view[8:]) == buffers.address(mapped) + 8
    assert buffers.as_rows(view, 4).tolist() == array.reshape(-1, 4).tolist()


def test_empty_arrays():
    assert buffers.zeros(0, 4).nbytes == 0
    assert buffers.as_rows(b"", 4).nbytes == 0
    assert buffers.row_count(buffers.rows(bytes(32), 1, 1, 4), 4) == 0


def test_what_is_refused():
    with pytest.raises(ValueError, match="multiple"):
        buffers.as_rows(bytes(33), 4)
    with pytest.raises(IndexError, match="of 2"):
        buffers.rows(bytes(64), 1, 3, 4)
    with pytest.raises((BufferError, ValueError)):
        buffers.address(np.zeros((4, 4))[:, ::2])
    with pytest.raises(TypeError):
        buffers.address(3)
    with pytest.raises(MemoryError):
        buffers.zeros(1 << 60, 4)


@pytest.mark.parametrize("n", [0, 1, 3, 5000])
def test_copy_fills_the_beginning_and_clears_the_rest(n):
    source = np.arange(1, 4 * n + 1, dtype=np.uint64).reshape(n, 4)
    target = buffers.zeros(n + 2, 4)
    np.asarray(target)[:] = 9
    buffers.copy(source, target)
    assert np.array_equal(np.asarray(target)[:n], source)
    assert not np.asarray(target)[n:].any()
    with pytest.raises(ValueError, match="cannot copy"):
        buffers.copy(bytes(32 * (n + 3)), target)
    with pytest.raises(ValueError, match="read-only"):
        buffers.copy(source, memoryview(bytes(32 * (n + 2))))
