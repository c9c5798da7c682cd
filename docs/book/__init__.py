"""The course as a static book: lessons, exercises, pages and the names of cl."""
