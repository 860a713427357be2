"""A modelled box: the real engine over a synthesis and a device whose steps take the times that a model file gives.

It makes no proofs. Everything that shows or exports it says SIMULATED.
"""
