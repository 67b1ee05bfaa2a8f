"""The trees of steered flows for rows of the log: found in batches, before the meter's kernel follows them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.distances import Distances, distances_to
from overstory.kernels.graphs import moderate_prices
from overstory.kernels.metering import NO_WAYS, NONE, Ends, Rows, Rules, SteeredTrees, Ways
from overstory.kernels.steered import path_trees_from
from overstory.kernels.steering import Ports, ports_of
from overstory.kernels.steiner import Graph, distinct_instances, graph_of
from overstory.kernels.steiner_router import Router, links_of, ways_of
from overstory.kernels.wants import ends_of_rows
from overstory.kernels.ways import ways_from
from overstory.model.tables import PATHS, STEINER
from overstory.pipeline.numbered import Numbered

Ints = NDArray[np.int64]


class Steering(NamedTuple):
    """What the trees of a plan's steered flows are found with."""

    is_steiner: NDArray[np.bool_]  # by flow
    ports: Ports
    ways: Ways  # for flows of kind paths
    graph: Graph
    distances: Distances  # for flows of kind steiner


def steering_of(given: Numbered, entries: Ints, hosts: Ints) -> Steering:
    """``entries`` and ``hosts`` are the positions of brokers where trees may begin, and where they may lead."""
    network, kinds = given.network, given.plan.flows["kind"].to_pylist()
    offsets, targets, prices = network.offsets, network.targets, network.prices
    ways = ways_from(offsets, targets, prices, np.unique(entries)) if PATHS in kinds else NO_WAYS
    goals = np.union1d(entries, hosts) if STEINER in kinds else np.empty(0, np.int64)
    moderate = moderate_prices(prices)
    return Steering(
        np.array([kind == STEINER for kind in kinds], bool),
        ports_of(offsets, targets),
        ways,
        graph_of(offsets, targets, moderate),
        distances_to(offsets, targets, moderate, goals),
    )


def trees_of(rules: Rules, steering: Steering, rows: Rows) -> SteeredTrees:
    """The trees that the events of these rows take in steered flows."""
    if not (rules.flow_tree == NONE).any():
        none = np.empty(0, np.int64)
        nothing = Ends(np.zeros(len(rows.part) + 1, np.int64), none, none, np.zeros(1, np.int64), none)
        return SteeredTrees(nothing, np.zeros(1, np.int64), none, steering.ports)
    ends = ends_of_rows(rules, rows)
    is_steiner = steering.is_steiner[ends.flow]
    found = [
        (np.flatnonzero(is_steiner), *_steiner_trees(steering, _some(ends, is_steiner))),
        (np.flatnonzero(~is_steiner), *_path_trees(rules, steering, _some(ends, ~is_steiner))),
    ]
    return SteeredTrees(ends, *_together(len(ends.flow), found), steering.ports)


def _some(ends: Ends, chosen: NDArray[np.bool_]) -> Ends:
    """Only the chosen instances."""
    if chosen.all():
        return ends
    sizes = np.diff(ends.end_offsets)
    kept = np.repeat(chosen, sizes)
    end_offsets = np.concatenate([[0], np.cumsum(sizes[chosen])])
    return Ends(ends.offsets, ends.roots[chosen], ends.flow[chosen], end_offsets, ends.ends[kept])


def _steiner_trees(steering: Steering, ends: Ends) -> tuple[Ints, Ints]:
    """Equal instances are solved once."""
    if not len(ends.roots):
        return np.zeros(1, np.int64), np.empty(0, np.int64)
    distinct = distinct_instances(ends.roots, ends.end_offsets, ends.ends)
    router = Router(ways_of(steering.graph, steering.distances))
    found_offsets, found = links_of(router.trees(distinct.roots, distinct.terminal_offsets, distinct.terminals))
    sizes = np.diff(found_offsets)[distinct.which]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(found_offsets[distinct.which] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return offsets, found[places]


def _path_trees(rules: Rules, steering: Steering, ends: Ends) -> tuple[Ints, Ints]:
    ways = steering.ways
    if not len(ends.roots):
        return np.zeros(1, np.int64), np.empty(0, np.int64)
    return path_trees_from(ways.link, ways.row[ends.roots], rules.link_source, ends.end_offsets, ends.ends)


def _together(count: int, found: list[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints]:
    """Trees of some instances each, as those of all: offsets, and links."""
    sizes = np.zeros(count, np.int64)
    for which, offsets, _ in found:
        sizes[which] = np.diff(offsets)
    all_offsets = np.concatenate([[0], np.cumsum(sizes)])
    links = np.empty(all_offsets[-1], np.int64)
    for which, offsets, some in found:
        places = np.repeat(all_offsets[:-1][which] - offsets[:-1], np.diff(offsets)) + np.arange(len(some))
        links[places] = some
    return all_offsets, links
