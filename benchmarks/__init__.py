"""What the course's own tools cost, measured against the alternatives."""
