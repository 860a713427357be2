"""A real engine with a journal that is killed at any moment and started again; and what must be true in the end.

    python engine_survivor.py JOURNAL FOLDER NAME JOBS [CIRCUIT]

A life resumes what earlier ones left, then keeps submitting until three times JOBS jobs have ended: files that it hands
over itself, results by a future, and such whose id the engine gives. ``ack ID`` goes to standard output when ``submit``
has returned, ``got ID DIGEST`` when a future was set. Without a CIRCUIT the workload is a fake whose proofs are random,
as real ones are, sometimes bad; knobs are turned meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import queue
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

from fake_workload import FakeWorkload, fake_device

from prover.cancel import CancelToken
from prover.model import KnobValue
from prover.pipeline.delivery import deliver
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import OpenJob
from prover.pipeline.knobs import KnobSet
from prover.pipeline.resume import Remade, resume

KINDS = ("files", "future", "unnamed")
IN_FLIGHT = 2
FAKE: dict[str, KnobValue] = {"synthesis_lookahead": 2, "max_batch_wait_ms": 20}
TURNED = {
    "slot_size": (0, 1, 2, 3),
    "max_batch_size": (1, 3),
    "synthesis_concurrency": (1, 2, 3),
    "gpu_workers_per_device": (1, 2),
    "split_prove": (True, False),
}


def valid(inputs: Any, partition: int, proof: bytes) -> bool:
    """Whether a fake proof is one of the many right ones."""
    return len(proof) == 192 and proof[32:] == _seal(proof[:32], inputs, partition)


def _seal(nonce: bytes, inputs: Any, partition: int) -> bytes:
    if isinstance(inputs, tuple) and inputs and isinstance(inputs[0], tuple):  # of several jobs
        inputs, partition = inputs[partition]
    return hashlib.sha256(nonce + f"{inputs}/{partition}".encode()).digest() * 5


class RandomProofs(FakeWorkload):
    """Proofs that differ at every making, a few of them bad; steps of random length."""

    def finish(self, pending: tuple[Any, tuple[int, ...], bool]) -> list[bytes]:
        inputs, partitions, honest = pending
        self.provers.clear()  # nobody looks at them here
        nonces = [os.urandom(32) for _ in partitions]
        return [
            nonce + (_seal(nonce, inputs, partition) if honest else bytes(160))
            for nonce, partition in zip(nonces, partitions, strict=True)
        ]

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        return all(valid(inputs, partition, proof) for partition, proof in zip(partitions, proofs, strict=True))

    def take_lie(self, inputs: Any, partitions: tuple[int, ...]) -> bool:
        """Never about a partition that was made before: a second time would be its job's end."""
        several = isinstance(inputs, tuple)
        made = {inputs[partition] if several else (inputs, partition): 0 for partition in partitions}
        with self.lock:
            new = self.lies.keys().isdisjoint(made)
            self.lies.update(made)
        return new and random.random() < 0.2

    def sample_inputs(self, number: int, partitions: int) -> Any:
        return number


def _sleep(step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
    if step in ("synthesize", "ntt", "msm", "verify"):
        time.sleep(random.uniform(0, 0.003))


# -- a life -----------------------------------------------------------------------------------------------------------


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())  # whole, whichever threads write


def digest(proofs: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(proofs)).hexdigest()[:16]


class Life:
    """``Submitter`` of everything, and its receiver."""

    def __init__(self, path: Path, folder: Path, name: str, jobs: int, circuit: str | None) -> None:
        self.journal = Journal.open(path)
        self.folder = folder
        self.name = name
        self.jobs = jobs
        self.workload, devices, knobs = _proving(circuit)
        self.engine = Engine(self.workload, devices, knobs, journal=self.journal)
        self.changed = threading.Condition()
        self.open = 0
        self.over = False
        self.to_deliver: queue.Queue[tuple[str, JobResult] | None] = queue.Queue()

    def remake(self, job: OpenJob) -> Remade | None:
        origin: Any = job.entry.request
        inputs = self.workload.sample_inputs(origin["number"], job.entry.partitions)
        return Remade(inputs, hands_over=origin["kind"] == "files")

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        self._await(str(job.entry.request["kind"]), future)

    def given_up(self, job: OpenJob, reason: str) -> None:
        raise AssertionError(reason)

    def _await(self, kind: str, future: Future[JobResult]) -> None:
        with self.changed:
            self.open += 1
        future.add_done_callback(lambda done: self._ended(kind, done))

    def _ended(self, kind: str, future: Future[JobResult]) -> None:
        result = future.result()
        if kind == "files":
            self.to_deliver.put((result.id, result))
            return
        say("got", result.id, digest(result.proofs))
        self._close_one()

    def _close_one(self) -> None:
        with self.changed:
            self.open -= 1
            self.changed.notify_all()

    def _deliver(self) -> None:
        while (item := self.to_deliver.get()) is not None:
            job, result = item
            assert deliver(self.journal, job, {self.folder / f"{job}.proof": b"".join(result.proofs)}).durable
            self._close_one()

    def _submit(self, kind: str) -> None:
        mine = threading.Semaphore(IN_FLIGHT)
        for count in range(self.jobs):
            mine.acquire()
            number, partitions = random.randrange(8), random.randint(1, 4)
            name = None if kind == "unnamed" else f"{self.name}.{kind}.{count}"
            inputs = self.workload.sample_inputs(number, partitions)
            origin = {"number": number, "kind": kind}
            future = self.engine.submit(
                JobRequest(inputs, partitions, id=name, origin=origin, hands_over=kind == "files")
            )
            if name is not None:
                say("ack", name)
            self._await(kind, future)
            future.add_done_callback(lambda _: mine.release())

    def _turn(self) -> None:
        while not self.over:
            name = random.choice(sorted(TURNED))
            self.engine.propose(Change(name, random.choice(TURNED[name])))
            time.sleep(0.02)

    def live(self) -> int:
        if self.journal.state != "ok":
            return 1
        self.engine.start()
        deliverer = threading.Thread(target=self._deliver)
        deliverer.start()
        done = resume(self.engine, self.journal, [self])
        if done is None or done.undelivered or done.failed or done.left:
            return 1
        turner = threading.Thread(target=self._turn)
        clients = [threading.Thread(target=self._submit, args=(kind,)) for kind in KINDS]
        for thread in (turner, *clients):
            thread.start()
        for thread in clients:
            thread.join()
        with self.changed:
            self.changed.wait_for(lambda: not self.open)
        self.over = True
        self.to_deliver.put(None)
        deliverer.join()
        turner.join()
        self.engine.stop()
        return 0 if self.journal.close() and not self.journal.lost else 1


