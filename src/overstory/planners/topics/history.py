"""The history of a scenario as changes of interests: what each subscription that was made or ended changed."""

import re

import numpy as np

from overstory.model.scenario import Scenario
from overstory.planners.topics.demand import Asked
from overstory.planners.topics.replaying import ADD, DROP, Changes
from overstory.planners.topics.static_clusters import topics_of

USUAL = re.compile(r"topic (?:IN \(('[^']*'(?:, '[^']*')*)\)|= ('[^']*'))")


def topics_said(text: str) -> list[str]:
    """The topics of a filter; those in the usual spelling are not parsed."""
    usual = USUAL.fullmatch(text)
    return (usual[1] or usual[2])[1:-1].split("', '") if usual else topics_of(text)


def changes_in(scenario: Scenario, asked: Asked) -> Changes | None:
    """The interests that users gain and lose, in order; None if nothing is known of how they came to have theirs.

    A subscription that is taken back and made anew at the same time is one change: of what it says differently."""
    number = {name: at for at, name in enumerate(asked.interests.names)}
    clients = np.unique(scenario.subscriptions["client"].to_numpy())
    user_of = {client: user for user, client in enumerate(clients.tolist())}
    wants: dict[int, dict[int, set[int]]] = {}  # by user and subscription
    rows: list[tuple[float, int, int, int]] = []
    table = scenario.changes.to_pylist()
    for at, row in enumerate(table):
        user = user_of.get(row["client"])
        if user is None or row["operation"] not in ("subscribe", "unsubscribe"):
            continue
        after = table[at + 1] if at + 1 < len(table) else None
        if row["operation"] == "unsubscribe" and after is not None and _is_anew(row, after):
            continue
        own = wants.setdefault(user, {})
        before = set().union(*own.values()) if own else set()
        said = topics_said(row["filter"]) if row["operation"] == "subscribe" else []
        own[row["subscription"]] = {number[name] for name in said if name in number}
        now = set().union(*own.values())
        rows += [(row["time"], DROP, user, topic) for topic in sorted(before - now)]
        rows += [(row["time"], ADD, user, topic) for topic in sorted(now - before)]
    if not rows:
        return None
    times, kinds, users, topics = (np.array(column) for column in zip(*rows, strict=True))
    return Changes(times - times[0], kinds, users, topics, np.zeros(len(times)))


def _is_anew(row: dict[str, object], after: dict[str, object]) -> bool:
    """Whether a subscription that ends is made again at once."""
    same = all(row[name] == after[name] for name in ("time", "client", "subscription"))
    return same and after["operation"] == "subscribe"
