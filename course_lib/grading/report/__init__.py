"""What the grader says: in the terminal, as files, as pages."""
