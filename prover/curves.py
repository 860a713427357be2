"""The two pairing-friendly curves as tables; everything else is derived.

Only moduli, curve coefficients and parameters, generators and tower non-residues are data here. Montgomery constants,
roots of unity and sizes are computed. ``python -m prover.curves`` prints ``kernels/params.cuh``.

Sources: BLS12-381: draft-irtf-cfrg-pairing-friendly-curves, section 4.2.1. BN254 ("alt_bn128", the ``bn128``
of snarkjs): EIP-196 and EIP-197.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    RootConvention = Literal["snarkjs", "bellman"]
else:
    RootConvention = str
"""Which generator of Fr* the evaluation domain's roots of unity derive from (5 or 7)."""


@dataclass(frozen=True)
class PrimeField:
    """A prime field in Montgomery representation over 64-bit limbs (two 32-bit limbs each on a GPU)."""

    name: str
    modulus: int
    generator: int = 0
    """The smallest quadratic non-residue (0 where no evaluation domain is needed)."""

    @property
    def bits(self) -> int:
        """Length of the modulus in bits."""
        return self.modulus.bit_length()

    @property
    def limbs(self) -> int:
        """64-bit limbs of an element."""
        return (self.bits + 63) // 64

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory and in snarkjs files (``n8``)."""
        return 8 * self.limbs

    @property
    def r(self) -> int:
        """Montgomery radix 2^(64*limbs) modulo the modulus."""
        return pow(2, 64 * self.limbs, self.modulus)

    @property
    def r2(self) -> int:
        """Square of the Montgomery radix."""
        return self.r * self.r % self.modulus

    @property
    def two_adicity(self) -> int:
        """Largest s with 2^s dividing modulus - 1."""
        return ((self.modulus - 1) & -(self.modulus - 1)).bit_length() - 1

    def to_montgomery(self, value: int) -> int:
        """``value * R mod p``."""
        return value * self.r % self.modulus

    def from_montgomery(self, value: int) -> int:
        """``value / R mod p``."""
        return value * self._r_inverse % self.modulus

    @functools.cached_property
    def _r_inverse(self) -> int:
        return pow(self.r, -1, self.modulus)


G1Point = tuple[int, int] | None
"""Affine canonical coordinates; ``None`` is the point at infinity."""
Fp2Element = tuple[int, int]
G2Point = tuple[Fp2Element, Fp2Element] | None


@dataclass(frozen=True)
class Curve:
    """A pairing-friendly curve: y^2 = x^3 + b over Fp, its twist over Fp2 = Fp[u]/(u^2+1), order r."""

    index: int
    """The curve's number in the native interface."""
    name: str
    spelling: str
    """Its one name in messages and help."""
    snarkjs_name: str
    """Spelling in snarkjs's JSON files."""
    fp: PrimeField
    fr: PrimeField
    b: int
    b2: Fp2Element
    g1: tuple[int, int]
    g2: tuple[Fp2Element, Fp2Element]
    x: int
    """The parameter of the curve's family (BLS12 or BN), which the moduli are polynomials of."""
    xi: Fp2Element
    """The non-residue xi of Fp2 that the twist divides or multiplies b by, and that Fp12 adjoins a sixth root of."""
    aliases: tuple[str, ...] = ()

    def root_of_unity(self, log_n: int, convention: RootConvention = "snarkjs") -> int:
        """Primitive 2^log_n-th root of unity of Fr (canonical).

        ``snarkjs`` domains derive from the smallest non-residue (5 for both curves), ``bellman`` ones on
        BLS12-381 from 7; the domains are the same sets in another order.

        Raises:
            ValueError: if ``log_n`` exceeds the two-adicity of Fr.
        """
        s = self.fr.two_adicity
        if not 0 <= log_n <= s:
            raise ValueError(f"domain of 2^{log_n} is larger than the two-adicity 2^{s} of {self.spelling} Fr")
        generator = self.fr.generator if convention == "snarkjs" else 7
        if convention == "bellman" and self.name != "bls12-381":
            raise ValueError(f"the bellman convention is defined for bls12-381, not {self.spelling}")
        root = pow(generator, (self.fr.modulus - 1) >> s, self.fr.modulus)
        return pow(root, 1 << (s - log_n), self.fr.modulus)

    def coset_shift(self, log_n: int) -> int:
        """The shift of snarkjs's odd coset: a primitive 2^(log_n+1)-th root, or 25 at the field's limit."""
        if log_n == self.fr.two_adicity:
            return self.fr.generator**2
        return self.root_of_unity(log_n + 1)


