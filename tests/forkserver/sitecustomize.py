"""In PYTHONPATH it makes forkserver the default start method, as Python 3.14 does."""

from multiprocessing import context

context._default_context._default_context = context._concrete_contexts["forkserver"]
