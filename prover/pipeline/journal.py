"""The journal: what the engine must not forget, written by one thread of its own.

A call appends to a queue in memory and returns at once. What has to be durable (a submitted job, a hand-over, an end)
also returns a future that is set when the entry is on the disk; the rest is written with it, or ``LINGER_S`` later.
Many durable entries share one commit.

The journal never raises into its callers. Where it cannot be written (locked, full, read-only, not ours), ``state``
says so in one line, durable entries are answered ``Durability(False, line)`` at once, everything waits in a queue of
``MOST_QUEUED`` entries, and the writer tries again; when it succeeds all of it is written in order and ``state`` is
``ok``. Beyond the bound timings go first, then what comes is lost and counted. A corrupt database is moved aside and a
new one begun, with the jobs of this session that are open; so is one when the file was taken away.

One process writes a journal: it holds a lock on a file beside it for as long as it lives. A second one is told.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from prover.errors import ProverError
from prover.pipeline import journal_store
from prover.pipeline.journal_records import (
    Claim,
    DeviceTally,
    Durability,
    Ended,
    JobEntry,
    KnobEntry,
    OpenJob,
    Prioritised,
    Proved,
    Rejected,
    Stage,
    StagedFile,
    Submit,
    TimingEntry,
    Withdrawn,
    Write,
)
from prover.pipeline.journal_schema import open_database, open_reader
from prover.pipeline.journal_store import Retention

Answer = Future[Durability]
Entry = tuple[int, Write, Answer | None]
"""Its number, what it is, and who waits for it."""
T = TypeVar("T")
N = TypeVar("N")

LINGER_S = 0.2
"""How long an entry that need not be durable may wait for others."""
MOST_QUEUED = 20_000
MOST_AT_ONCE = 1_000
"""Entries in one commit."""
RETRY_S = (0.1, 5.0)
"""First and longest pause before another attempt."""
RETIRE_S = 60.0
"""How often retention is looked at."""
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def journal_path() -> Path:
    """``$XDG_STATE_HOME/cuzk-top/journal.sqlite3``, or below ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local/state"
    return root / "cuzk-top" / "journal.sqlite3"


class InUse(ProverError):
    """Another process writes this journal."""


