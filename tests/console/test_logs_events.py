"""What events come of lines: periods of the daemon, failures, restarts, several GPUs, our own engine."""

# ruff: noqa: E501 - a line of a log is a line here

from datetime import UTC, datetime, timedelta

from console.feeds.logs.stream import LogStream
from prover.model import EventKind, Phase

START = datetime(2026, 3, 13, 12, tzinfo=UTC)


def line(seconds, text, level="INFO", target="cuzk_core::engine", span=""):
    stamp = (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{stamp} {level:>5} {span}{target}: {text}"


def read(*lines):
    stream = LogStream(epoch_us=int(START.timestamp()) * 1_000_000)
    batch = stream.feed("".join(f"{text}\n" for text in lines).encode())
    return stream, batch.events + stream.finish().events


def of(events, kind, phase=None):
    return [event for event in events if event.kind is kind and (phase is None or event.phase is phase)]


def spans(events, phase):
    return [(round(e.start, 3), round(e.at, 3)) for e in of(events, EventKind.SPAN, phase)]


def arrives(seconds, job, kind="porep-c2"):
    about = f"job_id={job} proof_kind={kind}"
    return [
        line(seconds, f"job enqueued {about} priority=Normal queue_position=0", target="cuzk_core::scheduler"),
        line(seconds, f"job dequeued for proving {about}", target="cuzk_core::scheduler"),
    ]


def worker_span(worker, job, partition, gpu=0):
    return (
        f"gpu_worker{{worker_id={worker} gpu={gpu} job_id={job} proof_kind=porep-c2 batch_size=1 "
        f"partition={'None' if partition is None else f'Some({partition})'}}}: "
    )


def on_gpu(start, worker, job, partition, milliseconds, gpu=0, timing=()):
    """The lines of a partition on a device, of today's daemon."""
    where, some = worker_span(worker, job, partition, gpu), f"worker_id={worker} partition=Some({partition})"
    end = start + milliseconds / 1000
    return [
        (start, line(start, f"GPU_TIMING hot_path pre-prove overhead {some} status_ms=0", span=where)),
        *timing,
        (
            end,
            line(
                end, f"GPU_TIMING spawn_blocking prove_start {some} spawn_to_enter_ms=0 prove_start_ms={milliseconds}"
            ),
        ),
        (end, line(end, f"GPU_TIMING prove_start returned {some} total_pre_prove_ms={milliseconds}", span=where)),
    ]


class TestPeriods:
    def test_the_pipeline_switched_off(self):
        span = "monolithic_worker{worker_id=1 gpu=2 job_id=a proof_kind=porep-c2}: "
        stream, events = read(
            *arrives(0, "a"),
            line(1, "processing job (monolithic)", span=span),
            line(
                91, "proof completed successfully (monolithic) proof_len=1920 total_ms=91000 prove_ms=90000", span=span
            ),
        )
        assert spans(events, Phase.GPU) == [(1.0, 91.0)]
        assert [event.device for event in of(events, EventKind.SPAN, Phase.GPU)] == [2]
        assert [event.job for event in of(events, EventKind.JOB_DONE)] == ["a"]
        assert list(stream.translator.vocabulary) == ["pipeline off"]

    def test_partitions_before_the_timing_lines(self):
        """The pick-up is only a timeline line, and no line tells of the release but the partition's own."""
        stream, events = read(
            line(0, "starting cuzk engine pipeline_enabled=true"),
            *arrives(1, "a"),
            line(1, "Phase 7: dispatching per-partition synthesis job_id=a num_partitions=2"),
            line(31, "partition synthesis complete, sending to GPU job_id=a partition=0 synth_ms=30000"),
            "TIMELINE,31000,CHAN_SEND,a,partition=0",
            "TIMELINE,31010,GPU_PICKUP,a,worker=0,partition=0",
            line(35, "partition GPU prove complete job_id=a partition=0 gpu_ms=3990 filled=0"),
        )
        assert spans(events, Phase.SYNTHESIS) == [(1.0, 31.0)]
        assert spans(events, Phase.QUEUED) == [(31.0, 31.01)]
        assert spans(events, Phase.GPU) == [(31.01, 35.0)]
        assert [event.fields["partitions"] for event in of(events, EventKind.JOB_SUBMITTED)] == [1, 2]
        assert "2026-02 to 03, with timeline" in stream.translator.vocabulary
        assert stream.warnings() == ["jobs that never ended: a"]

    def test_a_batch_is_handed_over_after_its_key_was_read(self):
        _, events = read(
            *arrives(0, "a", "window-post"),
            line(
                40,
                "WindowPoSt synthesis complete synth_ms=39000",
                span='synthesize_window_post{job_id="a" partition=0}: ',
            ),
            line(60, "synthesis complete, sending to GPU synth_ms=39000 circuit_id=wpost-32g batch_size=1 sectors=1"),
        )
        (span,) = of(events, EventKind.SPAN, Phase.SYNTHESIS)
        assert (round(span.start, 3), round(span.at, 3), span.fields["handed_over"]) == (1.0, 40.0, 60.0)

    def test_our_own_engine_with_its_phases(self):
        ours = "cuzk_top::engine"
        where = "gpu_worker{worker_id=9 gpu=1 job_id=j-1 proof_kind=mix batch_size=1 partition=Some(2)}: "
        _, events = read(
            line(0, "starting cuzk engine pipeline_enabled=true", target=ours),
            line(0, "job enqueued job_id=j-1 proof_kind=mix priority=Normal queue_position=0", target="cuzk_top::scheduler"),
            line(5, "partition synthesis complete, pushing to GPU queue job_id=j-1 partition=2 synth_ms=4000", target=ours),
            line(9, "GPU_TIMING prove_start returned worker_id=9 partition=Some(2) total_pre_prove_ms=3000", target=ours, span=where),
            line(9, "slot phases job_id=j-1 partition=2 lock_wait_ms=500 h2d_ms=500 ntt_ms=800 msm_ms=1200", "DEBUG", ours),
            line(10, "partition GPU prove complete job_id=j-1 partition=2 gpu_ms=4000 filled=1", target=ours),
            line(10, "Phase 7: all partitions complete, proof assembled job_id=j-1 proof_len=192 total_ms=10000", target=ours),
        )  # fmt: skip
        assert spans(events, Phase.QUEUED) == [(5.0, 6.0)]
        assert spans(events, Phase.LOCK_WAIT) == [(6.0, 6.5)]
        assert spans(events, Phase.MSM) == [(7.8, 9.0)]
        assert spans(events, Phase.FINALIZING) == [(9.0, 10.0)]
        assert {event.device for event in of(events, EventKind.SPAN) if event.device is not None} == {1}
        assert [event.job for event in of(events, EventKind.JOB_DONE)] == ["j-1"]


class TestWorkersOutsideTheDaemon:
    @staticmethod
    def worker(seconds, text):
        stamp = (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        return f"{stamp} INFO bellperson::groth16::prover > {text}"

    def test_synthesis_and_prove_make_a_proof(self):
        stream, events = read(
            self.worker(1, "Bellperson 0.18.2 is being used!"),
            self.worker(32, "synthesis time: 30.5s"),
            self.worker(32, "starting proof timer"),
            self.worker(50, "prover time: 18s"),
        )
        assert spans(events, Phase.SYNTHESIS) == [(1.5, 32.0)]
        assert spans(events, Phase.GPU) == [(32.0, 50.0)]
        assert [event.job for event in of(events, EventKind.JOB_DONE)] == ["bellperson-1"]
        assert stream.warnings() == []

    def test_proves_that_fit_no_synthesis_are_counted(self):
        stream, events = read(
            self.worker(10, "synthesis time: 5s"),
            self.worker(20, "synthesis time: 812.5ms"),
            self.worker(60, "prover time: 30s"),
        )
        assert not of(events, EventKind.JOB_DONE)
        assert "proves of a worker that could not be joined to a synthesis: 1" in stream.warnings()


class TestSeveralGpus:
    @staticmethod
    def timing(at, pre, wait, held, before=0.0):
        return [
            (at, f"CUZK_TIMING: pre_lock_cpu_ms={pre} mutex_wait_ms={wait}"),
            (at + held / 1000 - before, f"CUZK_TIMING: mutex_held_ms={held} total_start_fn_ms={pre + wait + held}"),
        ]

    def run(self, *slots):
        lines = sorted((entry for slot in slots for entry in slot), key=lambda entry: entry[0])
        return read(*arrives(0, "a"), *[text for _, text in lines])

    def test_locks_are_told_apart_by_arithmetic(self):
        stream, events = self.run(
            on_gpu(10, 0, "a", 0, 4202, timing=self.timing(10.2, 100, 100, 4000)),
            on_gpu(10.1, 1, "a", 1, 3302, gpu=1, timing=self.timing(10.4, 150, 150, 3000)),
        )
        held = {e.partitions[0]: e for e in of(events, EventKind.SPAN, Phase.GPU)}
        assert [round(held[n].at - held[n].start, 3) for n in (0, 1)] == [4.0, 3.0]
        assert [held[n].device for n in (0, 1)] == [0, 1]
        assert stream.translator.sections.owners.unknown == 0

    def test_what_fits_two_is_unknown(self):
        stream, events = self.run(
            on_gpu(10, 0, "a", 0, 4202, timing=self.timing(10.2, 100, 100, 4000)),
            on_gpu(10, 1, "a", 1, 4202, gpu=1, timing=self.timing(10.2, 100, 100, 4000)),
        )
        assert not of(events, EventKind.SPAN, Phase.LOCK_WAIT)
        assert [not event.fields.get("locked") for event in of(events, EventKind.SPAN, Phase.GPU)] == [True, True]
        assert any("could not be told apart" in warning for warning in stream.warnings())


class TestEnds:
    def test_a_failed_self_check_fails_the_job(self):
        stream, events = read(
            *arrives(0, "a"),
            line(9, "Phase 7: all partitions complete, proof assembled job_id=a proof_len=1920 total_ms=9000"),
            line(9, 'PoRep proof self-check FAILED — proof is invalid job_id="a"', "WARN", "cuzk_core::prover"),
            line(9, "Phase 7: PoRep proof self-check FAILED — proof will NOT be returned to caller job_id=a", "ERROR"),
        )
        assert not of(events, EventKind.JOB_DONE)
        assert [event.job for event in of(events, EventKind.JOB_FAILED)] == ["a"]
        assert "proofs that failed their self-check: 1" in stream.warnings()

    def test_a_dispatch_that_fails_names_no_job(self):
        _, events = read(*arrives(0, "a"), line(3, "Phase 7: C1 parse/SRS load failed error=no such file", "ERROR"))
        (failed,) = of(events, EventKind.JOB_FAILED)
        assert (failed.job, failed.fields["error"]) == ("a", "no such file")

    def test_an_engine_that_begins_anew_leaves_nothing_alive(self):
        stream, events = read(
            *arrives(0, "a"), line(50, "starting cuzk engine pipeline_enabled=true"), *arrives(60, "a")
        )
        assert [event.job for event in of(events, EventKind.JOB_CANCELLED)] == ["a"]
        assert stream.warnings() == ["jobs that never ended: a"]

    def test_two_jobs_of_one_id_are_reported(self):
        stream, _ = read(*arrives(0, "a"), *arrives(5, "a"))
        assert "ids of two jobs alive at once, their figures are mixed: a" in stream.warnings()

    def test_two_jobs_that_fit_an_end_are_not_guessed(self):
        done = "proof completed successfully (pipeline) proof_len=192 total_ms=50000 queue_ms=1 synth_ms=2 gpu_ms=3"
        lines = [
            text
            for job in ("a", "b")
            for text in [
                *arrives(0, job, "window-post"),
                line(1, "WindowPoSt synthesis complete synth_ms=1", span=f'synthesize_window_post{{job_id="{job}"}}: '),
            ]
        ]
        stream, events = read(*lines, line(50, done))
        assert not of(events, EventKind.JOB_DONE)
        assert any("could not be joined" in warning for warning in stream.warnings())


class TestClocks:
    def test_a_step_backwards_is_reported(self):
        stream, _ = read(*arrives(100, "a"), *arrives(40, "b"))
        assert "clock steps: 1, the largest -60.000 s" in stream.warnings()

    def test_timeline_lines_before_any_stamp_wait_for_one(self):
        stream, events = read(
            "TIMELINE,5000,SYNTH_START,a,partition=0",
            "TIMELINE,9000,SYNTH_END,a,partition=0,synth_ms=4000",
            line(109, "partition synthesis complete, pushing to GPU queue job_id=a partition=0 synth_ms=4000"),
        )
        assert [round(event.at, 3) for event in of(events, EventKind.JOB_SUBMITTED)] == [105.0]
        assert any("estimates" in warning for warning in stream.warnings())

    def test_a_log_that_begins_in_the_middle(self):
        stream, events = read(
            line(5, "partition synthesis complete, pushing to GPU queue job_id=a partition=3 synth_ms=4000")
        )
        assert of(events, EventKind.JOB_SUBMITTED)[0].fields["adopted"] is True
        assert any("under way when the log began" in warning for warning in stream.warnings())
