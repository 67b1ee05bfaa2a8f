"""Profile: what is in a scenario before anybody plans with it, so that a log that nobody wants is seen at once.

Matches for each filter, events of each publisher, attributes with types and ranges, clients of each broker; and, in
words, what is doubtful. It counts on the reduced log, which planning needs as well, so that it costs one more sum.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from overstory.model.network import Ints
from overstory.model.scenario import Scenario
from overstory.pipeline.attributes import Described, described
from overstory.pipeline.doubts import Columns, attributes_in
from overstory.pipeline.names import column
from overstory.pipeline.pipeline import Pipeline, as_ours
from overstory.pipeline.predicates import Predicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_NAMED = 5  # filters that match nothing, and others that are doubtful
MOST_PARSED = 10_000  # filters that match something and are looked through for doubts all the same
SHARES = (0.001, 0.01, 0.1, 1.0)  # of the events: where the bars of the histogram end
OPTIONS = {"time": "--time", "bytes": "--bytes"}  # that take a column away, as ``scenario.toml`` names them


class Matches(msgspec.Struct, frozen=True):
    """How many events match each filter."""

    events: int
    wanted: int  # events that match some filter
    filters: tuple[str, ...]  # the different ones
    subscriptions: tuple[int, ...]  # that have each
    counts: tuple[int, ...]  # events that match each
    publishers: dict[int, int]  # events of each

    def histogram(self) -> dict[str, int]:
        """Filters by the share of events that match them."""
        shares = np.array(self.counts) / max(self.events, 1)
        found = {"none": int((shares == 0).sum())}
        for low, high in pairwise((0.0, *SHARES)):
            inside = (shares > low) & ((shares <= high) if high < 1 else (shares < 1))
            found[f"up to {high:.1%}" if high < 1 else "more"] = int(inside.sum())
        return found | {"all": int((shares >= 1).sum()) if self.events else 0}


class Profile(msgspec.Struct, frozen=True):
    matches: Matches
    attributes: tuple[Described, ...]
    clients: dict[int, int]  # of each broker; clients that no broker is told for are not among them
    warnings: tuple[str, ...]


def profile_of(pipeline: Pipeline, scenario: Scenario) -> Profile:
    """Profiles a scenario: filters, publishers, attributes and brokers. Runs on Spark, unless it did so before."""
    return pipeline.remembered(scenario, "profile", lambda scenario: _profile_now(pipeline, scenario), shape=Profile)


def _profile_now(pipeline: Pipeline, scenario: Scenario) -> Profile:
    matches = matches_of(pipeline, scenario)
    attributes = attributes_of(pipeline, scenario, list(scenario.attributes))
    found = tuple(_warnings(scenario, matches, {about.name: about for about in attributes}))
    return Profile(matches, attributes, clients_of(scenario), found)


def warnings_of(pipeline: Pipeline, scenario: Scenario) -> list[str]:
    """Only what is doubtful, in words: which filters match nothing in the log, and why, as far as that shows."""
    return pipeline.remembered(
        scenario, "warnings", lambda scenario: _warnings_now(pipeline, scenario), shape=list[str]
    )


def _warnings_now(pipeline: Pipeline, scenario: Scenario) -> list[str]:
    matches = matches_of(pipeline, scenario)
    idle = [text for text, count in zip(matches.filters, matches.counts, strict=True) if not count][:MOST_NAMED]
    asked = {name for text in idle for name in attributes_in(text)} & scenario.attributes.keys()
    attributes = attributes_of(pipeline, scenario, sorted(asked))
    return _warnings(scenario, matches, {about.name: about for about in attributes})


def matches_of(pipeline: Pipeline, scenario: Scenario) -> Matches:
    pipeline.validate(scenario)
    predicates = Predicates()
    numbers = predicates.numbers(scenario.subscriptions["filter"])
    rows = pipeline.reduce(scenario, predicates)
    pipeline.tell("counting matches")
    with as_ours("counting matches"):
        counts = _counts(rows, len(predicates))
        publishers, events, wanted = _published(rows)
    many = np.bincount(numbers, minlength=len(predicates))
    return Matches(events, wanted, tuple(predicates.texts), tuple(many.tolist()), tuple(counts.tolist()), publishers)


def _counts(rows: "DataFrame", predicates: int) -> Ints:
    from pyspark.sql import functions as sql

    matches = rows.select(sql.explode("predicates").alias("predicate"), "events")
    found = matches.groupBy("predicate").agg(sql.sum("events").alias("events")).toArrow()
    counts = np.zeros(predicates, np.int64)
    counts[found["predicate"].to_numpy()] = found["events"].to_numpy()
    return counts


def _published(rows: "DataFrame") -> tuple[dict[int, int], int, int]:
    from pyspark.sql import functions as sql

    wanted = sql.when(sql.size("predicates") > 0, sql.col("events")).otherwise(0)
    sums = sql.sum("events").alias("events"), sql.sum(wanted).alias("wanted")
    found = rows.groupBy("publisher").agg(*sums).toArrow().sort_by("publisher")
    events = found["events"].to_pylist()
    publishers = dict(zip(found["publisher"].to_pylist(), events, strict=True))
    return publishers, sum(events), sum(found["wanted"].to_pylist())


def attributes_of(pipeline: Pipeline, scenario: Scenario, names: list[str]) -> tuple[Described, ...]:
    """What is in some attributes of a log."""
    if not names:
        return ()
    events = pipeline.events(scenario)
    types = dict(events.dtypes)
    with as_ours(f"reading the events of {scenario.folder}"):
        return tuple(described(events, {name: (column(name), types[name]) for name in names}).values())


def clients_of(scenario: Scenario) -> dict[int, int]:
    """How many clients each broker has, as far as ``clients`` tells."""
    found = {int(broker): 0 for broker in scenario.brokers["id"].to_pylist()}
    for broker in scenario.clients["broker"].to_pylist():
        if broker is not None:
            found[broker] += 1
    return found


def _warnings(scenario: Scenario, matches: Matches, attributes: dict[str, Described]) -> list[str]:
    if not matches.filters:
        return [
            f"there are no subscriptions: nobody wants any of the {matches.events:,} events, and plans cost nothing"
        ]
    made_by = scenario.settings.made_by
    taken = {str(made_by[role]): option for role, option in OPTIONS.items() if role in made_by}
    columns = Columns(scenario.attributes, taken)
    idle = [at for at, count in enumerate(matches.counts) if not count]
    found = []
    if not matches.wanted:
        found.append(
            f"nobody wants any of the {matches.events:,} events: no filter matches one, so every plan costs nothing"
        )
    for at in idle[:MOST_NAMED]:
        text = matches.filters[at]
        why = "; ".join(columns.doubts(text)) or _ranges(text, attributes)
        found.append(f"{_which(scenario, matches, at)} matches no event: {_short(text)}{f' ({why})' if why else ''}")
    if len(idle) > MOST_NAMED:
        found.append(f"{len(idle) - MOST_NAMED:,} more filters match no event")
    return found + _doubtful(matches, columns)


def _doubtful(matches: Matches, columns: Columns) -> list[str]:
    """Filters that match something, and yet ask for what is not there."""
    busy = [text for text, count in zip(matches.filters, matches.counts, strict=True) if count]
    found = []
    for text in busy[:MOST_PARSED]:
        doubts = columns.doubts(text)
        if doubts:
            found.append(f"a part of this filter matches no event: {_short(text)} ({'; '.join(doubts)})")
        if len(found) == MOST_NAMED:
            break
    return found


def _which(scenario: Scenario, matches: Matches, at: int) -> str:
    """The subscriptions that have a filter, in words."""
    table = scenario.subscriptions
    row = table["filter"].index(matches.filters[at]).as_py()
    id_, client = table["id"][row].as_py(), table["client"][row].as_py()
    name = scenario.subscription_names.get(id_) or scenario.client_names.get(client)
    which = f"subscription {id_}{f' ({name})' if name else ''}"
    others = matches.subscriptions[at] - 1
    return which if not others else f"{which}, and {others:,} alike,"


def _ranges(text: str, attributes: dict[str, Described]) -> str:
    """What there is, where a filter asks for what there is not."""
    known = [attributes[name] for name in attributes_in(text) if name in attributes]
    return "; ".join(f"'{about.name}' is {words}" for about in known if (words := about.in_words()))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:100]}…"
