"""What has come since the last turn, handled together."""

from overstory.broker.core import Core
from overstory.broker.link import Link

STEPS = 200


class Tick:
    """The bytes that wait to be handled, in the order in which they came."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.waiting = 0  # bytes
        self._ready: dict[Link, None] = {}

    @property
    def pending(self) -> bool:
        """Whether something is left to be done."""
        return bool(self._ready)

    def warm_up(self) -> None:
        """Makes sure that no client has to wait for kernels to be loaded."""

    def add(self, link: Link, data: bytes) -> None:
        """Bytes have come from a client."""
        link.buffer += data
        self.waiting += len(data)
        self._ready[link] = None

    def forget(self, link: Link) -> None:
        """The client has gone."""
        self._ready.pop(link, None)

    def run(self) -> None:
        """Handles what has come, and a slice of long answers."""
        ready, self._ready, self.waiting = self._ready, {}, 0
        for link in ready:
            if link.work is not None:
                self.core.work(link, STEPS)
            self.core.receive(link)
            if link.work is not None:
                self._ready[link] = None
                self.waiting += len(link.buffer)
