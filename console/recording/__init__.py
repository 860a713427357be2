"""Recordings of a session: events, pictures and samples in a compact file, for replay."""
