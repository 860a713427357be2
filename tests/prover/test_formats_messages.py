"""One clear line for everything that can be wrong with a binary file: what, where (file, section, byte), what to do."""

import os
import struct

import pytest
from format_samples import CASES, N_CONSTRAINTS, N_PUBLIC, N_WIRES, small_zkey, write_small

from prover.curves import BLS12_381, BN254
from prover.errors import InputError
from prover.formats.errors import FormatError, printable
from prover.formats.r1cs import read_r1cs
from prover.formats.wtns import read_wtns
from prover.formats.zkey import SECTIONS, read_verifying_key, read_zkey

READERS = {"zkey": read_zkey, "wtns": read_wtns, "r1cs": read_r1cs}
REMAKE = "make or copy the file again"

BOTH_CURVES = pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda c: c.name)
ALL_KINDS = pytest.mark.parametrize("kind", ["zkey", "wtns", "r1cs"])


def faults(table):
    """A test for every row of a table: what is changed, and the parts of what is said of it."""
    return pytest.mark.parametrize(("change", "what", "where", "fix"), table, ids=[row[0] for row in table])


class File:
    """A binary file as its sections, to be changed and put together again."""

    def __init__(self, data):
        self.magic = data[:4]
        self.version = struct.unpack_from("<I", data, 4)[0]
        self.sections, at = [], 12
        for _ in range(struct.unpack_from("<I", data, 8)[0]):
            number, size = struct.unpack_from("<IQ", data, at)
            self.sections.append([number, bytearray(data[at + 12 : at + 12 + size])])
            at += 12 + size
        self.tail = b""

    def __getitem__(self, number):
        return next(data for n, data in self.sections if n == number)

    def start(self, number):
        at = 12
        for n, data in self.sections:
            if n == number:
                return at + 12
            at += 12 + len(data)
        raise KeyError(number)

    def put(self, number, at, value, size=4):
        self[number][at : at + size] = value.to_bytes(size, "little")

    def bytes(self):
        out = self.magic + struct.pack("<II", self.version, len(self.sections))
        return out + b"".join(struct.pack("<IQ", n, len(d)) + bytes(d) for n, d in self.sections) + self.tail


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return {c.name: write_small(tmp_path_factory.mktemp(c.name), c) for c in (BN254, BLS12_381)}


def message(tmp_path, kind, content):
    path = tmp_path / f"f.{kind}"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        READERS[kind](path)
    error = caught.value
    assert isinstance(error, InputError) and error.exit_code == 2
    assert error.path == str(path)
    return str(error).replace(str(path), "F")


def zkey_offsets(curve):
    """Where things lie in sections 2 and 4 of the small zkey: counts, points by name; entries by index."""
    counts = 4 + curve.fp.bytes + 4 + 32
    at, points = counts + 12, {}
    for name in ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"):
        points[name] = at
        at += 2 * curve.fp.bytes * int(name[-1])
    return counts, points


COMMON = {
    "magic": lambda f: setattr(f, "magic", b"\x7fELF"),
    "version": lambda f: setattr(f, "version", 7),
    "tail": lambda f: setattr(f, "tail", b"xyz"),
    "twice": lambda f: f.sections.append([1, f[1]]),
    "missing": lambda f: f.sections.remove([1, f[1]]),
}


@ALL_KINDS
@pytest.mark.parametrize("change", COMMON)
def test_container(small, tmp_path, kind, change):
    file = File(small["bn254"][kind].read_bytes())
    size = len(file.bytes())
    names = {"zkey": "protocol", "wtns": "header", "r1cs": "header"}
    expected = {
        "magic": f"not a {kind} file (magic b'\\x7fELF'): F, byte 0: give a {kind} file",
        "version": f"{kind} version 7, not {file.version}: F, byte 4: convert the file",
        "tail": f"3 bytes after the last section: F, byte {size}: {REMAKE}",
        "twice": f"section occurs twice: F, section 1 ({names[kind]}), byte {size}: {REMAKE}",
        "missing": f"section 1 is missing: F: {REMAKE}",
    }[change]
    COMMON[change](file)
    assert message(tmp_path, kind, file.bytes()) == expected


@ALL_KINDS
def test_truncated_or_claiming(small, tmp_path, kind):
    data = small["bn254"][kind].read_bytes()
    assert message(tmp_path, kind, b"") == f"not a {kind} file (empty file): F, byte 0: give a {kind} file"
    assert message(tmp_path, kind, data[:9]) == f"file truncated in its header: F, byte 9: {REMAKE}"
    assert "file truncated: section of" in message(tmp_path, kind, data[:-1])
    many = data[:8] + struct.pack("<I", 1 << 31) + data[12:]
    assert message(tmp_path, kind, many) == f"{1 << 31} sections, at most 64 are plausible: F, byte 8: {REMAKE}"
    one_more = data[:8] + struct.pack("<I", data[8] + 1) + data[12:]
    expected = f"file truncated: {data[8] + 1} sections promised, {data[8]} found: F, byte {len(data)}: {REMAKE}"
    assert message(tmp_path, kind, one_more) == expected
    huge = data[:16] + struct.pack("<Q", 2**64 - 1) + data[24:]
    assert f"section of {2**64 - 1} bytes, {len(data) - 24} left" in message(tmp_path, kind, huge)


