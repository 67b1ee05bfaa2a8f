"""What many files need stands in one of them; and what many functions pass on together has a name."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "overstory"
FILES = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
MOST_PARAMETERS = 8
LONG = {
    "kernels/ascent.py: _look_back",  # with nine, still
    # Inner loops of a search, which take boxes as numbers: arrays would have to be made for them.
    "kernels/enlarging.py: _added_to_few",
    "kernels/enlarging.py: _up",
    "kernels/enlarging.py: path_cost",
    "kernels/volumes.py: weight_of_three",
}


def files_with(pattern: str) -> set[str]:
    return {name for name, text in FILES.items() if re.search(pattern, text, re.MULTILINE)}


def test_no_index_is_one_constant() -> None:
    """The late flow is a number like those of other flows."""
    assert files_with(r"^[A-Z_]+ = -1(?![\d.])") == {"kernels/nothing.py", "model/plan.py"}


def test_hashes_have_one_home() -> None:
    """Beside it stands its plain twin."""
    assert files_with("0xFF51AFD7ED558CCD") == {"kernels/hashing.py", "kernels/plain.py"}


def test_functions_have_few_parameters() -> None:
    long = {
        f"{name}: {node.name}"
        for name, text in FILES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len([each for each in _parameters(node.args) if each != "self"]) > MOST_PARAMETERS
    }
    assert long == LONG


def _parameters(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
