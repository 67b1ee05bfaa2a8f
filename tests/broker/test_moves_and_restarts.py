"""Sessions that move while brokers restart: nothing that was acknowledged is lost, and QoS 2 comes once."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from overstory.broker import publishing
from overstory.broker.facts import AT
from overstory.broker.message import Message
from overstory.broker.parcels import Got, Parcel, Parcels
from overstory.broker.promises import Promise
from overstory.broker.replicas import KEPT
from overstory.broker.roaming import Roaming
from overstory.broker.standing import Address
from overstory.lab.steady import Steady
from overstory.lab.virtual import VirtualNetwork
from overstory.routing.share import tree_shares
from overstory.wire.packets import PUBREC, Ack, Asked, Publish

from .nets import Net, places_in
from .test_replicas import net_of
from .test_roaming import KEPT as LASTING
from .test_spreading import settle

TOPIC = "t"


class Scene:
    """Brokers in a line, with disks: a publisher at the first, and a subscriber with QoS 2 at the last."""

    def __init__(
        self, brokers: int = 3, kernels: bool = False, shortcut: tuple[int, int] | None = None, topics: int = 1
    ) -> None:
        """``shortcut`` is a link that is in no tree. The subscriber has so many more subscriptions than it needs."""
        places = places_in(tree_shares([(u, u + 1) for u in range(brokers - 1)], epoch=1))
        for u, v in () if shortcut is None else (shortcut, shortcut[::-1]):
            places[u] = msgspec.structs.replace(places[u], neighbours=places[u].neighbours | {v})
        self.network = VirtualNetwork(places, 1, durable=True, kernels=kernels)
        asked = (Asked(TOPIC, 2), *(Asked(f"other/{number}", 1) for number in range(1, topics)))
        self.publisher, self.subscriber = Steady("publisher"), Steady("subscriber", asked)
        self.network.attach(self.publisher, 0)
        self.network.attach(self.subscriber, brokers - 1)
        self.count = 0
        self.until(lambda: self.subscriber.is_subscribed)
        for broker, made in self.network.brokers.items():
            made.fabric.facts.say(AT, "", msgspec.json.encode(Address("", f"broker:{broker}")))
        self.rest()

    def until(self, holds: Callable[[], bool], publishes: bool = False) -> None:
        """Lets time pass until something holds."""
        for _ in range(5000):
            if holds():
                return
            if publishes:
                self.publish()
            self.network.step()
        raise AssertionError("it never happens")

    def rest(self, seconds: float = 1.0) -> None:
        """Lets time pass, and then whatever is left to do be done."""
        until = self.network.now + seconds
        self.until(lambda: self.network.now >= until and self.network.is_idle)

    def rest_of(self, seconds: float) -> None:
        """Lets time pass, though a broker is down."""
        until = self.network.now + seconds
        self.until(lambda: self.network.now >= until)

    def publish(self) -> None:
        self.network.publish(self.publisher, TOPIC, self.count, 2)
        self.count += 1

    def ask(self, target: int) -> None:
        """Asks the subscriber to go to a broker."""
        home = self.network.brokers[self.network.broker_of(self.subscriber)]
        home.fabric.moving.ask({"subscriber": target}, again=True)

    def restart(self, broker: int, seconds: float = 0.5) -> None:
        self.network.kill(broker)
        until = self.network.now + seconds
        self.until(lambda: self.network.now >= until)
        self.network.start(broker)

    def roaming(self, broker: int) -> Roaming:
        return self.network.brokers[broker].fabric.roaming

    @property
    def is_settled(self) -> bool:
        """Whether no broker waits for another one to end a move."""
        return not any(
            one._moving or one._departed or one.replicas._originals or one.replicas._copies
            for one in map(self.roaming, self.network.brokers)
        )

    def judge(self) -> None:
        """All has come once, and nothing of a move is left."""
        self.until(lambda: self.network.is_idle and self.is_settled)
        assert Counter(self.subscriber.came) == Counter((TOPIC, number) for number in range(self.count))


def test_a_session_that_has_just_come_survives_a_restart_and_its_old_broker_lets_go() -> None:
    scene = Scene()
    scene.network.reattach(scene.subscriber, 1)
    scene.until(lambda: "subscriber" in scene.roaming(1)._moving, publishes=True)
    scene.until(lambda: scene.subscriber.is_connected, publishes=True)
    scene.restart(1)
    scene.publish()
    scene.judge()


@pytest.mark.parametrize("steps", range(0, 12, 3))
def test_a_broker_restarts_while_its_session_is_copied_elsewhere(steps: int) -> None:
    scene = Scene()
    scene.ask(1)
    scene.until(lambda: scene.roaming(1).replicas.copies == 1, publishes=True)
    for _ in range(steps):
        scene.publish()
        scene.network.step()
    scene.restart(2)
    scene.judge()
    scene.rest(KEPT + 10)  # until a copy that was left would be dropped, with its subscriptions
    scene.publish()
    scene.rest()
    scene.judge()


def test_a_broker_that_was_down_when_its_client_went_gives_what_it_has_to_the_new_one() -> None:
    scene = Scene(2)
    scene.ask(0)
    scene.until(lambda: scene.subscriber.sent_to is not None, publishes=True)
    scene.until(lambda: scene.roaming(0).replicas.copy_of("subscriber") is not None)
    scene.network.kill(1)
    scene.network.reattach(scene.subscriber, 0)
    directory = scene.roaming(0).directory_of("subscriber")
    if directory == 0:
        scene.until(lambda: "subscriber" in scene.network.brokers[0].state.sessions, publishes=True)
    scene.network.start(1)
    scene.until(lambda: scene.subscriber.is_connected, publishes=True)
    scene.judge()


def publish_again(net: Net, event: int) -> None:
    """The last broker publishes an event of QoS 2 under a number that it may have had before it restarted."""
    publishing.publish(net.brokers[2].state, Message("a", b"once", 2, False, {}, 7), event)
    settle(net)


def test_what_came_before_a_session_was_copied_does_not_come_again_by_the_copy() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    client.subscribe("a", qos=2)
    settle(net)
    publish_again(net, 5)
    (sent,) = client.messages()
    client.send(Ack(PUBREC, sent.packet_id))
    client.received()
    net.brokers[0].fabric.roaming.copy("c", 1)
    settle(net)
    assert net.brokers[1].fabric.roaming.replicas.copies == 1
    publish_again(net, 5)
    assert client.messages() == []
    publish_again(net, 6)
    assert [message.payload for message in client.messages()] == [b"once"]


def test_what_a_broker_gets_after_it_has_handed_a_session_over_is_with_the_other_one() -> None:
    net = net_of([(0, 1)])
    home, foreign = net.brokers[0], net.brokers[1]
    name = next(name for name in "abcdef" if foreign.fabric.roaming.directory_of(name) == 1)
    client = home.connect(name, **LASTING)
    client.subscribe("a", qos=1)
    settle(net)
    publisher = foreign.connect("p")
    home.fabric.moving.ask({name: 1})
    copy = foreign.fabric.roaming.replicas
    while not copy.copies or next(iter(copy._copies.values())).unserved:
        for number in net.brokers:
            net.step(number)
        for wire in list(net.wires):
            net.carry(*wire)
    publisher.send(Publish("a", b"late", 1, packet_id=1))  # behind the answer that makes home hand the session over
    net.step(1)
    net.carry(1, 0)
    while not copy.copy_of(name):
        net.step(0, 1)
        net.carry(0, 1)
        net.step(1)
    net.restart(0, 1)
    settle(net)
    again = foreign.connect(name, **LASTING)
    assert again.connack.session_present
    assert [message.payload for message in again.messages()] == [b"late"]


@pytest.mark.parametrize("seconds", [0.5, 10.0])
def test_events_that_waited_for_the_broker_of_a_copy_come_though_it_restarts(seconds: float) -> None:
    scene = Scene(4)
    scene.network.reattach(scene.subscriber, 1)
    scene.rest(2.0)
    scene.ask(3)
    scene.until(lambda: scene.subscriber.sent_to is not None, publishes=True)
    scene.network.reattach(scene.subscriber, 3)
    scene.network.kill(3)
    for _ in range(5):
        scene.publish()
        scene.network.step()
    until = scene.network.now + seconds
    scene.until(lambda: scene.network.now >= until)
    scene.network.start(3)
    scene.judge()


@pytest.mark.parametrize("kernels", [False, True])
def test_events_that_wait_for_a_broker_are_still_for_the_old_one_though_the_new_one_is_heard_of_first(
    kernels: bool,
) -> None:
    """Broker 2 is down, and events for broker 3 wait for it at broker 1, to which the session is copied meanwhile."""
    scene = Scene(5, kernels, shortcut=(1, 3))
    scene.network.reattach(scene.subscriber, 3)
    scene.rest(2.0)
    scene.network.kill(2)
    for _ in range(5):
        scene.publish()
        scene.network.step()
    scene.until(lambda: not scene.publisher.inflight)  # they are on disk at broker 1
    scene.ask(1)
    scene.until(lambda: scene.roaming(1).replicas.copies == 1)
    scene.network.start(2)
    scene.until(lambda: scene.subscriber.sent_to is not None)
    scene.network.reattach(scene.subscriber, 1)
    scene.judge()


def test_a_session_that_is_fetched_by_a_third_broker_does_not_depend_on_what_its_copy_got() -> None:
    """What the copy passes on is late, since that link is cut, and comes when the old broker has let go."""
    scene = Scene(4, shortcut=(0, 3))
    scene.network.reattach(scene.subscriber, 0)
    scene.rest(2.0)
    scene.ask(3)
    scene.until(lambda: scene.roaming(3).replicas.copy_of("subscriber") is not None, publishes=True)
    scene.network.cut((0, 3))
    scene.network.reattach(scene.subscriber, 2)
    for _ in range(10):
        scene.publish()
        scene.network.step()
    scene.until(lambda: "subscriber" not in scene.roaming(0)._departed and scene.subscriber.is_connected)
    scene.network.cut_wires.clear()
    scene.judge()


@pytest.mark.parametrize("kernels", [False, True])
def test_a_broker_that_a_client_has_left_is_responsible_for_what_still_comes_after_a_restart(kernels: bool) -> None:
    """A broker is down, so that the new one is not served everywhere: events still go to the old one alone."""
    scene = Scene(4, kernels)
    scene.network.kill(0)
    scene.network.reattach(scene.subscriber, 1)
    scene.until(lambda: "subscriber" in scene.roaming(3)._departed)
    scene.rest_of(1.0)
    scene.network.kill(3)
    writer = Steady("writer")
    scene.network.attach(writer, 2)
    scene.until(lambda: writer.is_connected)
    for number in range(5):
        scene.network.publish(writer, TOPIC, number, 2)
        scene.network.step()
    scene.count = 5
    scene.until(lambda: not writer.inflight)
    scene.network.start(3)
    scene.rest_of(1.0)
    assert "subscriber" in scene.roaming(3)._departed
    scene.network.start(0)
    scene.judge()
    assert not scene.network.stores[3].rows("SELECT * FROM departed")  # type: ignore[union-attr]


def test_a_client_that_comes_back_to_a_session_from_before_a_restart_keeps_its_subscriptions() -> None:
    """There are several: they would be ended little by little, after the newer session has made them."""
    scene = Scene(3, topics=4)
    assert scene.roaming(1).directory_of("subscriber") == 1
    scene.ask(1)
    scene.until(lambda: scene.roaming(1).replicas.copy_of("subscriber") is not None, publishes=True)
    scene.network.kill(2)
    scene.network.reattach(scene.subscriber, 1)
    scene.until(lambda: scene.subscriber.is_connected)
    scene.publish()
    scene.network.start(2)
    scene.network.reattach(scene.subscriber, 2)
    scene.until(lambda: scene.subscriber.is_connected, publishes=True)
    scene.publish()
    scene.judge()


def test_a_parcel_that_is_passed_on_is_answered_when_the_last_one_has_it() -> None:
    told: list[Got] = []
    promise = Promise()
    promise.wait()
    parcels = Parcels(
        1, lambda _, message: told.append(message), lambda _: b"", lambda *_: promise, lambda call: call()
    )
    for _ in range(2):  # the second time it is sent again
        parcels.came(7, Parcel(1, 1, 0, b""))
    assert told == []
    promise.kept()
    parcels.came(7, Parcel(1, 1, 0, b""))
    assert told == [Got(1, 1)] * 2
