"""What the journal has of an input, and its outputs, handed over once: through the journal where there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from prover.errors import InputError
from prover.file_input import FileInput
from prover.formats.atomic import write_files
from prover.formats.errors import WriteError
from prover.pipeline.delivery import deliver, finish_deliveries
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import ENDED, InputFile, Stage, identify


class Documents(Protocol):
    """What the spool needs of the workload: ``WitnessFiles`` and ``WasmInputs``."""

    circuit: str

    def documents(self, item: FileInput, proof: bytes) -> tuple[bytes, bytes]:
        """The texts of ``proof.json`` and ``public.json``."""


def input_files(journal: Journal | None, path: Path) -> tuple[InputFile, ...]:
    """What the journal keeps of an input: it holds text, and what cannot be read fails as a job."""
    try:
        str(path).encode()
        return (InputFile("input", 0, identify(path)),) if journal is not None else ()
    except (UnicodeEncodeError, InputError):
        return ()


def write_outputs(journal: Journal | None, job: str, folder: Path, contents: Mapping[Path, bytes]) -> str | None:
    """Write a job's files, in order; on one thread a job. Returns why nothing is written, where it ended otherwise.

    Raises:
        WriteError: if a file of theirs cannot be written now; another attempt is free to.
    """
    if journal is None:
        write_files({os.fspath(path): content for path, content in contents.items()})
        return None
    stage, _ = journal.stage(job) or (None, None)
    if stage is Stage.DELIVERING:  # it was claimed, and a rename failed
        finish_deliveries(journal)
        if (journal.stage(job) or (None,))[0] is Stage.DELIVERING:
            raise WriteError(folder, OSError(0, "the outputs cannot be put in place"))
        return None
    answer = deliver(journal, job, contents)
    if not answer.refused:
        return None
    stage, _ = journal.stage(job) or (None, None)
    if stage in ENDED or stage is Stage.DELIVERING:
        return f"{answer.reason}: nothing is written"
    write_files({os.fspath(path): content for path, content in contents.items()})  # it lost what it knew of the job
    journal.ended(job, Stage.DELIVERED)
    return None


__all__ = ["Documents", "input_files", "write_outputs"]
