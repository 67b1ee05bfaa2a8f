"""Real events, with filters made from their own values: skewed, repetitive and uneven as no generator is."""

import gzip
import json
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest

from overstory import Filter, parse_filter, parse_publication
from overstory.matching.batch import Batch, Numbers, Texts
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex

from .agreement import assert_same, assert_same_matches
from .draws import quoted

DATA = Path(__file__).parents[2].parent / "shared" / "data"
QUOTES = DATA / "padres_stockquotes" / "stockquotes.tar.xz"
EDITS = DATA / "wikiticker" / "wikiticker-2015-09-12-sampled.json.gz"
FILTERS, EVENTS = 2000, 300

Event = dict[str, object]


def sample(lines: list[str]) -> list[str]:
    return random.Random(1).sample(lines, 2 * EVENTS)


def read_quotes() -> list[Event]:
    lines: list[str] = []
    with tarfile.open(QUOTES) as archive:
        for member in archive:
            file = archive.extractfile(member)
            lines += file.read().decode().splitlines() if file else ()
    return [dict(parse_publication(line)) for line in sample(lines)]


def read_edits() -> list[Event]:
    with gzip.open(EDITS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in sample(file.readlines())]


class Subscribers:
    """Each wants something near what some event has."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.dice = random.Random(2)

    def value(self, name: str) -> str:
        """That some event has; of one in which it is not null."""
        while True:
            value = self.dice.choice(self.events)[name]
            if value is not None:
                return str(value)

    def one(self, name: str) -> str:
        return f"{name} = {quoted(self.value(name))}"

    def several(self, name: str) -> str:
        return f"{name} IN ({', '.join(quoted(self.value(name)) for _ in range(self.dice.randint(2, 12)))})"

    def start(self, name: str) -> str:
        text = self.value(name)[: self.dice.randint(1, 4)].replace("%", "").replace("_", "").replace("\\", "")
        return f"{name} {self.dice.choice(['', '', 'NOT '])}LIKE {quoted(text + '%')}"

    def between(self, name: str) -> str:
        low, high = sorted(float(self.value(name)) for _ in range(2))
        return self.dice.choice(
            [f"{name} BETWEEN {low} AND {high}", f"{name} > {low}", f"{name} <= {high}", f"{name} = {low}"]
        )

    def narrow(self, name: str) -> str:
        """A range of a few percent, wherever on its scale."""
        low = float(self.value(name))
        return f"{name} >= {low} AND {name} < {low + abs(low) * self.dice.uniform(0, 0.05) + 1}"

    def stock_filter(self) -> Filter:
        dice = self.dice
        terms = ["class = 'STOCK'"] if dice.random() < 0.5 else []
        terms.append(dice.choice([self.one, self.one, self.several, self.start])("symbol"))
        for name in dice.sample(["high", "low", "volume"], dice.randint(0, 3)):
            terms.append(dice.choice([self.between, self.narrow])(name))
        if dice.random() < 0.1:
            terms[1:2] = [dice.choice(["high - low > 1", "date LIKE '%-Jan-%'", "close > open", self.start("date")])]
        return parse_filter(" AND ".join(terms))

    def edit_filter(self) -> Filter:
        dice = self.dice
        texts = [
            self.one("channel"),
            self.several("channel"),
            self.one("namespace"),
            self.start("page"),
            self.one("user"),
        ]
        texts += [self.several("user"), self.one("countryName"), self.several("countryName"), self.start("user")]
        rest = [
            "isRobot",
            "NOT isRobot",
            "isNew",
            "isAnonymous AND NOT isMinor",
            "countryName IS NULL",
            "cityName IS NOT NULL",
        ]
        rest += [
            self.between("delta"),
            self.narrow("delta"),
            self.between("added"),
            "added > deleted",
            "comment LIKE '%bot%'",
        ]
        return parse_filter(
            " AND ".join(dice.sample(texts, dice.randint(0, 2)) + dice.sample(rest, dice.randint(1, 3)))
        )


@pytest.mark.skipif(not QUOTES.exists(), reason="the PADRES stock quotes are not beside the project")
def test_stock_quotes_find_their_subscribers() -> None:
    events = read_quotes()
    subscribers = Subscribers(events[EVENTS:])
    filters = [subscribers.stock_filter() for _ in range(FILTERS)]
    assert_same_matches(FilterIndex(filters), ReferenceIndex(filters), events[:EVENTS])


@pytest.mark.skipif(not EDITS.exists(), reason="the Wikipedia edits are not beside the project")
def test_wikipedia_edits_find_their_subscribers() -> None:
    events = read_edits()
    subscribers = Subscribers(events[EVENTS:])
    filters = [subscribers.edit_filter() for _ in range(FILTERS)]
    index, plain = FilterIndex(filters), ReferenceIndex(filters)
    assert_same_matches(index, plain, events[:EVENTS])
    batch = in_columns(events[:EVENTS])
    found = index.match_batch(batch)
    for i, event in enumerate(batch.events()):
        assert_same(plain, event, plain.match(event), found.of(i))


def in_columns(events: list[Event]) -> Batch:
    """Each column in the type of its own, as it would come out of a file of columns."""
    columns: dict[str, object] = {}
    for name in events[0]:
        values = [event[name] for event in events]
        present = np.array([value is not None for value in values])
        some = next((value for value in values if value is not None), None)
        if isinstance(some, str):
            columns[name] = Texts.of([value if isinstance(value, str) else None for value in values])
        else:
            kind = bool if isinstance(some, bool) else np.int64
            columns[name] = Numbers(np.array([value or 0 for value in values], kind), present)
    return Batch(columns)
