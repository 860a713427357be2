"""The arena: blocks are used again, in order even between streams, and never by two at once."""

import gc
from itertools import pairwise

from emulated_gpu import emulated
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.device.errors import OutOfMemory


def take(device, nbytes, stream):
    return device.arena.take(nbytes, stream)


def test_a_block_serves_the_next_request_of_its_size():
    device = emulated()
    stream = device.stream("a")
    first = take(device, 1 << 20, stream)
    address = first.address
    del first
    again = take(device, (1 << 20) - 100, stream)
    assert again.address == address
    assert device.driver.waits == []
    other = take(device, 1 << 19, stream)
    assert other.address != address


def test_another_stream_gets_other_memory_while_work_may_still_run():
    device = emulated()
    a, b = device.stream("a"), device.stream("b")
    array = take(device, 4096, a)
    a.begin_kernels()  # work is submitted
    address = array.address
    del array
    other = take(device, 4096, b)
    assert other.address != address
    assert device.driver.waits == []
    assert take(device, 4096, a).address == address, "its own stream need not wait"


def test_another_stream_waits_on_the_gpu_for_work_that_may_still_run_where_there_is_no_other_memory():
    device = emulated(memory_cap=4096)
    a, b = device.stream("a"), device.stream("b")
    array = take(device, 4096, a)
    a.begin_kernels()  # work is submitted
    address = array.address
    del array
    assert take(device, 4096, b).address == address
    assert [stream for stream, _ in device.driver.waits] == [b.handle]


def test_a_wait_is_work_that_the_next_stream_waits_for():
    """b only waits for a, and gives the memory back: c must not take it before a is done."""
    device = emulated(memory_cap=4096)
    a, b, c = device.stream("a"), device.stream("b"), device.stream("c")
    array = take(device, 4096, a)
    a.begin_kernels()
    address = array.address
    del array
    array = take(device, 4096, b)
    assert array.address == address
    del array
    assert take(device, 4096, c).address == address
    assert [stream for stream, _ in device.driver.waits] == [b.handle, c.handle]


def test_another_stream_does_not_wait_for_work_that_is_known_to_be_done():
    device = emulated()
    a, b = device.stream("a"), device.stream("b")
    array = take(device, 4096, a)
    a.begin_kernels()
    a.synchronize()
    del array
    take(device, 4096, b)
    assert device.driver.waits == []


def test_settled_blocks_are_taken_first():
    device = emulated()
    a, b = device.stream("a"), device.stream("b")
    one, two = take(device, 4096, a), take(device, 4096, b)
    settled = two.address
    b.synchronize()
    a.begin_kernels()
    del one, two
    assert take(device, 4096, b).address == settled
    assert device.driver.waits == []


def test_a_part_keeps_the_block():
    device = emulated()
    stream = device.stream("a")
    whole = take(device, 4096, stream)
    part, address = whole.part(100, 200), whole.address
    del whole
    assert take(device, 4096, stream).address != address
    assert part.address == address + 100


def test_trimming_returns_what_nobody_uses():
    device = emulated()
    stream = device.stream("a")
    kept, dropped = take(device, 5000, stream), take(device, 70_000, stream)
    del dropped
    free = device.driver.memory_info()[0]
    assert device.free_cached() >= 70_000
    assert device.driver.memory_info()[0] >= free + 70_000
    assert device.memory().used >= kept.nbytes
    assert device.free_cached() == 0


@settings(max_examples=60, deadline=None)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(["take", "drop", "sync", "trim"]), st.integers(0, 2), st.integers(0, 5_000_000)),
        max_size=60,
    )
)
def test_blocks_never_overlap_and_the_account_is_right(actions):
    device = emulated(memory_bytes=256 << 20, memory_cap=24 << 20)
    streams = [device.stream(str(i)) for i in range(3)]
    live = []
    for action, which, nbytes in actions:
        if action == "take":
            try:
                live.append(take(device, nbytes, streams[which]))
            except OutOfMemory:
                assert sum(array.nbytes for array in live) + nbytes > (24 << 20) * 3 // 8
        elif action == "drop" and live:
            live.pop(nbytes % len(live))
        elif action == "sync":
            streams[which].synchronize()
        elif action == "trim":
            device.free_cached()
        gc.collect(0)
        spans = sorted((array.address, array.address + array.nbytes) for array in live if array.nbytes)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        usage = device.memory()
        assert sum(end - start for start, end in spans) <= usage.used <= 24 << 20
        assert usage.free >= 0
