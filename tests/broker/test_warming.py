"""Whoever forks brokers has used the kernels that these need."""

from typing import Any

from overstory.broker.warming import carry_between_two
from overstory.kernels.boxes import add_plain, remove_plain
from overstory.kernels.cells import read_numbers
from overstory.kernels.following import follow, stay
from overstory.kernels.link_packets import link_packets
from overstory.kernels.recent import forget, move
from overstory.kernels.steiner_router import _route_many
from overstory.kernels.straight import sent_on


def test_two_brokers_carry_events_by_kernels_and_let_subscriptions_go() -> None:
    assert carry_between_two() == (14, 0)
    kernels: list[Any] = [link_packets, add_plain, remove_plain, sent_on]
    kernels += [read_numbers, _route_many, follow, stay, move, forget]  # for events of a plan before, and steered ones
    assert all(kernel.signatures for kernel in kernels)  # they are loaded
