"""The spool: a folder whose files are jobs. An input dropped in is proved, and its outputs appear beside it.

One thread does everything with the folder: it looks at names that changed (``spool_watch``) or at all of them, submits
what is complete, never more than ``MOST_IN_FLIGHT`` at once, and hands over what was proved. The engine's threads only
leave word with it. What waits for the disk is done for ``AT_ONCE`` inputs at a time, which share its commits, and room
in the engine is filled before anything is handed over.

An input is taken once it has not changed for ``settle_s`` and looks complete. One that cannot be used is rejected, but
while it is cut short only when it has not changed for ``patience_s``: its writer may pause. An input is its content:
one that is replaced or removed while it is proved gives nothing, and what replaced it is a job of its own. The same
content is proved once, also across restarts where there is a journal; a changed time of modification makes it another.
"""

from __future__ import annotations

import errno
import heapq
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from secrets import token_hex

from prover.errors import InputError
from prover.file_input import FileInput
from prover.formats.errors import WriteError, printable
from prover.pipeline import spool_files
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import InputFile, OpenJob, Stage
from prover.pipeline.line import WRONG_PROOF
from prover.pipeline.records import Draining, DuplicateJob, EngineStopped, JobCancelled, one_line
from prover.pipeline.resume import Remade
from prover.pipeline.spool_delivery import Documents, input_files, write_outputs
from prover.pipeline.spool_entries import Counts, Ended, Entry, News, State
from prover.pipeline.spool_files import Kind
from prover.pipeline.spool_watch import FolderClaim, FolderWatch

MOST_IN_FLIGHT = 64
"""Jobs that the engine has at once: enough for every stage and for batches, whatever lies in the folder."""
AT_ONCE = 16
"""Inputs that wait for the disk at once."""
MOST_TOLD = 5
SETTLE_S = 0.5
PATIENCE_S = 30.0
RESCAN_S = 10.0
"""How often everything is looked at, for file systems that report no changes."""
RETRY_S = 2.0
"""How often what failed for the folder's sake is tried again."""
TELL_AGAIN_S = 30.0
"""How often it is told that outputs still cannot be written."""

Tell = Callable[[str, bool], None]
"""Told a line for the log, and whether it is of trouble."""