ZKEY = [
    # what is changed (section, byte, value, size), the message up to "F", where, what to do
    ("protocol", "protocol plonk, only groth16 is proved", "{n1}, byte 24", "make a groth16 key"),
    ("n8q", "field elements of 7 bytes are not plausible", "{n2}, byte {s2}", REMAKE),
    ("q", "unknown curve", "{n2}, byte {s2}", None),
    ("r", "the scalar field is not that of {curve}", "{n2}, byte {r}", REMAKE),
    ("domain_not_power", "domain of 7 is not a power of two", "{n2}, byte {domain}", REMAKE),
    ("domain_zero", "domain of 0 is not a power of two", "{n2}, byte {domain}", REMAKE),
    ("public", "9 public inputs and the constant in 5 wires", "{n2}, byte {counts}", REMAKE),
    ("wires", "{five} bytes where 6 points of {g1} bytes makes {six}", "{n5}, byte {s5}", REMAKE),
    ("delta_unreduced", "delta_g2: coordinate not below the field modulus", "{n2}, byte {delta}", REMAKE),
    ("delta_off", "delta_g2: point not on the curve", "{n2}, byte {delta}", REMAKE),
    ("delta_infinity", "delta_g2: point at infinity", "{n2}, byte {delta}", REMAKE),
    ("ic", "point 1: coordinate not below the field modulus", "{n3}, byte {ic}", REMAKE),
    ("header_short", "section too short: 4 bytes wanted at 0, it has 3", "{n1}, byte 24", REMAKE),
    ("header_long", "1 bytes too many", "{n1}, byte 28", REMAKE),
    ("count", "{c} bytes where 4294967295 entries of 44 bytes makes 188978560984", "{n4}, byte {s4}", REMAKE),
    ("matrix", "coefficient 3: matrix is out of range, A and B exist", "{n4}, byte {e3}", REMAKE),
    ("constraint", "coefficient 3: constraint is out of range, 3 exist", "{n4}, byte {e3_4}", REMAKE),
    ("signal", "coefficient 3: signal is out of range, 5 exist", "{n4}, byte {e3_8}", REMAKE),
    ("value", "coefficient 3: value is not below the field modulus", "{n4}, byte {e3_12}", REMAKE),
    ("input_signal", "coefficient 9: not the input row that belongs here", "{n4}, byte {e9}", REMAKE),
    ("input_value", "coefficient 9: not the input row that belongs here", "{n4}, byte {e9}", REMAKE),
    ("constraints", "9 constraints and 2 input rows exceed the domain of 8", "{n4}, byte {e8_4}", REMAKE),
    ("no_inputs", "1 entries, 2 input rows alone need as many", "{n4}, byte {s4}", REMAKE),
    ("hash", "67 bytes, at least 68 are needed", "{n10}, byte {s10}", REMAKE),
]  # fmt: skip


