"""Wills that wait: each is published when its delay is over, or when its session ends, unless the client is back."""

from heapq import heappop, heappush

from overstory.broker.session import Session
from overstory.wire.packets import Will


class Wills:
    """The wills of clients that are lost."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Session, Will]] = []  # a heap
        self._of: dict[int, Will] = {}  # by the number of the client
        self._count = 0

    def __len__(self) -> int:
        """The number of wills that wait."""
        return len(self._of)

    def wait(self, session: Session, will: Will, until: float) -> None:
        """Publishes a will at this time, unless ``cancel`` or ``take`` comes first."""
        self._count += 1
        self._of[session.number] = will
        heappush(self._due, (until, self._count, session, will))

    def waits(self, session: Session) -> Will | None:
        """The will of a session that waits, if there is one."""
        return self._of.get(session.number)

    def cancel(self, session: Session) -> None:
        """The client is back."""
        self._of.pop(session.number, None)

    def take(self, session: Session) -> Will | None:
        """The will of a session that ends now."""
        return self._of.pop(session.number, None)

    def due(self, now: float) -> list[tuple[Session, Will]]:
        """The wills whose time has come."""
        found = []
        while self._due and self._due[0][0] <= now:
            _, _, session, will = heappop(self._due)
            if self._of.get(session.number) is will:
                del self._of[session.number]
                found.append((session, will))
        return found
