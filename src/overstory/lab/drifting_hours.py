"""An hour in which interests shift: the localized workload, window by window, with other subscribers from time to time.

A keyword that moves is wanted elsewhere from then on: its subscriptions end, and others begin, with other numbers.
Events follow those who want them. Shapes of an hour: ``stationary``, nothing moves; ``drift``, all keywords move, a few
in each window; ``shift``, half of them a third of the way and the others after two thirds; ``swing``, half of them move
bit by bit, and back again.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from overstory.lab.graphs import Topology, as_tables, dice
from overstory.lab.localized import (
    ATTRIBUTE,
    EVENT_SCHEMA,
    Localized,
    draw_keywords,
    draw_subscriptions,
    pools_of,
    tables_of_filters,
)
from overstory.model.network import Ints
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Prices, Settings
from overstory.pipeline.workbench import Workbench
from overstory.pipeline.xxhash import hashes_of

SHAPES = STATIONARY, DRIFT, SHIFT, SWING = "stationary", "drift", "shift", "swing"
MILLION = 10**6


def moved(shape: str, window: int, windows: int) -> float:
    """The share of keywords that are wanted elsewhere in a window."""
    at = window / max(windows - 1, 1)
    if shape == DRIFT:
        return at
    if shape == SHIFT:
        return 0.5 * (at >= 1 / 3) + 0.5 * (at >= 2 / 3)
    return 1 / 2 - abs(at - 1 / 2) if shape == SWING else 0.0


@dataclass(frozen=True)
class Hour:
    """One hour, as it is drawn: windows are numbered from 0, and -1 is the one before, by which the first plan is
    made."""

    made: Topology
    what: Localized  # its events are those of a window
    shape: str
    windows: int
    seed: int
    price_of_message: float

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints]:
        """By keyword, the brokers that want it before and after, and its rank among those that move."""
        dices = dice(self.seed).spawn(3)
        before, after = (_subscribers(self.made, self.what, each) for each in dices[:2])
        return before, after, dices[2].permutation(self.what.keywords)

    def subscriptions(self, window: int) -> tuple[Ints, Ints, Ints]:
        """The numbers of subscriptions, their keywords and their brokers, in the order of brokers."""
        before, after, rank = self._places
        width, words = before.shape[1], np.arange(self.what.keywords)
        elsewhere = rank < moved(self.shape, max(window, 0), self.windows) * self.what.keywords
        broker = np.where(elsewhere[:, None], after, before).ravel()
        number = ((words + elsewhere * self.what.keywords)[:, None] * width + np.arange(width)).ravel()
        keyword = np.repeat(words, width)
        order = np.lexsort((keyword, broker))
        return number[order], keyword[order], broker[order]

    @cached_property
    def _events(self) -> dict[int, pa.Table]:
        return {}

    def events(self, window: int) -> pa.Table:
        """All events of a window."""
        if window not in self._events:
            _, keyword, broker = self.subscriptions(window)
            near, draw = np.random.default_rng([self.seed, 1]), np.random.default_rng([self.seed, 2, window + 1])
            pools = pools_of(self.made, self.what, keyword, broker, near)
            starts, drawn = draw_keywords(pools, self.what.events, self.what.keywords_per_event, draw)
            words = pa.array([f"k{number}" for number in range(self.what.keywords)])
            ids = (window + 1) * self.what.events + np.arange(self.what.events)
            lists = pa.ListArray.from_arrays(pa.array(starts), words.take(pa.array(drawn)))
            publishers = self.made.brokers + draw.integers(self.made.brokers, size=len(ids))
            columns = [ids, ids.astype(np.float64), publishers, np.full(len(ids), self.what.bytes), lists]
            self._events[window] = pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)
        return self._events[window]

    @cached_property
    def _benches(self) -> dict[tuple[int, tuple[int, ...], float], Workbench]:
        return {}

    def bench(self, window: int, of: Sequence[int], share: float = 1.0) -> Workbench:
        """A workbench with the subscriptions of a window and the events of some windows, or a sample of them."""
        key = window, tuple(of), share
        if key not in self._benches:
            self._benches[key] = Workbench(self._scenario(*key))
        return self._benches[key]

    def _scenario(self, window: int, of: Sequence[int], share: float) -> Scenario:
        number, keyword, broker = self.subscriptions(window)
        filters = pa.array([f"{ATTRIBUTE} HAS ANY ('k{word}')" for word in range(self.what.keywords)])
        tables = as_tables(self.made) | tables_of_filters(self.made.brokers, filters.take(pa.array(keyword)), broker)
        tables["subscriptions"] = tables["subscriptions"].set_column(0, "id", pa.array(number))
        events = pa.concat_tables([self.events(one) for one in of])
        lucky = hashes_of(hashes_of(events["$id"].to_numpy())) % MILLION < round(share * MILLION)
        settings = Settings(name=f"window {window}", prices=Prices(control=self.price_of_message))
        folder = Path(tempfile.mkdtemp(prefix="window-", dir=self.folder.name)) / "scenario"
        write_scenario(folder, settings, tables, events.filter(pa.array(lucky)))
        return read_scenario(folder)

    def __enter__(self) -> "Hour":
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    @cached_property
    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """Where scenarios are for as long as the hour is."""
        return tempfile.TemporaryDirectory(prefix="overstory-hour-")


def _subscribers(made: Topology, what: Localized, draw: np.random.Generator) -> Ints:
    """By keyword, the brokers that subscribe to it."""
    keyword, broker = draw_subscriptions(made, what, draw)
    return broker[np.argsort(keyword, kind="stable")].reshape(what.keywords, -1)
