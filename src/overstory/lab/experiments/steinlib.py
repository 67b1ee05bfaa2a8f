"""How good are our Steiner trees and their bounds? On any folder of SteinLib's or PACE's files, with each effort,
against optima where these are known, and beside networkx where it is installed."""

import csv
import hashlib
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overstory.errors import DataError, UsageError
from overstory.kernels.ascent import ascent_bounds
from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.steiner import EFFORTS, PLAN, steiner_trees
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Parameters, Row, Settings
from overstory.lab.measuring import number
from overstory.lab.stp import Problem, read_stp
from overstory.model.network import Ints, Network
from overstory.model.plan import Value
from overstory.pipeline.bound import scaled
from overstory.pipeline.exact import rounded_down

OPTIMA = "optima.csv"  # in the folder or the one above it, with columns group (a folder), filename and opt


ENDINGS = ("stp", "gr")  # SteinLib's files, and those of the PACE challenge, which are of the same format
PEERS = ("mehlhorn", "kou")  # of networkx, where it is installed
METHODS = (*EFFORTS, *PEERS)


class Solved(NamedTuple):
    cost: float
    bound: float
    seconds: float  # of making the tree, with the table of distances


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    """A file and a method each; a file is known by its content. Instances are small: a quick run leaves none out."""
    folder = Path(str(parameters["dir"]))
    roots, methods = _count("roots", parameters["roots"]), _methods(parameters["methods"])
    paths = sorted(path for ending in ENDINGS for path in folder.rglob(f"*.{ending}"))
    if not paths:
        what = "there are no .stp files in it, nor .gr files" if folder.is_dir() else "there is no such folder"
        raise UsageError(f"dir={folder}: {what}; give a folder with files of SteinLib or PACE")
    optima = read_optima(folder)
    for path in paths:
        for method in methods:
            yield {
                "file": str(path.resolve()),
                "content": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
                "optimum": optima.get((path.parent.name, path.name)),
                "method": method,
                "roots": roots,
                "seed": 0,
            }


def run(settings: Settings) -> list[Row]:
    path, optimum, method = Path(str(settings["file"])), settings["optimum"], str(settings["method"])
    problem = read_stp(path)
    found = solve(path, problem, method, _count("roots", settings["roots"]))
    return [
        {
            "name": problem.name,
            "group": path.parent.name,
            "nodes": problem.nodes,
            "edges": problem.edges,
            "terminals": len(set(problem.terminals)),
            "method": method,
            "cost": found.cost,
            "bound": found.bound,
            "optimum": optimum,
            "ratio": found.cost / float(optimum) if isinstance(optimum, int | float) and optimum else None,
            "seconds": round(found.seconds, 6),
        }
    ]


def totals(rows: Sequence[Row]) -> Row:
    """A line for each set and method; the means are those of the method that comes first of ours, ``plan`` if there."""
    found: Row = {}
    for group in sorted({str(row["group"]) for row in rows}):
        for method in dict.fromkeys(str(row["method"]) for row in rows):
            mine = [row for row in rows if row["group"] == group and row["method"] == method]
            if mine:
                found[f"{group}, {method}"] = _line(mine)
    shown = _shown(rows)
    ratios = [number(row, "ratio") for row in shown if row["ratio"] is not None]
    gaps = [number(row, "cost") / number(row, "bound") for row in shown if row["bound"]]
    return {**found, "mean_ratio": _mean(ratios), "mean_cost_to_bound": _mean(gaps)}


def _line(rows: Sequence[Row]) -> str:
    """How far trees are above, and bounds below, the optimum; and the mean time."""
    known = [row for row in rows if row["optimum"]]
    time_taken = f"{1000 * np.mean([number(row, 'seconds') for row in rows]):.1f} ms"
    if not known:
        gaps = [number(row, "cost") / number(row, "bound") - 1 for row in rows if row["bound"]]
        return f"mean {100 * np.mean(gaps or [0]):.3f} % above the bound, {time_taken}, no optimum is known"
    above = [100 * (number(row, "cost") / number(row, "optimum") - 1) for row in known]
    below = [100 * (1 - number(row, "bound") / number(row, "optimum")) for row in known]
    return (
        f"mean {np.mean(above):.3f} %, worst {max(above):.2f} % above the optimum, {time_taken}, "
        f"bound {np.mean(below):.3f} % below it, {len(rows)} instances"
    )


