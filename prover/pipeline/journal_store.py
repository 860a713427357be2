"""The journal's statements: writes applied in order, what is open read back, old entries taken out in small slices."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prover.pipeline.journal_records import (
    ENDED,
    OPEN,
    Claim,
    DeviceTally,
    Durability,
    Ended,
    FileIdentity,
    InputFile,
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

DURABLE = Durability(True)
_DAY_S = 86400.0
SLICE = 100
"""Jobs, or ten times as many timings, that are taken out in one transaction."""
_VACUUM_PAGES = 64
"""Unused pages that are given back at once; fewer are left for what comes."""
_OF_ENTRY = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""What SQLite raises where one write is at fault, not the database."""
_UNFIT = (*_OF_ENTRY, OverflowError, TypeError, ValueError)
_QUOTED_ENDED = ", ".join(f"'{stage}'" for stage in ENDED)
_QUOTED_OPEN = ", ".join(f"'{stage}'" for stage in OPEN)


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. Open jobs are always kept, whatever it costs."""

    jobs: int = 100_000
    timings: int = 1_000_000
    knob_changes: int = 10_000
    days: float = 90.0
    nbytes: int = 1 << 30


def apply(
    connection: sqlite3.Connection,
    session: str,
    writes: Sequence[tuple[int, Write]],
    *,
    durable: bool,
    strangers: set[str] | None = None,
) -> list[Durability]:
    """Apply numbered writes in one transaction; those that this session applied already are passed over.

    The transaction is on the disk when this returns if ``durable``; else it is after the next that is. A write that
    does not fit is left out and its answer says why; the others are applied. ``strangers`` are acknowledged jobs that
    are not here, because another one has their id: what is said of them would be taken for the other's, so it is
    refused.

    Raises:
        sqlite3.Error: if the database refuses; then nothing was applied.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        row = connection.execute("SELECT applied FROM writers WHERE session = ?", (session,)).fetchone()
        applied = row[0] if row else -1
        known = set() if strangers is None else strangers
        answers = [DURABLE if number <= applied else _apply_one(connection, write, known) for number, write in writes]
        last = max([applied, *(number for number, _ in writes)])
        connection.execute("INSERT OR REPLACE INTO writers VALUES (?, ?)", (session, last))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answers


def _apply_one(connection: sqlite3.Connection, write: Write, strangers: set[str]) -> Durability:
    if isinstance(write, (Prioritised, Proved, Withdrawn, Claim, Ended, TimingEntry)) and write.job in strangers:
        return _refused(f"job {write.job} is not in the journal: another one has its id")
    several = not isinstance(write, TimingEntry)  # the most frequent write is one statement, whole by itself
    if several:
        connection.execute("SAVEPOINT one")
    try:
        answer = _APPLY[type(write)](connection, write)
    except _UNFIT as error:
        if several:
            connection.execute("ROLLBACK TO one")
        answer = Durability(False, f"the journal cannot hold this entry: {' '.join(str(error).split())}")
    if several:
        connection.execute("RELEASE one")
    if isinstance(write, Submit) and write.acknowledged and not answer.durable:
        strangers.add(write.entry.id)
    return answer


def _submit(connection: sqlite3.Connection, write: Submit) -> Durability:
    entry = write.entry
    request = json.dumps(dict(entry.request))
    known = connection.execute(
        "SELECT stage, circuit, partitions, submitted, request FROM jobs WHERE id = ?", (entry.id,)
    ).fetchone()
    if known is not None:
        if known[1:] == (entry.circuit, entry.partitions, entry.submitted, request):
            return DURABLE
        return _refused(f"job {entry.id} is in the journal already ({known[0]}): give each job its own id")
    job = connection.execute(
        "INSERT INTO jobs (id, circuit, partitions, priority, deadline, request, stage, submitted) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.id,
            entry.circuit,
            entry.partitions,
            entry.priority,
            entry.deadline,
            request,
            Stage.ACCEPTED,
            entry.submitted,
        ),
    ).lastrowid
    for file in entry.files:
        identity = file.identity
        values = (identity.path, identity.size, identity.mtime_ns, identity.sha256)
        connection.execute("INSERT OR IGNORE INTO files (path, size, mtime_ns, sha256) VALUES (?, ?, ?, ?)", values)
        (number,) = connection.execute(
            "SELECT id FROM files WHERE path = ? AND size = ? AND mtime_ns = ? AND sha256 = ?", values
        ).fetchone()
        connection.execute("INSERT INTO job_files VALUES (?, ?, ?, ?)", (job, file.role, file.position, number))
    return DURABLE


