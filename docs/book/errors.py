"""What keeps the book from being made."""


class BookError(Exception):
    """A sentence on what is missing or wrong, and where."""
