"""Notebooks as cells: the assignment, what a learner changed, the two merged."""
