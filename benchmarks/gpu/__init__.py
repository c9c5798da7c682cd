"""What a machine with a GPU is asked in a few minutes: `python -m benchmarks.gpu`."""
