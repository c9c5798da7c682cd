"""Exercise 6.4, in a rank: the same as 6.2, with prices beside the steps."""

from course_lib.exercises.observe.e6_2 import observe as observe
