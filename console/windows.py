"""How much time the lanes can cover."""

WINDOWS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds, of which the operator chooses one."""
DEFAULT_WINDOW = WINDOWS[2]
