"""What brokers have told each other when a plan comes into use, and what changes cost from then on, does not depend on
the order in which the plan's messages came. (Under active covering; other policies keep what happened to be sent.)"""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from overstory.routing.messages import Key
from overstory.routing.policies import make_policy
from overstory.routing.share import tree_shares

from .network import FEWER, Link, Network, entries_of, interval, network_on, random_tree

OLD, NEW = 0, 1
WIDTHS = (0, 2, 5)  # few, so that many subscriptions equal or cover each other
Story = tuple[dict[Link, set[Key]], list[Counter[Link]]]  # what is sent, and the messages of each change on each link


def told(network: Network) -> dict[Link, set[Key]]:
    """What brokers have told each other of the new plan."""
    late = {broker: router.state.epochs[NEW].flows[-1] for broker, router in network.routers.items()}
    return {(u, v): set(outlet.sent) for u, flow in late.items() for v, outlet in flow.outlets.items()}


def story(scene: int, order: int) -> Story:
    """Subscriptions are made, a plan is installed in one of many orders, and then subscriptions end, or are made."""
    dice, orders = random.Random(scene), random.Random(order)
    tree = random_tree(dice, dice.randint(2, 7))
    network = network_on(tree, make_policy("active"))
    brokers = sorted(network.routers)
    at = {id_: (dice.choice(brokers), dice.randint(0, 3), dice.choice(WIDTHS)) for id_ in range(dice.randint(1, 25))}
    for id_, (broker, low, width) in at.items():
        network.do(broker, network.routers[broker].subscribe(1000 + id_, id_, 1, interval(low, low + width)))
        network.settle()
    shares = tree_shares(tree, NEW)
    network.install(shares)
    network.settle(orders)
    network.activate(shares)
    network.settle(orders)
    for broker, router in network.routers.items():
        network.do(broker, router.retire(OLD))
    network.settle(orders)
    found, changes = told(network), []
    for id_ in dice.sample(sorted(at), len(at)):
        broker, low, width = at[id_]
        network.control.clear()
        if dice.random() < 0.3:  # one that equals another comes, and goes after it
            new = len(at) + id_
            network.do(broker, network.routers[broker].subscribe(1000 + new, new, 1, interval(low, low + width)))
        else:
            network.do(broker, network.routers[broker].unsubscribe(1000 + id_, id_, 1))
        network.settle()
        changes.append(Counter(link for link, message in network.control for _ in entries_of(message)))
    return found, changes


@FEWER
@given(scene=st.integers(0, 10**9), order=st.integers(1, 10**9))
def test_neither_what_is_told_nor_what_changes_cost_depends_on_the_order_of_messages(scene: int, order: int) -> None:
    assert story(scene, 0) == story(scene, order)


def test_of_equal_subscriptions_a_brokers_own_goes_first_and_a_newcomer_replaces_nobody() -> None:
    network = network_on([(0, 1), (1, 2)], make_policy("active"))
    for id_, broker in ((1, 0), (2, 1), (3, 1)):
        network.do(broker, network.routers[broker].subscribe(1000 + id_, id_, 1, interval(0, 5)))
        network.settle()
    assert network.sent()[1, 2] == {(1, 1)}  # the plan was in use: the first stays
    shares = tree_shares([(0, 1), (1, 2)], NEW)
    network.install(shares)
    network.settle()
    network.activate(shares)
    assert told(network)[1, 2] == {(2, 1)}
    network.do(1, network.routers[1].subscribe(1000, 0, 1, interval(0, 5)))
    network.settle()
    assert told(network)[1, 2] == {(2, 1)}
    network.do(1, network.routers[1].unsubscribe(1002, 2, 1))
    network.settle()
    assert told(network)[1, 2] == {(3, 1)}
