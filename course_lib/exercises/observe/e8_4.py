"""Exercise 8.4, in a rank: the same as 6.2, with GPUs beside the times."""

from course_lib.exercises.observe.e6_2 import observe as observe
