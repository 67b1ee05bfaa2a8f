"""Where a publisher sends its events: to their own subjects, and to the clusters that hold their topics."""

from typing import NamedTuple

from overstory.topics.protocol import LATE, Routes, cluster_subject


class Sent(NamedTuple):
    """The id of an event, and the subjects beside its own; whether its topic is new, so that the coordinator has to be
    asked."""

    id: str
    others: tuple[str, ...]
    is_new: bool


class Publishing:
    """A publisher's topics, with the subjects of their clusters; None until the coordinator has told."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.routes: dict[str, tuple[str, ...] | None] = {}
        self.number = 0
        self.counts: dict[str, int] = {}
        self.late = 0

    def send(self, topic: str) -> Sent:
        """One more event of a topic."""
        self.number += 1
        self.counts[topic] = self.counts.get(topic, 0) + 1
        is_new = topic not in self.routes
        others = self.routes.setdefault(topic, None)
        if others is None:
            self.late += 1
            others = (LATE,)
        return Sent(f"{self.client}-{self.number}", others, is_new)

    def unknown(self) -> list[str]:
        """Topics whose clusters the coordinator has not told."""
        return [topic for topic, others in self.routes.items() if others is None]

    def route(self, routes: Routes) -> None:
        for topic, clusters in routes.topics.items():
            self.routes[topic] = tuple(map(cluster_subject, clusters))

    def cut(self) -> None:
        """The connection is lost, and clusters may change meanwhile: nothing is known any more."""
        self.routes = dict.fromkeys(self.routes)

    def counted(self) -> dict[str, int]:
        """Events by topic since this was last asked."""
        found, self.counts = self.counts, {}
        return found
