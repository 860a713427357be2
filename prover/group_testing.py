"""Finding the few bad ones among many by testing them in groups (Dorfman, 1943): halves of what failed, again."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def faulty(count: int, sound: Callable[[Sequence[int]], bool]) -> list[int]:
    """Which of ``count`` things are not sound, in order.

    ``sound(indices)`` tells whether all of these are. One that is called faulty failed a test of its own. One test if
    all are sound; at most about ``2 log2(count)`` more for each that is not.
    """

    def search(first: int, last: int, known: bool) -> list[int]:
        """Those in ``first <= i < last``; ``known``: there is one at least."""
        alone = last - first == 1
        if (alone or not known) and sound(range(first, last)):
            return []
        if alone:
            return [first]
        middle = (first + last) // 2
        left = search(first, middle, known=False)
        return left + search(middle, last, known=not left)

    return search(0, count, known=False) if count else []


__all__ = ["faulty"]
