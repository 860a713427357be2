"""Readers and writers of proving file formats, nothing else."""
