"""A spool on a real folder, over an engine whose workload reads the files and proves nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_workload import Buffers, FakeWorkload, fake_device

from prover.cancel import CancelToken
from prover.errors import InputError
from prover.file_input import FileInput
from prover.model import KnobValue
from prover.pipeline import spool_files
from prover.pipeline.engine import Engine
from prover.pipeline.journal import Journal
from prover.pipeline.knobs import KnobSet
from prover.pipeline.resume import resume
from prover.pipeline.spool import Spool

PATIENCE_S = 30.0
GOOD = bytes(192)


class ReadingWorkload(FakeWorkload):
    """An input is ``{"n": number}``, and its public input the number; all else is refused."""

    circuit = "reading"

    def synthesize(
        self, inputs: Sequence[FileInput], partitions: Sequence[int], threads: int, cancel: CancelToken
    ) -> Buffers:
        for partition in partitions:
            item = inputs[partition]
            try:
                document = json.loads(item.path.read_bytes())
                item.public, item.fault = [document["n"]], None
            except (OSError, ValueError, KeyError) as error:
                item.fault = f"no input: {type(error).__name__}"
                raise InputError("no input", str(item.path)) from error
        return super().synthesize([item.path for item in inputs], partitions, threads, cancel)

    def joined(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        return [inputs[partition] for inputs, partitions in parts for partition in partitions]

    def take_lie(self, inputs: Any, partitions: tuple[int, ...]) -> bool:
        return False

    def finish(self, pending: tuple[Any, tuple[int, ...], bool]) -> list[bytes]:
        return [GOOD for _ in pending[1]]

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        self.enter("verify", [item.path for item in inputs], tuple(partitions), None)
        return list(proofs) == [GOOD for _ in partitions]

    def documents(self, item: FileInput, proof: bytes) -> tuple[bytes, bytes]:
        public = item.public if item.public is not None else [json.loads(item.path.read_bytes())["n"]]
        return b'{"proof": true}', json.dumps(public).encode()


class Rig:
    """A running spool and what it said."""

    def __init__(self, spool: Spool, engine: Engine, workload: ReadingWorkload, lines: list[str]) -> None:
        self.spool, self.engine, self.workload, self.lines = spool, engine, workload, lines
        self.folder = spool.folder

    def wait(self, condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Until it holds; a failure tells what was said."""
        end = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < end, (self.lines, self.spool.counts, sorted(self.folder.rglob("*")))
            time.sleep(0.005)

    def wait_idle(self) -> None:
        self.wait(lambda: self.spool.idle)

    def put(self, name: str, n: int = 0) -> Path:
        """Drop an input in, written beside and moved in."""
        beside = self.folder / f".{n}.part"
        beside.write_text(json.dumps({"n": n}))
        return beside.rename(self.folder / name)

    def public(self, stem: str) -> Any:
        return json.loads((self.folder / f"{stem}.public.json").read_bytes())

    def there(self, stem: str) -> bool:
        return all(path.exists() for path in spool_files.outputs(self.folder, stem))

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@contextmanager
def spooling(
    folder: Path,
    workload: ReadingWorkload | None = None,
    *,
    journal: Path | None = None,
    start: bool = True,
    settle_s: float = 0.05,
    patience_s: float = 0.6,
    knobs: dict[str, KnobValue] | None = None,
    **more: Any,
) -> Iterator[Rig]:
    """A spool and its engine, both ended at the end."""
    folder.mkdir(exist_ok=True)
    workload = workload or ReadingWorkload()
    book = Journal.open(journal) if journal is not None else None
    engine = Engine(workload, [fake_device()], KnobSet(knobs or {}), cores=4, journal=book)
    lines: list[str] = []
    spool = Spool(
        engine,
        workload,
        folder,
        spool_files.JSON,
        journal=book,
        tell=lambda line, trouble: lines.append(line),
        settle_s=settle_s,
        patience_s=patience_s,
        **more,
    )
    engine.start()
    if book is not None:
        resume(engine, book, [spool])
    if start:
        spool.start()
    try:
        yield Rig(spool, engine, workload, lines)
    finally:
        spool.stop_taking()
        engine.stop()
        spool.stop()
        if book is not None:
            book.close()
