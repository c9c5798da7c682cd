"""What Python code says: without comments, docstrings and layout."""

import ast

_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def plain(source: str | ast.AST) -> str:
    """Return a text that changes with what the code does, the same in each Python.

    Errors: `SyntaxError`.
    """
    tree = ast.parse(source) if isinstance(source, str) else source
    return repr(_fields(tree))


def _fields(node):
    # ast.dump writes empty fields in some versions, and in some leaves them out
    if isinstance(node, list):
        return [_fields(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    fields = {name: value for name, value in ast.iter_fields(node) if value}
    if (
        isinstance(node, _DOCUMENTED)
        and ast.get_docstring(node, clean=False) is not None
    ):
        fields["body"] = node.body[1:]
    if isinstance(node, ast.Constant):
        fields = {"value": node.value}
    return type(node).__name__, *((name, _fields(fields[name])) for name in fields)


def definitions(source: str, names: set[str]) -> list[ast.AST]:
    """Return the definitions of these names in a module, and what they use of it."""
    tree = ast.parse(source)
    places = {name: node for node in tree.body for name in _defined(node)}
    found, new = set(), names & places.keys()
    while new:
        found |= new
        inner = {
            node.id
            for name in new
            for node in ast.walk(places[name])
            if isinstance(node, ast.Name)
        }
        new = (inner & places.keys()) - found
    return [node for node in tree.body if found.intersection(_defined(node))]


def _defined(node):
    """The names that a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
