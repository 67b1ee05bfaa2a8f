"""Tamara beside a plan that runs: it begins with the plan's clusters, and what a log tells of rates changes them."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.kernels.tamara_state import Tamara
from overstory.model.topics import TOPIC
from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.demand import Asked
from overstory.planners.topics.replaying import RATE, Changes, Replay, Rules, replayed
from overstory.planners.topics.seeding import settled

MEMORY = 240.0  # intervals after which half of what a topic's channel knew of its rate is forgotten
NOTED = 0.1  # by which share a rate must differ from what is known for the channel to say so


class Adapting:
    """Follows windows of a log: what each says of rates may make clusters change."""

    def __init__(
        self,
        asked: Asked,
        found: Clustering,
        seed: int = 0,
        seconds: float = 1.0,
        own: Mapping[str, float] | None = None,
    ) -> None:
        """``seconds`` is the length of an interval; ``own`` are those of some topics, whose windows are as long."""
        self.number = {name: at for at, name in enumerate(asked.interests.names)}
        self.seconds, self.own = seconds, own or {}
        self.state: Tamara = settled(asked.demand, asked.costs, found, Rules(seed=seed))
        self.known = asked.demand.rates.copy()
        self.intervals = 0.0

    def take(self, windows: pa.Table) -> tuple[int, Replay]:
        """Windows with ``topic``, ``window`` and ``bytes``. Returns how many rates have changed, and what came of
        it. Topics that nobody wanted when the plan was made are not looked at."""
        lengths = np.array([self.own.get(name, self.seconds) for name in windows[TOPIC].to_pylist()])
        numbers = windows["window"].to_numpy()
        count = float(np.max((numbers + 1) * lengths) - np.min(numbers * lengths)) / self.seconds
        seen = np.zeros(len(self.known))
        for name, size in zip(windows[TOPIC].to_pylist(), windows["bytes"].to_pylist(), strict=True):
            if name in self.number:
                seen[self.number[name]] += size
        weight = count / (count + MEMORY)
        self.known += weight * (seen / count - self.known)
        self.intervals += count
        differs = np.abs(self.known - self.state.rate) > NOTED * np.maximum(self.state.rate, 1e-9)
        topics = np.flatnonzero(differs)
        nobody, times = np.zeros(len(topics), np.int64), np.full(len(topics), self.intervals)
        changes = Changes(times, np.full(len(topics), RATE), nobody, topics, self.known[topics])
        return len(topics), replayed(self.state, changes)
