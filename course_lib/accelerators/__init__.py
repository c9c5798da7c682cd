"""GPUs, real and virtual: which there are, what they hold, what time they take."""
