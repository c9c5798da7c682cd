"""What was handed in: folders and archives, whose they are."""
