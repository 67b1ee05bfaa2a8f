"""python -m overstory.broker: compiles the kernels and keeps them, so that no later run has to wait for that."""

from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.link import Link
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.broker.warming import carry_between_two
from overstory.filters import parse_filter
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Share
from overstory.wire.encode import encode
from overstory.wire.packets import Asked, Connect, Publish, Subscribe


def use_every_kernel() -> None:
    """Has a broker handle messages, under a plan with one flow and under one with two."""
    state = State(Config(), False, 0.0)
    tick = Tick(Core(state))
    tick.warm_up()
    link = Link()
    properties = {"user_properties": [("price", "2")]}
    asked = (Asked("a/+"), Asked("b"))
    tick.add(link, encode(Connect("a")) + encode(Subscribe(1, asked)) + encode(Publish("a/b", b"")))
    tick.add(link, encode(Publish("a/b", b"", 1, False, 1, False, properties)))
    while tick.pending:
        tick.run()
    flows = {number: FlowShare(number, parse_filter("TRUE"), frozenset()) for number in (LATE, 0)}
    state.router.install(Share(1, flows))
    state.router.activate(1)
    tick.add(link, encode(Publish("a/b", b"", 1, False, 1, False, properties)))
    tick.run()


if __name__ == "__main__":
    use_every_kernel()
    carry_between_two()
