"""Brokers that restart, markers that are lost for good, and memory that stays bounded: case by case."""

from collections.abc import Mapping

import pytest

from overstory.errors import VersionError
from overstory.model.tables import STEINER
from overstory.routing import tombstones
from overstory.routing.messages import LATE, Acknowledge, Drained, Marker, Retired, Send, Subscribe
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Share, tree_shares

from .network import TRUE, Network, interval, network_on
from .test_disturbances import deliveries, down, up

POLICIES = sorted(SUMMARIES)


def restarted(network: Network, broker: int, shares: Mapping[int, Share], up_first: bool) -> None:
    """The broker loses all that it knew. Its neighbours notice; it comes up, and installs its plan, in either order."""
    old = network.routers[broker]
    peers = sorted(old.state.up)
    for peer in peers:
        network.links[broker, peer].clear()
        network.links[peer, broker].clear()
        network.do(peer, network.routers[peer].neighbour_down(broker))
    router = network.routers[broker] = Router(
        broker, old.state.policy, old.lease, incarnation=old.state.incarnation + 1
    )

    def come_up() -> None:
        for peer in peers:
            network.do(broker, router.neighbour_up(peer))
            network.do(peer, network.routers[peer].neighbour_up(broker))
        network.settle()

    if up_first:
        come_up()
    for _, share in sorted(shares.items()):
        network.do(broker, router.install(share))
    if not up_first:
        come_up()
    network.settle()
    network.do(broker, router.activate(max(shares)))
    network.settle()


@pytest.mark.parametrize("up_first", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_broker_that_restarts_leaves_nothing_of_its_earlier_life_behind(policy: str, up_first: bool) -> None:
    """Its client may even want something else under the same version, and what is behind it is found again."""
    shares = tree_shares([(0, 1), (1, 2)])
    network = Network(shares, make_policy(policy), 1e9)
    network.do(1, network.routers[1].subscribe(101, 7, 1, interval(0, 10)))
    network.do(1, network.routers[1].subscribe(101, 8, 1, interval(0, 100)))
    network.do(2, network.routers[2].subscribe(102, 9, 1, interval(50, 60)))
    network.settle()
    restarted(network, 1, {0: shares[1]}, up_first)
    network.do(1, network.routers[1].subscribe(101, 7, 1, interval(30, 40)))
    network.settle()
    assert network.sent()[1, 0] == {(7, 1), (9, 1)}
    assert sorted(network.routers[0].state.epochs[0].flows[LATE].entries) == [(1, (7, 1)), (1, (9, 1))]
    assert deliveries(network, 0, 5, 35, 55) == [(1, 7), (2, 9)]


@pytest.mark.parametrize("up_first", [True, False])
def test_an_epoch_that_a_restarted_broker_does_not_have_drains_without_its_markers(up_first: bool) -> None:
    network = network_on([(0, 1), (1, 2)], make_policy("active"))
    network.install(tree_shares([(0, 1), (1, 2)], 1))
    network.settle()
    for broker in (0, 2):
        network.do(broker, network.routers[broker].activate(1))
    network.settle()
    assert network.drained == []
    restarted(network, 1, {1: tree_shares([(0, 1), (1, 2)], 1)[1]}, up_first)
    assert sorted(network.drained) == [(0, 0), (2, 0)]


def test_an_epoch_drains_though_the_last_marker_was_lost_and_its_sender_has_retired() -> None:
    """Two brokers and one lost marker: the other would keep both tables for ever."""
    network = network_on([(0, 1)], make_policy("active"))
    network.install(tree_shares([(0, 1)], 1))
    network.settle()
    network.do(0, network.routers[0].activate(1))
    network.settle()  # the marker of broker 0 arrives
    network.do(1, network.routers[1].activate(1))
    assert network.drained == [(1, 0)]
    network.do(1, network.routers[1].retire(0))
    network.links[1, 0].clear()  # and that of broker 1 is lost with the link
    down(network, 0, 1)
    up(network, 0, 1)
    network.settle()
    assert network.drained == [(1, 0), (0, 0)]
    network.do(0, network.routers[0].retire(0))
    assert [sorted(router.state.epochs) for router in network.routers.values()] == [[1], [1]]


def test_a_broker_that_installs_an_epoch_again_which_others_have_retired_is_told() -> None:
    """They retired it after it had come up, and before it installed it."""
    network = network_on([(0, 1)], make_policy("active"))
    network.install(tree_shares([(0, 1)], 1))
    network.settle()
    for broker in (0, 1):
        network.do(broker, network.routers[broker].activate(1))
    router = network.routers[0] = Router(0, make_policy("active"), incarnation=1)
    network.settle()
    network.do(0, router.neighbour_up(1))
    network.do(1, network.routers[1].neighbour_down(0))
    network.do(1, network.routers[1].neighbour_up(0))
    network.settle()
    network.do(1, network.routers[1].retire(0))
    for epoch in (0, 1):
        network.do(0, router.install(tree_shares([(0, 1)], epoch)[0]))
    network.settle()
    network.drained.clear()
    network.do(0, router.activate(1))
    network.settle()
    assert network.drained == [(0, 0)]


def test_a_steered_epoch_drains_though_its_neighbour_has_retired_it() -> None:
    """Nobody knows how many steered events are still to come from brokers that did not say it: two leases will tell."""
    chain = dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], 1.0)
    late = FlowShare(LATE, TRUE, frozenset({0, 2}))
    steered = FlowShare(1, TRUE, frozenset({0, 2}), kind=STEINER)
    share = Share(0, {LATE: late, 1: steered}, prices=chain)
    router = Router(1, make_policy("active"), lease=10.0)
    for peer in (0, 2):
        router.neighbour_up(peer)
    router.install(share)
    router.install(Share(1, {LATE: late}))
    router.activate(0)
    router.activate(1)
    outputs = router.receive(0, Retired(1, frozenset({1})))
    assert Send(2, Marker(0, LATE)) in outputs
    assert Drained(0) not in outputs
    assert Drained(0) not in router.receive(2, Retired(1))
    found = [time for time in range(10, 60, 10) if Drained(0) in router.tick(time)]
    assert found == [40]


