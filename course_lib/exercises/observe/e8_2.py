"""Exercise 8.2, in a rank: which commands an answer gives."""

from course_lib.exercises.observe.e7_4 import observe as observe
