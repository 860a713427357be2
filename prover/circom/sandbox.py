"""A WebAssembly module in wasmtime's sandbox, linked with our runtime and driver: bounded in memory, and interruptible.

What can be interrupted is an engine of wasmtime, with all that runs in it. So each call has an engine of its own, lent
from a pool; the module is compiled once and loaded into the others. Calls go through ctypes, which lets go of the GIL.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prover.cancel import Cancelled, CancelToken
from prover.circom import linkage
from prover.circom.compiled_cache import CompiledCache
from prover.circom.linkage import FunctionType
from prover.errors import MachineLacks, ProverError
from prover.formats.errors import printable

if TYPE_CHECKING:
    import wasmtime

_MAX_STACK = 1 << 20
_MAX_TABLE = 1 << 20
_LINGER_S = 1.0
"""How long the thread that watches deadlines outlives its last call, and how late it may be."""


class Trapped(ProverError):
    """The module did not end its call: an error of its own (``exception``), or a trap."""

    def __init__(self, what: str, exception: int, message: str) -> None:
        super().__init__(what)
        self.exception = exception
        """The code of the module's own error; 0 if it was another."""
        self.message = message
        """What it printed before, in one line."""


class OutOfTime(ProverError):
    """The call took longer than it may."""


class NotModule(ProverError):
    """It cannot be compiled or linked; ``what`` says why."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a module imports and exports: functions by type, memories by their bytes, None for what else there is."""

    imports: dict[tuple[str, str], FunctionType | int | None]
    exports: dict[str, FunctionType | int | None]


@dataclass(eq=False, slots=True)
class _Machine:
    """An engine and its modules: one call at a time."""

    engine: wasmtime.Engine
    generator: wasmtime.Module
    runtime: wasmtime.Module
    driver: wasmtime.Module


def load_wasmtime() -> Any:
    """The package ``wasmtime``.

    Raises:
        MachineLacks: if it is not installed, or not for this machine.
    """
    try:
        import wasmtime
    except (ImportError, OSError, RuntimeError) as error:
        reason = printable(" ".join(str(error).split()))
        raise MachineLacks("wasmtime cannot be loaded", reason, "--wasm needs it: pip install wasmtime") from error
    return wasmtime


