"""Textual widgets: each shows one thing and is assigned plain data."""
