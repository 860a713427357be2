"""Devices: the host library and CUDA behind one protocol."""
