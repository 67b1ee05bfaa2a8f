"""Clients migrate between brokers without any coordinator: each to where it is cheapest, and then they rest."""

from typing import Any

import numpy as np
import pytest

from overstory.broker.migrating import Migrating
from overstory.broker.terrain import Terrain, terrain_of
from overstory.kernels.overlay_state import access_and_core
from overstory.lab.moving_live import written
from overstory.model.scenario import read_scenario
from overstory.wire.packets import Connect, Disconnect, Publish
from overstory.wire.topics import FOLLOWS

from .house import Client
from .nets import Net
from .test_replicas import net_of
from .test_roaming import came
from .test_spreading import settle

LINE = [(0, 1), (1, 2), (2, 3)]
FAR = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
FOLLOWING: dict[str, Any] = {
    "clean_start": False,
    "properties": {"session_expiry_interval": 1000, "user_properties": [FOLLOWS]},
}
STAYING: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 1000}}


class Crowd:
    """Clients on a line of four brokers, who go where they are sent."""

    def __init__(self, capacity: float = np.inf) -> None:
        self.net = net_of(LINE, sample=1.0)
        self.at: dict[str, int] = {}
        self.clients: dict[str, Client] = {}
        self.got: dict[str, list[bytes]] = {}
        self.sent = 0
        for broker in self.net.brokers.values():
            terrain = Terrain(range(4), FAR, np.full(4, capacity), None)
            broker.fabric.moving.migrating = Migrating(broker.fabric, terrain, 10.0)

    def join(self, name: str, broker: int, topic: str = "", **given: Any) -> None:
        client = self.net.brokers[broker].connect(name, **(given or FOLLOWING))
        if topic:
            client.subscribe(topic, qos=1)
        self.at[name], self.clients[name], self.got[name] = broker, client, []
        settle(self.net)

    def publish(self, name: str, topic: str, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.clients[name].send(Publish(topic, b"%d" % self.sent, 1, packet_id=self.sent % 60000 + 1))
        settle(self.net)

    def follow(self) -> int:
        """Everyone goes where it was sent. Returns how many have moved."""
        moved = 0
        for name, client in list(self.clients.items()):
            self.got[name] += came(client, self.got[name]) if not client.link.closed else []
            told = [one for one in client.received() if isinstance(one, Disconnect)]
            if told:
                self.at[name] = int(told[-1].properties["server_reference"][4])
                self.clients[name] = Client(self.net.brokers[self.at[name]])
                self.clients[name].send(Connect(name, **FOLLOWING))
                settle(self.net)
                moved += 1
                self.got[name] += came(self.clients[name], self.got[name])
        return moved

    def pass_time(self, seconds: float) -> int:
        """Time passes at all brokers. Returns how many clients have moved."""
        moved = 0
        for _ in range(int(seconds / 2)):
            for broker in self.net.brokers.values():
                broker.pass_time(2.0)
            settle(self.net)
            moved += self.follow()
        return moved


def test_a_lonely_subscriber_goes_to_where_its_events_are_published_and_rests() -> None:
    crowd = Crowd()
    crowd.join("p", 0, **STAYING)
    crowd.join("s", 3, "a")
    moved = 0
    for _ in range(12):
        crowd.publish("p", "a", 20)
        moved += crowd.pass_time(10)
    assert crowd.at == {"p": 0, "s": 0}
    assert moved == 1
    assert sorted(map(int, crowd.got["s"])) == list(range(1, crowd.sent + 1))


def test_a_subscriber_goes_to_others_who_want_the_same_and_nobody_flaps() -> None:
    crowd = Crowd()
    crowd.join("p", 0, **STAYING)
    for number in range(3):
        crowd.join(f"fixed{number}", 2, "a", **STAYING)
    crowd.join("s", 3, "a")
    moves = []
    for _ in range(16):
        crowd.publish("p", "a", 20)
        moves.append(crowd.pass_time(10))
    assert crowd.at["s"] in (0, 1, 2)  # all on the way: none costs more than another
    assert sum(moves) == 1
    assert sum(moves[8:]) == 0
    for number in range(3):
        assert sorted(map(int, crowd.got[f"fixed{number}"])) == list(range(1, crowd.sent + 1))
    assert sorted(map(int, crowd.got["s"])) == list(range(1, crowd.sent + 1))


def test_whoever_does_not_follow_and_whatever_does_not_fit_stays() -> None:
    crowd = Crowd(capacity=1.0)
    crowd.join("p", 0, **STAYING)
    crowd.join("s", 3, "a")
    for _ in range(6):
        crowd.publish("p", "a", 20)
        assert crowd.pass_time(10) == 0
    crowd = Crowd()
    crowd.join("p", 0, **STAYING)
    crowd.join("s", 3, "a", **STAYING)
    for _ in range(6):
        crowd.publish("p", "a", 20)
        assert crowd.pass_time(10) == 0


def test_nobody_moves_without_traffic_or_where_it_costs_nothing() -> None:
    crowd = Crowd()
    crowd.join("s", 3, "a")
    assert crowd.pass_time(60) == 0


def test_each_proposal_lowers_the_cost_of_the_state_that_it_was_made_for() -> None:
    crowd = Crowd()
    crowd.join("p", 0, **STAYING)
    crowd.join("q", 3, **STAYING)
    for number in range(4):
        crowd.join(f"s{number}", number, "ab"[number % 2])
    costs: list[float] = []
    for _ in range(20):
        crowd.publish("p", "a", 20)
        crowd.publish("q", "b", 10)
        crowd.pass_time(10)
        costs.append(_core(crowd))
    assert costs[-1] < costs[0]
    assert costs[-1] == pytest.approx(0.0)  # everyone is where its events are published


def _core(crowd: Crowd) -> float:
    """How many links an event of each publisher crosses, on the line."""
    reach = {"a": 0, "b": 0}
    for name, broker in crowd.at.items():
        if name.startswith("s"):
            topic = "ab"[int(name[1:]) % 2]
            reach[topic] = max(reach[topic], broker if topic == "a" else 3 - broker)
    return float(20 * reach["a"] + 10 * reach["b"])


def test_the_terrain_is_the_scenarios(tmp_path: Any) -> None:
    terrain = terrain_of(read_scenario(written(tmp_path, 5)[0]))
    assert terrain.brokers == [0, 1]
    assert terrain.far.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert terrain.access(1000, [0, 1], 10.0, 5.0).tolist() == [0.0, 0.0]
    assert terrain.access(7, [0, 1], 10.0, 5.0).tolist() == [0.0, 0.0]  # whom nobody knows


def test_the_state_that_is_known_prices_what_the_kernels_price() -> None:
    crowd = Crowd()
    crowd.join("p", 0, **STAYING)
    crowd.join("s", 3, "a", **STAYING)
    crowd.publish("p", "a", 20)
    crowd.pass_time(20)
    migrating = crowd.net.brokers[3].fabric.moving.migrating
    found: list[Any] = []
    list(migrating._look(found))
    known = migrating._known(found[0], [0, 1, 2])
    access, core = access_and_core(known.state)
    total = sum(one.weight for one in found[0].channels)
    assert access == 0.0
    assert core == pytest.approx(3 * total)
    (user,) = [user for _, user in known.users_of(3)]
    assert known.savings(user)[0] == pytest.approx(3 * total)
    assert known.cost_of(user) == pytest.approx(3 * total)


def test_without_a_time_nobody_migrates() -> None:
    net: Net = net_of()
    assert all(broker.fabric.moving.migrating is None for broker in net.brokers.values())