def _prioritised(connection: sqlite3.Connection, write: Prioritised) -> Durability:
    done = connection.execute(
        f"UPDATE jobs SET priority = ? WHERE id = ? AND stage IN ({_QUOTED_OPEN})", (write.priority, write.job)
    )
    return DURABLE if done.rowcount == 1 else _refused(f"job {write.job} is not open")


def _proved(connection: sqlite3.Connection, write: Proved) -> Durability:
    if write.verified:
        _tally(connection, write.device, good=1)
    row = connection.execute("SELECT seq, partitions, stage FROM jobs WHERE id = ?", (write.job,)).fetchone()
    if row is None or row[2] != Stage.ACCEPTED or not 0 <= write.partition < row[1]:
        return _refused(f"job {write.job} waits for no proof")
    job, partitions, _ = row
    connection.execute(
        "INSERT OR IGNORE INTO proofs VALUES (?, ?, ?, ?, ?, ?)",
        (job, write.partition, write.proof, write.verified, write.device, write.at),
    )
    (count,) = connection.execute("SELECT count(*) FROM proofs WHERE job = ?", (job,)).fetchone()
    if count == partitions:
        connection.execute("UPDATE jobs SET stage = ? WHERE seq = ?", (Stage.PROVED, job))
    return DURABLE


def _withdrawn(connection: sqlite3.Connection, write: Withdrawn) -> Durability:
    row = connection.execute("SELECT seq, stage FROM jobs WHERE id = ?", (write.job,)).fetchone()
    if row is None or row[1] not in (Stage.ACCEPTED, Stage.PROVED):
        return _refused(f"job {write.job} waits for no proof")
    connection.executemany(
        "DELETE FROM proofs WHERE job = ? AND number = ?", [(row[0], partition) for partition in write.partitions]
    )
    connection.execute("UPDATE jobs SET stage = ? WHERE seq = ?", (Stage.ACCEPTED, row[0]))
    return DURABLE


def _rejected(connection: sqlite3.Connection, write: Rejected) -> Durability:
    _tally(connection, write.device, bad=1, at=write.at)
    return DURABLE


def _tally(connection: sqlite3.Connection, device: str, good: int = 0, bad: int = 0, at: float | None = None) -> None:
    connection.execute(
        "INSERT INTO devices VALUES (?, ?, ?, ?) ON CONFLICT (device) DO UPDATE SET good = good + excluded.good, "
        "bad = bad + excluded.bad, last_bad = coalesce(excluded.last_bad, last_bad)",
        (device, good, bad, at),
    )


def _claim(connection: sqlite3.Connection, write: Claim) -> Durability:
    staged = json.dumps([[file.staged, file.target, file.sha256] for file in write.staged])
    stage = Stage.DELIVERING if write.staged else Stage.DELIVERED
    done = connection.execute(
        "UPDATE jobs SET stage = ?, staged = ?, ended = ? WHERE id = ? AND stage = ?",
        (stage, staged, write.at, write.job, Stage.PROVED),
    )
    if done.rowcount == 1:
        return DURABLE
    row = connection.execute("SELECT stage FROM jobs WHERE id = ?", (write.job,)).fetchone()
    where = "not in the journal" if row is None else row[0]
    return _refused(f"job {write.job} is not to be delivered: {where}")


def _ended(connection: sqlite3.Connection, write: Ended) -> Durability:
    done = connection.execute(
        f"UPDATE jobs SET stage = ?, error = ?, ended = ? WHERE id = ? AND stage IN ({_QUOTED_OPEN})",
        (write.stage, write.error, write.at, write.job),
    )
    return DURABLE if done.rowcount == 1 else _refused(f"job {write.job} is not open")


def _refused(reason: str) -> Durability:
    return Durability(False, reason, refused=True)


def _knob(connection: sqlite3.Connection, write: KnobEntry) -> Durability:
    connection.execute(
        "INSERT INTO knob_changes (at, name, old, new, who, why, generation, undo, reason) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            write.at,
            write.name,
            json.dumps(write.old),
            json.dumps(write.new),
            write.who,
            write.why,
            write.generation,
            write.undo,
            write.reason,
        ),
    )
    return DURABLE


