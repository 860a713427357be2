"""An emulated GPU whose streams run late: what is enqueued is done only when the host waits for it, in any order that
the streams and their events allow.

So work that misses a wait for another stream's finds what was there before, which the emulated memory poisons.
"""

import functools
import random
import threading
from collections import deque

from emulated_gpu import EmulatedDriver


def _alone(method):
    """One thread at a time."""

    @functools.wraps(method)
    def locked(self, *args):
        with self.turn:
            return method(self, *args)

    return locked


class _Operation:
    """Something enqueued: what it does, and what another stream must have done before."""

    def __init__(self, run, after=()):
        self.run = run
        self.after = after
        self.done = False


class LazyDriver(EmulatedDriver):
    """``eager`` is how likely it is that a stream nobody waits for gets a step done as well, at each step."""

    def __init__(self, seed=0, eager=0.3, **properties):
        super().__init__(**properties)
        self.turn = threading.RLock()
        self._rng = random.Random(seed)
        self._eager = eager
        self._queues = {}
        self._last = {}
        """The operation that each event stands for."""
        self.late = 0
        """Operations that were done in another order than they were enqueued in."""
        self._enqueued = 0
        self._newest = -1

    def _put(self, stream, run, after=()):
        assert stream in self._live
        number = self._enqueued
        self._enqueued += 1

        def numbered():
            self.late += number < self._newest
            self._newest = max(self._newest, number)
            run()

        operation = _Operation(numbered, after)
        self._queues.setdefault(stream, deque()).append(operation)
        return operation

    def _step(self, stream):
        """Do the next operation of a stream, and first whatever it waits for."""
        queue = self._queues[stream]
        operation = queue[0]
        for other in operation.after:
            self._until(other)
        if operation.done:  # on the way there
            return
        assert queue.popleft() is operation
        operation.run()
        operation.done = True

    def _until(self, operation):
        if operation.done:
            return
        own = next(stream for stream, queue in self._queues.items() if operation in queue)
        while not operation.done:
            self._step(own)
            self._wander()

    def _wander(self):
        while self._rng.random() < self._eager:
            ready = [s for s, queue in self._queues.items() if queue and all(o.done for o in queue[0].after)]
            if not ready:
                return
            self._step(self._rng.choice(ready))

    def _drain(self, stream):
        while self._queues.get(stream):
            self._step(stream)
            self._wander()

    @_alone
    def free(self, address):
        self.synchronize_device()
        super().free(address)

    @_alone
    def copy_in(self, target, source, nbytes, stream):
        self._put(stream, lambda: super(LazyDriver, self).copy_in(target, source, nbytes, stream))

    @_alone
    def copy_out(self, target, source, nbytes, stream):
        self._put(stream, lambda: super(LazyDriver, self).copy_out(target, source, nbytes, stream))

    @_alone
    def copy_within(self, target, source, nbytes, stream):
        self._put(stream, lambda: super(LazyDriver, self).copy_within(target, source, nbytes, stream))

    @_alone
    def fill(self, target, byte, nbytes, stream):
        self._put(stream, lambda: super(LazyDriver, self).fill(target, byte, nbytes, stream))

    @_alone
    def launch(self, function, grid, block, shared, stream, arguments):
        given = list(arguments)
        self._put(stream, lambda: super(LazyDriver, self).launch(function, grid, block, shared, stream, given))

    @_alone
    def synchronize_device(self):
        for stream in list(self._queues):
            self._drain(stream)

    @_alone
    def synchronize_stream(self, stream):
        super().synchronize_stream(stream)
        self._drain(stream)

    @_alone
    def record(self, event, stream):
        assert event in self._live
        self._last[event] = self._put(stream, lambda: super(LazyDriver, self).record(event, stream))

    @_alone
    def wait(self, stream, event):
        self.waits.append((stream, event))
        self._put(stream, lambda: None, (self._last[event],))

    @_alone
    def synchronize_event(self, event):
        self._until(self._last[event])

    @_alone
    def event_done(self, event):
        return self._last[event].done

    @_alone
    def destroy_stream(self, stream):
        self._drain(stream)
        super().destroy_stream(stream)


__all__ = ["LazyDriver"]
