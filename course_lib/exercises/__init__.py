"""Exercises: a learner's answer, run in ranks and compared."""
