"""What a witness generator is linked with, in WebAssembly text: so that one call makes a witness.

circom's generators hand every 32-bit word of every signal through an exported function. These two modules do that
from within. ``RUNTIME`` answers the generator's imports (its errors and its log), ``DRIVER`` feeds the inputs and
collects the witness. They share ``buffer``, a memory whose size the caller chooses:

====================  =================================================================================================
bytes                 what
====================  =================================================================================================
0 .. 64               words of the state below
1024 .. 65536         the generator's messages, one byte a character, each ended by a newline
65536 ..              input records (``inputs.pack``)
``out`` ..            the witness, 32 bytes a value, little-endian
====================  =================================================================================================

The generator's messages come through one of its own exports, which does not exist yet when its imports are made: hence
the table of one function, filled by the driver.
"""

from __future__ import annotations

from dataclasses import dataclass

STATE_WORDS = 8
EXCEPTION, MESSAGE_BYTES, RECORD, SIZE, INPUT_SIZE, WITNESS_SIZE, FIELD_WORDS, VERSION = range(STATE_WORDS)
"""u32 words at the head of the buffer: the code of the generator's error; bytes of messages; the record under way; the
signal's size; and what ``probe`` asked. ``probe`` leaves the prime at ``PRIME``."""
PRIME = 32
MESSAGES = 1024
RECORDS = 65536
PAGE = 65536

OK, UNKNOWN_SIGNAL, TOO_FEW, TOO_MANY, MISSING = range(5)
"""What ``run`` returns."""

CIRCOM = 2
"""The generation of generators that this is for."""
MAX_MEMORY = 1 << 32
"""What a 32-bit memory can hold."""


@dataclass(frozen=True, slots=True)
class FunctionType:
    """Parameters and results of a function."""

    parameters: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


_I32 = ("i32",)
GENERATOR_EXPORTS = {
    "getVersion": FunctionType((), _I32),
    "getFieldNumLen32": FunctionType((), _I32),
    "getRawPrime": FunctionType(),
    "getSharedRWMemoryStart": FunctionType((), _I32),
    "init": FunctionType(_I32),
    "getInputSize": FunctionType((), _I32),
    "getInputSignalSize": FunctionType(_I32 * 2, _I32),
    "setInputSignal": FunctionType(_I32 * 3),
    "getWitnessSize": FunctionType((), _I32),
    "getWitness": FunctionType(_I32),
    "getMessageChar": FunctionType((), _I32),
}
"""What the driver takes of a generator, beside its memory."""

RUNTIME_IMPORTS = {
    ("runtime", "exceptionHandler"): FunctionType(_I32),
    ("runtime", "printErrorMessage"): FunctionType(),
    ("runtime", "writeBufferMessage"): FunctionType(),
    ("runtime", "showSharedRWMemory"): FunctionType(),
}
"""What a generator may import."""

RUNTIME = f"""
(module
  (import "buffer" "memory" (memory 0))
  (type $char (func (result i32)))
  (table (export "table") 1 funcref)
  (func (export "exceptionHandler") (param $code i32)
    (i32.store offset={4 * EXCEPTION} (i32.const 0) (local.get $code))
    unreachable)
  (func $message (param $keep i32)
    (local $c i32) (local $at i32) (local $left i32)
    (local.set $left (i32.const 65536))
    (local.set $at (i32.load offset={4 * MESSAGE_BYTES} (i32.const 0)))
    (block $end
      (loop $next
        (local.set $c (call_indirect (type $char) (i32.const 0)))
        (br_if $end (i32.eqz (local.get $c)))
        (br_if $end (i32.eqz (local.get $left)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (if (i32.and (local.get $keep) (i32.lt_u (local.get $at) (i32.const {RECORDS - MESSAGES - 1})))
          (then
            (i32.store8 offset={MESSAGES} (local.get $at) (local.get $c))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))))
        (br $next)))
    (if (local.get $keep)
      (then
        (if (i32.lt_u (local.get $at) (i32.const {RECORDS - MESSAGES - 1}))
          (then
            (i32.store8 offset={MESSAGES} (local.get $at) (i32.const 10))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))))
        (i32.store offset={4 * MESSAGE_BYTES} (i32.const 0) (local.get $at)))))
  (func (export "printErrorMessage") (call $message (i32.const 1)))
  (func (export "writeBufferMessage") (call $message (i32.const 0)))
  (func (export "showSharedRWMemory")))
"""

