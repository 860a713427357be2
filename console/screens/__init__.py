"""Screens: which panels there are, how tall each is, and which part of the frame goes to which."""
