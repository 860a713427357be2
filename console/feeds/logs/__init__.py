"""Logs of proving daemons: bytes to lines, lines to records, records to the events that a timeline folds."""
