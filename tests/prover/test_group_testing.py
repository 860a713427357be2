"""Bad ones among good ones are found by tests of groups: all of them, none else, in few tests."""

import math

from hypothesis import given
from hypothesis import strategies as st

from prover.group_testing import faulty


@given(st.lists(st.booleans(), max_size=40))
def test_the_bad_ones_are_found_and_each_failed_alone(bad):
    tests = []

    def sound(some):
        tests.append(tuple(some))
        return not any(bad[i] for i in some)

    found = faulty(len(bad), sound)
    assert found == [i for i, it_is in enumerate(bad) if it_is]
    assert all((i,) in tests for i in found)
    assert len(tests) == len(set(tests)) and () not in tests
    depth = math.ceil(math.log2(max(len(bad), 2)))
    assert len(tests) <= 1 + len(found) * (2 * depth + 1)
    if bad and not found:
        assert tests == [tuple(range(len(bad)))]