def _timing(connection: sqlite3.Connection, write: TimingEntry) -> Durability:
    connection.execute(
        "INSERT INTO timings (job, partitions, phase, began, seconds, device, worker, attempt, ok) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            write.job,
            f"[{', '.join(map(str, write.partitions))}]",
            write.phase,
            write.began,
            write.seconds,
            write.device,
            write.worker,
            write.attempt,
            write.ok,
        ),
    )
    return DURABLE


_APPLY: dict[type, Callable[[sqlite3.Connection, Any], Durability]] = {
    Submit: _submit,
    Prioritised: _prioritised,
    Proved: _proved,
    Withdrawn: _withdrawn,
    Rejected: _rejected,
    Claim: _claim,
    Ended: _ended,
    KnobEntry: _knob,
    TimingEntry: _timing,
}


# -- reading ----------------------------------------------------------------------------------------------------------


def open_jobs(connection: sqlite3.Connection) -> list[OpenJob]:
    """Every job that has not ended, oldest first."""
    rows = connection.execute(
        "SELECT seq, id, circuit, partitions, submitted, priority, deadline, request, stage, staged FROM jobs "
        f"WHERE stage IN ({_QUOTED_OPEN}) ORDER BY seq"
    ).fetchall()
    return [_open_job(connection, *row) for row in rows]


def _open_job(connection: sqlite3.Connection, seq: int, *row: Any) -> OpenJob:
    job_id, circuit, partitions, submitted, priority, deadline, request, stage, staged = row
    files = connection.execute(
        "SELECT role, position, path, size, mtime_ns, sha256 FROM job_files JOIN files ON files.id = file "
        "WHERE job = ? ORDER BY role, position",
        (seq,),
    )
    inputs = tuple(InputFile(role, position, FileIdentity(*identity)) for role, position, *identity in files)
    entry = JobEntry(job_id, circuit, partitions, submitted, priority, deadline, json.loads(request), inputs)
    proofs, verified = proofs_of(connection, job_id)
    return OpenJob(entry, Stage(stage), proofs, verified, tuple(StagedFile(*file) for file in json.loads(staged)))


def proofs_of(connection: sqlite3.Connection, job: str) -> tuple[dict[int, bytes], bool]:
    """A job's proofs by partition, and whether all of them were verified."""
    rows = connection.execute(
        "SELECT number, proof, proofs.verified FROM proofs JOIN jobs ON seq = job WHERE id = ? ORDER BY number", (job,)
    ).fetchall()
    return {number: bytes(proof) for number, proof, _ in rows}, all(verified for *_, verified in rows)


def stage_of(connection: sqlite3.Connection, job: str) -> tuple[Stage, str | None] | None:
    """Where a job stands and its error; None if the journal does not hold it."""
    row = connection.execute("SELECT stage, error FROM jobs WHERE id = ?", (job,)).fetchone()
    return None if row is None else (Stage(row[0]), row[1])


def next_number(connection: sqlite3.Connection) -> int:
    """A number above every job's that is or was here, and above every id that is one: counted ids stay unique."""
    (most,) = connection.execute(
        "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0), "
        "coalesce((SELECT max(CAST(id AS INTEGER)) + 1 FROM jobs WHERE id NOT GLOB '*[^0-9]*' AND length(id) < 16), 0))"
    ).fetchone()
    return int(most)


def knob_changes(connection: sqlite3.Connection, limit: int) -> list[KnobEntry]:
    """The latest changes, oldest first."""
    rows = connection.execute(
        "SELECT at, name, old, new, who, why, generation, undo, reason FROM knob_changes ORDER BY id DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        KnobEntry(at, name, json.loads(old), json.loads(new), who, why, generation, bool(undo), reason)
        for at, name, old, new, who, why, generation, undo, reason in reversed(rows)
    ]


def timings(connection: sqlite3.Connection, job: str) -> list[TimingEntry]:
    """A job's phases in the order in which they were written."""
    rows = connection.execute(
        "SELECT partitions, phase, began, seconds, device, worker, attempt, ok FROM timings WHERE job = ? ORDER BY id",
        (job,),
    )
    return [
        TimingEntry(job, tuple(json.loads(partitions)), phase, began, seconds, device, worker, attempt, bool(ok))
        for partitions, phase, began, seconds, device, worker, attempt, ok in rows
    ]


