"""Requests whose inputs can be made again after a restart, and who makes them: samples of a circuit, witness files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal_records import InputFile, KnownDigest, OpenJob, identify
from prover.pipeline.resume import Remade


class Samples(Protocol):
    """A workload that has sample inputs: a pure function of the job's number and its partitions."""

    circuit: str

    def sample_inputs(self, job: int, partitions: int) -> Any:
        """The inputs of the n-th job."""


def sample_origin(circuit: str, number: int) -> Mapping[str, object]:
    """What a job of sample inputs is made again from."""
    return {"circuit": circuit, "number": number}


class SampleJobs:
    """``Submitter`` of jobs with sample inputs. Nobody waits for their results."""

    def __init__(self, workload: Samples) -> None:
        self._workload = workload

    def remake(self, job: OpenJob) -> Remade | None:
        """The same samples as before."""
        origin = job.entry.request
        number = origin.get("number")
        if origin.get("circuit") != self._workload.circuit or not isinstance(number, int):
            return None
        return Remade(self._workload.sample_inputs(number, job.entry.partitions))

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        """The engine's picture tells the rest."""

    def given_up(self, job: OpenJob, reason: str) -> None:
        """``Resumption.line`` tells it."""


WITNESS = "witness"


def witness_request(paths: Sequence[Path], known: KnownDigest | None = None, **more: Any) -> JobRequest:
    """A job whose partitions are these witness files (of ``WitnessFiles``). Reads them, for their identity.

    Raises:
        InputError: if one cannot be read.
    """
    absolute = tuple(path.absolute() for path in paths)
    identities = {path: identify(path, known) for path in dict.fromkeys(absolute)}
    files = tuple(InputFile(WITNESS, position, identities[path]) for position, path in enumerate(absolute))
    return JobRequest(absolute, len(absolute), origin={WITNESS: len(absolute)}, files=files, **more)


class WitnessJobs:
    """``Submitter`` of ``witness_request``: the files are where they were."""

    def remake(self, job: OpenJob) -> Remade | None:
        """Their paths, in order."""
        if WITNESS not in job.entry.request:
            return None
        return Remade(tuple(Path(file.identity.path) for file in job.entry.files if file.role == WITNESS))

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        """The engine's picture tells the rest."""

    def given_up(self, job: OpenJob, reason: str) -> None:
        """``Resumption.line`` tells it."""


__all__ = ["SampleJobs", "Samples", "WitnessJobs", "sample_origin", "witness_request"]
