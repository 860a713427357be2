"""Constraint systems, the gadget builder and the built-in circuits."""
