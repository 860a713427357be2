"""The journal's database: its tables, how an older one is brought up to date, how it is opened.

SQLite in WAL mode (sqlite.org/wal.html): readers never wait for the writer, and a commit with ``synchronous = FULL``
is on the disk when it returns, with all commits before it. ``user_version`` is the schema's version,
``application_id`` tells our database from another program's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from prover.errors import ProverError

APPLICATION_ID = 0x63757A6B
BUSY_S = 0.5
"""How long a statement waits for another connection's lock."""
_WAL_LIMIT = 16 << 20
_CHECK_LIMIT = 64 << 20
"""Up to this size every page is looked at when the database is opened."""

_VERSION_1 = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL,
  UNIQUE (path, size, mtime_ns, sha256)
);
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, circuit TEXT NOT NULL, partitions INTEGER NOT NULL,
  priority INTEGER NOT NULL, deadline REAL, request TEXT NOT NULL, stage TEXT NOT NULL, submitted REAL NOT NULL,
  ended REAL, error TEXT, staged TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX open_jobs ON jobs (seq) WHERE stage IN ('accepted', 'proved', 'delivering');
CREATE INDEX ended_jobs ON jobs (ended) WHERE stage IN ('delivered', 'failed', 'cancelled');
CREATE TABLE job_files (
  job INTEGER NOT NULL, role TEXT NOT NULL, position INTEGER NOT NULL, file INTEGER NOT NULL,
  PRIMARY KEY (job, role, position)
) WITHOUT ROWID;
CREATE INDEX job_files_by_file ON job_files (file);
CREATE TABLE proofs (
  job INTEGER NOT NULL, number INTEGER NOT NULL, proof BLOB NOT NULL, verified INTEGER NOT NULL, device TEXT NOT NULL,
  made REAL NOT NULL, PRIMARY KEY (job, number)
) WITHOUT ROWID;
CREATE TABLE timings (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, partitions TEXT NOT NULL, phase TEXT NOT NULL,
  began REAL NOT NULL, seconds REAL NOT NULL, device TEXT, worker TEXT, attempt INTEGER NOT NULL, ok INTEGER NOT NULL
);
CREATE INDEX timings_by_job ON timings (job);
CREATE TABLE knob_changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, name TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL,
  who TEXT NOT NULL, why TEXT NOT NULL, generation INTEGER NOT NULL, undo INTEGER NOT NULL, reason TEXT
);
CREATE TABLE devices (
  device TEXT PRIMARY KEY, good INTEGER NOT NULL, bad INTEGER NOT NULL, last_bad REAL
) WITHOUT ROWID;
CREATE TABLE writers (session TEXT PRIMARY KEY, applied INTEGER NOT NULL) WITHOUT ROWID;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1,)
"""Statements from version i to i + 1. Never edited once released: a change is a new entry."""


class NotOurs(ProverError):
    """The file is another program's database, or a later version's."""


def open_database(path: Path, migrations: Sequence[str] = MIGRATIONS) -> sqlite3.Connection:
    """Open or make the database, and bring it up to date. To be used by one thread at a time.

    Raises:
        sqlite3.Error: if it is corrupt, locked, or cannot be written.
        NotOurs: if it is not for this version to touch.
    """
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        if _number(connection, "PRAGMA page_count") == 0:  # only takes effect before the first table
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        connection.execute("PRAGMA synchronous = FULL")
        _check_pages(connection)
        migrate(connection, path, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads. Raises ``sqlite3.Error``."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", timeout=BUSY_S, isolation_level=None, uri=True)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring a database to the newest version, one transaction a step: killed anywhere, it is at one of the versions.

    Raises:
        NotOurs: another program's database, or of a version that this one does not know.
        sqlite3.Error: if it cannot be read or written.
    """
    owner = _number(connection, "PRAGMA application_id")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    if owner != APPLICATION_ID and (owner or tables):
        raise NotOurs("another program's database lies where the journal belongs", str(path), "move it away")
    version = _number(connection, "PRAGMA user_version")
    if version > len(migrations):
        what = f"the journal is of version {version}, this program knows {len(migrations)}"
        raise NotOurs(what, str(path), "use the newer program, or move the file away")
    for step in range(version, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[step].split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {step + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _check_pages(connection: sqlite3.Connection) -> None:
    size = _number(connection, "PRAGMA page_count") * _number(connection, "PRAGMA page_size")
    if 0 < size <= _CHECK_LIMIT:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError("malformed: " + " ".join(str(found).split()))


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
