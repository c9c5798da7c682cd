"""A learner's own copy of the course, without outputs, kept through updates."""
