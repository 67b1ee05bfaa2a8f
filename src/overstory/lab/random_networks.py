"""Random networks without a hierarchy, to see whether a result depends on one."""

import numpy as np
from scipy.spatial import KDTree

from overstory.errors import UsageError
from overstory.lab.graphs import (
    MadeBy,
    Topology,
    checked_brokers,
    checked_probability,
    components,
    dice,
    from_links,
    is_connected,
)
from overstory.model.network import Floats, Ints

USUAL_DEGREE = 4
BLOCK = 256  # brokers whose pairs with all others are in memory at once
MOST_TRIES = 1000


def waxman(brokers: int, seed: int, alpha: float | None = None, beta: float = 0.15) -> Topology:
    """Brokers at random in a square; two at distance d are linked with probability alpha · exp(-d / (beta · L)), L
    being the diagonal (Waxman 1988, with GT-ITM's letters).

    Without ``alpha`` it is such that a broker has 4 links on average, as far as that is possible: with a constant one
    degrees would grow with n. What is not connected to the largest component is linked to its nearest broker there.
    """
    checked_brokers(brokers)
    checked_probability("beta", beta)
    draw = dice(seed)
    at = draw.random((brokers, 2))
    if alpha is None:
        total = sum(float(_closeness(at, start, beta).sum()) for start in range(0, brokers, BLOCK))
        alpha = min(1.0, USUAL_DEGREE * brokers / 2 / total) if total else 1.0
    checked_probability("alpha", alpha)
    rows, columns = [], []
    for start in range(0, brokers, BLOCK):
        likely = alpha * _closeness(at, start, beta)
        row, column = np.nonzero(draw.random(likely.shape) < likely)
        rows.append(start + row)
        columns.append(start + column)
    sources, targets = _joined(at, np.concatenate(rows), np.concatenate(columns))
    made_by: MadeBy = {"topology": "waxman", "topology_seed": seed, "topology_alpha": alpha, "topology_beta": beta}
    return from_links(brokers, sources, targets, made_by, x=at[:, 0].copy(), y=at[:, 1].copy())


def _closeness(at: Floats, start: int, beta: float) -> Floats:
    """Waxman's exp(-d / (beta · L)), between each broker of a block and those that come after it; 0 elsewhere."""
    apart = at[start : start + BLOCK, None] - at[None, start:]
    distance = np.sqrt(apart[..., 0] ** 2 + apart[..., 1] ** 2)
    return np.triu(np.exp(-distance / (beta * np.sqrt(2))), 1)


def _joined(at: Floats, sources: Ints, targets: Ints) -> tuple[Ints, Ints]:
    component = components(len(at), sources, targets)
    largest = np.bincount(component).argmax()
    inside, outside = np.flatnonzero(component == largest), np.flatnonzero(component != largest)
    if not len(outside):
        return sources, targets
    distance, nearest = KDTree(at[inside]).query(at[outside])
    order = np.lexsort((distance, component[outside]))
    _, first = np.unique(component[outside][order], return_index=True)
    chosen = order[first]
    return np.concatenate((sources, outside[chosen])), np.concatenate((targets, inside[nearest[chosen]]))


def random_regular(brokers: int, degree: int, seed: int) -> Topology:
    """Every broker has ``degree`` links, to others at random (Steger and Wormald 1999), drawn anew until connected."""
    checked_brokers(brokers)
    least = min(2, brokers - 1)
    if not least <= degree < brokers or brokers * degree % 2:
        advice = f"{'an even number' if brokers % 2 else 'a number'} from {least} to {brokers - 1}"
        raise UsageError(f"{brokers} brokers cannot be connected by {degree} links each; give {advice} as degree")
    draw = dice(seed)
    made_by: MadeBy = {"topology": "random-regular", "topology_seed": seed, "topology_degree": degree}
    for _ in range(MOST_TRIES):
        found = _regular(brokers, degree, draw)
        if found is not None and is_connected(brokers, *found):
            return from_links(brokers, *found, made_by)
    raise UsageError(f"no network of {brokers} brokers with {degree} links each was found; give another degree")


def _regular(brokers: int, degree: int, draw: np.random.Generator) -> tuple[Ints, Ints] | None:
    if 2 * degree > brokers:  # the links that are missing are fewer, and easier to pair
        missing = _paired(brokers, brokers - 1 - degree, draw)
        if missing is None:
            return None
        linked = np.triu(np.ones((brokers, brokers), bool), 1)
        linked[missing] = False
        sources, targets = np.nonzero(linked)
        return sources, targets
    return _ring(brokers, draw) if degree == 2 else _paired(brokers, degree, draw)


def _ring(brokers: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """The only connected network with two links each; pairs would hardly ever give it."""
    order = draw.permutation(brokers)
    return order, np.roll(order, 1)


def _paired(brokers: int, degree: int, draw: np.random.Generator) -> tuple[Ints, Ints] | None:
    """Pairs up free ends at random, keeps the pairs that are new links, and goes on with the others; None where they
    cannot be paired any more."""
    keys = np.empty(0, np.int64)
    ends = np.repeat(np.arange(brokers), degree)
    while len(ends):
        before = len(keys)
        pairs = np.sort(draw.permutation(ends).reshape(-1, 2), axis=1)
        drawn = np.concatenate((keys, pairs[:, 0] * brokers + pairs[:, 1]))
        _, first = np.unique(drawn, return_index=True)
        is_new = np.zeros(len(drawn), bool)
        is_new[first] = True
        is_new[before:] &= pairs[:, 0] != pairs[:, 1]
        keys, ends = drawn[is_new], pairs[~is_new[before:]].ravel()
        if len(keys) == before and not _can_be_paired(np.unique(ends), keys, brokers):
            return None
    return keys // brokers, keys % brokers


def _can_be_paired(nodes: Ints, keys: Ints, brokers: int) -> bool:
    low, high = np.triu_indices(len(nodes), 1)
    return not np.isin(nodes[low] * brokers + nodes[high], keys).all()
