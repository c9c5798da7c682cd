"""What a lesson asks its reader: guesses that the reader's own run answers."""
