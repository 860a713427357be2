"""GPUs counted three ways: by the driver, by CUDA, by what a proof can use. In one line, with why and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Census:
    """``driver`` is ``None`` where NVML does not open. ``why`` is ``None`` where a GPU can be used."""

    driver: int | None
    cuda: int
    usable: int
    why: str | None
    fix: str = ""

    @property
    def counts(self) -> str:
        """``driver 1, CUDA 1, usable 0``."""
        return f"driver {self.driver or 0}, CUDA {self.cuda}, usable {self.usable}"

    @property
    def line(self) -> str:
        """All of it."""
        return f"GPUs: {self.counts}" + (f": {self.why}" if self.why else "")

    @property
    def short_why(self) -> str:
        """The reason without its details."""
        return (self.why or "").partition(" (")[0]


def take_census(driver: int | None, problem: str | None, fix: str = "") -> Census:
    """Ask CUDA besides. ``driver`` and ``problem`` are what NVML said. Loads no CuPy; may take a second."""
    from prover.device.cuda_probe import probe

    status = probe()
    why = status.why
    if why is not None and not status.gpus and problem is not None:
        why = problem  # NVML knows better why nothing answers
        return Census(driver, 0, 0, why, fix or status.fix)
    return Census(driver, len(status.gpus), len(status.usable), why, status.fix)
