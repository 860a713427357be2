"""Answers from a timeline: pure functions, without a screen."""
