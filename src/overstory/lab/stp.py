"""Steiner tree problems in SteinLib's format, as files with the ending .stp.

Sections begin with SECTION and end with END. Read are ``Graph`` (E is a link both ways, A one way) and ``Terminals``
(with the root, where there is one); other sections and lines are passed over. So is the line that SteinLib's own files
begin with, 33D32945 STP File: collections by others leave it out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from overstory.errors import DataError
from overstory.model.network import Network


@dataclass
class Problem:
    name: str
    nodes: int = 0
    links: list[tuple[int, int, float]] = field(default_factory=list)  # directed
    edges: int = 0  # as they stand in the file
    terminals: list[int] = field(default_factory=list)
    root: int | None = None

    def network(self) -> Network:
        source, target, price = np.array(self.links or np.empty((0, 3))).T
        return Network.between(
            np.arange(self.nodes), source.astype(np.int64), target.astype(np.int64), price, np.zeros(len(price))
        )


def read_stp(path: Path) -> Problem:
    """Raises a ``DataError`` that names the file and the line."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not any(line.lower().split()[:1] == ["section"] for line in lines):
        raise DataError(f"{path} line 1: no SECTION begins here or below, so it is no STP file")
    problem, section = Problem(path.stem), ""
    for number, line in enumerate(lines, 1):
        words = line.lower().split()
        if words[:1] == ["section"]:
            section = words[1] if len(words) > 1 else ""
        elif words and (read := READERS.get((section, words[0]))) is not None:
            try:
                read(problem, words[1:])
            except (ValueError, IndexError) as error:
                what = error if isinstance(error, _MeaningError) else f"'{line.strip()}' cannot be read"
                raise DataError(f"{path} line {number}: {what}") from None
        elif words[:1] == ["end"]:
            section = ""
    if not problem.terminals:
        raise DataError(f"{path} line {len(lines)}: the file ends without a terminal")
    return problem


class _MeaningError(ValueError):
    """It can be read, but not be meant."""


def _nodes(problem: Problem, words: list[str]) -> None:
    problem.nodes = int(words[0])


def _node(problem: Problem, word: str) -> int:
    node = int(word) - 1
    if not 0 <= node < problem.nodes:
        raise _MeaningError(f"there is no node {word}: there are {problem.nodes:,}")
    return node


def _arc(problem: Problem, words: list[str]) -> None:
    source, target, price = _node(problem, words[0]), _node(problem, words[1]), float(words[2])
    if not 0 <= price < np.inf:
        raise _MeaningError(f"the weight {words[2]} is not a number from 0 on")
    problem.edges += 1
    if source != target:
        problem.links.append((source, target, price))


def _edge(problem: Problem, words: list[str]) -> None:
    _arc(problem, words)
    if words[0] != words[1]:
        source, target, price = problem.links[-1]
        problem.links.append((target, source, price))


def _terminal(problem: Problem, words: list[str]) -> None:
    problem.terminals.append(_node(problem, words[0]))


def _root(problem: Problem, words: list[str]) -> None:
    problem.root = _node(problem, words[0])


READERS: dict[tuple[str, str], Callable[[Problem, list[str]], None]] = {
    ("graph", "nodes"): _nodes,
    ("graph", "e"): _edge,
    ("graph", "a"): _arc,
    ("terminals", "t"): _terminal,
    ("terminals", "root"): _root,
}
