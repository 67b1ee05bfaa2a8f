"""Networks, trees and costs, drawn with matplotlib. Functions draw on the axes that they are given, or on new ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from overstory.door.graphs import Graph
from overstory.model.network import Floats, Ints
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard
from overstory.studio.layout import coordinates
from overstory.studio.subject import subject_of
from overstory.studio.tables import PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_WIDTH, MOST_WIDTH = 0.6, 7.0  # of links, in points
FEW = 60  # brokers that have their names in the picture
INK, IDLE, TRAFFIC, TREE = "#1c2420", "#d5dcd8", "#2f7d5f", "#c2410c"
COLOURS = {"core": "#2f7d5f", "access": "#4f7fb8", "upkeep": "#c99a3a", "control": "#8f78b3"}


def plot_network(scenario: Scenario, axes: "Axes | None" = None, loads: Ints | None = None, title: str = "") -> "Axes":
    """The network; with ``loads`` of its directed links, they are as wide as what they carry both ways."""
    axes, points = axes or _new(), _points(scenario)
    pairs, both = _pairs(scenario, np.zeros(len(scenario.network.targets), np.int64) if loads is None else loads)
    shares = np.sqrt(both / max(int(both.max(initial=0)), 1))
    used = both > 0
    _lines(axes, points[pairs[~used]], IDLE, np.full((~used).sum(), LEAST_WIDTH))
    _lines(axes, points[pairs[used]], TRAFFIC, LEAST_WIDTH + (MOST_WIDTH - LEAST_WIDTH) * shares[used])
    _brokers(axes, scenario, points, title)
    return axes


def plot_tree(scenario: Scenario, tree: Graph | None, flow: int | None, axes: "Axes | None" = None) -> "Axes":
    """The network, with a tree in it."""
    axes, points, network = axes or _new(), _points(scenario), scenario.network
    pairs, _ = _pairs(scenario, np.zeros(len(network.targets), np.int64))
    _lines(axes, points[pairs], IDLE, np.full(len(pairs), LEAST_WIDTH))
    if tree is not None:
        ends = [network.positions(tree.edges[end].to_numpy()) for end in ("source", "target")]
        _lines(axes, points[np.stack(ends, axis=1)], TREE, np.full(len(tree), 2.2))
    _brokers(axes, scenario, points, "no flow has a tree" if tree is None else f"flow {flow}")
    return axes


def plot_costs(cards: Sequence[tuple[str, Scorecard]], axes: "Axes | None" = None) -> "Axes":
    """What each plan costs, in parts, with the lower bound on core as a line."""
    axes = axes or _new()
    places = np.arange(len(cards))[::-1]
    left = np.zeros(len(cards))
    for part in PARTS:
        values = np.array([float(getattr(card, part)) for _, card in cards])
        if values.any():
            axes.barh(places, values, left=left, color=COLOURS[part], label=part, height=0.6)
        left = left + values
    bounds = [card.lower_bound for _, card in cards]
    axes.vlines(bounds, places - 0.4, places + 0.4, color=INK, linewidth=2, label="lower bound on core")
    axes.set_yticks(places, [name for name, _ in cards])
    axes.set_xlabel("cost")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return axes


def _new() -> "Axes":
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _points(scenario: Scenario) -> Floats:
    about = subject_of(scenario, {})
    found = coordinates(scenario.network, about.x, about.y)
    return np.asarray(found * [1, -1])  # the page counts from above


def _pairs(scenario: Scenario, loads: Ints) -> tuple[Ints, Ints]:
    """The links by the positions of their ends, either direction once, and what both directions carry."""
    network = scenario.network
    low, high = np.minimum(network.sources, network.targets), np.maximum(network.sources, network.targets)
    keys, at = np.unique(low * len(network) + high, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, at.reshape(-1), loads)
    return np.stack(np.divmod(keys, max(len(network), 1)), axis=1), sums


def _lines(axes: "Axes", ends: Floats, colour: str, widths: Floats) -> None:
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(list(ends), colors=colour, linewidths=widths, capstyle="round"))


def _brokers(axes: "Axes", scenario: Scenario, points: Floats, title: str) -> None:
    axes.scatter(points[:, 0], points[:, 1], s=18 if len(points) <= FEW else 5, color=INK, zorder=3)
    if len(points) <= FEW:
        for place, broker in zip(points.tolist(), scenario.network.ids.tolist(), strict=True):
            name = scenario.broker_names.get(broker, str(broker))
            axes.annotate(name, place, xytext=(4, 3), textcoords="offset points", fontsize=7, color=INK)
    axes.set_title(title, loc="left")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()
    axes.set_axis_off()
