"""For those who write lessons: make, check and execute notebooks."""
