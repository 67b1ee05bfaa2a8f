"""All texts that events are asked about in one step: subscriptions, and what a plan adds to them."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import FilterError, Problem
from overstory.filters import Filter, parse_filter
from overstory.matching import FilterIndex, freeze
from overstory.model.folders import problems_at

Ints = NDArray[np.int64]
STRING = re.compile("'[^']*'")


class Predicates:
    """Distinct texts, numbered from 0 in the order in which they are first named."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def numbers(self, column: pa.ChunkedArray, absent: int = -1) -> Ints:
        """Of all texts of a column; ``absent`` for null."""
        coded = column.combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        known = np.array([self.number(text) for text in coded.dictionary.to_pylist()] + [absent], np.int64)
        found: Ints = known[np.asarray(coded.indices.fill_null(len(known) - 1))]
        return found

    def uses(self, name: str) -> bool:
        return any(name in text for text in self.texts)

    def write_index(self, folder: Path, shards: int = 1) -> list[Path]:
        """Frozen indexes of them: shard i has predicates i, i + shards, … in this order."""
        paths = []
        for shard in range(shards):
            index = FilterIndex(parsed(self.texts[shard::shards]))
            paths.append(folder / f"predicates-{shard}.index")
            freeze(index, paths[-1])
            del index
        return paths


def parsed(texts: Iterable[str]) -> Iterable[Filter]:
    return map(parse_filter, texts)


def problems_with(column: pa.ChunkedArray, table: str, name: str, reserved: str | None = None) -> list[Problem]:
    """Rows whose filter does not parse, or names what it must not."""
    coded = column.combine_chunks().dictionary_encode()
    wrong: dict[int, str] = {}
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            parse_filter(text)
            if reserved is not None and reserved in STRING.sub("", text):
                wrong[number] = f"{reserved} is not for subscriptions: it depends on where publishers are attached"
        except FilterError as error:
            wrong[number] = f"{error.summary()}: {text[:80]}"
    if not wrong:
        return []
    codes = np.asarray(coded.indices.fill_null(-1))
    rows = np.flatnonzero(np.isin(codes, list(wrong)))
    return problems_at(rows.tolist(), table, name, lambda row: wrong[int(codes[row])])
