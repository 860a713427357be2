"""Amalgamated kernel sources: whole, each header once, lines that point home."""

import re

import pytest

from prover.device import source
from prover.errors import MachineLacks


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "kernel_folder", lambda: tmp_path)
    source.amalgamated.cache_clear()
    yield tmp_path
    source.amalgamated.cache_clear()


def test_headers_come_once_and_lines_point_to_their_files(folder):
    (folder / "a.cuh").write_text("#pragma once\nint a;\n")
    (folder / "b.cuh").write_text('#pragma once\n#include "a.cuh"\n#include <cstdint>\nint b;\n')
    (folder / "k.cu").write_text('// kernel\n#include "b.cuh"\n  #  include "a.cuh"  // again\nint k;\n')
    text = source.amalgamated("k.cu")
    assert [text.count(f"int {name};") for name in "abk"] == [1, 1, 1]
    assert '#include "' not in text
    assert "#include <cstdint>" in text  # the compiler's own, behind a condition in portable.cuh
    assert "#pragma once" not in text
    where = {}
    for line in text.splitlines():
        mark = re.fullmatch(r'#line (\d+) "prover/kernels/(\S+)"', line)
        if mark:
            number, name = int(mark[1]), mark[2]
            continue
        where[line] = (name, number)
        number += 1
    assert where["int a;"] == ("a.cuh", 2)
    assert where["int b;"] == ("b.cuh", 4)
    assert where["int k;"] == ("k.cu", 4)


def test_a_missing_header_is_named(folder):
    (folder / "k.cu").write_text('#include "gone.cuh"\n')
    with pytest.raises(MachineLacks, match=r"kernel source not readable: .*gone\.cuh"):
        source.amalgamated("k.cu")


def test_ours_are_whole():
    text = source.amalgamated("ntt.cu")
    assert source.digest(text) != source.digest(source.amalgamated("vector.cu"))
    assert text.count("class CarryChain") == 2  # for a GPU and for a host compiler
