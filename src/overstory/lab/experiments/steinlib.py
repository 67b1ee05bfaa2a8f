"""How good are our Steiner trees and their bounds? On any folder of SteinLib's files, against optima where these are
known."""

import csv
import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overstory.errors import DataError, UsageError
from overstory.kernels.ascent import ascent_bounds
from overstory.kernels.distances import distances_to
from overstory.kernels.steiner import graph_of, steiner_trees
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Parameters, Row, Settings
from overstory.lab.measuring import number
from overstory.lab.stp import Problem, read_stp
from overstory.model.plan import Value
from overstory.pipeline.bound import scaled
from overstory.pipeline.exact import rounded_down

OPTIMA = "optima.csv"  # in the folder or the one above it, with columns group (a folder), filename and opt


class Solved(NamedTuple):
    cost: float
    bound: float


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    """A file each, known by its content. Instances are small: a quick run leaves none out."""
    folder = Path(str(parameters["dir"]))
    starts, roots = (_count(name, parameters[name]) for name in ("starts", "roots"))
    paths = sorted(folder.rglob("*.stp"))
    if not paths:
        what = "there are no .stp files in it" if Path(folder).is_dir() else "there is no such folder"
        raise UsageError(f"dir={folder}: {what}; give a folder with SteinLib's files")
    optima = read_optima(folder)
    for path in paths:
        yield {
            "file": str(path.resolve()),
            "content": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
            "optimum": optima.get((path.parent.name, path.name)),
            "starts": starts,
            "roots": roots,
            "seed": 0,
        }


def run(settings: Settings) -> list[Row]:
    path, optimum = Path(str(settings["file"])), settings["optimum"]
    problem, began = read_stp(path), time.perf_counter()
    found = solve(path, problem, _count("starts", settings["starts"]), _count("roots", settings["roots"]))
    seconds = round(time.perf_counter() - began, 3)
    return [
        {
            "name": problem.name,
            "group": path.parent.name,
            "nodes": problem.nodes,
            "edges": problem.edges,
            "terminals": len(set(problem.terminals)),
            "cost": found.cost,
            "bound": found.bound,
            "optimum": optimum,
            "ratio": found.cost / float(optimum) if isinstance(optimum, int | float) and optimum else None,
            "seconds": seconds,
        }
    ]


def totals(rows: Sequence[Row]) -> Row:
    ratios = [number(row, "ratio") for row in rows if row["ratio"] is not None]
    gaps = [number(row, "cost") / number(row, "bound") for row in rows if row["bound"]]
    return {"mean_ratio": _mean(ratios), "mean_cost_to_bound": _mean(gaps)}


def above_optimum(rows: Sequence[Row]) -> BySeed:
    """In percent, on the mean of all instances."""
    mean = totals(rows)["mean_ratio"]
    return {} if mean is None else {0: 100 * (float(mean) - 1)}


def figures(rows: Sequence[Row]) -> list[Figure]:
    """A point for each instance, in the order of its terminals' share of the nodes."""
    known = sorted(
        (row for row in rows if row["optimum"]), key=lambda row: number(row, "terminals") / number(row, "nodes")
    )
    if not known:
        return []
    place, still = [float(at) for at in range(len(known))], [0.0] * len(known)
    shown = [
        Line(name, place, [number(row, part) / number(row, "optimum") for row in known], still)
        for name, part in (("tree", "cost"), ("bound", "bound"))
    ]
    return [Figure("steinlib", "Trees and bounds", "instances, by share of terminals", "times the optimum", shown)]


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
    units = scaled(network)
    bounds = np.zeros(len(tried), np.int64)
    every = np.array([0, len(tried)])
    ascent_bounds(units.offsets, units.targets, units.prices, offsets, terminals, every, tried, bounds)
    return Solved(float(cost), rounded_down(int(bounds.max()) * units.unit))


def read_optima(folder: Path) -> dict[tuple[str, str], float | None]:
    """By the name of a file's folder, and its own. Published tables have an empty cell where no optimum is known."""
    for path in (folder / OPTIMA, folder.resolve().parent / OPTIMA):
        if path.is_file():
            with path.open(newline="") as file:
                rows = csv.DictReader(file)
                if not {"group", "filename", "opt"} <= set(rows.fieldnames or ()):
                    raise DataError(f"{path} line 1: there must be columns group, filename and opt")
                return {(row["group"], row["filename"]): _number(path, rows.line_num, row["opt"]) for row in rows}
    return {}


def _number(path: Path, line: int, text: str | None) -> float | None:
    if text is None or not text.strip():  # None: the line ends before it
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path} line {line}: the optimum '{text}' is not a number") from None


def _count(name: str, value: Value) -> int:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value}: it is a number from 1 on")
    return value


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


EXPERIMENT = Experiment(
    "steinlib",
    "Steiner trees and their bounds, on a folder of .stp files, against known optima",
    cells,
    run,
    figure="ours",
    parameters={"dir": None, "starts": 16, "roots": 4},
    measures={"tree_above_optimum": above_optimum},
    figures=figures,
    totals=totals,
)
