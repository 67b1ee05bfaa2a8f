"""Runs all examples that need Spark, in one process with one Spark: the README's ten lines, pages with prompts, and a
notebook, cell by cell.

    python examples.py README.md docs/python.md … -- overstory arguments

Prints what the README's lines print, then a line with the number of failed examples of each page, then what the command
line prints. It is a process of its own since Python's door shares one Spark session, as the tests of the pipeline do.
"""

import doctest
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.interactiveshell import InteractiveShell

from overstory import cli


def ten_lines(readme: str) -> str:
    """The script of the README."""
    (script,) = re.findall(r"```python\n(import overstory as ov\n.*?)```", readme, re.DOTALL)
    return str(script)


def run_page(page: Path) -> int:
    """The number of examples that fail."""
    if page.suffix != ".ipynb":
        return doctest.testfile(str(page), module_relative=False).failed
    shell: Any = InteractiveShell.instance()
    read: Any = nbformat.read
    cells = [cell for cell in read(page, as_version=4).cells if cell.cell_type == "code"]
    return sum(not shell.run_cell(cell.source).success for cell in cells)


def main() -> int:
    at = sys.argv.index("--")
    readme, *pages = map(Path, sys.argv[1:at])
    exec(compile(ten_lines(readme.read_text("utf-8")), "README.md", "exec"), {})
    for page in pages:
        print(f"# {page.name}: {run_page(page)} failed", flush=True)
    return cli.main(sys.argv[at + 1 :])


if __name__ == "__main__":
    sys.exit(main())
