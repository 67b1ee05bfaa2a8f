"""Steered flows, in small cases worked out by hand: detours, what is out of reach, order, bad headers, moves."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from overstory.errors import RoutingError, UnknownTreeError
from overstory.filters import parse_filter
from overstory.kernels.steering import NO_LINK, OTHER_NETWORK, TOO_LONG, TRUNCATED, TWICE
from overstory.matching import Batch
from overstory.model.tables import PATHS, STEINER
from overstory.routing import __main__ as set_up
from overstory.routing.frames import Frames, Header, Steered
from overstory.routing.messages import LATE, Released, Send, Subscribe
from overstory.routing.policies import make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, tree_shares, with_regions
from overstory.routing.steering import Steering
from overstory.routing.summaries import SteeredFlow
from overstory.wire.steering import FAULTS, UNKNOWN_FLOW, first_byte

from .network import TRUE, Link, Network

CLIENT = 100  # of broker b: 100 + b
STEERED = 1  # the flow
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]  # the late tree is all but the last
PRICES = {end: 1.0 for u, v in RING for end in ((u, v), (v, u))}


def shares(
    members: dict[int, int],
    epoch: int = 0,
    kind: str = STEINER,
    ordered: bool = False,
    prices: dict[Link, float] = PRICES,
) -> dict[int, Share]:
    """A plan on the ring. ``members`` are subscriptions to everything, by id, and their brokers."""
    return {
        broker: msgspec.structs.replace(
            share,
            flows={
                **share.flows,
                STEERED: FlowShare(STEERED, TRUE, share.flows[LATE].neighbours, kind=kind, ordered=ordered),
            },
            members=tuple(Member(STEERED, id_, CLIENT + at, TRUE) for id_, at in members.items() if at == broker),
            planned=dict.fromkeys(members, 0),
            prices=PRICES,
        )
        for broker, share in tree_shares(RING[:3]).items()
    }


def regional(members: dict[int, int], gateway_of: dict[int, int], epoch: int = 0) -> dict[int, Share]:
    """The same with regions: the gateway of each broker is given."""
    plain = shares(members)
    tree = {broker: share.flows[LATE].neighbours for broker, share in plain.items()}
    made = with_regions({broker: share.flows[STEERED] for broker, share in plain.items()}, tree, gateway_of)
    return {
        broker: msgspec.structs.replace(
            share, epoch=epoch, flows=share.flows | {flow.number: flow for flow in made[broker]}
        )
        for broker, share in plain.items()
    }


def cut(network: Network, u: int, v: int, noticed: bool = True) -> None:
    for here, there in ((u, v), (v, u)):
        network.links[here, there].clear()
        if noticed:
            network.do(here, network.routers[here].neighbour_down(there))


def crossed(network: Network, event: int) -> list[Link]:
    return [(each.source, each.target) for each in network.crossings if each.event == event]


@pytest.mark.parametrize("kind", [PATHS, STEINER])
def test_a_hop_before_a_link_that_is_down_finds_another_way(kind: str) -> None:
    """Broker 1 knows at once, broker 0 not yet: the event goes to 1, back to 0, and round the ring."""
    network = Network(shares({7: 2}, kind=kind), make_policy("active"))
    for broker in (1, 2):
        network.do(broker, network.routers[broker].neighbour_down(3 - broker))
    network.publish(0, CLIENT, 50, {"x": 1})
    assert crossed(network, 50) == [(0, 1)]
    network.settle()
    assert crossed(network, 50) == [(0, 1), (1, 0), (0, 3), (3, 2)]
    assert network.deliveries() == [(50, 7)]
    network.publish(0, CLIENT, 51, {"x": 1})  # by now everyone knows
    network.settle()
    assert crossed(network, 51) == [(0, 3), (3, 2)]
    for here, there in ((1, 2), (2, 1)):
        network.do(here, network.routers[here].neighbour_up(there))
    network.settle()
    network.publish(1, CLIENT + 1, 52, {"x": 1})
    network.settle()
    assert crossed(network, 52) == [(1, 2)]
    assert network.deliveries() == [(50, 7), (51, 7), (52, 7)]


def test_a_network_that_falls_apart_serves_the_part_in_reach_and_counts_the_rest() -> None:
    network = Network(shares({7: 2, 8: 1}), make_policy("active"))
    cut(network, 1, 2)
    cut(network, 0, 3)
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    network.settle()
    assert network.deliveries() == [(50, 8)]
    assert network.routers[0].statistics().unreachable == 1


def test_two_brokers_with_old_beliefs_do_not_send_a_frame_to_and_fro_for_ever() -> None:
    """Nobody tells anybody of links: 0 believes in the way over 1, and 1 in the way over 0."""
    network = Network(shares({7: 2}), make_policy("active"))
    network.do = lambda broker, outputs: None  # type: ignore[method-assign]
    for here, there in ((1, 2), (2, 1), (0, 3), (3, 0)):
        network.routers[here].neighbour_down(there)
    network.publish(0, CLIENT, 50, {"x": 1})
    network.settle()
    assert network.deliveries() == []
    assert 1 < len(crossed(network, 50)) <= 10
    assert sum(router.statistics().unreachable for router in network.routers.values()) == 1


def test_events_are_released_in_order_though_they_take_different_ways() -> None:
    """The second overtakes the first, whose link is slow, and waits for it."""
    network = Network(shares({7: 2}, ordered=True), make_policy("active"))
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    ((slow, frames),) = [(link, network.links[link].popleft()) for link in network.busy()]
    network.publish(0, CLIENT, 51, {"x": 1})
    network.settle()
    assert network.deliveries() == []
    assert network.routers[2].statistics().waiting == 1
    network.links[slow].append(frames)
    network.settle()
    while network.busy():
        network.deliver(network.busy()[0])
    assert network.deliveries() == [(50, 7), (51, 7)]


def test_an_event_that_was_lost_is_waited_for_no_longer_than_two_leases() -> None:
    network = Network(shares({7: 1}, ordered=True), make_policy("active"), lease=10.0)
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    network.links[0, 1].clear()  # it is lost
    network.publish(0, CLIENT, 51, {"x": 1})
    network.settle()
    assert network.deliveries() == []
    for now in range(10, 60, 10):
        for broker, router in network.routers.items():
            network.do(broker, router.tick(now))
        network.settle()
    assert network.deliveries() == [(51, 7)]


def test_a_frame_that_comes_again_stays_once() -> None:
    network = Network(shares({7: 1}), make_policy("active"))
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    network.links[0, 1].append(network.links[0, 1][0])
    network.settle()
    while network.busy():
        network.deliver((0, 1))
    assert network.deliveries() == [(50, 7)]


def frame(header: bytes, flow: int = STEERED) -> Frames:
    """One frame from broker 0, with this header."""
    data = np.frombuffer(header, np.uint8).copy()
    steered = Steered(np.array([0, 1]), np.array([flow]), np.array([0, len(data)]), data)
    one = np.array([1])
    flows = [frozenset({flow})]
    return Frames(0, Batch.of([{"x": 1}]), one, one + CLIENT, one * 0, one * 0, flows, steered, Header.fresh(1))


def test_a_header_that_is_wrong_is_dropped_counted_and_named() -> None:
    network = Network(shares({7: 1}), make_policy("active"))
    router = network.routers[1]
    digest = router.state.epochs[0].steered.whole.digest
    first = first_byte(digest)
    bad = [
        (frame(b""), TRUNCATED),
        (frame(bytes([first])), TRUNCATED),
        (frame(bytes([first_byte((digest + 1) % 32), 0])), OTHER_NETWORK),
        (frame(bytes([first, 0b11111111])), NO_LINK),  # more links than there are
        (frame(bytes([first, 0b10011000, 0])), TWICE),  # to 2, and from there back to 1
        (frame(bytes([first, 0, 0])), TOO_LONG),
        (frame(bytes([first, 0]), flow=44), UNKNOWN_FLOW),
    ]
    faults: Counter[str] = Counter()
    for number, (each, fault) in enumerate(bad, start=1):
        routed, outputs = router.publish(each)
        assert (len(routed.frames), len(routed.delivered), outputs) == (0, 0, [])
        faults[FAULTS[fault]] += 1
        assert router.statistics().wrong_headers == number
        assert router.statistics().header_faults == faults
    assert faults.keys() == set(FAULTS.values())
    routed, _ = router.publish(frame(bytes([first, 0])))
    assert routed.delivered.tolist() == [7]


def test_a_summary_of_a_broker_that_is_not_there_is_refused() -> None:
    router = Router(0, make_policy("active"))
    router.neighbour_up(1)
    router.install(shares({})[0])
    for host in (-1, 44):
        with pytest.raises(UnknownTreeError, match=f"names broker {host}"):
            router.receive(1, Subscribe(0, STEERED, (9, 1), TRUE, host=host))


def test_a_subscription_moves_in_parts_to_a_tree_and_to_a_steered_flow() -> None:
    """Every event comes once, before the move, meanwhile and afterwards."""
    low, high = parse_filter("x < 5"), parse_filter("x >= 5")
    plan = {
        broker: msgspec.structs.replace(
            share,
            flows={
                **share.flows,
                STEERED: msgspec.structs.replace(share.flows[STEERED], events=low),
                2: FlowShare(2, high, share.flows[LATE].neighbours),
            },
        )
        for broker, share in shares({}).items()
    }
    network = Network(plan, make_policy("active"))
    router = network.routers[2]
    network.do(2, router.subscribe(CLIENT + 2, 7, 1, parse_filter("x > 1")))
    network.settle()
    with pytest.raises(RoutingError, match="do not carry all"):
        router.move(7, STEERED)
    network.do(2, router.move(7, STEERED, 2))
    event = 50
    while network.busy():
        for broker in (0, 1, 3) if event < 200 else ():
            network.publish(broker, CLIENT + broker, event, {"x": event % 10})
            event += 1
        for link in network.busy():
            network.deliver(link)
    assert router.state.homes[7].joined == {(0, STEERED), (0, 2)}
    got = network.deliveries()
    assert sorted(got) == [(each, 7) for each in range(50, event) if each % 10 > 1]


def test_flows_that_carry_the_same_event_cannot_share_a_subscription() -> None:
    plan = {
        broker: msgspec.structs.replace(
            share, flows={**share.flows, 2: FlowShare(2, TRUE, share.flows[LATE].neighbours)}
        )
        for broker, share in shares({}).items()
    }
    network = Network(plan, make_policy("active"))
    network.do(2, network.routers[2].subscribe(CLIENT + 2, 7, 1, TRUE))
    network.settle()
    with pytest.raises(RoutingError, match="may both carry an event"):
        network.routers[2].move(7, STEERED, 2)


def test_a_dead_broker_does_not_stall_a_move_for_ever() -> None:
    network = Network(shares({}), make_policy("active"), lease=10.0)
    network.do(0, network.routers[0].subscribe(CLIENT, 7, 1, TRUE))
    network.settle()
    cut(network, 2, 3)
    cut(network, 0, 3)
    network.settle()
    network.do(0, network.routers[0].move(7, STEERED))
    network.settle()
    assert (0, LATE) in network.routers[0].state.homes[7].joined
    for now in range(10, 100, 10):
        for broker in (0, 1, 2):
            network.do(broker, network.routers[broker].tick(now))
        network.settle()
    assert network.routers[0].state.homes[7].joined == {(0, STEERED)}


def test_hops_in_between_do_not_match() -> None:
    """At broker 1 the frame only passes: its table is not asked."""
    network = Network(shares({7: 2}), make_policy("active"))
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    ((link, frames),) = [(link, network.links[link][0]) for link in network.busy()]
    assert isinstance(frames, Frames)
    router = network.routers[link[1]]
    epoch = router.state.epochs[0]
    here = epoch.steered.here(frames)
    assert here is not None
    assert not epoch.steered.matched(frames, here).any()
    network.settle()
    assert network.deliveries() == [(50, 7)]


def test_set_up_compiles_the_kernels_for_all_kinds_of_prices() -> None:
    """Else the first event after a link has failed would wait for seconds."""
    for price in set_up.PRICES:
        set_up.steer(price)
    on = [
        Steering.on({(0, 1): price, (1, 0): price + (price != 1), (1, 2): price, (2, 1): price})
        for price in set_up.PRICES
    ]
    assert [each._router.ways.distances.far.dtype.name for each in on] == ["uint8", "uint16", "float32"]


def test_what_waits_is_an_output_of_its_own() -> None:
    """A shell has to act on it as on a decision."""
    network = Network(shares({7: 1}, ordered=True), make_policy("active"))
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    network.publish(0, CLIENT, 51, {"x": 1})
    first, second = (network.links[0, 1].popleft() for _ in range(2))
    assert isinstance(first, Frames)
    assert isinstance(second, Frames)
    router = network.routers[1]
    routed, outputs = router.publish(second)
    assert (len(routed.delivered), outputs) == (0, [])
    routed, outputs = router.publish(first)
    assert routed.delivered.tolist() == [7]
    (released,) = outputs
    assert isinstance(released, Released)
    assert (released.frames.ids.tolist(), released.routed.delivered.tolist()) == ([51], [7])
    assert not any(isinstance(output, Send) for output in outputs)


def test_what_is_remembered_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where leases never run out."""
    monkeypatch.setattr("overstory.routing.arrivals.MOST_SEEN", 10)
    network = Network(shares({7: 1}), make_policy("active"))
    network.settle()
    for event in range(50, 90):
        network.publish(0, CLIENT, event, {"x": 1})
    network.settle()
    assert [event for event, _ in network.deliveries()] == list(range(50, 90))
    assert len(network.routers[1].state.epochs[0].arrivals.seen) == 10


