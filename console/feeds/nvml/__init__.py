"""What the NVIDIA driver says of the GPUs, asked by threads of its own, each question with a deadline."""
