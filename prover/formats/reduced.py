"""Whether field elements in limb arrays are below their modulus, without turning them into integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def first_unreduced(values: npt.NDArray[Any], modulus: int) -> int | None:
    """Index of the first row of ``uint64[n, limbs]`` that is not below ``modulus``; any strides and alignment.

    One pass over the top limbs decides all but about one element in 2^60.
    """
    limbs = values.shape[1]
    bound = [(modulus >> (64 * i)) & 0xFFFFFFFFFFFFFFFF for i in range(limbs)]
    top = values[:, limbs - 1]
    if len(top) == 0 or int(top.max()) < bound[-1]:
        return None
    suspects = np.flatnonzero(top >= np.uint64(bound[-1]))
    equal = np.ones(len(suspects), dtype=bool)
    below = np.zeros(len(suspects), dtype=bool)
    for i in reversed(range(limbs)):
        column = values[suspects, i]
        below |= equal & (column < np.uint64(bound[i]))
        equal &= column == np.uint64(bound[i])
    bad = suspects[~below]
    return int(bad[0]) if len(bad) else None
