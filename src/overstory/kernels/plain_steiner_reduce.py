"""Reductions of ``kernels.steiner_reduce`` once more in plain Python and by their definitions, to check the kernel
against; not used elsewhere.

A network is a list of links without a direction: one node, another, the price. A pair may have several.
"""

from collections.abc import Callable

from overstory.kernels.steiner_reduce import SURELY

Link = tuple[int, int, float]


def reduced(links: list[Link], far: Callable[[int, int], float], ends: list[int]) -> list[Link]:
    """What is left for some ends; ``far`` gives the distance between a node and an end."""
    left = short_links(links, far, ends)
    while True:
        single = {node for node, count in degrees(left).items() if count == 1} - set(ends)
        if not single:
            break
        left = [link for link in left if not {link[0], link[1]} & single]
    through = {node for node, count in degrees(left).items() if count == 2} - set(ends)
    return joined(left, through)


def short_links(links: list[Link], far: Callable[[int, int], float], ends: list[int]) -> list[Link]:
    """Those that are no longer than a detour from end to end."""
    longest = longest_stretch(far, ends)

    def is_short(one: int, other: int, price: float) -> bool:
        base, another = (min(ends, key=lambda end: far(node, end)) for node in (one, other))
        stretch = max(far(one, base), far(other, another))
        return price <= (stretch if base == another else max(stretch, longest)) * SURELY

    return [link for link in links if link[0] != link[1] and is_short(*link)]


def longest_stretch(far: Callable[[int, int], float], ends: list[int]) -> float:
    """The longest link of a minimum spanning tree of the ends (Kruskal's algorithm)."""
    group = {end: end for end in ends}
    longest = 0.0
    for price, one, other in sorted((far(one, other), one, other) for one in ends for other in ends):
        if group[one] != group[other]:
            longest = price
            group = {end: group[one] if its == group[other] else its for end, its in group.items()}
    return longest


def degrees(links: list[Link]) -> dict[int, int]:
    found: dict[int, int] = {}
    for one, other, _ in links:
        for node in (one, other):
            found[node] = found.get(node, 0) + 1
    return found


def joined(links: list[Link], through: set[int]) -> list[Link]:
    """Takes the nodes with two links out of the middle, one after the other; a way that only leads back is none."""
    left = list(links)
    for node in through:
        mine = [link for link in left if node in link[:2]]
        left = [link for link in left if node not in link[:2]]
        if len(mine) == 2:
            (one, two, price), (three, four, more) = mine
            left.append((one + two - node, three + four - node, price + more))
    return [link for link in left if link[0] != link[1]]