BLS12_381 = Curve(
    index=0,
    name="bls12-381",
    spelling="bls12-381",
    snarkjs_name="bls12381",
    fp=PrimeField(
        "Bls12381Fp",
        0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
    ),
    fr=PrimeField("Bls12381Fr", 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001, generator=5),
    b=4,
    b2=(4, 4),
    g1=(
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ),
    g2=(
        (
            0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
            0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        ),
        (
            0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
            0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
        ),
    ),
    x=-0xD201000000010000,
    xi=(1, 1),
    aliases=("bls12381", "bls12-381", "bls12_381"),
)

BN254 = Curve(
    index=1,
    name="bn254",
    spelling="bn128",
    snarkjs_name="bn128",
    fp=PrimeField("Bn254Fp", 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47),
    fr=PrimeField("Bn254Fr", 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001, generator=5),
    b=3,
    b2=(
        0x2B149D40CEB8AAAE81BE18991BE06AC3B5B4C5E559DBEFA33267E6DC24A138E5,
        0x009713B03AF0FED4CD2CAFADEED8FDF4A74FA084E52D1852E4A2BD0685C315D2,
    ),
    g1=(1, 2),
    g2=(
        (
            0x1800DEEF121F1E76426A00665E5C4479674322D4F75EDADD46DEBD5CD992F6ED,
            0x198E9393920D483A7260BFB731FB5D25F1AA493335A9E71297E485B7AEF312C2,
        ),
        (
            0x12C85EA5DB8C6DEB4AAB71808DCB408FE3D1E7690C43D37B4CE6CC0166FA7DAA,
            0x090689D0585FF075EC9E99AD690C3395BC4B313370B38EF355ACDADCD122975B,
        ),
    ),
    x=0x44E992B44A6909F1,
    xi=(9, 1),
    aliases=("bn128", "bn254", "alt_bn128"),
)

CURVES: tuple[Curve, ...] = (BLS12_381, BN254)


def curve(key: str | int) -> Curve:
    """The curve with this name (any spelling in use) or this base-field modulus.

    Raises:
        KeyError: if there is none.
    """
    for candidate in CURVES:
        if key == candidate.fp.modulus or (isinstance(key, str) and key.lower() in candidate.aliases):
            return candidate
    raise KeyError(f"unknown curve {key if isinstance(key, str) else hex(key)}")


def fields() -> Iterator[PrimeField]:
    """The four prime fields, in the order of their numbers in the native interface."""
    for c in CURVES:
        yield c.fp
        yield c.fr


def _limbs(name: str, value: int, n: int) -> list[str]:
    limbs = [f"0x{(value >> (32 * i)) & 0xFFFFFFFF:08x}u" for i in range(n)]
    rows = [", ".join(limbs[i : i + 6]) for i in range(0, n, 6)]
    return [f"  static constexpr uint32_t {name}[{n}] = {{", *(f"      {row}," for row in rows), "  };"]


def params_header() -> str:
    """The text of ``kernels/params.cuh``: the four moduli as 32-bit little-endian limbs, the curves' small numbers."""
    out = [
        "// Generated by `python -m prover.curves`; a test compares it with prover/curves.py. Do not edit.",
        "#pragma once",
        '#include "portable.cuh"',
        "",
        "namespace czk {",
        "",
    ]
    for index, field in enumerate(fields()):
        out += [
            f"struct {field.name} {{",
            f"  static constexpr int kIndex = {index};",
            f"  static constexpr int kBits = {field.bits};",
            f"  static constexpr int kLimbs32 = {2 * field.limbs};",
            *_limbs("kModulus", field.modulus, 2 * field.limbs),
            "};",
            "",
        ]
    out += [
        "// y^2 = x^3 + b over Fp; the twist multiplies or divides b by xi = kXi + u; kX is the family's parameter."
    ]
    for c in CURVES:
        n = 2 * c.fp.limbs
        out += [
            f"struct {c.fp.name.removesuffix('Fp')}Curve {{",
            f"  static constexpr uint32_t kB = {c.b};",
            f"  static constexpr uint32_t kXi = {c.xi[0]};",
            f"  static constexpr bool kTwistMultiplies = {str(c.b2 == (c.b * c.xi[0], c.b * c.xi[1])).lower()};",
            f"  static constexpr uint64_t kX = 0x{abs(c.x):016x}u;",
            f"  static constexpr bool kXIsNegative = {str(c.x < 0).lower()};",
            "  // The generator of G1, canonical.",
            *_limbs("kG1X", c.g1[0], n),
            *_limbs("kG1Y", c.g1[1], n),
            "};",
            "",
        ]
    out += ["}  // namespace czk", ""]
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(params_header())