class Buffer:
    """The memory that a call left behind."""

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store  # the memory lives as long
        self._start = ctypes.addressof(memory.data_ptr(store).contents)

    def word(self, index: int) -> int:
        """A word of the state, unsigned."""
        return int.from_bytes(self.read(4 * index, 4), "little")

    def read(self, at: int, size: int) -> bytearray:
        """A copy of ``size`` bytes within the buffer."""
        out = bytearray(size)
        ctypes.memmove((ctypes.c_ubyte * size).from_buffer(out), self._start + at, size)
        return out

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into the buffer."""
        ctypes.memmove(self._start + at, data, len(data))

    @property
    def message(self) -> str:
        """What the module printed, its lines joined."""
        size = min(self.word(linkage.MESSAGE_BYTES), linkage.RECORDS - linkage.MESSAGES)
        lines = self.read(linkage.MESSAGES, size).decode("utf-8", "replace").split("\n")
        return printable("; ".join(line.strip() for line in lines if line.strip()), 400)


class Sandbox:
    """One module, compiled. Every method may be called from any thread, also at once."""

    def __init__(self, code: bytes, cache: CompiledCache | None = None) -> None:
        """Compile ``code``, or take it from the cache.

        Raises:
            NotModule: if that cannot be.
            MachineLacks: without wasmtime.
        """
        self._wasmtime = load_wasmtime()
        self._lock = threading.Lock()
        self._deadlines = _Deadlines()
        if not code.startswith(b"\0asm"):  # wasmtime would take text too
            raise NotModule("it does not begin as one")
        engine = self._engine()
        module = self._module(engine, code, cache)
        self._compiled = bytes(module.serialize())
        self._made: list[_Machine] = []
        self._idle = [self._machine(engine, module)]
        weakref.finalize(self, _close, self._made)  # also at exit: while wasmtime itself is still there
        self.interface = Interface(
            {(entry.module, entry.name or ""): self._kind(entry.type) for entry in module.imports},
            {entry.name: self._kind(entry.type) for entry in module.exports},
        )

    def call(
        self,
        function: str,
        arguments: tuple[int, ...] = (),
        *,
        records: bytes = b"",
        size: int = linkage.RECORDS,
        cancel: CancelToken | None = None,
        limit_s: float,
    ) -> tuple[int | None, Buffer]:
        """Call a function of the driver in a fresh instance, with ``records`` in a buffer of at least ``size`` bytes.
        Returns its result and the buffer.

        Raises:
            Trapped: if the module failed.
            OutOfTime: if it took longer than ``limit_s``.
            NotModule: if it cannot be linked.
            Cancelled: if asked.
        """
        token = cancel or CancelToken()
        end = time.monotonic() + limit_s
        machine = self._borrow()
        interrupt = machine.engine.increment_epoch

        def over() -> bool:
            return token.cancelled or time.monotonic() >= end

        try:
            while True:
                with token.calling(interrupt), self._deadlines.calling(end, interrupt):
                    outcome = self._attempt(machine, function, arguments, records, size, over)
                if outcome is not None:
                    return outcome
                if token.cancelled:
                    raise Cancelled
                if time.monotonic() >= end:
                    raise OutOfTime(f"it did not end within {limit_s:g} s")
                # An interrupt that was meant for the call before came late: once more.
        finally:
            with self._lock:
                self._idle.append(machine)

    def _attempt(
        self,
        machine: _Machine,
        function: str,
        arguments: tuple[int, ...],
        records: bytes,
        size: int,
        over: Callable[[], bool],
    ) -> tuple[int | None, Buffer] | None:
        """One call; None if it was interrupted."""
        wasmtime = self._wasmtime
        pages = -(-max(size, linkage.RECORDS + len(records)) // linkage.PAGE)
        store = wasmtime.Store(machine.engine)
        store.set_limits(
            memory_size=max(self.memory_bytes, pages * linkage.PAGE),
            table_elements=_MAX_TABLE,
            instances=3,
            tables=4,
            memories=4,
        )
        store.set_epoch_deadline(1)
        if over():  # an interrupt from before the line above would not stop it
            return None
        try:
            memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(pages, pages)))
            buffer = Buffer(store, memory)
            buffer.write(linkage.RECORDS, records)
            run = self._link(store, machine, memory)[function]
            return run(store, *arguments), buffer
        except wasmtime.Trap as trap:
            if trap.trap_code == wasmtime.TrapCode.INTERRUPT:
                return None
            code = trap.trap_code
            reason = code.name.lower().replace("_", " ") if code is not None else _one_line(trap.message)
            raise Trapped(reason, buffer.word(linkage.EXCEPTION), buffer.message) from None
        except wasmtime.WasmtimeError as error:
            raise NotModule(_one_line(error)) from None

    def _link(self, store: wasmtime.Store, machine: _Machine, memory: wasmtime.Memory) -> Any:
        """Fresh instances of the three modules; the driver's exports. The linker knows their names: to ask each module
        for its exports would take longer than many a witness.
        """
        linker = self._wasmtime.Linker(machine.engine)
        linker.define(store, "buffer", "memory", memory)
        linker.define_instance(store, "runtime", linker.instantiate(store, machine.runtime))
        linker.define_instance(store, "generator", linker.instantiate(store, machine.generator))
        return linker.instantiate(store, machine.driver).exports(store)

    @property
    def memory_bytes(self) -> int:
        """What the module's memory takes."""
        found = self.interface.exports.get("memory")
        return found if isinstance(found, int) else 0

    def _module(self, engine: wasmtime.Engine, code: bytes, cache: CompiledCache | None) -> wasmtime.Module:
        compiled = cache.find(code) if cache is not None else None
        module: wasmtime.Module
        if compiled is not None:
            with suppress(self._wasmtime.WasmtimeError):  # made for another processor
                module = self._wasmtime.Module.deserialize(engine, compiled)
                return module
        try:
            module = self._wasmtime.Module(engine, code)
        except self._wasmtime.WasmtimeError as error:
            raise NotModule(_one_line(error)) from None
        if cache is not None:
            cache.keep(code, bytes(module.serialize()))
        return module

    def _engine(self) -> wasmtime.Engine:
        config = self._wasmtime.Config()
        config.epoch_interruption = True
        config.wasm_multi_memory = True
        config.max_wasm_stack = _MAX_STACK
        engine: wasmtime.Engine = self._wasmtime.Engine(config)
        return engine

    def _machine(self, engine: wasmtime.Engine, generator: wasmtime.Module) -> _Machine:
        module = self._wasmtime.Module
        made = _Machine(engine, generator, module(engine, linkage.RUNTIME), module(engine, linkage.DRIVER))
        self._made.append(made)
        return made

    def _borrow(self) -> _Machine:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        engine = self._engine()
        return self._machine(engine, self._wasmtime.Module.deserialize(engine, self._compiled))

    def _kind(self, found: Any) -> FunctionType | int | None:
        if isinstance(found, self._wasmtime.FuncType):
            return FunctionType(tuple(map(str, found.params)), tuple(map(str, found.results)))
        if isinstance(found, self._wasmtime.MemoryType) and not found.is_64 and not found.is_shared:
            return int(found.limits.min) * linkage.PAGE
        return None


class _Deadlines:
    """Calls back when a time has come. Its thread lives while anybody waits for one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, Callable[[], None]]] = []
        self._running = False

    @contextmanager
    def calling(self, when: float, callback: Callable[[], None]) -> Iterator[None]:
        """Within it, ``callback`` is called once at ``when``, on ``time.monotonic``'s clock."""
        entry = (when, callback)
        with self._changed:
            self._waiting.append(entry)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="wasm-deadlines", daemon=True).start()
        try:
            yield
        finally:
            with self._changed:
                self._waiting = [each for each in self._waiting if each is not entry]

    def _run(self) -> None:
        with self._changed:
            while self._waiting:
                now = time.monotonic()
                due = [entry for entry in self._waiting if entry[0] <= now]
                self._waiting = [entry for entry in self._waiting if entry[0] > now]
                for _, callback in due:
                    callback()
                left = min((when for when, _ in self._waiting), default=now + _LINGER_S) - now
                self._changed.wait(min(left, _LINGER_S))
            self._running = False


def _close(machines: list[_Machine]) -> None:
    for machine in machines:
        for part in (machine.driver, machine.runtime, machine.generator, machine.engine):
            part.close()


def _one_line(error: object) -> str:
    return printable(" ".join(str(error).split()), 400)
