"""Figures: each takes plain data and returns the axes it drew on."""