DRIVER = f"""
(module
  (import "buffer" "memory" (memory $buffer 0))
  (import "generator" "memory" (memory $generator 0))
  (import "runtime" "table" (table 1 funcref))
  (import "generator" "getVersion" (func $version (result i32)))
  (import "generator" "getFieldNumLen32" (func $words (result i32)))
  (import "generator" "getRawPrime" (func $prime))
  (import "generator" "getSharedRWMemoryStart" (func $shared (result i32)))
  (import "generator" "init" (func $init (param i32)))
  (import "generator" "getInputSize" (func $inputs (result i32)))
  (import "generator" "getInputSignalSize" (func $size (param i32 i32) (result i32)))
  (import "generator" "setInputSignal" (func $set (param i32 i32 i32)))
  (import "generator" "getWitnessSize" (func $wires (result i32)))
  (import "generator" "getWitness" (func $wire (param i32)))
  (import "generator" "getMessageChar" (func $char (result i32)))
  (elem (i32.const 0) func $char)

  ;; one field element between the generator's shared words and the buffer
  (func $fetch (param $from i32) (param $to i32)
    (i64.store $buffer (local.get $to) (i64.load $generator (local.get $from)))
    (i64.store $buffer offset=8 (local.get $to) (i64.load $generator offset=8 (local.get $from)))
    (i64.store $buffer offset=16 (local.get $to) (i64.load $generator offset=16 (local.get $from)))
    (i64.store $buffer offset=24 (local.get $to) (i64.load $generator offset=24 (local.get $from))))
  (func $put (param $from i32) (param $to i32)
    (i64.store $generator (local.get $to) (i64.load $buffer (local.get $from)))
    (i64.store $generator offset=8 (local.get $to) (i64.load $buffer offset=8 (local.get $from)))
    (i64.store $generator offset=16 (local.get $to) (i64.load $buffer offset=16 (local.get $from)))
    (i64.store $generator offset=24 (local.get $to) (i64.load $buffer offset=24 (local.get $from))))

  ;; what the generator is; the prime is left out unless it has the size that the buffer has room for
  (func (export "probe")
    (i32.store $buffer offset={4 * VERSION} (i32.const 0) (call $version))
    (i32.store $buffer offset={4 * FIELD_WORDS} (i32.const 0) (call $words))
    (i32.store $buffer offset={4 * INPUT_SIZE} (i32.const 0) (call $inputs))
    (i32.store $buffer offset={4 * WITNESS_SIZE} (i32.const 0) (call $wires))
    (call $prime)
    (call $fetch (call $shared) (i32.const {PRIME})))

  (func (export "run") (param $records i32) (param $out i32) (param $wires i32) (result i32)
    (local $at i32) (local $record i32) (local $i i32) (local $count i32) (local $size i32) (local $total i32)
    (local $high i32) (local $low i32) (local $shared i32)
    (local.set $shared (call $shared))
    (call $init (i32.const 0))
    (local.set $at (i32.const {RECORDS}))
    (block $fed
      (loop $signal
        (i32.store $buffer offset={4 * RECORD} (i32.const 0) (local.get $record))
        (br_if $fed (i32.ge_u (local.get $record) (local.get $records)))
        (local.set $high (i32.load $buffer (local.get $at)))
        (local.set $low (i32.load $buffer offset=4 (local.get $at)))
        (local.set $count (i32.load $buffer offset=8 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (local.set $size (call $size (local.get $high) (local.get $low)))
        (i32.store $buffer offset={4 * SIZE} (i32.const 0) (local.get $size))
        (if (i32.lt_s (local.get $size) (i32.const 0)) (then (return (i32.const {UNKNOWN_SIGNAL}))))
        (if (i32.lt_u (local.get $count) (local.get $size)) (then (return (i32.const {TOO_FEW}))))
        (if (i32.gt_u (local.get $count) (local.get $size)) (then (return (i32.const {TOO_MANY}))))
        (local.set $i (i32.const 0))
        (block $set_all
          (loop $value
            (br_if $set_all (i32.ge_u (local.get $i) (local.get $count)))
            (call $put (local.get $at) (local.get $shared))
            (call $set (local.get $high) (local.get $low) (local.get $i))
            (local.set $at (i32.add (local.get $at) (i32.const 32)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (local.set $total (i32.add (local.get $total) (i32.const 1)))
            (br $value)))
        (local.set $record (i32.add (local.get $record) (i32.const 1)))
        (br $signal)))
    (i32.store $buffer offset={4 * SIZE} (i32.const 0) (local.get $total))
    (if (i32.lt_u (local.get $total) (call $inputs)) (then (return (i32.const {MISSING}))))
    (local.set $i (i32.const 0))
    (block $read
      (loop $value
        (br_if $read (i32.ge_u (local.get $i) (local.get $wires)))
        (call $wire (local.get $i))
        (call $fetch (local.get $shared) (i32.add (local.get $out) (i32.mul (local.get $i) (i32.const 32))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $value)))
    (i32.const {OK})))
"""