# Regions


TWO_REGIONS = {0: 0, 1: 0, 2: 3, 3: 3}  # the gateway of each broker


def held(network: Network) -> dict[int, set[tuple[int, int]]]:
    """The ends that each broker knows: the broker that an entry leads to, and the subscription that it stands for."""
    return {
        broker: {
            (flow.host_of(key), key[0])
            for _, flow in router.state.flows()
            if isinstance(flow, SteeredFlow)
            for (hop, key), entry in flow.entries.items()
            if hop in network.routers and entry.number != -1
        }
        for broker, router in network.routers.items()
    }


def test_brokers_hold_the_summaries_of_their_region_and_one_of_each_other() -> None:
    """Subscriptions 7 and 8 are in the same region, and one of them stands for both elsewhere."""
    network = Network(regional({7: 2, 8: 3, 9: 1}, TWO_REGIONS), make_policy("active"))
    known = held(network)
    assert known[0] in ({(1, 9), (3, 7)}, {(1, 9), (3, 8)})
    assert known[1] in ({(3, 7)}, {(3, 8)})
    assert (known[2], known[3]) == ({(3, 8), (0, 9)}, {(2, 7), (0, 9)})


def test_an_event_changes_at_the_gateway() -> None:
    network = Network(regional({7: 2, 9: 1}, TWO_REGIONS), make_policy("active"))
    network.publish(0, CLIENT, 50, {"x": 1})
    network.settle()
    assert sorted(crossed(network, 50)) == [(0, 1), (0, 3), (3, 2)]
    assert sorted(network.deliveries()) == [(50, 7), (50, 9)]


