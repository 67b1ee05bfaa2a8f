"""Trees improved by exchanging links, with the exact gain of each exchange: see ``kernels.exchange``."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from overstory.kernels.exchange import Instances, Links, improve_tree
from overstory.model.network import Ints
from overstory.planners.trees.clusters import Ground
from overstory.planners.trees.demand import Demand, Rows
from overstory.planners.trees.demand import Instances as Demanded
from overstory.planners.trees.spt import paths_from

# Every so-manieth instance, and for how many passes: most exchanges show on few instances, in a fraction of the time.
COARSE_TO_FINE = ((8, 10), (4, 6), (2, 3), (1, 2))
CENTRES = 64  # brokers tried for the root of the tree to begin with


def links_of(ground: Ground) -> Links:
    return Links(*ground.edges[:4])


def one_tree(ground: Ground, demand: Demand) -> Ints:
    """For all events: exchanges from the tree of cheapest paths of a broker that is near to all."""
    parent = _from_the_middle(ground)
    all_rows = demand.instances(ground.rows, np.zeros(demand.items, np.int64), 1)
    for step, passes in COARSE_TO_FINE:
        instances = _some(ground.rows, all_rows, 0, len(all_rows.rows), step)
        improve_tree(parent, links_of(ground), instances, passes)
    return parent


def polished(ground: Ground, demand: Demand, item_group: Ints, parents: Ints, passes: int = 4) -> Ints:
    """Each group's tree, improved for its own events."""
    found = demand.instances(ground.rows, item_group, len(parents))
    links, parents = links_of(ground), parents.copy()

    def polish(group: int) -> None:
        first, last = found.group_offsets[group : group + 2]
        improve_tree(parents[group], links, _some(ground.rows, found, first, last, 1), passes)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(polish, np.flatnonzero(np.diff(found.group_offsets)).tolist()))
    return parents


def _from_the_middle(ground: Ground) -> Ints:
    tried = np.unique(np.linspace(0, len(ground.network) - 1, CENTRES).astype(np.int64))
    distances, before = paths_from(ground.network, tried)
    found: Ints = before[distances.sum(axis=1).argmin()].copy()
    return found


def _some(rows: Rows, found: Demanded, first: int, last: int, step: int) -> Instances:
    """Every so-manieth of the instances between two."""
    chosen = np.arange(first, last, step)
    sizes = np.diff(found.terminal_offsets)[chosen]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    terminals = found.terminals[np.repeat(found.terminal_offsets[chosen] - ends[:-1], sizes) + np.arange(ends[-1])]
    mine = found.rows[chosen]
    return Instances(rows.roots[mine], ends, terminals, rows.bytes[mine].astype(np.float64))