def devices(connection: sqlite3.Connection) -> list[DeviceTally]:
    """The validity ledger."""
    return [DeviceTally(*row) for row in connection.execute("SELECT * FROM devices ORDER BY device")]


def known_digest(connection: sqlite3.Connection, path: str, size: int, mtime_ns: int) -> str | None:
    """The digest of a file of this size and time, if a job had it."""
    row = connection.execute(
        "SELECT sha256 FROM files WHERE path = ? AND size = ? AND mtime_ns = ?", (path, size, mtime_ns)
    ).fetchone()
    return None if row is None else str(row[0])


# -- retention --------------------------------------------------------------------------------------------------------


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the database's pages in use take."""
    pages, free = _pragma(connection, "page_count"), _pragma(connection, "freelist_count")
    return (pages - free) * _pragma(connection, "page_size")


def retire(connection: sqlite3.Connection, keep: Retention, now: float) -> bool:
    """Take out one slice of what is too old or too much, oldest first. Returns whether there was any.

    Raises:
        sqlite3.Error: if the database refuses; then nothing was taken out.
    """
    before = now - keep.days * _DAY_S
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        count = _retire_jobs(connection, keep, before)
        count += _retire_rows(connection, "timings", "began", keep.timings, before)
        count += _retire_rows(connection, "knob_changes", "at", keep.knob_changes, before)
        if not count and used_bytes(connection) > keep.nbytes:
            count = _oldest(connection, "timings")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return count > 0 or _vacuum(connection)


def _vacuum(connection: sqlite3.Connection) -> bool:
    """Give a slice of unused pages back to the file system. Returns whether it did."""
    free = _pragma(connection, "freelist_count")
    if free < _VACUUM_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    return _pragma(connection, "freelist_count") < free


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _retire_jobs(connection: sqlite3.Connection, keep: Retention, before: float) -> int:
    (held,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
    wanted = max(held - keep.jobs, 0)
    used = used_bytes(connection)
    if not wanted and used > keep.nbytes:
        wanted = 1 + held * (used - keep.nbytes) // used
    victims = connection.execute(
        f"SELECT seq, id FROM jobs WHERE stage IN ({_QUOTED_ENDED}) AND ended < ? ORDER BY ended LIMIT ?",
        (before, SLICE),
    ).fetchall()
    if len(victims) < min(wanted, SLICE):
        victims = connection.execute(
            f"SELECT seq, id FROM jobs WHERE stage IN ({_QUOTED_ENDED}) ORDER BY ended LIMIT ?", (min(wanted, SLICE),)
        ).fetchall()
    for seq, job in victims:
        files = [row[0] for row in connection.execute("SELECT file FROM job_files WHERE job = ?", (seq,))]
        for table in ("proofs", "job_files"):
            connection.execute(f"DELETE FROM {table} WHERE job = ?", (seq,))
        connection.execute("DELETE FROM timings WHERE job = ?", (job,))
        connection.execute("DELETE FROM jobs WHERE seq = ?", (seq,))
        _drop_files(connection, files)
    return len(victims)


def _drop_files(connection: sqlite3.Connection, files: Iterable[int]) -> None:
    connection.executemany(
        "DELETE FROM files WHERE id = ? AND NOT EXISTS (SELECT 1 FROM job_files WHERE file = files.id)",
        [(file,) for file in files],
    )


def _retire_rows(connection: sqlite3.Connection, table: str, time: str, most: int, before: float) -> int:
    first, last = connection.execute(f"SELECT min(id), max(id) FROM {table}").fetchone()
    if first is None:
        return 0
    (age,) = connection.execute(f"SELECT {time} FROM {table} WHERE id = ?", (first,)).fetchone()
    if last - first + 1 <= most and age >= before:
        return 0
    done = connection.execute(
        f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY id LIMIT ?) AND (id <= ? OR {time} < ?)",
        (10 * SLICE, last - most, before),
    )
    return done.rowcount


def _oldest(connection: sqlite3.Connection, table: str) -> int:
    return connection.execute(
        f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY id LIMIT ?)", (10 * SLICE,)
    ).rowcount