def _proving(circuit: str | None) -> tuple[Any, list[Any], KnobSet]:
    if circuit is None:
        return RandomProofs(_sleep), [fake_device(0), fake_device(1)], KnobSet(FAKE)
    from prover.circuits.builtin import builtin
    from prover.device.host import HostDevice
    from prover.groth16.workload import CircuitWorkload

    return CircuitWorkload.open(builtin(circuit)), [HostDevice()], KnobSet()


# -- the survivor's books ---------------------------------------------------------------------------------------------

Verify = Callable[[int, int, Sequence[bytes]], bool]
"""Whether the proofs of a job (its number, its partitions) are valid."""


def verify_fakes(number: int, partitions: int, proofs: Sequence[bytes]) -> bool:
    return len(proofs) == partitions and all(valid(number, index, proof) for index, proof in enumerate(proofs))


class EngineSurvivor:
    """Runs lives on one journal, kills them, takes away what they deliver, and keeps the books."""

    def __init__(self, folder: Path, circuit: str | None = None) -> None:
        self.journal = folder / "state" / "journal.sqlite3"
        self.out = folder / "out"
        self.out.mkdir()
        self.circuit = circuit
        self.acknowledged: list[str] = []
        self.got: list[tuple[str, str]] = []
        self.files: list[tuple[str, bytes]] = []

    def run(self, name: str, jobs: int, kill_after_s: float | None = None, *, at_work: bool = False) -> None:
        """One life, killed so long after it was started (or, ``at_work``, after its first ``ack``), or let end."""
        command = [sys.executable, __file__, str(self.journal), str(self.out), name, str(jobs)]
        command += [self.circuit] if self.circuit is not None else []
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            first = b""
            while at_work and b"ack" not in first:
                word = child.stdout.readline()
                assert word, "it died before its time"
                first += word
            if kill_after_s is not None:
                timer = threading.Timer(kill_after_s, child.send_signal, [signal.SIGKILL])
                timer.start()
            for line in (first + child.stdout.read()).decode().splitlines():
                word, job, *more = line.split()
                if word == "ack":
                    self.acknowledged.append(job)
                else:
                    self.got.append((job, more[0]))
            code = child.wait()
        assert code == (0 if kill_after_s is None else -signal.SIGKILL), f"the life ended with {code}"
        for file in self.out.iterdir():
            if not file.name.startswith("."):
                self.files.append((file.stem, file.read_bytes()))
                file.unlink()
        self.check_nothing_is_lost()

    def rows(self, query: str) -> list[Any]:
        if not self.journal.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True)) as connection:
            if connection.execute("PRAGMA user_version").fetchone() == (0,):
                return []  # killed while it was made
            return connection.execute(query).fetchall()

    def check_nothing_is_lost(self) -> None:
        """After a kill: what was acknowledged is there, and nothing came twice."""
        known = dict(self.rows("SELECT id, stage FROM jobs"))
        assert set(self.acknowledged) <= set(known), "an acknowledged job is not in the journal"
        for handed in ([job for job, _ in self.got], [job for job, _ in self.files]):
            assert len(handed) == len(set(handed)), "a job was handed over twice"
            assert set(handed) <= set(known)
        assert len(self.acknowledged) == len(set(self.acknowledged))

    def check_all_is_done(self, verify: Verify = verify_fakes) -> int:
        """At the end: each job has exactly one valid proof for each partition, and that is what was handed over."""
        self.check_nothing_is_lost()
        got, files = dict(self.got), dict(self.files)
        jobs = self.rows("SELECT seq, id, partitions, stage, request ->> 'number', request ->> 'kind' FROM jobs")
        for seq, job, partitions, stage, number, kind in jobs:
            assert stage == "delivered", (job, stage)
            kept = self.rows(f"SELECT number, proof FROM proofs WHERE job = {seq} ORDER BY number")
            proofs = [proof for _, proof in kept]
            assert [index for index, _ in kept] == list(range(partitions))
            assert verify(number, partitions, proofs), f"a proof of job {job} is not valid"
            if kind == "files":
                assert files.pop(job) == b"".join(proofs)
            elif job in got:  # or its process died between the claim and the callback
                assert got.pop(job) == digest(proofs)
        assert not files and not got and not list(self.out.iterdir())
        return len(jobs)


if __name__ == "__main__":
    path, folder, name, jobs = sys.argv[1:5]
    sys.exit(Life(Path(path), Path(folder), name, int(jobs), sys.argv[5] if len(sys.argv) > 5 else None).live())
