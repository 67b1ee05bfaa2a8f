"""The clients of a scenario at one moment: where they are, what they want and what they have announced."""

from collections import Counter, defaultdict

from overstory.filters import Filter, parse_filter
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS
from overstory.pipeline.history import Timeline


class Audience:
    """Where the clients are, what they want and what they have announced, at one moment."""

    def __init__(self, scenario: Scenario, plan: Plan, timeline: Timeline, before: bool) -> None:
        """The state at the first event, or that before the history."""
        away = timeline.away_before if before else timeline.away
        self.home: dict[int, int] = dict(
            zip(*(plan.attachments[name].to_pylist() for name in ATTACHMENTS.schema.names), strict=True)
        )
        self.at = {client: broker for client, broker in self.home.items() if client not in away}
        # The version of each announcement, by client
        self.announced: dict[int, int] = {} if before else dict.fromkeys(timeline.announced, 0)
        self._latest = dict(self.announced)  # also of announcements that were taken back
        self.versions: dict[int, int] = {}  # of all subscriptions that there ever were
        self.filters: dict[int, Filter | str] = {}  # of those that are there; texts are parsed when they are needed
        self.no_local: dict[int, bool] = {}
        self.of: dict[int, set[int]] = defaultdict(set)  # the subscriptions of each client
        self._present = Counter(self.at.values())
        self._narrowing = Counter(self.at[client] for client in self.announced)
        made = {change.subscription for change in timeline.history if change.filter is not None} if before else set()
        for row in scenario.subscriptions.to_pylist():
            self.no_local[row["id"]] = row["no_local"]
            if row["id"] not in made:
                self.subscribe(row["client"], row["id"], row["filter"])

    def subscribe(self, client: int, id_: int, wanted: Filter | str) -> int:
        """A client makes a subscription, perhaps again. Returns its version."""
        self.versions[id_] = self.versions.get(id_, -1) + 1
        self.filters[id_] = wanted
        self.of[client].add(id_)
        return self.versions[id_]

    def unsubscribe(self, client: int, id_: int) -> None:
        """A client ends a subscription."""
        del self.filters[id_]
        self.of[client].discard(id_)

    def filter(self, id_: int) -> Filter:
        """The filter of a subscription."""
        known = self.filters[id_]
        if isinstance(known, str):
            known = self.filters[id_] = parse_filter(known)
        return known

    def announce(self, client: int) -> int:
        """A client announces something. Returns the version of its announcement."""
        if client not in self.announced:
            self._narrowing[self.at[client]] += 1
        self.announced[client] = self._latest[client] = self._latest.get(client, -1) + 1
        return self.announced[client]

    def silence(self, client: int) -> int | None:
        """A client takes its announcement back. Returns the version, if there is one."""
        if client not in self.announced:
            return None
        self._narrowing[self.at[client]] -= 1
        return self.announced.pop(client)

    def place(self, client: int, broker: int | None) -> None:
        """A client is attached to a broker, or to none any more."""
        for place, one in ((self.at.pop(client, None), -1), (broker, 1)):
            if place is not None:
                self._present[place] += one
                self._narrowing[place] += one * (client in self.announced)
        if broker is not None:
            self.at[client] = broker

    def is_narrowed(self, broker: int) -> bool:
        """Whether all clients of the broker, and there is one, have announced something."""
        return 0 < self._present[broker] == self._narrowing[broker]
