"""Handing a job's files to their reader exactly once, whenever the process is killed.

A rename is the hand-over. The files are written whole under hidden names beside their targets and are on the disk;
then the journal takes the claim, which names both, and refuses a second one; then each is renamed. After a kill a
claimed file that still lies under its hidden name was not handed over, and one that does not was: its reader may have
taken it away already. So nothing is delivered twice and nothing is forgotten, even where readers remove what they read.

The hidden name follows from job and target, so an attempt that was killed before its claim leaves nothing behind: the
next one writes the same file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from prover.formats.errors import WriteError
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import Durability, Stage, StagedFile


def deliver(journal: Journal, job: str, contents: Mapping[Path, bytes]) -> Durability:
    """Hand over a proved job's files, on one thread a job. Waits for the disk: not for a worker of the pipeline.

    Returns the journal's answer to the claim. ``refused``: the job was delivered, or its delivery was claimed and is
    for ``finish_deliveries``, or it is not proved; nothing was done. Not durable for another reason (the journal is
    degraded): the files are in place, but a restart may not know.

    Raises:
        WriteError: if a file cannot be written; then nothing was claimed, or what was is finished at the next start.
    """
    stage, _ = journal.stage(job) or (None, None)
    if stage in (Stage.DELIVERING, Stage.DELIVERED):  # what was claimed lies under the same names: leave it alone
        return Durability(False, f"job {job} is not to be delivered: {stage}", refused=True)
    staged = tuple(_stage(job, target, content) for target, content in contents.items())
    _sync_folders(staged)
    answer = journal.claim(job, staged).result()
    if answer.refused:
        for file in staged:
            Path(file.staged).unlink(missing_ok=True)
        return answer
    _put_in_place(staged)
    journal.ended(job, Stage.DELIVERED)
    return answer


def finish_deliveries(journal: Journal) -> list[str]:
    """At the start: finish what was claimed. Returns one line for each job that cannot be finished yet.

    Waits for the journal, so that none of these is among ``open_jobs`` afterwards.
    """
    complaints = []
    for job in journal.open_jobs() or ():
        if job.stage is not Stage.DELIVERING:
            continue
        try:
            _check(job.staged)
            _put_in_place(job.staged)
        except WriteError as error:
            complaints.append(f"job {job.entry.id} is not delivered yet: {error}")
            continue
        journal.ended(job.entry.id, Stage.DELIVERED).result()
    return complaints


def _stage(job: str, target: Path, content: bytes) -> StagedFile:
    target = target.absolute()
    name = hashlib.sha256(f"{job}\0{target}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    staged = target.with_name(f".{name}.delivery")
    try:
        with staged.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        raise WriteError(target, error) from error
    return StagedFile(str(staged), str(target), hashlib.sha256(content).hexdigest())


def _check(staged: Iterable[StagedFile]) -> None:
    """The folders are there, and what is staged is what was claimed."""
    for file in staged:
        path = Path(file.staged)
        try:
            path.parent.stat()
            if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
                raise OSError(0, f"{path.name} is not what was claimed: remove it")
        except OSError as error:
            raise WriteError(file.target, error) from error


def _put_in_place(staged: tuple[StagedFile, ...]) -> None:
    for file in staged:
        try:
            os.replace(file.staged, file.target)  # noqa: PTH105 - text, as the journal has it
        except FileNotFoundError:
            continue  # it was handed over before
        except OSError as error:
            raise WriteError(file.target, error) from error
    _sync_folders(staged)


def _sync_folders(staged: tuple[StagedFile, ...]) -> None:
    for folder in {Path(file.target).parent for file in staged}:
        with contextlib.suppress(OSError):  # a file system without it
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


__all__ = ["deliver", "finish_deliveries"]
