"""Which code an experiment depends on, as a fingerprint: the modules of ours that it imports, directly or not, and the
versions of the libraries that they import.

Comments, docstrings and layout do not count, so a result stays fresh until something that computes has changed. That is
more often than a number changes, never less often.
"""

import ast
import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "overstory"


@cache
def code_fingerprint(module: str) -> str:
    """Of a module of ours, by its full name."""
    sources: dict[str, str] = {}
    libraries: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        sources[name], imported = _looked_at(_path_of(name).read_text("utf-8"))
        libraries |= {module.split(".")[0] for module in imported} - {PACKAGE}
        waiting += [module for module in imported if module.split(".")[0] == PACKAGE and _is_module(module)]
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(f"{name}\0{sources[name]}\0".encode())
    for name in sorted(libraries - sys.stdlib_module_names):
        digest.update(f"{name}\0{_version_of(name)}\0".encode())
    return digest.hexdigest()[:16]


@cache
def _looked_at(text: str) -> tuple[str, frozenset[str]]:
    """What a source computes, as text, and the modules that it imports. Most experiments import most modules, so each
    is parsed once for all of them."""
    tree = ast.parse(text)
    imported = frozenset(_imported(tree))
    return ast.dump(_without_docstrings(tree)), imported


def _path_of(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {name}")
    return Path(spec.origin)


def _imported(tree: ast.Module) -> set[str]:
    """Names of modules, and perhaps of what is in them: ``from a import b`` may mean the module a.b, or not."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def _version_of(library: str) -> str:
    """Of the package that it came with."""
    return ", ".join(f"{name} {version(name)}" for name in sorted(_packages().get(library, ())))


@cache
def _packages() -> Mapping[str, list[str]]:
    return packages_distributions()


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