@BOTH_CURVES
@faults(ZKEY)
def test_zkey(small, tmp_path, curve, change, what, where, fix):
    file = File(small[curve.name]["zkey"].read_bytes())
    counts, points = zkey_offsets(curve)
    size, all_ones = curve.fp.bytes, (1 << 8 * curve.fp.bytes) - 1
    entry = [4 + 44 * i for i in range(10)]
    changes = {
        "protocol": lambda: file.put(1, 0, 2),
        "n8q": lambda: file.put(2, 0, 7),
        "q": lambda: file.put(2, 4, curve.fp.modulus - 2, size),
        "r": lambda: file.put(2, 8 + size, curve.fr.modulus - 2, 32),
        "domain_not_power": lambda: file.put(2, counts + 8, 7),
        "domain_zero": lambda: file.put(2, counts + 8, 0),
        "public": lambda: file.put(2, counts + 4, 9),
        "wires": lambda: file.put(2, counts, 6),
        "delta_unreduced": lambda: file.put(2, points["delta_g2"], all_ones, size),
        "delta_off": lambda: file.put(2, points["delta_g2"], 1, size),
        "delta_infinity": lambda: file.put(2, points["delta_g2"], 0, 4 * size),
        "ic": lambda: file.put(3, 2 * size, all_ones, size),
        "header_short": file[1].pop,
        "header_long": lambda: file[1].append(0),
        "count": lambda: file.put(4, 0, 0xFFFFFFFF),
        "matrix": lambda: file.put(4, entry[3], 2),
        "constraint": lambda: file.put(4, entry[3] + 4, N_CONSTRAINTS),
        "signal": lambda: file.put(4, entry[3] + 8, N_WIRES),
        "value": lambda: file.put(4, entry[3] + 12, curve.fr.modulus, 32),
        "input_signal": lambda: file.put(4, entry[9] + 8, 0),
        "input_value": lambda: file.put(4, entry[9] + 12, 1, 32),
        "constraints": lambda: file.put(4, entry[8] + 4, 9),
        "no_inputs": lambda: (file.put(4, 0, 1), file[4].__delitem__(slice(48, None))),
        "hash": file[10].pop,
    }
    coefficients = len(file[4])
    assert file.sections and coefficients == 4 + 44 * 10
    changes[change]()
    start = {f"s{n}": file.start(n) for n in range(1, 11)}
    fields = start | {f"n{n}": f"section {n} ({name})" for n, name in SECTIONS.items()}
    fields |= {
        "curve": curve.spelling,
        "r": start["s2"] + 4 + size,
        "counts": start["s2"] + counts,
        "domain": start["s2"] + counts + 8,
        "delta": start["s2"] + points["delta_g2"],
        "five": 5 * 2 * size,
        "six": 6 * 2 * size,
        "g1": 2 * size,
        "ic": start["s3"] + 2 * size,
        "c": coefficients,
        "e3": start["s4"] + entry[3],
        "e3_4": start["s4"] + entry[3] + 4,
        "e3_8": start["s4"] + entry[3] + 8,
        "e3_12": start["s4"] + entry[3] + 12,
        "e8_4": start["s4"] + entry[8] + 4,
        "e9": start["s4"] + entry[9],
    }
    fix = fix or "give a key of one of the curves bls12-381 and bn128"
    assert message(tmp_path, "zkey", file.bytes()) == f"{what}: F, {where}: {fix}".format(**fields)


def test_small_zkey_is_what_the_table_assumes(small):
    key = read_zkey(small["bn254"]["zkey"])
    assert (key.a.nnz, key.b.nnz, key.rows) == (5 + N_PUBLIC + 1, 3, N_CONSTRAINTS + N_PUBLIC + 1)
    assert key.verifying_key() == read_verifying_key(small["bn254"]["zkey"])


def test_domain_beyond_the_two_adicity(small, tmp_path):
    file = File(small["bn254"]["zkey"].read_bytes())
    counts, _ = zkey_offsets(BN254)
    file.put(2, counts + 8, 1 << 29)
    assert "domain of 2^29 exceeds the two-adicity 2^28 of bn128" in message(tmp_path, "zkey", file.bytes())


WTNS = [
    ("n8", "field elements of 0 bytes are not plausible", "section 1 (header), byte 24", REMAKE),
    ("prime", "unknown scalar field", "section 1 (header), byte 24", "compile the circuit for one of the curves "
        "bls12-381 and bn128"),
    ("count", "160 bytes where 6 values of 32 bytes makes 192", "section 2 (values), byte 76", REMAKE),
    ("none", "no values, a witness starts with the constant 1", "section 1 (header), byte 24", REMAKE),
    ("one", "the first value is not 1", "section 2 (values), byte 76", "make the witness again from its inputs"),
    ("value", "value 4 is not below the field modulus", "section 2 (values), byte 204", REMAKE),
]  # fmt: skip


@BOTH_CURVES
@faults(WTNS)
def test_wtns(small, tmp_path, curve, change, what, where, fix):
    file = File(small[curve.name]["wtns"].read_bytes())
    {
        "n8": lambda: file.put(1, 0, 0),
        "prime": lambda: file.put(1, 4, curve.fr.modulus - 2, 32),
        "count": lambda: file.put(1, 36, 6),
        "none": lambda: (file.put(1, 36, 0), file[2].clear()),
        "one": lambda: file.put(2, 0, 2),
        "value": lambda: file.put(2, 128, curve.fr.modulus, 32),
    }[change]()
    assert message(tmp_path, "wtns", file.bytes()) == f"{what}: F, {where}: {fix}"


