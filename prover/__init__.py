"""Everything that proves: fields, curves, circuits, Groth16, devices and the pipeline. Loads no Textual, no CuPy."""
