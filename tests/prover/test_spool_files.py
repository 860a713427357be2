"""When an input of the spool looks complete, from the file alone."""

from pathlib import Path

import pytest

from prover.pipeline.spool_files import JSON, WTNS


def test_a_witness_file_looks_complete_only_when_it_is(tmp_path):
    whole = (Path(__file__).parent.parent / "fixtures" / "circom" / "shapes.wtns").read_bytes()
    path = tmp_path / "a.wtns"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert not WTNS.plausible(path) and not WTNS.whole(path), size
    path.write_bytes(whole)
    assert WTNS.plausible(path) and WTNS.whole(path)
    path.write_bytes(bytes(len(whole)))
    assert not WTNS.plausible(path), "room that was made, and nothing written yet"
    path.write_bytes(b"something else altogether")
    assert WTNS.plausible(path), "nothing to wait for"
    assert not WTNS.plausible(tmp_path / "none.wtns")


@pytest.mark.parametrize(
    ("text", "plausible", "whole"),
    [
        ("", False, False),
        ("{", False, False),
        ('{"a": {"x": 1}', True, False),
        ('{"a": 1}', True, True),
        ('{"a": 1}\n \n', True, True),
        ("[1]", False, True),
        ("{}}", True, False),
    ],
)
def test_when_an_input_file_looks_complete(tmp_path, text, plausible, whole):
    path = tmp_path / "a.json"
    path.write_text(text)
    assert (JSON.plausible(path), JSON.whole(path)) == (plausible, whole)
