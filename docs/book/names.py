"""The page of the public names of `course_lib`, made from their docstrings."""

import inspect
import re

HEAD = """# The names of course_lib

`import course_lib as cl` gives these names, here in the order in which the course
teaches them. The last ones are the figures that move: `from course_lib import scenes`.
What a cell does beside them is plain PyTorch.
"""


def page(names: dict) -> str:
    """The Markdown of all names with what they are."""
    return "\n".join([HEAD, *(_section(name, value) for name, value in names.items())])


def _section(name, value):
    """Heading, signature and docstring; of a class also what it offers."""
    parts = [f"## {name}\n", _call(name, value), text(value)]
    if inspect.isclass(value):
        parts += [_member(key, member) for key, member in _members(value)]
    return "\n".join(filter(None, parts))


def _call(name, value):
    """A block of code with the signature; nothing where there is none."""
    try:
        return f"```python\n{name}{_signature(value)}\n```\n"
    except ValueError:  # an exception that takes what all do
        return ""


def _signature(function, skip=0):
    """The parameters, without annotations; `skip` leaves out `self` or `cls`."""
    signature = inspect.signature(function)
    empty = inspect.Signature.empty
    plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
    call = str(signature.replace(parameters=plain[skip:], return_annotation=empty))
    return call.replace("=Ellipsis", "=...")


def text(value) -> str:
    """A docstring as Markdown."""
    found = inspect.getdoc(value) or ""
    found = re.sub(r"(?<![\w`<])(https?://[^\s,]+)", r"<\1>", found)
    return re.sub(r"^Errors: ", "**Errors:** ", found, flags=re.MULTILINE) + "\n"


def _members(value):
    """What a class defines itself, with a docstring of its own."""
    kinds = (property, classmethod, staticmethod)
    return [
        (key, member)
        for key, member in vars(value).items()
        if not key.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, kinds))
    ]


def _member(key, member):
    """A member as an item of a list."""
    function = getattr(member, "__func__", member)
    call = "" if isinstance(member, property) else _signature(function, skip=1)
    words = text(member).strip().replace("\n\n", "\n").replace("\n", "\n  ")
    return f"- `{key}{call}`: {words}"
