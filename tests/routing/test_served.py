"""``Served`` says that the whole network serves a subscription: not before it does, and in the end."""

import random
from itertools import count

import pytest

from overstory.routing.messages import LATE, Reach, Served
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Share, tree_shares

from .network import TRUE, Network, interval, random_tree
from .test_disturbances import down, up

POLICIES = sorted(SUMMARIES)


def network_of(dice: random.Random, policy: str) -> Network:
    tree = random_tree(dice, dice.randint(2, 6))
    return Network(tree_shares(tree), make_policy(policy), 1e9, dice.choice([0, 1, 64]), tells_served=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_that_enters_anywhere_after_it_comes(policy: str) -> None:
    """In whatever order links deliver. Subscriptions cover each other, come in crowds, and some leave meanwhile."""
    for seed in range(6):
        dice = random.Random(seed)
        network, required, events = network_of(dice, policy), set[tuple[int, int]](), count()
        at, brokers = dict[int, tuple[int, int]](), sorted(network.routers)
        for id_ in range(30):
            broker, low = dice.choice(brokers), dice.randrange(20)
            at[id_] = (low, low + dice.choice([1, 5, 20]))
            network.do(broker, network.routers[broker].subscribe(100 + broker, id_, 1, interval(*at[id_])))
            for _ in range(dice.randrange(12)):
                network.step(dice)
            event, x = next(events), dice.randrange(30)
            served = {key[0] for _, key in network.served}
            required |= {(event, id_) for id_ in served if at[id_][0] <= x <= at[id_][1]}
            network.publish(entry := dice.choice(brokers), 100 + entry, event, {"x": x})
        network.settle(dice)
        assert required <= set(network.deliveries())
        assert sorted(key[0] for _, key in network.served) == list(range(30))  # each is served once


def test_one_flush_serves_all_that_were_made_before_it() -> None:
    network = Network(tree_shares([(0, 1), (1, 2)]), make_policy("active"), tells_served=True)
    for id_ in range(50):
        network.do(0, network.routers[0].subscribe(100, id_, 1, interval(id_, id_ + 1)))
    network.settle()
    assert len(network.served) == 50
    assert sum(isinstance(message, Reach) for _, message in network.control) == 2 * 2


def test_alone_a_broker_serves_at_once_and_without_a_plan_not_yet() -> None:
    router = Router(0, make_policy("active"), tells_served=True)
    assert Served(100, (7, 1)) not in router.subscribe(100, 7, 1, TRUE)
    assert Served(100, (7, 1)) in router.install(Share(0, {LATE: FlowShare(LATE, TRUE, frozenset())}))
    assert router.subscribe(100, 8, 1, TRUE)[-1] == Served(100, (8, 1))


def test_a_broker_that_is_away_is_waited_for_and_asked_when_it_is_back() -> None:
    network = Network(tree_shares([(0, 1), (1, 2)]), make_policy("active"), tells_served=True)
    down(network, 1, 2)
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    assert network.served == []
    up(network, 1, 2)
    network.settle()
    assert network.served == [(0, (7, 1))]
    network.publish(2, 102, 1, {"x": 1})
    network.settle()
    assert network.deliveries() == [(1, 7)]


def test_one_that_has_ended_is_never_served_and_nobody_waits_for_it() -> None:
    network = Network(tree_shares([(0, 1)]), make_policy("active"), tells_served=True)
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.do(0, network.routers[0].unsubscribe(100, 7, 1))
    network.settle()
    assert network.served == []
    assert not any(router.is_serving for router in network.routers.values())