def test_what_comes_to_a_gateway_twice_goes_on_once() -> None:
    network = Network(regional({7: 2}, TWO_REGIONS), make_policy("active"))
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    ((link, frames),) = [(link, network.links[link][0]) for link in network.busy()]
    network.links[link].append(frames)
    network.settle()
    while network.busy():
        network.deliver(network.busy()[0])
    assert network.deliveries() == [(50, 7)]
    assert crossed(network, 50) == [(0, 3), (3, 2)]


def test_a_region_whose_gateway_is_dead_is_out_of_reach_from_elsewhere() -> None:
    """Its brokers still reach each other; what is lost is counted, and nothing waits for it."""
    network = Network(regional({7: 2, 8: 3}, {0: 0, 1: 1, 2: 1, 3: 3}), make_policy("active"))
    for there in (0, 2):
        cut(network, 1, there)
    network.settle()
    network.publish(0, CLIENT, 50, {"x": 1})
    network.publish(2, CLIENT + 2, 51, {"x": 1})
    network.settle()
    assert sorted(network.deliveries()) == [(50, 8), (51, 7), (51, 8)]
    assert network.routers[0].statistics().unreachable == 1
    assert not any(router.statistics().waiting for router in network.routers.values())


def test_a_plan_drains_though_an_event_was_lost_before_the_gateway_or_behind_it() -> None:
    for lost in ((0, 3), (3, 2)):
        network = Network(regional({7: 2}, TWO_REGIONS), make_policy("active"), lease=10)
        network.settle()
        network.publish(0, CLIENT, 50, {"x": 1})
        while not network.links[lost]:
            network.deliver(network.busy()[0])
        network.links[lost].clear()
        later = regional({7: 2}, TWO_REGIONS, epoch=1)
        network.install(later)
        network.settle()
        network.activate(later)
        network.settle()
        assert network.drained == []
        for now in range(10, 90, 10):
            for broker, router in network.routers.items():
                network.do(broker, router.tick(now))
            network.settle()
        assert sorted(network.drained) == [(broker, 0) for broker in range(4)]


def test_a_late_subscription_moves_to_a_flow_with_regions() -> None:
    """Only once the brokers of other regions know that the region wants its events."""
    network = Network(regional({}, TWO_REGIONS), make_policy("active"))
    network.do(2, network.routers[2].subscribe(CLIENT + 2, 7, 1, TRUE))
    network.settle()
    network.do(2, network.routers[2].move(7, STEERED))
    told = network.links[3, 2]  # what the gateway says to its host's side goes last
    for event in range(50, 60):
        network.publish(0, CLIENT, event, {"x": 1})
        for link in network.busy():
            if network.links[link] is not told:
                network.deliver(link)
    network.settle()
    while network.busy():
        network.deliver(network.busy()[0])
    assert sorted(network.deliveries()) == [(event, 7) for event in range(50, 60)]
    assert network.routers[2].state.homes[7].joined == {(0, STEERED)}
    assert not any(router.is_moving for router in network.routers.values())
    network.publish(0, CLIENT, 60, {"x": 1})
    network.settle()
    assert crossed(network, 60) == [(0, 3), (3, 2)]
