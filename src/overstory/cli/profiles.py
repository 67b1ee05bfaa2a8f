"""A scenario's profile, for people and for programs."""

from typing import Any

import msgspec
import numpy as np

from overstory.model.scenario import Scenario
from overstory.pipeline.profile import Profile

BAR = 24  # characters of the longest
MOST_NAMED = 3  # publishers and brokers that have most


def profile_in_words(scenario: Scenario, profile: Profile) -> list[str]:
    """Lines: who publishes, who is where, what is wanted, and how many events each filter matches."""
    matches = profile.matches
    found = []
    if profile.matches.publishers:
        found.append(_spread("events per publisher", matches.publishers, scenario.client_names))
    found.append(_spread("clients per broker", profile.clients, scenario.broker_names))
    if not matches.filters:
        return found
    share = matches.wanted / max(matches.events, 1)
    found.append(f"wanted: {matches.wanted:,} of {matches.events:,} events ({share:.1%}) match some filter")
    found.append(f"matches per filter, of {len(matches.filters):,} different ones, as shares of the events:")
    histogram = matches.histogram()
    most = max(histogram.values())
    return found + [
        f"  {name:<12} {many:>9,}  {'█' * -(-BAR * many // max(most, 1))}".rstrip() for name, many in histogram.items()
    ]


def _spread(what: str, counts: dict[int, int], names: dict[int, str]) -> str:
    """Least, median and most, and who has most."""
    many = np.array(list(counts.values()))
    top = sorted(counts, key=lambda id_: (-counts[id_], id_))[:MOST_NAMED]
    named = ", ".join(f"{names.get(id_, id_)} {counts[id_]:,}" for id_ in top)
    middle = f"{many.min():,} to {many.max():,}, half of them up to {np.median(many):,.0f}"
    return f"{what}: {middle}; most: {named} (of {len(many):,})"


def profile_for_programs(scenario: Scenario, profile: Profile) -> dict[str, Any]:
    matches = profile.matches
    filters = zip(matches.filters, matches.subscriptions, matches.counts, strict=True)
    return {
        "wanted": matches.wanted,
        "histogram": matches.histogram(),
        "filters": [{"filter": text, "subscriptions": many, "matches": count} for text, many, count in filters],
        "events_per_publisher": _rows(matches.publishers, scenario.client_names, "events"),
        "clients_per_broker": _rows(profile.clients, scenario.broker_names, "clients"),
        "columns": [msgspec.to_builtins(about) for about in profile.attributes],
        "warnings": list(profile.warnings),
    }


def _rows(counts: dict[int, int], names: dict[int, str], what: str) -> list[dict[str, Any]]:
    return [{"id": id_, "name": names.get(id_), what: count} for id_, count in counts.items()]
