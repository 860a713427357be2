"""Errors that a person reads: one line that says what, where and what to do, and the exit code it stands for.

Exit codes (the contract): 1 the answer is no, 2 unusable input or options, 3 the machine lacks something.
"""

from __future__ import annotations


class ProverError(Exception):
    """Base of every expected failure. ``str()`` is one line: ``what: where: what to do``."""

    exit_code = 2

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(": ".join(part for part in (what, where, fix) if part))


class InputError(ProverError):
    """A file, a number or an option that cannot be used."""


class AnswerIsNo(ProverError):
    """The question was understood, and the answer is no: an invalid proof, a failed job."""

    exit_code = 1


class MachineLacks(ProverError):
    """Something that the command needs is missing on this machine."""

    exit_code = 3
