"""Many small trainings at once, and what comes of them over many settings."""
