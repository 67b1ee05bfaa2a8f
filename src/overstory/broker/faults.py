"""Errors of our own: what none of the rules of MQTT explains, and nobody has foreseen.

The connection whose bytes such an error came up with is ended, with the reason code for that. The error is logged with
the place where it came up, and counted. Nobody else notices.
"""

from overstory.broker.link import Link
from overstory.broker.state import State
from overstory.errors import ProtocolError
from overstory.wire.packets import Code

TOLD = "the broker cannot handle this, by an error of its own"


def end(state: State, link: Link | None, error: Exception) -> None:
    """Ends the connection that an error came up with. None stands for a client that is not here any more."""
    state.fault(error, link)
    if link is None:
        return
    link.work = None
    link.buffer.clear()
    state.dirty[link] = None
    told = ProtocolError(Code.IMPLEMENTATION, TOLD)
    try:
        if link.session is None:
            link.refuse(told)
        hang_up(state, link, told)
    except Exception as again:
        state.fault(again, link)
        link.closed = True


def end_publisher(state: State, client: int, error: Exception) -> None:
    """Ends the connection of the client with this number, with a message of which an error came up."""
    end(state, state.link_of(client), error)


def hang_up(state: State, link: Link, error: ProtocolError) -> None:
    """Hangs up on a client, and tells it why."""
    link.end(error)
    state.dirty[link] = None
    if link.session is not None and link.session.link is link:
        link.session.settle()
        link.session.open()