class Spool:
    """See the module. Also the ``Submitter`` of its jobs from an earlier session (``resume``), before ``start``."""

    def __init__(
        self,
        engine: Engine,
        workload: Documents,
        folder: Path,
        kind: Kind,
        *,
        journal: Journal | None = None,
        tell: Tell | None = None,
        settle_s: float = SETTLE_S,
        patience_s: float = PATIENCE_S,
        most_in_flight: int = MOST_IN_FLIGHT,
    ) -> None:
        self.folder = folder.absolute()
        self.counts = Counts()
        self._troubles: dict[str, str] = {}
        """What keeps it from its work at present, in one line, by where it lies."""
        self._engine = engine
        self._workload = workload
        self._kind = kind
        self._journal = journal
        self._say = tell or (lambda line, trouble: None)
        self._settle_s = settle_s
        self._patience_s = patience_s
        self._most_in_flight = most_in_flight
        self._entries: dict[str, Entry] = {}
        self._waiting: set[str] = set()
        self._ready: list[tuple[int, str]] = []
        self._undelivered: set[str] = set()
        self._kept_told = 0.0
        self._in_flight = 0
        self._proved: deque[Ended] = deque()
        """Jobs that ended, and are not concluded yet."""
        self._pool = ThreadPoolExecutor(AT_ONCE, "spool-disk")
        self._lost: set[str] = set()
        """Links that lead to no file, and were told."""
        self._told_again = 0
        self._scanned = False
        self._next_scan = 0.0
        self._retry_at: float | None = None
        self._bell = threading.Condition()
        self._news = News()
        self._at_work = False
        self._taking = True
        self._stopping = False
        self._claim = FolderClaim(self.folder)
        self._watch = FolderWatch(self.folder, self._changed)
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)

    # -- control ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look and to submit."""
        self._watch.start()
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """What keeps it from its work at present, in one line."""
        return next(iter(list(self._troubles.values())), None)

    def stop_taking(self) -> None:
        """Submit nothing more; what is proved is handed over until ``stop``."""
        self._taking = False

    def stop(self) -> None:
        """Hand over what was proved by now, and end. Jobs in flight are the engine's."""
        self._taking = False
        with self._bell:
            self._stopping = True
            self._bell.notify_all()
        self._watch.stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._pool.shutdown()
        self._claim.release()

    @property
    def idle(self) -> bool:
        """Whether everything was looked at and nothing is under way or may still be written."""
        with self._bell:
            news = self._news.everything or self._news.names or self._news.ended
            return self._scanned and not (
                self._at_work
                or news
                or self._waiting
                or self._ready
                or self._proved
                or self._undelivered
                or self._in_flight
            )

    # -- Submitter: jobs of an earlier session ------------------------------------------------------------------------

    def remake(self, job: OpenJob) -> Remade | None:
        """The inputs of a job of this folder; None for another's. Raises ``InputError`` if its input is another now."""
        name = self._own(job)
        if name is None or self._thread.ident is not None:  # it works already: the next session goes on with the job
            return None
        path, stem = self.folder / name, self._kind.stem(name)
        try:
            identity = spool_files.identity_of(path)
        except OSError:
            identity = None
        if stem is None or identity is None:
            raise InputError("the input was removed", printable(str(path)))
        wanted = spool_files.job_id(path, stem, identity)
        if job.entry.id != wanted and not job.entry.id.startswith(f"{wanted}."):
            raise InputError("the input was replaced", printable(str(path)))
        item = FileInput(path)
        entry = Entry(name, stem, identity, time.monotonic(), State.RUNNING, job=job.entry.id, item=item)
        self._entries[name] = entry
        return Remade([item], hands_over=True)

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        """The job goes on."""
        name = self._own(job)
        assert name is not None
        self._follow(self._entries[name], future)

    def given_up(self, job: OpenJob, reason: str) -> None:
        """The job does not go on. What lies in the folder now is looked at like everything else."""
        name = self._own(job)
        if name is not None:
            self._entries.pop(name, None)

    def _own(self, job: OpenJob) -> str | None:
        origin = job.entry.request
        name = origin.get("input")
        return name if origin.get("spool") == str(self.folder) and isinstance(name, str) else None

    # -- word from other threads --------------------------------------------------------------------------------------

    def _changed(self, names: set[str] | None) -> None:
        with self._bell:
            if names is None:
                self._news.everything = True
            else:
                self._news.names |= names
            self._bell.notify_all()

    def _ended(self, name: str, job: str, future: Future[JobResult]) -> None:
        with self._bell:
            self._news.ended.append((name, job, future))
            self._bell.notify_all()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._bell:
                self._bell.wait_for(self._has_news, self._patience())
                news, self._news = self._news, News(everything=False)
                self._at_work = True
                last = self._stopping
            try:
                self._step(news)
            except Exception as error:  # noqa: BLE001 - a night's work goes on
                self._trouble("spool", f"the spool stumbled, and goes on: {one_line(error)}")
                self._retry_soon()
            self._at_work = False
            if last and not self._proved:
                return

    def _has_news(self) -> bool:
        news = self._news
        return bool(self._stopping or news.everything or news.names or news.ended or self._proved)

    def _patience(self) -> float:
        """How long there is nothing to do of itself."""
        now = time.monotonic()
        due = [self._next_scan]
        if self._retry_at is not None:
            due.append(self._retry_at)
        if self._waiting:
            due.append(min(self._due(self._entries[name]) for name in self._waiting))
        return max(0.01, min(due) - now)

    def _step(self, news: News) -> None:
        self._in_flight -= len(news.ended)
        self._proved.extend(news.ended)
        again: list[Entry] = []
        try:
            again = self._go_on(news)
        finally:
            ended = [self._proved.popleft() for _ in range(min(len(self._proved), AT_ONCE))]
            proved = [self._conclude(*each) for each in ended]
            self._hand_over([*again, *(entry for entry in proved if entry is not None)])

    def _go_on(self, news: News) -> list[Entry]:
        """Look and submit. Returns what is to be handed over again."""
        now = time.monotonic()
        again: list[Entry] = []
        everything = news.everything or now >= self._next_scan
        if self._retry_at is not None and now >= self._retry_at:
            everything, self._retry_at = True, None
            again = [self._entries[name] for name in self._undelivered]
        if not self._taking:
            return again
        if everything:
            self._next_scan = now + RESCAN_S
            self._scan()
        elif "folder" not in self._troubles:  # else they are looked at with the rest, and what another proved is found
            for name in news.names:
                self._look(name)
        for name in tuple(self._waiting):
            self._consider(self._entries[name])
        self._submit()
        return [entry for entry in again if self._entries.get(entry.name) is entry]

    # -- looking ------------------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        try:
            with os.scandir(self.folder) as entries:
                names = {entry.name for entry in entries}
            writable = os.access(self.folder, os.W_OK | os.X_OK)
            ours = writable and self._claim.hold()
        except OSError as error:
            self._trouble("folder", f"the spool cannot be read: {printable(str(self.folder))}: {error.strerror}")
            self._retry_soon()
            return
        if not writable:
            self._trouble("folder", f"the spool cannot be written, nothing is taken: {printable(str(self.folder))}")
            self._retry_soon()
            return
        if not ours:
            self._let_go()
            self._trouble(
                "folder", f"another process works on this spool: {printable(str(self.folder))}: stop that one"
            )
            self._retry_soon()
            return
        self._trouble("folder", None)
        self._lost &= names
        for name in [*names, *(name for name in self._entries if name not in names)]:
            self._look(name)
        self._scanned = True

    def _let_go(self) -> None:
        """Another process has the folder: what is not under way here is its business, and looked at anew after it."""
        for entry in [each for each in self._entries.values() if each.state not in (State.RUNNING, State.PROVED)]:
            del self._entries[entry.name]
        self._waiting.clear()

    def _look(self, name: str) -> None:
        """See what a name stands for now."""
        stem = self._kind.stem(name)
        if stem is None:
            return
        entry = self._entries.get(name)
        try:
            identity = spool_files.identity_of(self.folder / name)
        except OSError:  # no permission on the way: looked at again with the rest
            return
        if identity is None:
            if entry is not None and self.folder.is_dir():
                self._forget(entry, "the input was removed")
            self._tell_lost(name)
            return
        self._lost.discard(name)
        if entry is not None and entry.identity == identity:
            return
        if entry is not None:
            self._forget(entry, "the input was replaced")
        elif spool_files.answered(self.folder, stem, identity):
            self.counts.found += 1
            self._entries[name] = Entry(name, stem, identity, 0.0, State.OVER)
            return
        self._wait(Entry(name, stem, identity, time.monotonic()))

    def _tell_lost(self, name: str) -> None:
        """Tell of a link that leads to no file, once."""
        if not (self.folder / name).is_symlink():
            self._lost.discard(name)
        elif name not in self._lost:
            self._lost.add(name)
            self._say(f"{printable(name, 80)}: a link that leads to no file, it is not taken", True)

    def _wait(self, entry: Entry) -> None:
        entry.state, entry.job, entry.item, entry.result = State.WAITING, None, None, None
        self._entries[entry.name] = entry
        self._waiting.add(entry.name)

    def _forget(self, entry: Entry, why: str) -> None:
        """The content that an entry stands for is there no more."""
        del self._entries[entry.name]
        self._waiting.discard(entry.name)
        self._undelivered.discard(entry.name)
        if entry.state in (State.RUNNING, State.PROVED) and entry.job is not None:
            self.counts.cancelled += 1
            self._say(f"{entry.shown}: {why}: job {entry.job} is cancelled", False)
            self._engine.cancel(entry.job)
            if entry.state is State.PROVED and self._journal is not None:
                self._journal.ended(entry.job, Stage.CANCELLED, why)

    def _due(self, entry: Entry) -> float:
        """When a waiting entry is to be looked at next."""
        age = time.monotonic() - entry.changed
        return entry.changed + (self._settle_s if age < self._settle_s and not entry.suspect else self._patience_s)

    def _consider(self, entry: Entry) -> None:
        """Whether an input that may still be written can be taken."""
        age = time.monotonic() - entry.changed
        still = time.time() - entry.identity.mtime_ns / 1e9  # moved in, it is old already
        settled = age >= self._settle_s or self._settle_s <= still
        if age < self._patience_s and (
            entry.suspect or not settled or not self._kind.plausible(self.folder / entry.name)
        ):
            return
        self._waiting.discard(entry.name)
        entry.state = State.READY
        heapq.heappush(self._ready, (entry.identity.mtime_ns, entry.name))

    # -- submitting ---------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        """Give the engine what it has room for, the oldest first."""
        while self._ready and self._in_flight < self._most_in_flight and "folder" not in self._troubles:
            if not self._engine.accepting.is_set():
                self._retry_soon()
                return
            group = self._next_group()
            sent = [(entry, self._pool.submit(self._send_first, entry)) for entry in group]
            stopped: EngineStopped | None = None
            for entry, answer in sent:
                try:
                    self._taken(entry, *answer.result())
                except EngineStopped as error:
                    heapq.heappush(self._ready, (entry.identity.mtime_ns, entry.name))
                    stopped = error
                except Exception as error:  # noqa: BLE001 - the others go on
                    self._leave(
                        entry, f"{entry.shown}: left where it is: {one_line(error)}; touch it to try again", True
                    )
            if stopped is not None:
                if not isinstance(stopped, Draining):
                    self._trouble("engine", f"nothing is taken: {stopped}")
                self._retry_soon()
                return
            self._trouble("engine", None)

    def _next_group(self) -> list[Entry]:
        group: dict[str, Entry] = {}
        while self._ready and len(group) < min(AT_ONCE, self._most_in_flight - self._in_flight):
            _, name = heapq.heappop(self._ready)
            entry = self._entries.get(name)
            if entry is None or entry.state is not State.READY:
                continue  # it was replaced meanwhile
            if spool_files.outputs_fit(entry.stem):
                group[name] = entry
            else:
                self._reject(entry, "the name is too long for its outputs: NAME.public.json has more than 255 bytes")
        return list(group.values())

    def _send_first(self, entry: Entry) -> tuple[str, FileInput, Future[JobResult] | None]:
        """On a thread of the pool: its job; no future where it was proved before. Raises like ``Engine.submit``."""
        path = self.folder / entry.name
        job, item, files = (
            spool_files.job_id(path, entry.stem, entry.identity),
            FileInput(path),
            input_files(self._journal, path),
        )
        try:
            return job, item, self._send(job, entry.name, item, files)
        except DuplicateJob:
            stage = None if self._journal is None else self._journal.stage(job)
            if stage is not None and stage[0] in (Stage.DELIVERED, Stage.DELIVERING):
                return job, item, None
            job = f"{job}.{token_hex(2)}"  # it failed or was cancelled then, and lies here again
            return job, item, self._send(job, entry.name, item, files)

    def _taken(self, entry: Entry, job: str, item: FileInput, future: Future[JobResult] | None) -> None:
        if future is None:
            entry.state = State.OVER
            self.counts.found += 1
            self._tell_again(entry)
            return
        self.counts.taken += 1
        entry.job, entry.item, entry.state = job, item, State.RUNNING
        self._follow(entry, future)

    def _tell_again(self, entry: Entry) -> None:
        """A reader that takes outputs away and leaves inputs may leave thousands: the first few are told."""
        self._told_again += 1
        if self._told_again <= MOST_TOLD:
            more = "; of further ones nothing is said" if self._told_again == MOST_TOLD else ""
            self._say(f"{entry.shown}: was proved before; touch it to have it proved again{more}", False)

    def _send(self, job: str, name: str, item: FileInput, files: tuple[InputFile, ...]) -> Future[JobResult]:
        origin = {"spool": str(self.folder), "input": name}
        return self._engine.submit(
            JobRequest(
                [item],
                1,
                id=job,
                circuit=self._workload.circuit,
                origin=origin,
                files=files,
                hands_over=True,
            )
        )

    def _follow(self, entry: Entry, future: Future[JobResult]) -> None:
        assert entry.job is not None
        self._in_flight += 1
        future.add_done_callback(partial(self._ended, entry.name, entry.job))

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _conclude(self, name: str, job: str, future: Future[JobResult]) -> Entry | None:
        """What became of a job; returns what is to be handed over."""
        entry = self._entries.get(name)
        error = future.exception()
        if entry is None or entry.job != job:  # its input is gone
            if error is None and self._journal is not None:
                self._journal.ended(job, Stage.CANCELLED, "the input is another now")
        elif error is None:
            entry.result, entry.state = future.result(), State.PROVED
            return entry
        else:
            self._failed(entry, job, error)
        return None

    def _failed(self, entry: Entry, job: str, error: BaseException) -> None:
        fault = entry.item.fault if entry.item is not None else None
        if fault is None and WRONG_PROOF in str(error):
            fault = WRONG_PROOF
        if isinstance(error, JobCancelled):
            if not self._taking:
                return  # the engine stops
            self.counts.cancelled += 1
            self._leave(entry, f"{entry.shown}: job {job} was cancelled; touch the input to have it proved", False)
        elif fault is None:
            line = f"{entry.shown}: left where it is: {one_line(error)}; touch it to try again"
            self._leave(entry, line, True)
        elif not self.folder.is_dir():
            entry.changed = time.monotonic()
            self._wait(entry)
        elif self._changed_since(entry):
            self._look(entry.name)
        elif time.monotonic() - entry.changed < self._patience_s and not self._kind.whole(self.folder / entry.name):
            entry.suspect = True
            self._wait(entry)
        else:
            self._reject(entry, fault)

    def _changed_since(self, entry: Entry) -> bool:
        try:
            return spool_files.identity_of(self.folder / entry.name) != entry.identity
        except OSError:
            return False

    def _leave(self, entry: Entry, line: str, trouble: bool) -> None:
        entry.state = State.OVER
        self._say(line, trouble)

    def _reject(self, entry: Entry, reason: str) -> None:
        try:
            reason = spool_files.reject(self.folder / entry.name, entry.stem, reason)
        except WriteError as error:
            self._leave(entry, f"{entry.shown}: bad, but it stays: {error}: {reason}", True)
            return
        self.counts.rejected += 1
        self._entries.pop(entry.name, None)
        self._say(f"{entry.shown}: rejected: {reason}", True)

    def _hand_over(self, entries: Iterable[Entry]) -> None:
        """Write proved inputs' outputs, unless an input is another now; what cannot be written is kept."""
        for entry, done in [(entry, self._pool.submit(self._put, entry)) for entry in entries]:
            try:
                if not done.result():
                    self._look(entry.name)
                    continue
            except WriteError as error:
                self._undelivered.add(entry.name)
                self._tell_kept(error)
                self._retry_soon()
                continue
            except Exception as error:  # noqa: BLE001 - the others go on
                self._undelivered.discard(entry.name)
                self._leave(entry, f"{entry.shown}: {one_line(error)}", True)
                continue
            self._undelivered.discard(entry.name)
            if not self._undelivered:
                self._trouble("outputs", None)
            self.counts.delivered += 1
            entry.state, entry.item, entry.result = State.OVER, None, None

    def _put(self, entry: Entry) -> bool:
        """On a thread of the pool: write an input's outputs; False if the input is another now.

        Raises:
            ProverError: if that cannot be done, ``WriteError`` for the folder's sake.
        """
        assert entry.result is not None and entry.item is not None and entry.job is not None
        if not self.folder.is_dir():
            raise WriteError(self.folder, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        if self._changed_since(entry):
            return False
        proof, public = self._workload.documents(entry.item, entry.result.proofs[0])
        path, public_path = spool_files.outputs(self.folder, entry.stem)
        contents = {public_path: public, path: proof}  # the proof last: it says that both are there
        refusal = write_outputs(self._journal, entry.job, self.folder, contents)
        if refusal is not None:
            self._say(refusal, True)
        return True

    # -- trouble ------------------------------------------------------------------------------------------------------

    def _retry_soon(self) -> None:
        if self._retry_at is None:
            self._retry_at = time.monotonic() + RETRY_S

    def _tell_kept(self, error: WriteError) -> None:
        """Each input has another line, and is tried often: one at once, then how many there are, now and then."""
        now = time.monotonic()
        if "outputs" in self._troubles and now < self._kept_told + TELL_AGAIN_S:
            return
        self._kept_told = now
        several = len(self._undelivered)
        kept = "a proof cannot be written, it is" if several == 1 else f"{several} proofs cannot be written, they are"
        self._trouble("outputs", f"{kept} kept: {error}")

    def _trouble(self, where: str, line: str | None) -> None:
        """Note trouble, or that it is over; each is told once."""
        if line is None:
            if self._troubles.pop(where, None) is not None:
                self._say(f"the spool works again: {printable(str(self.folder))}", False)
        elif self._troubles.get(where) != line:
            self._troubles[where] = line
            self._say(line, True)


__all__ = ["MOST_IN_FLIGHT", "PATIENCE_S", "SETTLE_S", "Counts", "Documents", "Spool"]
