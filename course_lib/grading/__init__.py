"""Grade notebooks that were handed in, each in processes of its own."""