R1CS = [
    ("prime", "unknown scalar field", "section 1 (header), byte 24", "compile the circuit for one of the curves "
        "bls12-381 and bn128"),
    ("inputs", "1 outputs, 0 public and 4 private inputs and the constant in 5 wires", "section 1 (header), byte 60",
        REMAKE),
    ("labels", "40 bytes where 6 labels of 8 bytes makes 48", "section 3 (labels), byte {s3}", REMAKE),
    ("gates", "custom gates", "section 4 (custom gates), byte {s4}", "Groth16 has none: compile without them"),
    ("constraints", "1000 constraints promised, {size} bytes are too few", "section 2 (constraints), byte {s2}",
        REMAKE),
    ("more", "4 constraints promised, the section ends after 3",
        "section 2 (constraints), byte {last}", REMAKE),
    ("fewer", "{rest} bytes after the last constraint", "section 2 (constraints), byte {third}", REMAKE),
    ("overrun_early", "constraint 0, A: more entries than the section holds", "section 2 (constraints), byte {s2}",
        REMAKE),
    ("overrun", "constraint 2, C: more entries than the section holds",
        "section 2 (constraints), byte {c2}", REMAKE),
    ("wire", "wire 5 is out of range, 5 exist", "section 2 (constraints), byte {pair}", REMAKE),
    ("value", "coefficient is not below the field modulus", "section 2 (constraints), byte {pair4}", REMAKE),
    ("odd", "{odd} bytes are no multiple of 4", "section 2 (constraints), byte {s2}", REMAKE),
]  # fmt: skip


@BOTH_CURVES
@faults(R1CS)
def test_r1cs(small, tmp_path, curve, change, what, where, fix):
    file = File(small[curve.name]["r1cs"].read_bytes())
    size, pair = len(file[2]), 36
    third = 2 * (3 * (4 + pair))  # the first two constraints have one entry in each combination
    {
        "prime": lambda: file.put(1, 4, curve.fr.modulus - 2, 32),
        "inputs": lambda: file.put(1, 48, 4),
        "labels": lambda: file.put(1, 36, 6),
        "gates": lambda: file.sections.append([4, bytearray(b"\1\0\0\0")]),
        "constraints": lambda: file.put(1, 60, 1000),
        "more": lambda: file.put(1, 60, N_CONSTRAINTS + 1),
        "fewer": lambda: file.put(1, 60, N_CONSTRAINTS - 1),
        "overrun": lambda: file.put(2, size - pair - 4, 0x7FFFFFFF),
        "overrun_early": lambda: file.put(2, 0, 0x7FFFFFFF),
        "wire": lambda: file.put(2, 4, 5),
        "value": lambda: file.put(2, 8, curve.fr.modulus, 32),
        "odd": lambda: file[2].append(0),
    }[change]()
    start = {f"s{n}": file.start(n) for n, _ in file.sections}
    fields = start | {
        "size": size,
        "odd": size + 1,
        "last": start["s2"] + size,
        "third": start["s2"] + third,
        "rest": size - third,
        "c2": start["s2"] + size - pair - 4,
        "pair": start["s2"] + 4,
        "pair4": start["s2"] + 8,
    }
    assert message(tmp_path, "r1cs", file.bytes()) == f"{what}: F, {where}: {fix}".format(**fields)


def test_files_that_cannot_be_read(tmp_path):
    folder = CASES[0][1]
    for path, what in (
        (tmp_path / "none.zkey", "cannot read: No such file or directory"),
        (tmp_path, "not a regular file"),
        (folder / "circuit.zkey" / "x", "cannot read: Not a directory"),
        ("a\0b", "cannot read: embedded null byte"),
    ):
        with pytest.raises(FormatError) as caught:
            read_zkey(path)
        assert str(caught.value).startswith(what)
        assert "\0" not in str(caught.value)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.zkey")
    with pytest.raises(FormatError, match="not a regular file"):
        read_zkey(tmp_path / "pipe.zkey")


def test_kinds_are_not_taken_for_each_other(small):
    for kind, reader in READERS.items():
        for other in READERS.keys() - {kind}:
            with pytest.raises(FormatError, match=f"not a {kind} file"):
                reader(small["bn254"][other])


def test_names_with_control_characters_stay_on_one_line(tmp_path):
    path = tmp_path / "two\nlines\x1b[31m.zkey"
    path.write_bytes(b"nope")
    with pytest.raises(FormatError) as caught:
        read_zkey(path)
    assert "\\n" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["", "a", "é\n", "\udcff", "x" * 1000])
def test_printable_is_short_and_printable(text):
    assert printable(text).isprintable() and len(printable(text)) <= 204


def test_a_writer_refuses_what_no_reader_would_take(tmp_path):
    import dataclasses

    from prover.formats.zkey import write_zkey

    key = small_zkey(BN254)
    for wrong in (
        dataclasses.replace(key, a_query=key.a_query[:-8]),
        dataclasses.replace(key, n_public=N_PUBLIC + 1),
        dataclasses.replace(key, a=key.b),
        dataclasses.replace(key, circuit_hash=b""),
    ):
        with pytest.raises(ValueError):
            write_zkey(tmp_path / "a.zkey", wrong)
    assert not list(tmp_path.iterdir())
