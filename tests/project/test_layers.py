"""The import rule: a package imports only from the lines below it. And no module imports in a circle."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LINES = [
    {"door"},
    {"cli"},
    {"studio"},
    {"lab"},
    {"control", "topics"},
    {"broker", "client", "planners", "pipeline"},
    {"routing"},
    {"matching", "wire"},
    {"filters", "kernels"},
    {"model"},
    {"errors"},
]
LEVEL = {package: level for level, line in enumerate(LINES) for package in line}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def imports(name: str) -> set[str]:
    """The modules of ours that a module imports, names imported from a package counted as modules if they are."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) or {str(node.module)}
    return {other for other in found if other.split(".")[0] == "overstory"}


def package(name: str) -> str:
    return name.split(".")[1] if "." in name else "overstory"


def test_every_package_has_its_line() -> None:
    assert {package(name) for name in MODULES} - {"overstory"} <= LEVEL.keys()


def test_a_package_imports_only_from_the_lines_below() -> None:
    wrong = [
        f"{name} imports {other}"
        for name in MODULES
        if package(name) != "overstory"
        for other in imports(name)
        if package(other) == "overstory"
        or (package(other) != package(name) and LEVEL[package(other)] <= LEVEL[package(name)])
    ]
    assert not wrong


def test_no_module_imports_in_a_circle() -> None:
    assert list(TopologicalSorter({name: imports(name) for name in MODULES}).static_order())
