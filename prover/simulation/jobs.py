"""Modelled jobs in a journal: those that a session left open are modelled again in the next one of the same model."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from prover.pipeline.interfaces import JobResult
from prover.pipeline.journal_records import OpenJob
from prover.pipeline.resume import Remade
from prover.simulation.model import Model


def modelled_origin(model: Model, number: int) -> Mapping[str, object]:
    """What tells a modelled job from every real one, and is all that it is made again from."""
    return {"simulated": model.name, "number": number}


class ModelledJobs:
    """``Submitter`` of modelled jobs."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def remake(self, job: OpenJob) -> Remade | None:
        """The job's number; real jobs and those of another model are left alone."""
        origin = job.entry.request
        number = origin.get("number")
        if origin.get("simulated") != self._model.name or not isinstance(number, int):
            return None
        return Remade(number)

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        """The engine's picture tells the rest."""

    def given_up(self, job: OpenJob, reason: str) -> None:
        """``Resumption.line`` tells it."""
