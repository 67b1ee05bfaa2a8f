"""Which code an experiment depends on, as a fingerprint: the modules that it imports, directly or not.

Comments, docstrings and layout do not count, so a result stays fresh until something that computes has changed. That is
more often than a number changes, never less often.
"""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "overstory"


@cache
def code_fingerprint(module: str) -> str:
    """Of a module of ours, by its full name."""
    sources: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        tree = _parsed(name)
        sources[name] = ast.dump(_without_docstrings(tree))
        waiting += [other for other in _imported(tree) if other not in sources]
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(f"{name}\0{sources[name]}\0".encode())
    return digest.hexdigest()[:16]


def _parsed(name: str) -> ast.Module:
    return ast.parse(_path_of(name).read_text("utf-8"))


def _path_of(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {name}")
    return Path(spec.origin)


def _imported(tree: ast.Module) -> set[str]:
    """Modules of ours: ``from a import b`` may name the module a.b, or something in a."""
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        found |= {name for name in names if name.split(".")[0] == PACKAGE and _is_module(name)}
    return found


@cache
def _is_module(name: str) -> bool:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    node.body = node.body[1:]
    return tree
