"""Witness files (``.wtns``, version 2): section 1 u32 n8, prime, u32 count; section 2 the values, canonical."""

from __future__ import annotations

from prover import buffers, native
from prover.buffers import BufferLike
from prover.curves import Curve
from prover.formats.atomic import atomic_file
from prover.formats.container import ContainerWriter, Cursor, open_container, read_prime, scalar_field_curve
from prover.formats.errors import StrPath
from prover.lean_dataclass import dataclass

MAGIC = b"wtns"
VERSION = 2
SECTIONS = {1: "header", 2: "values"}


@dataclass(frozen=True, slots=True)
class Wtns:
    """A witness as its file holds it."""

    curve: Curve
    values: memoryview
    """``uint64[n, 4]``, canonical, row 0 is 1; a view of the mapped file, maybe unaligned."""
    path: str = ""

    def public_inputs(self, n_public: int) -> list[int]:
        """The values of wires 1 .. n_public, as integers."""
        size = self.curve.fr.bytes
        data = self.values.cast("B")[size : (n_public + 1) * size]
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def __len__(self) -> int:
        return len(self.values)


def read_wtns(path: StrPath, *, mapped: bool = True) -> Wtns:
    """Map a witness file, or copy it (``mapped=False``). Checks that the field is one of ours, that ``w[0]`` is 1
    and that every value is below r.

    Raises:
        FormatError: what is wrong, in which section, at which byte.
    """
    container = open_container(path, MAGIC, VERSION, SECTIONS, mapped=mapped)
    header = Cursor(container.section(1))
    n8, prime = read_prime(header)
    curve = scalar_field_curve(header.section, n8, prime, 0)
    count = header.u32()
    header.end()
    data = container.section(2)
    values = data.rows(count, curve.fr.limbs, "values")
    if count == 0:
        raise header.section.error("no values, a witness starts with the constant 1")
    if int.from_bytes(data.data[:n8], "little") != 1:
        raise data.error("the first value is not 1", fix="make the witness again from its inputs")
    bad = native.field_check(native.fr(curve), values)
    if bad is not None:
        raise data.error(f"value {bad} is not below the field modulus", bad * n8)
    return Wtns(curve, values, container.path)


def write_wtns(path: StrPath, curve: Curve, values: BufferLike) -> None:
    """Write ``uint64[n, 4]`` canonical values atomically.

    Raises:
        WriteError: if the file cannot be written.
        ValueError: if the buffer is not of whole values.
    """
    rows = buffers.as_rows(values, curve.fr.limbs)
    n8 = curve.fr.bytes
    with atomic_file(path) as stream:
        out = ContainerWriter(stream, MAGIC, VERSION, 2)
        out.section(
            1,
            n8.to_bytes(4, "little")
            + curve.fr.modulus.to_bytes(n8, "little")
            + (rows.nbytes // n8).to_bytes(4, "little"),
        )
        out.section(2, rows)
