"""All texts that events are asked about in one step: subscriptions, and what a plan adds to them."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.errors import Problem
from overstory.matching import FilterIndex, freeze
from overstory.matching.reading import Reading
from overstory.model.folders import problems_at
from overstory.pipeline.boxes import Boxes, boxes_of
from overstory.pipeline.columns import texts_of

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
        texts, codes = distinct(column)
        if not self.texts:  # all are new
            self.texts = texts.to_pylist()
            self._numbers = dict(zip(self.texts, range(len(texts)), strict=True))
            return np.where(codes < 0, absent, codes)
        known = np.array([self.number(text) for text in texts.to_pylist()] + [absent], np.int64)
        found: Ints = known[codes]
        return found

    def uses(self, name: str) -> bool:
        return any(name in text for text in self.texts)

    def write_index(self, folder: Path, shards: int = 1) -> list[Path]:
        """Frozen indexes of them: shard i has predicates i, i + shards, … in this order."""
        paths = []
        for shard in range(shards):
            index = index_of(self.texts[shard::shards])
            paths.append(folder / f"predicates-{shard}.index")
            freeze(index, paths[-1])
            del index
        return paths


def index_of(texts: Sequence[str]) -> FilterIndex:
    """An index of filters by their texts, numbered in this order. Most are read without parsing them."""
    index = FilterIndex()
    index.add_texts(Reading(texts_of(pa.array(texts, pa.large_string()))))
    return index


def distinct(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """The distinct texts of a column, in the order in which they are first named, and of each row the number of its
    own; -1 for null."""
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return coded.dictionary, np.asarray(coded.indices.fill_null(-1)).astype(np.int64)


def problems_with(
    column: pa.ChunkedArray, table: str, name: str, reserved: str | None = None, boxes: Boxes | None = None
) -> list[Problem]:
    """Rows whose filter does not parse, or names what it must not. ``boxes`` are those of the distinct texts, if they
    are known."""
    texts, codes = distinct(column)
    wrong = dict((boxes_of(texts) if boxes is None else boxes).wrong)
    if reserved is not None:
        for number in np.flatnonzero(np.asarray(pc.match_substring(texts, reserved))).tolist():
            if number not in wrong and reserved in STRING.sub("", texts[number].as_py()):
                wrong[number] = f"{reserved} is not for subscriptions: it depends on where publishers are attached"
    if not wrong:
        return []
    rows = np.flatnonzero(np.isin(codes, list(wrong)))
    return problems_at(rows.tolist(), table, name, lambda row: wrong[int(codes[row])])
