"""A learner's notebook, run apart from all others."""