def _shown(rows: Sequence[Row]) -> list[Row]:
    """The rows of one method."""
    methods = {row["method"] for row in rows}
    first = PLAN if PLAN in methods else next((method for method in METHODS if method in methods), PLAN)
    return [row for row in rows if row["method"] == first]


def above_optimum(rows: Sequence[Row]) -> BySeed:
    """In percent, on the mean of all instances."""
    mean = totals(rows)["mean_ratio"]
    return {} if mean is None else {0: 100 * (float(mean) - 1)}


def figures(rows: Sequence[Row]) -> list[Figure]:
    """A point for each instance, in the order of its terminals' share of the nodes."""
    known = sorted(
        (row for row in _shown(rows) if row["optimum"]), key=lambda row: number(row, "terminals") / number(row, "nodes")
    )
    if not known:
        return []
    place, still = [float(at) for at in range(len(known))], [0.0] * len(known)
    shown = [
        Line(name, place, [number(row, part) / number(row, "optimum") for row in known], still)
        for name, part in (("tree", "cost"), ("bound", "bound"))
    ]
    return [Figure("steinlib", "Trees and bounds", "instances, by share of terminals", "times the optimum", shown)]


def solve(path: Path, problem: Problem, method: str, roots: int) -> Solved:
    """One tree, and the best of the bounds from so many roots: where links lead both ways at the same price, any
    terminal may be the root."""
    network = problem.network()
    graph = graph_of(network.offsets, network.targets, network.prices)
    terminals = np.unique(problem.terminals)
    root = problem.terminals[0] if problem.root is None else problem.root
    began = time.process_time()
    if method in PEERS:
        cost = _theirs(path, network, graph, np.union1d(terminals, [root]), method)
    else:
        cost = _ours(graph, root, terminals, method)
    seconds = time.process_time() - began
    if not np.isfinite(cost):
        raise DataError(f"{path}: there is no way from node {root + 1} to some terminal")
    tried = np.append(root, terminals[terminals != root])[: roots if graph.mutual else 1]
    units = scaled(network)
    bounds, offsets = np.zeros(len(tried), np.int64), np.array([0, len(terminals)])
    every = np.array([0, len(tried)])
    ascent_bounds(units.offsets, units.targets, units.prices, offsets, terminals, every, tried, bounds)
    return Solved(cost, rounded_down(int(bounds.max()) * units.unit), seconds)


def _ours(graph: Graph, root: int, terminals: Ints, effort: str) -> float:
    distances = distances_to(graph.offsets, graph.targets, graph.prices, np.union1d(terminals, [root]))
    offsets = np.array([0, len(terminals)])
    return float(steiner_trees(graph, distances, np.array([root]), offsets, terminals, effort).costs[0])


def _theirs(path: Path, network: Network, graph: Graph, ends: Ints, method: str) -> float:
    """With networkx, infinite if it finds no tree."""
    import networkx
    from networkx.algorithms.approximation import steiner_tree

    if not graph.mutual:
        raise DataError(f"{path}: networkx knows no links that lead one way: leave {method} out of the methods")
    known = networkx.Graph()
    known.add_nodes_from(range(len(network)))
    known.add_weighted_edges_from(
        zip(network.sources.tolist(), network.targets.tolist(), network.prices.tolist(), strict=True)
    )
    if not networkx.node_connected_component(known, int(ends[0])) >= set(ends.tolist()):
        return np.inf
    joined = known.subgraph(networkx.node_connected_component(known, int(ends[0])))
    return float(steiner_tree(joined, ends.tolist(), method=method).size("weight"))


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


def _methods(value: Value) -> list[str]:
    """Those that are asked for. ``all`` are ours, and those of networkx where it is installed."""
    if value == "all":
        return [method for method in METHODS if method in EFFORTS or find_spec("networkx") is not None]
    names = str(value).split(",")
    for name in names:
        if name not in METHODS:
            raise UsageError(f"methods={value}: they are all, or some of {','.join(METHODS)}")
        if name in PEERS and find_spec("networkx") is None:
            raise UsageError(f"methods={value}: {name} needs networkx, which is not installed")
    return names


def _count(name: str, value: Value) -> int:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value}: it is a number from 1 on")
    return value


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


EXPERIMENT = Experiment(
    "steinlib",
    "Steiner trees and their bounds, on a folder of .stp or .gr files, against known optima and networkx",
    cells,
    run,
    parameters={"dir": None, "methods": "all", "roots": 4},
    measures={"tree_above_optimum": above_optimum},
    figures=figures,
    totals=totals,
)
