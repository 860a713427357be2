"""The engine: scheduler, synthesis, device workers, finalizers, knobs."""
