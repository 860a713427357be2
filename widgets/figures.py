"""Figures as people read them: three significant digits, a unit, and a width that does not change from tick to tick."""

from __future__ import annotations

import math

UNKNOWN = "–"
_KIB = 1024.0
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def significant(value: float, digits: int = 3) -> str:
    """A non-negative number with ``digits`` significant digits and no exponent: 0.04, 2.41, 25.0, 412, 5120."""
    if value <= 0 or not math.isfinite(value):
        return f"{0:.{digits - 1}f}"
    decimals = max(0, min(digits - 1, digits - 1 - math.floor(math.log10(value))))
    text = f"{value:.{decimals}f}"
    # Rounding may have gained a digit (9.996 -> 10.00).
    if decimals and len(text.replace(".", "").lstrip("0")) > digits:
        text = f"{value:.{decimals - 1}f}"
    return text


def seconds(value: float | None, width: int = 0) -> str:
    """A length of time: ``85 ms``, ``1.93 s``, ``25.0 s``, ``140 s``, ``12 min``, ``3.2 h``."""
    if value is None:
        text = f"{UNKNOWN} s"
    elif value < 0.0995:
        text = f"{value * 1000:.0f} ms"
    elif value < 599.5:
        text = f"{significant(value)} s"
    elif value < 5970:
        text = f"{value / 60:.0f} min"
    else:
        text = f"{value / 3600:.1f} h"
    return text.rjust(width)


def short_seconds(value: float) -> str:
    """Seconds without a unit, for ranges: ``0.31``, ``1.5``, ``25``."""
    if value < 9.95:
        return f"{value:.2f}" if value < 0.995 else f"{value:.1f}"
    return f"{value:.0f}"


def percent(value: float | None) -> str:
    """A percentage of 0..100 in five cells: `` 61 %``, ``100 %``, ``  – %``."""
    return f"{UNKNOWN:>3} %" if value is None else f"{min(999.0, max(0.0, value)):3.0f} %"


def rate(value: float | None, width: int = 4) -> str:
    """Things a minute, three significant digits, right-aligned."""
    return (UNKNOWN if value is None else significant(value)).rjust(width)


def size(value: float | None) -> str:
    """Bytes with a binary unit: ``18.2 GiB``."""
    if value is None:
        return UNKNOWN
    unit = 0
    while value >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value /= _KIB
        unit += 1
    return f"{significant(value) if unit else f'{value:.0f}'} {_SIZE_UNITS[unit]}"


def used_of(used: float | None, total: float | None) -> str:
    """``1.20 of 24.0 GiB``: both in the unit of the total, but for a use that would be told as 0 in it."""
    if total is None or total <= 0:
        return size(used)
    if used is None:
        return f"{UNKNOWN} of {size(total)}"
    number, unit = size(total).split(" ")
    factor = _KIB ** _SIZE_UNITS.index(unit)
    decimals = max(len(number.partition(".")[2]), 1 if used / factor < 10 else 0)
    told = f"{used / factor:.{decimals}f}"
    return f"{size(used)} of {number} {unit}" if used and not float(told) else f"{told} of {number} {unit}"


def span(value: float) -> str:
    """A stretch of time on an axis: ``60 s``, ``5 min``."""
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def ago(value: float) -> str:
    """The label of a point on a time axis: ``60 s ago``, ``5 min ago``."""
    return f"{span(value)} ago"