class Journal:
    """See the module. Made by ``Journal.open``; every method may be called from any thread."""

    def __init__(self, path: Path, keep: Retention, clock: Callable[[], float]) -> None:
        self.path = path
        self.keep = keep
        self.state = "ok"
        """``ok``, or ``degraded: <one line>``, for a banner."""
        self.notice: str | None = None
        """One line about what happened to an earlier journal, if anything did."""
        self.lost = 0
        """Entries that were not written, because the queue was full or they did not fit."""
        self._clock = clock
        self._session = os.urandom(8).hex()
        self._bell = threading.Condition()
        self._queue: deque[Entry] = deque()
        self._next = 0
        self._done = 0
        """Entries before this number are in the database."""
        self._asked = 0
        """Queued entries that somebody waits for."""
        self._flushing = 0
        self._timings = 0
        """Queued entries that may go when the queue is full."""
        self._closing = False
        self._lingers = False
        """The writer waits for more of what nobody waits for."""
        self._strangers: set[str] = set()
        """Jobs of this session that the journal does not hold, because others have their ids."""
        self._open_jobs: dict[str, JobEntry] = {}
        self._begun_anew = False
        self._doubtful = False
        """A reader found it corrupt: the writer, which may live on its cache, has to look again."""
        self._refused = False
        """Another process has it: nothing is kept."""
        self._lock_file: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None
        """Which file is connected to."""
        self._retire_at = 0.0
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    @classmethod
    def open(
        cls, path: Path | None = None, keep: Retention | None = None, clock: Callable[[], float] = time.time
    ) -> Journal:
        """Open the journal, or begin one. It never raises: look at ``state``."""
        journal = cls(path or journal_path(), keep or Retention(), clock)
        journal._attempt(journal._connect)
        journal._thread.start()
        return journal

    def close(self, timeout_s: float = 5.0) -> bool:
        """Write what is queued, and stop. Returns whether everything was written. Idempotent."""
        with self._bell:
            self._closing = True
            self._bell.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and not self._queue and not self._refused

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything that was written so far is in the database; whether it is."""
        with self._bell:
            last = self._next
            self._flushing += 1
            self._bell.notify_all()
            try:
                return self._bell.wait_for(lambda: self._done >= last, timeout_s) and not self._refused
            finally:
                self._flushing -= 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def submit(self, entry: JobEntry) -> Answer:
        """A job was submitted. It is acknowledged when the answer is durable."""
        return self._durable(Submit(entry))

    def proved(self, job: str, partition: int, proof: bytes, *, verified: bool, device: str) -> None:
        """A partition's proof; the device's ledger counts it as good if it was verified."""
        self._append(Proved(job, partition, proof, verified, device, self._clock()), None)

    def prioritised(self, job: str, priority: int) -> None:
        """An open job has another priority."""
        self._append(Prioritised(job, priority), None)

    def withdrawn(self, job: str, partitions: tuple[int, ...]) -> None:
        """Proofs of an open job that were kept are no good: they are forgotten, and will be made again."""
        self._append(Withdrawn(job, partitions), None)

    def rejected(self, device: str) -> None:
        """A proof of this device did not verify."""
        self._append(Rejected(device, self._clock()), None)

    def claim(self, job: str, staged: tuple[StagedFile, ...] = ()) -> Answer:
        """Hand a proved job over, once: a second claim, in this process or after a restart, is answered with a reason.
        ``staged``: files that are complete under other names; without any the job counts as delivered.
        """
        return self._durable(Claim(job, staged, self._clock()))

    def ended(self, job: str, stage: Stage, error: str | None = None) -> Answer:
        """A job failed, was cancelled, or all its files are in place."""
        return self._durable(Ended(job, stage, error, self._clock()))

    def knob(self, entry: KnobEntry) -> None:
        """A change of a knob."""
        self._append(entry, None)

    def timing(self, entry: TimingEntry) -> None:
        """A phase of a slot."""
        self._append(entry, None)

    # -- reading ------------------------------------------------------------------------------------------------------
    # What is queued is not seen (``flush``). Where the database cannot be read, there is nothing.

    def open_jobs(self) -> list[OpenJob] | None:
        """What was submitted and has not ended, oldest first: to be resumed. None if it cannot be read."""
        return self._read(journal_store.open_jobs, None)

    def stage(self, job: str) -> tuple[Stage, str | None] | None:
        """Where a job stands, and its error; None if it is not in the journal."""
        return self._read(lambda connection: journal_store.stage_of(connection, job), None)

    def next_number(self) -> int | None:
        """Where counted ids go on, so that no job gets an earlier one's; None if that cannot be read."""
        return self._read(journal_store.next_number, None)

    def proofs(self, job: str) -> dict[int, bytes]:
        """A job's proofs by partition, also after it was delivered."""
        return self._read(lambda connection: journal_store.proofs_of(connection, job)[0], {})

    def knob_changes(self, limit: int = 1000) -> list[KnobEntry]:
        """The latest changes, oldest first."""
        return self._read(lambda connection: journal_store.knob_changes(connection, limit), [])

    def timings(self, job: str) -> list[TimingEntry]:
        """A job's phases."""
        return self._read(lambda connection: journal_store.timings(connection, job), [])

    def devices(self) -> list[DeviceTally]:
        """How each device's proofs verified."""
        return self._read(journal_store.devices, [])

    def known_digest(self, path: str, size: int, mtime_ns: int) -> str | None:
        """The SHA-256 of a file of this size and time, if a job had it (for ``identify``)."""
        return self._read(lambda connection: journal_store.known_digest(connection, path, size, mtime_ns), None)

    def _read(self, query: Callable[[sqlite3.Connection], T], nothing: N) -> T | N:
        try:
            with contextlib.closing(open_reader(self.path)) as connection:
                return query(connection)
        except (sqlite3.Error, ValueError) as error:  # what keeps the writer from writing is its to tell
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _CORRUPT:
                with self._bell:
                    self._doubtful = True
                    self._bell.notify_all()
            return nothing

    # -- queue --------------------------------------------------------------------------------------------------------

    def _durable(self, write: Write) -> Answer:
        answer: Answer = Future()
        answer.set_running_or_notify_cancel()
        self._append(write, answer)
        return answer

    def _append(self, write: Write, answer: Answer | None) -> None:
        with self._bell:
            self._note(write)
            reason = self._no_room()
            if reason is None:
                well = self.state == "ok"
                write = write if well else _acknowledged(write)
                self._queue.append((self._next, write, answer if well else None))
                self._next += 1
                self._timings += isinstance(write, TimingEntry)
                self._asked += answer is not None and well
                if not self._lingers or self._must_write():  # else it would wake for every timing
                    self._bell.notify_all()
                reason = None if well else self.state
        if answer is not None and reason is not None:
            answer.set_result(Durability(False, reason))

    def _no_room(self) -> str | None:
        """Why nothing more is taken; makes room at the expense of timings if it can."""
        if self._refused or self._closing:
            return self.state if self._refused else "the journal is closed"
        if len(self._queue) < MOST_QUEUED:
            return None
        if self._timings:
            self.lost += self._timings
            self._timings = 0
            self._queue = deque(entry for entry in self._queue if not isinstance(entry[1], TimingEntry))
            return self._no_room()
        self.lost += 1
        return f"{self.state}: the journal's queue is full"

    def _note(self, write: Write) -> None:
        """Keep the open jobs of this session at hand, for a new database."""
        if isinstance(write, Submit):
            self._open_jobs.setdefault(write.entry.id, write.entry)
        elif isinstance(write, Ended) or (isinstance(write, Claim) and not write.staged):
            self._open_jobs.pop(write.job, None)

    # -- the writer ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = RETRY_S[0]
        while not self._refused:
            batch = self._next_batch(pause)
            if batch is None:
                break
            if self._attempt(lambda batch=batch: self._write(batch)):  # type: ignore[misc]
                pause = RETRY_S[0]
                self._attempt(self._retire)
                continue
            self._give_back(batch)
            with self._bell:
                if self._closing:
                    break
                self._bell.wait_for(lambda: self._closing, pause)
            pause = min(2 * pause, RETRY_S[1])
        self._shut()

    def _next_batch(self, pause: float) -> list[Entry] | None:
        """What to write now, perhaps nothing: then there is a database to open, or are old entries to take out. None at
        the end.
        """
        with self._bell:
            if not self._queue:
                left = pause if self._connection is None else max(self._retire_at - time.monotonic(), 0)
                self._bell.wait_for(lambda: self._queue or self._closing or self._doubtful, left)
            if self._queue:
                self._lingers = True
                self._bell.wait_for(self._must_write, LINGER_S)
                self._lingers = False
            if self._closing and not self._queue:
                return None
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_AT_ONCE))]
            self._asked -= sum(answer is not None for *_, answer in batch)
            self._timings -= sum(isinstance(write, TimingEntry) for _, write, _ in batch)
            return batch

    def _must_write(self) -> bool:
        return bool(self._asked or self._flushing or self._closing or len(self._queue) >= MOST_AT_ONCE)

    def _write(self, batch: list[Entry]) -> None:
        if self._doubtful:
            self._doubtful = False
            self._disconnect()
        if self._connection is not None and _is_another(self.path, self._file):
            self._begin_anew()
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        if not batch:
            return
        writes = [(number, write) for number, write, _ in batch]
        durable = any(answer is not None for *_, answer in batch)
        answers = journal_store.apply(
            self._connection, self._session, writes, durable=durable, strangers=self._strangers
        )
        with self._bell:
            self._done = batch[-1][0] + 1
            self._bell.notify_all()
        for (*_, answer), found in zip(batch, answers, strict=True):
            if answer is not None:
                answer.set_result(found)
            self.lost += not found.durable and not found.refused

    def _give_back(self, batch: list[Entry]) -> None:
        """An attempt failed: nobody waits any longer, and the entries go first at the next."""
        with self._bell:
            self._timings += sum(isinstance(write, TimingEntry) for _, write, _ in batch)
            waiting = self._forsake(batch)
        for answer in waiting:
            answer.set_result(Durability(False, self.state))

    def _forsake(self, batch: list[Entry]) -> list[Answer]:
        """Queue everything, a batch before the rest, without those who wait for it; returns them."""
        entries = [*batch, *self._queue]
        self._queue = deque((number, _acknowledged(write), None) for number, write, _ in entries)
        self._asked = 0
        return [answer for *_, answer in entries if answer is not None]

    def _retire(self) -> None:
        """One slice of old entries, when it is time; the next comes after what was queued meanwhile."""
        if self._connection is None or time.monotonic() < self._retire_at:
            return
        if not journal_store.retire(self._connection, self.keep, self._clock()):
            self._retire_at = time.monotonic() + RETIRE_S

    def _shut(self) -> None:
        with self._bell:
            self._closing = True
            waiting = self._forsake([])
        for answer in waiting:
            answer.set_result(Durability(False, self.state))
        self._disconnect()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # -- the database -------------------------------------------------------------------------------------------------

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Whether a step on the database succeeded; ``state`` tells."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - a writer that died would leave everybody waiting
            self._degrade(error)
            return False
        if not self._refused:
            self.state = "ok"
        return True

    def _degrade(self, error: Exception) -> None:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if isinstance(error, InUse):
            self._refused = True
        if primary in _CORRUPT or (code is None and isinstance(error, sqlite3.DatabaseError)):
            self._move_aside(error)
        if primary not in _LOCKED:
            self._disconnect()
        self.state = f"degraded: {self._line(error, primary)}"

    def _line(self, error: Exception, primary: int | None) -> str:
        if isinstance(error, ProverError):
            return str(error)
        fix = {
            sqlite3.SQLITE_BUSY: "another program has locked it: close that one",
            sqlite3.SQLITE_FULL: "the disk is full: make room",
            sqlite3.SQLITE_IOERR: "the disk refuses: make room, or look at the system's log",
            sqlite3.SQLITE_READONLY: "make it writable",
            sqlite3.SQLITE_CANTOPEN: "make the folder writable",
        }.get(-1 if primary is None else primary, "jobs go on, but would not survive a stop")
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        return f"the journal cannot be written: {self.path}: {reason}: {fix}"

    def _connect(self) -> None:
        """Lock and open the database.

        Raises:
            InUse, NotOurs, OSError, sqlite3.Error: if that cannot be.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._lock_file is None:
            self._lock_file = self._lock()
        connection = open_database(self.path)
        try:
            connection.execute("DELETE FROM writers WHERE session <> ?", (self._session,))
            if self._begun_anew:
                with self._bell:
                    again = [Submit(entry) for entry in self._open_jobs.values()]
                journal_store.apply(connection, os.urandom(8).hex(), list(enumerate(again)), durable=True)
                self._begun_anew = False
        except BaseException:
            connection.close()
            raise
        self._file = self.path.stat()
        self._connection = connection  # only now can it be written

    def _begin_anew(self) -> None:
        """Somebody took the database away: what is written to it would be gone with its last reader."""
        self._disconnect()
        if self._lock_file is not None and _is_another(self._lock_path, os.fstat(self._lock_file)):
            os.close(self._lock_file)
            self._lock_file = None
        self.notice = "the journal was taken away: a new one was begun"
        self._begun_anew = True

    @property
    def _lock_path(self) -> Path:
        return self.path.with_suffix(".lock")

    def _lock(self) -> int:
        path = self._lock_path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "?"
            os.close(descriptor)
            raise InUse(
                f"another cuzk-top (process {owner}) writes the journal, this one keeps none",
                str(self.path),
                "stop that one, or set another XDG_STATE_HOME",
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _move_aside(self, error: Exception) -> None:
        """Keep a corrupt database under another name; the next attempt begins a new one."""
        self._disconnect()
        aside = self.path.with_name(f"{self.path.stem}.corrupt-{int(self._clock())}-{self._session}{self.path.suffix}")
        with contextlib.suppress(OSError):  # it stays, and is found corrupt again
            for suffix in ("-wal", "-shm", ""):
                part = self.path.with_name(self.path.name + suffix)
                if part.exists():
                    part.rename(aside.with_name(aside.name + suffix))
            reason = " ".join(str(error).split())
            self.notice = f"the journal was corrupt ({reason}): it was kept as {aside.name}, a new one was begun"
            self._begun_anew = True

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _is_another(path: Path, known: os.stat_result | None) -> bool:
    """Whether a path leads to another file than the known one, or to none."""
    try:
        return known is None or not os.path.samestat(path.stat(), known)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # nobody knows: the next write tells
        return False


def _acknowledged(write: Write) -> Write:
    return replace(write, acknowledged=True) if isinstance(write, Submit) else write


__all__ = ["Journal", "Retention", "journal_path"]
