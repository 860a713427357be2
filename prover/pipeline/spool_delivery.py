"""An input's outputs, handed over once: through the journal where there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from prover.formats.atomic import write_files
from prover.formats.errors import WriteError
from prover.pipeline.delivery import deliver, finish_deliveries
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import ENDED, Stage


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


__all__ = ["write_outputs"]
