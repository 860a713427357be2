"""Exports: the frame for other programs. Nothing here knows Textual."""
