"""The two overlays of the pruning paper. Of both only counts are known; the rest is as regular as they allow.

Fig. 6: five core brokers A–E in a row, 18 inner and 32 edge brokers. Three edge brokers at E have the publishers; the
other 29 have the subscribers, one or two to an inner broker. Inner brokers have no clients.

Fig. 11: four tiers, of 1, 4, 12 and 36 brokers. The four brokers of the second tier are the heads of four regions.
Clients are at the brokers of the last tier.
"""

from itertools import pairwise
from typing import NamedTuple

Link = tuple[int, int]

CORE_SIZE, INNER_SIZE, EDGES = 5, 18, 32
PUBLISHER_EDGES = 3
INNER_OF_CORE = (5, 5, 4, 4, 0)  # inner brokers at A, B, C, D and E, which has the publishers
REGIONS, BRANCHES, LEAVES = 4, 3, 3


class Topology(NamedTuple):
    links: tuple[Link, ...]
    core: tuple[int, ...]
    inner: tuple[int, ...]
    publishers: tuple[int, ...]  # brokers with publishers
    subscribers: tuple[int, ...]  # brokers with subscribers
    regions: tuple[tuple[int, ...], ...]  # groups of adjacent brokers with subscribers
    tiers: tuple[tuple[int, ...], ...] = ()

    @property
    def brokers(self) -> list[int]:
        return sorted({end for link in self.links for end in link})

    def next_hops(self, target: int) -> dict[int, int]:
        """For every broker but the target its neighbour on the way there."""
        near: dict[int, list[int]] = {}
        for u, v in self.links:
            near.setdefault(u, []).append(v)
            near.setdefault(v, []).append(u)
        towards, ahead = {target: target}, [target]
        while ahead:
            broker = ahead.pop()
            for other in near[broker]:
                if other not in towards:
                    towards[other] = broker
                    ahead.append(other)
        del towards[target]
        return towards


def default_topology() -> Topology:
    """Makes the overlay of Fig. 6."""
    core = tuple(range(CORE_SIZE))
    inner = tuple(range(CORE_SIZE, CORE_SIZE + INNER_SIZE))
    first_edge = CORE_SIZE + INNER_SIZE
    edges = tuple(range(first_edge, first_edge + EDGES))
    links: list[Link] = list(pairwise(core))
    parents = [hub for hub, count in zip(core, INNER_OF_CORE, strict=True) for _ in range(count)]
    links += zip(parents, inner, strict=True)
    links += [(core[-1], edge) for edge in edges[:PUBLISHER_EDGES]]
    hosts = edges[PUBLISHER_EDGES:]
    places = [*inner, *inner[: len(hosts) - len(inner)]]  # one for each inner broker, then a second for the first ones
    links += zip(places, hosts, strict=True)
    by_core: dict[int, list[int]] = {hub: [] for hub in core}
    for place, host in zip(places, hosts, strict=True):
        by_core[parents[inner.index(place)]].append(host)
    regions = tuple(part for behind in by_core.values() for part in _parts(behind))
    return Topology(tuple(links), core, inner, edges[:PUBLISHER_EDGES], hosts, regions)


def tiered_topology() -> Topology:
    """Makes the overlay of Fig. 11."""
    links: list[Link] = []
    tiers: list[list[int]] = [[0], [], [], []]
    regions = []
    count = 1
    for _ in range(REGIONS):
        head, count = count, count + 1
        links.append((0, head))
        tiers[1].append(head)
        region = []
        for _ in range(BRANCHES):
            branch, count = count, count + 1
            links.append((head, branch))
            tiers[2].append(branch)
            for _ in range(LEAVES):
                links.append((branch, count))
                region.append(count)
                count += 1
        tiers[3] += region
        regions.append(tuple(region))
    leaves = tuple(tiers[3])
    inner = (*tiers[1], *tiers[2])
    return Topology(tuple(links), (0,), inner, leaves, leaves, tuple(regions), tuple(map(tuple, tiers)))


def _parts(brokers: list[int]) -> list[tuple[int, ...]]:
    """Cuts a row of brokers into parts of two to four, as even as possible."""
    count = round(len(brokers) / 3)
    return [tuple(brokers[i * len(brokers) // count : (i + 1) * len(brokers) // count]) for i in range(count)]