# Memory


def test_what_is_remembered_of_ends_is_bounded_though_leases_never_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "MOST", 50)
    network = Network(tree_shares([(0, 1)]), make_policy("active"))
    for router in network.routers.values():
        assert router.lease == float("inf")
    for id_ in range(500):
        network.do(0, network.routers[0].subscribe(100, id_, 1, TRUE))
        network.do(0, network.routers[0].unsubscribe(100, id_, 1))
        network.do(0, network.routers[0].advertise(100, id_, 1, TRUE))
        network.do(0, network.routers[0].unadvertise(100, id_, 1))
        network.settle()
    assert [router.statistics().ended for router in network.routers.values()] == [200, 100]
    network.do(0, network.routers[0].subscribe(100, 499, 1, TRUE))
    assert network.routers[0].statistics().subscriptions == 0  # the latest ends are remembered


def test_messages_of_epochs_that_nobody_has_installed_are_counted_and_not_kept() -> None:
    router = Router(0, make_policy("active"))
    for epoch in range(100):
        for id_ in range(10):
            assert router.receive(77, Subscribe(epoch, LATE, (id_, 1), TRUE)) == []
    assert router.statistics().dropped == 1000
    assert router.state.too_early == {77: 99}


def test_a_subscription_that_changes_only_no_local_has_to_raise_its_version() -> None:
    network = network_on([(0, 1)], make_policy("active"))
    router = network.routers[0]
    router.subscribe(100, 7, 1, TRUE)
    with pytest.raises(VersionError, match="raise the version"):
        router.subscribe(100, 7, 1, TRUE, no_local=True)
    assert router.subscribe(100, 7, 1, TRUE) == []
    assert router.subscribe(100, 7, 2, TRUE, no_local=True)[-1] == Acknowledge(100, (7, 2))
