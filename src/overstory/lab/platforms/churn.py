"""Churn: in each interval some nodes crash, and come back after a while. What that takes of a platform, and what is
lost until keep-alives have told."""

from typing import NamedTuple

import numpy as np

from overstory.lab.platforms.layer import Layered
from overstory.planners.topics.core.messages import CLUSTER

AWAY = 2  # intervals that a crashed node is away


class Interval(NamedTuple):
    """Messages of an interval, on average over some; and which share of deliveries was lost."""

    keep_alives: float
    events: float
    repairs: float
    lost: float

    @property
    def messages(self) -> float:
        return self.keep_alives + self.events + self.repairs


def churned(system: Layered, intervals: int, share: float, draw: np.random.Generator) -> Interval:
    """Runs a system over its platform for some intervals, in each of which a share of the nodes crashes."""
    users = len(system.entities.users)
    away: dict[int, int] = {}
    totals, wanted = np.zeros(4), 0.0
    for _ in range(intervals):
        crashed = [
            node for node in draw.choice(users, round(share * users), replace=False).tolist() if node not in away
        ]
        system.platform.crash(crashed)
        away |= dict.fromkeys(crashed, AWAY)
        events, lost, expected = _published(system, set(away))
        totals[1:4] += events, system.platform.repair(), lost
        wanted += expected
        for node in [node for node, left in away.items() if left == 0]:
            totals[2] += _back(system, node)
            del away[node]
        away = {node: left - 1 for node, left in away.items()}
        totals[0] += system.platform.keep_alives()
    alive, events, repairs = (totals[:3] / intervals).tolist()
    return Interval(alive, events, repairs, float(totals[3] / max(wanted, 1e-12)))


def _published(system: Layered, away: set[int]) -> tuple[float, float, float]:
    """Messages for the events of an interval, at the topics' rates; deliveries that were lost, and all that should have
    been made, of nodes that are there."""
    messages, lost, expected = 0.0, 0.0, 0.0
    for topic in system.topics:
        shown, sent = system.delivered(topic.number)
        here = {user.number for user in system.users if topic.number in user.wants and user.number not in away}
        rate = topic.figures.rate
        messages += rate * sent
        lost += rate * len(here - shown)
        expected += rate * len(here)
    return messages, lost, expected


def _back(system: Layered, node: int) -> int:
    """A node that is there again subscribes to what it had."""
    user = system.entities.users[node]
    channels = [*user.direct, *(system.channel(CLUSTER, number) for number in user.clusters)]
    return system.platform.come_back(node) + sum(system.platform.subscribe(node, each) for each in sorted(channels))
