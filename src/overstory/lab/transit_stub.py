"""Transit-stub networks, as GT-ITM makes them (Zegura, Calvert, Bhattacharjee 1996).

A few transit domains are joined to one another; every transit node carries stub domains, and each stub hangs on it by
one link. Within a domain, links are drawn independently and the domain is drawn anew until it is connected. Such a
network is nearly a tree of domains: any two routes through it are much alike. The further links from stubs to other
transit nodes and to other stubs are what makes trees differ, so there is a fifth of n of each unless told otherwise.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from overstory.errors import UsageError
from overstory.lab.graphs import MadeBy, Topology, checked_brokers, checked_probability, dice, from_links
from overstory.lab.transit_stub_shape import Shape, layout, node_names, shape_for, stub_sizes
from overstory.model.network import Ints

RICHNESS = 5  # one further link of each kind for so many brokers
MOST_DRAWS = 1000  # of a domain, before it is given up
MOST_ROUNDS = 64  # of drawing further links
Pairs = tuple[Ints, Ints]


def transit_stub(
    brokers: int | None,
    seed: int,
    shape: Shape | None = None,
    p_top: float = 1.0,  # that two transit domains are joined
    p_transit: float = 0.6,  # that two nodes of a transit domain are
    p_stub: float = 0.42,  # that two nodes of a stub are
    extra_transit_stub: int | None = None,  # further links; None: a fifth of the brokers, or as many as there can be
    extra_stub_stub: int | None = None,
) -> Topology:
    """Exactly ``brokers`` of them: stubs get larger or smaller than the shape says, as evenly as can be."""
    if brokers is None and shape is None:
        raise UsageError("give the number of brokers or the shape of the network")
    for name, p in (("p_top", p_top), ("p_transit", p_transit), ("p_stub", p_stub)):
        checked_probability(name, p)
    shape = shape or shape_for(checked_brokers(brokers or 0))
    brokers = shape.brokers if brokers is None else brokers
    draw = dice(seed)
    sizes = stub_sizes(brokers, shape)
    starts = shape.core + np.cumsum(sizes) - sizes  # of each stub, among all brokers
    home = np.repeat(np.arange(len(sizes)), sizes)  # the stub of each stub node
    links = [
        _core(shape, p_top, p_transit, draw),
        _within(starts, sizes, p_stub, draw),
        _uplinks(shape, starts, sizes, draw),
    ]
    links.append(_further(brokers, links, extra_transit_stub, _transit_stub_drawer(shape.core, len(home), draw)))
    links.append(_further(brokers, links, extra_stub_stub, _stub_stub_drawer(shape.core, home, draw)))
    sources, targets = map(np.concatenate, zip(*links, strict=True))
    x, y = layout(shape, sizes, home)
    made_by: MadeBy = {"topology": "transit-stub", "topology_seed": seed}
    made_by |= {f"topology_{name}": value for name, value in msgspec.structs.asdict(shape).items()}
    made_by |= {"topology_p_top": p_top, "topology_p_transit": p_transit, "topology_p_stub": p_stub}
    made_by |= {"topology_extra_transit_stub": len(links[3][0]), "topology_extra_stub_stub": len(links[4][0])}
    return from_links(brokers, sources, targets, made_by, node_names(shape, sizes, home), x, y)


def _random_domains(count: int, size: int, p: float, draw: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Connected random graphs: the links of all of them, as the graph's number and its two nodes."""
    linked = np.zeros((count, size, size), bool)
    bad = np.arange(count if size > 1 else 0)
    for _ in range(MOST_DRAWS):
        if not len(bad):
            return tuple(np.nonzero(linked))  # type: ignore[return-value]
        linked[bad] = np.triu(draw.random((len(bad), size, size)) < p, 1)
        bad = bad[~_connected(linked[bad])]
    raise UsageError(f"domains of {size} nodes are hardly ever connected with a link probability of {p}; raise it")


def _connected(linked: np.ndarray) -> np.ndarray:
    """Which of the graphs are, by squaring their reachability until every path is in it."""
    size = linked.shape[1]
    reach = (linked | linked.transpose(0, 2, 1) | np.eye(size, dtype=bool)).astype(np.float32)
    for _ in range(max(size - 1, 1).bit_length()):
        reach = np.minimum(reach @ reach, 1)
    return np.asarray(reach[:, 0].all(axis=1))


def _core(shape: Shape, p_top: float, p_transit: float, draw: np.random.Generator) -> Pairs:
    nodes = shape.transit_nodes
    domain, source, target = _random_domains(shape.domains, nodes, p_transit, draw)
    _, left, right = _random_domains(1, shape.domains, p_top, draw)
    ends = draw.integers(nodes, size=(2, len(left)))
    inside = domain * nodes
    return (
        np.concatenate((inside + source, left * nodes + ends[0])),
        np.concatenate((inside + target, right * nodes + ends[1])),
    )


def _within(starts: Ints, sizes: Ints, p_stub: float, draw: np.random.Generator) -> Pairs:
    sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(sizes):
        of_size = starts[sizes == size]
        stub, source, target = _random_domains(len(of_size), int(size), p_stub, draw)
        sources.append(of_size[stub] + source)
        targets.append(of_size[stub] + target)
    return np.concatenate(sources), np.concatenate(targets)


def _uplinks(shape: Shape, starts: Ints, sizes: Ints, draw: np.random.Generator) -> Pairs:
    stubs = np.flatnonzero(sizes)
    return stubs // max(shape.stubs, 1), starts[stubs] + draw.integers(sizes[stubs])


def _transit_stub_drawer(core: int, leaves: int, draw: np.random.Generator) -> Callable[[int], Pairs]:
    def drawer(count: int) -> Pairs:
        if not leaves:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return draw.integers(core, size=count), core + draw.integers(leaves, size=count)

    return drawer


def _stub_stub_drawer(core: int, home: Ints, draw: np.random.Generator) -> Callable[[int], Pairs]:
    def drawer(count: int) -> Pairs:
        if not len(home):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        ends = np.sort(draw.integers(len(home), size=(2, count)), axis=0)
        apart = home[ends[0]] != home[ends[1]]
        return core + ends[0][apart], core + ends[1][apart]

    return drawer


def _further(brokers: int, links: list[Pairs], wanted: int | None, drawer: Callable[[int], Pairs]) -> Pairs:
    """Links that are not there yet, as many as are wanted; keys stand for them."""
    count = brokers // RICHNESS if wanted is None else wanted
    if count < 0:
        raise UsageError(f"there cannot be {count} further links; give 0 or more")
    old = np.concatenate([low * brokers + high for low, high in links])
    new = np.empty(0, np.int64)
    for _ in range(MOST_ROUNDS):
        if len(new) >= count:
            break
        low, high = drawer(2 * count + 16)
        keys = np.concatenate((new, low * brokers + high))
        _, first = np.unique(keys, return_index=True)
        keys = keys[np.sort(first)]
        new = keys[~np.isin(keys, old)]
    if wanted is not None and len(new) < count:
        raise UsageError(f"there is no room for {count} further links of a kind, but for {len(new)}; ask for fewer")
    return new[:count] // brokers, new[:count] % brokers
