"""How good are our Steiner trees and their bounds? On any folder of SteinLib's files, against optima where these are
known."""

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overstory.errors import DataError, UsageError
from overstory.kernels.ascent import ascent_bounds
from overstory.kernels.distances import distances_to
from overstory.kernels.steiner import graph_of, steiner_trees
from overstory.lab.results import Cell, Result
from overstory.lab.stp import Problem, read_stp
from overstory.model.plan import Value
from overstory.pipeline.bound import scaled

COLUMNS = ("name", "nodes", "edges", "terminals", "cost", "bound", "optimum", "ratio", "seconds")
OPTIMA = "optima.csv"  # in the folder or the one above it, with columns group (a folder), filename and opt


class Solved(NamedTuple):
    cost: float
    bound: float


def run(parameters: Mapping[str, Value]) -> Result:
    folder = Path(str(parameters["dir"]))
    starts, roots = (_count(name, parameters[name]) for name in ("starts", "roots"))
    paths = sorted(folder.rglob("*.stp"))
    if not paths:
        raise UsageError(f"dir={folder}: there are no .stp files")
    optima = read_optima(folder)
    rows: list[tuple[Cell, ...]] = []
    ratios, gaps = [], []
    for path in paths:
        problem, began = read_stp(path), time.monotonic()
        found = solve(path, problem, starts, roots)
        seconds = round(time.monotonic() - began, 3)
        optimum = optima.get((path.parent.name, path.name))
        ratio = found.cost / optimum if optimum else None
        sizes = problem.nodes, problem.edges, len(set(problem.terminals))
        rows.append((problem.name, *sizes, found.cost, found.bound, optimum, ratio, seconds))
        ratios += [] if ratio is None else [ratio]
        gaps += [found.cost / found.bound] if found.bound else []
    return Result(COLUMNS, rows, {"mean_ratio": _mean(ratios), "mean_cost_to_bound": _mean(gaps)})


def solve(path: Path, problem: Problem, starts: int, roots: int) -> Solved:
    """One tree, and the best of the bounds from so many roots: where links lead both ways at the same price, any
    terminal may be the root."""
    network = problem.network()
    known = network.offsets, network.targets, network.prices
    graph = graph_of(*known)
    terminals = np.unique(problem.terminals)
    root = problem.terminals[0] if problem.root is None else problem.root
    offsets = np.array([0, len(terminals)])
    distances = distances_to(*known, np.union1d(terminals, [root]))
    (cost,) = steiner_trees(graph, distances, np.array([root]), offsets, terminals, starts).costs
    if not np.isfinite(cost):
        raise DataError(f"{path}: there is no way from node {root + 1} to some terminal")
    tried = np.append(root, terminals[terminals != root])[: roots if graph.mutual else 1]
    units = scaled(network, 1)
    bounds = np.zeros(len(tried), np.int64)
    every = np.arange(len(tried) + 1) * len(terminals)
    ascent_bounds(units.offsets, units.targets, units.prices, tried, every, np.tile(terminals, len(tried)), bounds)
    return Solved(float(cost), float(bounds.max()) / units.scale)


def read_optima(folder: Path) -> dict[tuple[str, str], float]:
    """By the name of a file's folder, and its own."""
    for path in (folder / OPTIMA, folder.resolve().parent / OPTIMA):
        if path.is_file():
            with path.open(newline="") as file:
                rows = csv.DictReader(file)
                if not {"group", "filename", "opt"} <= set(rows.fieldnames or ()):
                    raise DataError(f"{path} line 1: there must be columns group, filename and opt")
                return {(row["group"], row["filename"]): _number(path, rows.line_num, row["opt"]) for row in rows}
    return {}


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise DataError(f"{path} line {line}: the optimum '{text}' is not a number") from None


def _count(name: str, value: Value) -> int:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value}: it is a number from 1 on")
    return value


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
