"""Whoever forks brokers has used the kernels that these need."""

from typing import Any

from overstory.broker.warming import carry_between_two
from overstory.kernels.boxes import add_plain, remove_plain
from overstory.kernels.link_packets import link_packets
from overstory.kernels.straight import sent_on


def test_two_brokers_carry_events_by_kernels_and_let_subscriptions_go() -> None:
    assert carry_between_two() == (10, 0)
    kernels: list[Any] = [link_packets, add_plain, remove_plain, sent_on]
    assert all(kernel.signatures for kernel in kernels)  # they are loaded
