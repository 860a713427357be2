"""What a daemon prints: its messages, each with the keys of its fields, over all periods and with our engine's own.

A message that is not here still becomes a record; its fields are then split at everything that looks like a key.
"""

from __future__ import annotations

_TABLE = """
cuzk-daemon starting|
configuration loaded|listen
set CUZK_GPU_THREADS for C++ groth16_pool|gpu_threads
rayon global thread pool configured|rayon_threads
memory budget initialized|total_budget_gib
CUDA pinned memory pool initialized|
starting cuzk engine|pipeline_enabled
evictor callback wired|
nvidia-smi not available, defaulting to single GPU (ordinal 0)|
initializing GPU workers|num_gpus gpu_workers_per_device total_workers gpus num_workers
GPU queue target dispatch pacer enabled|gpu_queue_target
synthesis priority dispatcher started (PI pacer)|
starting pipeline: synthesis task + GPU workers (budget-gated)|configured_lookahead max_partitions_in_budget effective_lookahead synth_worker_count num_gpus
starting pipeline: synthesis task + GPU workers|lookahead num_gpus
spawning GPU workers with Phase 8 dual-worker interlock|gpu_workers_per_device
pipeline GPU worker started|worker_id gpu sub_id
synthesis dispatcher started (budget-gated)|max_batch_size max_batch_wait_ms slot_size synthesis_concurrency
synthesis dispatcher started|max_batch_size max_batch_wait_ms slot_size synthesis_concurrency
monolithic GPU worker started|worker_id gpu
cuzk engine started|num_workers pipeline
status HTTP server listening|addr
failed to bind status HTTP server|addr error
status HTTP accept error|error
listening on unix socket|path
listening on TCP|addr
received SIGINT, shutting down|
shutting down cuzk engine|
synthesis dispatcher received shutdown signal|
synthesis dispatcher stopped|
dispatcher: shutdown|
synthesis worker received shutdown|sw_id
synthesis dispatch channel closed|sw_id
pipeline GPU worker received shutdown signal|worker_id
pipeline GPU worker stopped|worker_id
monolithic GPU worker stopped|worker_id
synthesis worker channel closed|
synthesis semaphore closed|
cuzk-daemon stopped|
SubmitProof|request_id proof_kind input_size
Prove|request_id proof_kind input_size
AwaitProof|job_id
CancelProof (not yet implemented)|job_id
PreloadSRS|circuit_id
EvictSRS (not yet implemented)|circuit_id
prove failed|error
job enqueued|job_id proof_kind priority queue_position
job dequeued for proving|job_id proof_kind
processing batch|batch_size proof_kind slot_size
dispatching per-partition synthesis (budget-gated)|job_id num_partitions budget_available_gib
dispatching per-partition SnapDeals synthesis (budget-gated)|job_id num_partitions budget_available_gib
dispatching per-partition SnapDeals synthesis|job_id num_partitions
Phase 7: dispatching per-partition synthesis|job_id num_partitions
assigned pipeline sequence number|job_id job_seq
assigned SnapDeals pipeline sequence number|job_id job_seq
Phase 7: C1 parse/SRS load failed|error
Phase 7: C1 parse task panicked|error
SnapDeals parse/SRS load failed|error
SnapDeals parse task panicked|error
using standard synthesis path (synthesize_with_hint)|circuit_id
using PCE fast path for synthesis|circuit_id
PCE disabled via CUZK_DISABLE_PCE=1 — using standard synthesis|circuit_id
no capacity hint cached — first synthesis will grow organically|circuit_id
using cached capacity hint for synthesis|circuit_id
cached synthesis capacity hint|circuit_id num_constraints num_aux num_inputs
attempting pinned memory synthesis|circuit_id num_constraints scalar_size buf_gib
pinned prover created for partition synthesis|
pinned pool checkout FAILED — falling back to unpinned|num_constraints pool_free pool_total_gib
starting proof timer|
partition synthesis complete|partition synth_ms is_pinned
SnapDeals partition synthesis complete|partition synth_ms is_pinned
partition synthesis complete, pushing to GPU queue|job_id partition synth_ms
partition synthesis complete, sending to GPU|job_id partition synth_ms
SnapDeals partition synthesis complete, sending to GPU|job_id partition synth_ms
partition synthesis failed|error job_id partition
SnapDeals partition synthesis failed|error job_id partition
partition synthesis task panicked|error job_id partition
skipping synthesis for failed job|job_id partition
building circuits for all partitions (parallel)|num_partitions
synthesizing all circuits|num_circuits
batch synthesis complete|synth_ms num_circuits num_constraints
starting multi-sector PoRep C2 synthesis|num_sectors
synthesizing all circuits (multi-sector batch)|num_sectors total_circuits
multi-sector batch synthesis complete|synth_ms num_circuits num_constraints
building WindowPoSt circuit|num_sectors partition
synthesizing WindowPoSt circuit|
WindowPoSt synthesis complete|synth_ms num_constraints
building WinningPoSt circuit|num_sectors
synthesizing WinningPoSt circuits|num_circuits
WinningPoSt synthesis complete|synth_ms num_constraints
building SnapDeals circuits|num_partitions num_vanilla_proofs
synthesizing SnapDeals circuits|num_circuits
SnapDeals synthesis complete|synth_ms num_circuits num_constraints
synthesis complete, sending to GPU|synth_ms circuit_id batch_size sectors job_id
synthesis failed|error
synthesis task panicked|error
buffer flight counters|event synth provers aux shells pending est_gib
GPU worker picked up synthesized proof|batched
GPU worker processing job|job_id proof_kind worker_id
processing job|job_id proof_kind
GPU_TIMING hot_path pre-prove overhead|worker_id partition status_ms fail_check_ms mark_busy_ms total_overhead_ms
GPU_TIMING spawn_blocking prove_start|worker_id partition spawn_to_enter_ms prove_start_ms
GPU_TIMING prove_start returned|worker_id partition total_pre_prove_ms spawn_blocking_wall_ms
GPU prove complete (split)|proof_count proof_bytes gpu_ms
GPU prove complete|proof_count proof_bytes gpu_ms
partition GPU prove complete|job_id partition gpu_ms gpu_active_ms filled
FIN_TIMING malloc_trim (success path)|job_id partition malloc_trim_ms
FIN_TIMING malloc_trim (discard path)|job_id partition malloc_trim_ms
Phase 7: all partitions complete, proof assembled|job_id proof_len total_ms synth_ms gpu_ms
FIN_TIMING finalizer partition|worker_id partition finish_ms drop_res_ms lock_wait_ms process_ms total_ms
FIN_TIMING finalizer monolithic|worker_id finish_ms drop_res_ms lock_wait_ms process_ms total_ms
skipping GPU prove for failed partitioned job|job_id partition
discarding GPU result for failed job|job_id partition
assembler not found, discarding partition result|job_id partition
GPU prove start failed|error
GPU prove start task panicked|error
partition GPU proving failed|error job_id partition
partition GPU proving task panicked|error job_id partition
GPU proving failed|error
GPU proving task panicked|error
proof completed successfully (pipeline)|proof_len total_ms queue_ms synth_ms gpu_ms
proof completed successfully (monolithic)|proof_len total_ms queue_ms deser_ms prove_ms
proof completed successfully|job_id proof_len total_ms queue_ms deser_ms prove_ms
batched proof completed — splitting results|total_proof_bytes num_sectors synth_ms gpu_ms
sector proof delivered from batch|sector_idx job_id proof_len total_ms
failed to split batched proofs|error
processing job (monolithic)|
proof failed|error
proof task panicked|error
pacer: status|total in_flight waiting ema_waiting gpu_proc_ms gpu_eff_ms ema_synth_ms interval_ms integral bootstrap rebootstraps
pacer: bootstrap done, waiting for first GPU completion|
pacer: GPU rate calibrated, switching to PI control|gpu_proc_ms gpu_eff_ms ema_waiting
pacer: pipeline drained, re-entering bootstrap|rebootstrap gpu_proc_ms
GPU pipeline semaphore enabled|permits
loading SRS from disk|circuit_id path file_size_gib
SRS loaded successfully|circuit_id elapsed_ms budget_used_gib budget_available_gib
SRS already loaded (cache hit)|circuit_id
SRS evicted|circuit_id freed_gib budget_available_gib
SRS cannot be evicted — in use by in-flight proof|circuit_id refcount
SRS preloaded (Phase 2)|circuit_id
evicted for memory pressure|entry freed_gib
acquire request exceeds total budget — will block until possible|amount_gib total_gib
budget acquired|amount_gib used_gib total_gib
waiting for budget (acquire blocked)|needed_gib available_gib total_gib
evictor freed memory, retrying acquire|freed_gib needed_gib
partial reservation release|released_gib remaining_gib
pinned pool: allocated new buffer|size_gib total_buffers total_gib
pinned pool: checkout (reuse)|size_gib free_remaining
pinned pool: checkin|size_gib
pinned pool: freed buffer (evictor)|freed_gib total_freed_gib
cudaHostAlloc failed|size_gib cuda_err
pinned pool: cudaHostAlloc failed|size_gib cuda_err
cudaFreeHost failed|cuda_err
background PCE extraction starting for PoRep 32G|
background PCE extraction complete|
background PCE extraction failed|error
PCE extraction complete|circuit_id extract_ms summary
PCE cached|circuit_id size_gib budget_used_gib
PCE saved to disk|circuit_id path
PCE evicted|circuit_id freed_gib budget_available_gib
failed to save PCE to disk (non-fatal)|circuit_id error
PCE loaded from disk|circuit_id path
PCE file not found on disk|circuit_id path
PCE disk preload complete|loaded
PCE not yet cached — using old synthesis path|circuit_id
PCE saved to disk (raw format)|path file_size_gib duration_ms write_speed_gbs
loading PCE from disk|path
PCE file header valid, loading raw data|path
PCE loaded from disk (raw format)|path file_size_gib duration_ms
RecordingCS: extracted pre-compiled circuit|num_inputs num_aux num_constraints a_nnz b_nnz c_nnz a_aux_density b_input_density b_aux_density
PCE witness generation complete (WitnessCS)|circuit_id witness_ms num_circuits
PCE MatVec evaluation complete|circuit_id eval_ms num_circuits a_len b_len c_len
PCE synthesis complete (witness + eval)|circuit_id total_pce_ms witness_ms eval_ms
verifying PoRep proof (self-check)|registered_proof proof_len sector_number miner_id
PoRep proof self-check PASSED|job_id registered_proof proof_len sector_number miner_id
PoRep proof self-check FAILED — proof is invalid|job_id registered_proof proof_len sector_number miner_id
PoRep proof self-check FAILED — proof is invalid!|job_id registered_proof proof_len sector_number miner_id
Phase 7: PoRep proof self-check PASSED|job_id proof_len sector miner
Phase 7: PoRep proof self-check FAILED — proof will NOT be returned to caller|job_id proof_len sector miner
Phase 7: PoRep proof self-check error — proof will NOT be returned to caller|job_id error
Phase 7: per-partition verification results (invalid partitions produced bad proofs)|job_id valid_partitions invalid_partitions
loading verifying key for per-partition verification|job_id
starting per-partition verification|job_id num_partitions
slot_size >= num_partitions, using batch-all path|slot_size num_partitions
cuzk engine stopped|
job failed|job_id error
job cancelled|job_id why
slot phases|job_id partition synthesis_ms queued_ms lock_wait_ms setup_ms h2d_ms ntt_ms msm_ms d2h_ms finalizing_ms
proof self-check FAILED — proof is invalid|job_id partition
partitions cancelled|job_id partition
partition is made again|job_id partition gpu error
failure detail|job_id partition worker gpu detail
device lost|gpu error
devices|note
worker died|worker error
knob proposed|knob old new who generation
knob in force|knob value after_ms
knob refused|knob new reason
knobs taken over|worker generation
journal|note
spool|note
waiting for memory|what used total
memory is there|what used total
first run|what elapsed_ms
events were lost to the log|count
Phase 6: PoRep proof self-check PASSED|job_id proof_len sector miner
Batched PoRep proof self-check PASSED|job_id sector_idx proof_len sector miner
"""  # noqa: E501 - one message a line

KEYS: dict[str, frozenset[str]] = {
    message: frozenset(keys.split())
    for message, _, keys in (line.rpartition("|") for line in _TABLE.split("\n") if line)
}
"""Message -> the keys of its fields."""
ALL_KEYS = frozenset().union(*KEYS.values())

BEGINNINGS = (
    "cuzk-daemon ready, serving on ",
    "memory.",
    "synthesis.",
    "srs.",
    "synthesis time: ",
    "GPU prove time: ",
    "prover time: ",
    "partition ",
    "PER-PARTITION VERIFICATION: ",
    "ALL ",
    "CUZK_VALIDATE_PARTITIONS=1: ",
    "VERIFIER VALIDATION",
    "background PCE extraction ",
    "synthesis task started (",
    "Phase 6: ",
    "Batched ",
    "Pipeline single-sector ",
    "monolithic ",
    "pipelined ",
    "slotted ",
)
"""How the known messages begin that hold a value in their text."""


def known(message: str) -> bool:
    """Whether the catalogue has a message."""
    return message in KEYS or message.startswith(BEGINNINGS)
