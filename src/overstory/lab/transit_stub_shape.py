"""What a transit-stub network looks like: how many domains of which size, and where to draw them.

Brokers stand in this order: the transit nodes, domain by domain; then the stub nodes, stub by stub, in the order of
the transit nodes that carry the stubs.
"""

from math import log

import msgspec
import numpy as np

from overstory.errors import UsageError
from overstory.model.network import Floats, Ints


class Shape(msgspec.Struct, frozen=True):
    domains: int  # of transit nodes
    transit_nodes: int  # in a transit domain
    stubs: int  # on a transit node
    stub_nodes: int  # in a stub

    def __post_init__(self) -> None:
        if min(self.domains, self.transit_nodes) < 1 or min(self.stubs, self.stub_nodes) < 0:
            raise UsageError(f"a transit-stub network needs a domain with a transit node at least, not {self}")

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return self.domains, self.transit_nodes, self.stubs, self.stub_nodes

    @property
    def core(self) -> int:
        return self.domains * self.transit_nodes

    @property
    def brokers(self) -> int:
        """N, in GT-ITM's documentation."""
        return self.core * (1 + self.stubs * self.stub_nodes)


GRID = {500: Shape(2, 5, 7, 7), 1000: Shape(4, 5, 7, 7), 2000: Shape(4, 8, 6, 10), 5000: Shape(10, 5, 10, 10)}


def shape_for(brokers: int) -> Shape:
    """The papers' grid where it has one. Else like it in shape, and near to it in size: stubs make up the rest."""
    if brokers in GRID:
        return GRID[brokers]

    def strangeness(shape: Shape) -> float:
        usual = max(1.0, brokers / 400), 5, 7, 7
        unlike = sum(log(is_so / should_be) ** 2 for is_so, should_be in zip(shape.numbers, usual, strict=True))
        return unlike + 100 * log(shape.brokers / brokers) ** 2

    shapes = (
        Shape(max(1, round(brokers / (transit * (1 + stubs * nodes)))), transit, stubs, nodes)
        for transit in range(1, 9)
        for stubs in range(1, 11)
        for nodes in range(1, 11)
    )
    return min((shape for shape in shapes if shape.core <= brokers), key=strangeness)


def stub_sizes(brokers: int, shape: Shape) -> Ints:
    stubs = shape.core * shape.stubs
    if brokers < shape.core or (stubs == 0 and brokers != shape.core):
        raise UsageError(f"{brokers} brokers do not fit {shape}; give another number or another shape")
    if stubs == 0:
        return np.zeros(0, np.int64)
    size, more = divmod(brokers - shape.core, stubs)
    sizes = np.full(stubs, size)
    # Those that get one more are spread over the transit nodes.
    sizes[np.arange(more) * stubs // max(more, 1)] += 1
    return sizes


def node_names(shape: Shape, sizes: Ints, home: Ints) -> list[str]:
    names = [f"t{domain}.{node}" for domain in range(shape.domains) for node in range(shape.transit_nodes)]
    within = np.arange(len(home)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    for stub, node in zip(home.tolist(), within.tolist(), strict=True):
        names.append(f"s{names[stub // shape.stubs][1:]}.{stub % shape.stubs}.{node}")
    return names


def layout(shape: Shape, sizes: Ints, home: Ints) -> tuple[Floats, Floats]:
    """For drawing: transit nodes on a circle, around it the stubs, each a small circle by its transit node."""
    around = 2 * np.pi * np.arange(shape.core) / shape.core
    stubs = max(len(sizes), 1)
    middle = 2 * np.pi * (np.arange(stubs) - (shape.stubs - 1) / 2) / stubs
    within = np.arange(len(home)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn = 2 * np.pi * within / sizes[home]
    distance = 2 + 0.5 * (home % 2)  # neighbours stand in two rows
    radius = min(0.3, 4 * np.pi / stubs)
    x = distance * np.cos(middle[home]) + radius * np.cos(turn)
    y = distance * np.sin(middle[home]) + radius * np.sin(turn)
    return np.concatenate((np.cos(around), x)), np.concatenate((np.sin(around), y))
