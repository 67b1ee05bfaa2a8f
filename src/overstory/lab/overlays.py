"""The overlay of an imported scenario: a topology by name, a GraphML file, a file of links, or another scenario's."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import DataError, Problem, UsageError
from overstory.lab.graphs import HOP, MadeBy, as_tables
from overstory.lab.small_tables import Columns, read_columns, whole_numbers
from overstory.lab.topologies import topology
from overstory.model.folders import problems_at, read_tables
from overstory.model.naming import near_words
from overstory.model.network import Floats, Ints
from overstory.model.tables import BROKERS, LINKS
from overstory.pipeline.log_files import format_of

PRICES = ("price", "weight")  # what a file may call the price of a link; the first that is there counts


class Overlay(NamedTuple):
    brokers: pa.Table
    links: pa.Table
    made_by: MadeBy
    notes: tuple[str, ...] = ()  # in words: what was taken for what, and what was left out
    own_ids: Mapping[str, int] = {}  # what a file calls its brokers beside their names

    @property
    def ids(self) -> Ints:
        found: Ints = self.brokers["id"].to_numpy()
        return found

    def named(self) -> dict[str, int]:
        """Brokers by all that they are called by: names that only one of them has, and ids, which go first. Where the
        file has ids of its own, ours mean nothing to the user."""
        ids, names = self.ids.tolist(), self.brokers["name"].to_pylist()
        times = Counter(names)
        known = {name: id_ for name, id_ in zip(names, ids, strict=True) if name is not None and times[name] == 1}
        return known | (dict(self.own_ids) or {str(id_): id_ for id_ in ids})

    def unknown(self, name: str) -> str:
        """What is wrong with the name of a broker that there is not."""
        if self.brokers["name"].to_pylist().count(name) > 1:
            return f"several brokers are called '{name}'; use their ids"
        return f"there is no broker {name}{near_words(name, self.named())}"


def overlay_of(text: str, brokers: int | None, seed: int) -> Overlay:
    path = Path(text)
    if format_of(path) is not None:
        overlay = links_in(path)
    elif path.is_dir():
        overlay = _overlay_in(path)
    else:
        made = topology(text, brokers, seed)
        tables = as_tables(made)
        own_ids = {name: at for at, name in enumerate(made.ids or ())}
        return Overlay(tables["brokers"], tables["links"], {"topology": text, **made.made_by}, made.notes, own_ids)
    if brokers not in (None, len(overlay.brokers)):
        raise UsageError(f"{path} has {len(overlay.brokers)} brokers, not {brokers}; leave out the number")
    return overlay


def _overlay_in(folder: Path) -> Overlay:
    """Takes the overlay of another scenario, without its clients."""
    problems: list[Problem] = []
    tables = read_tables(folder, {"brokers": BROKERS, "links": LINKS}, problems)
    if problems:
        raise DataError(f"the folder {folder} has no overlay to take:", problems)
    ids, links = tables["brokers"]["id"].combine_chunks(), tables["links"]
    inner = pc.and_(pc.is_in(links["source"], ids), pc.is_in(links["target"], ids))
    return Overlay(tables["brokers"], links.filter(inner), {"topology": folder.resolve().name})


def links_in(path: Path) -> Overlay:
    """A row is one direction of a link. Where no row goes the other way, it is the same both ways."""
    columns = read_columns(path, ("source", "target"), (*PRICES, "delay"))
    read = columns.values
    ends = pa.concat_arrays([read["source"], read["target"]])
    numbers = whole_numbers(ends)
    if numbers is not None:
        ids, at = np.unique(numbers, return_inverse=True)
        names = pa.nulls(len(ids), pa.string())
    else:
        names = pc.unique(ends).take(pc.array_sort_indices(pc.unique(ends)))
        ids, at = np.arange(len(names)), np.asarray(pc.index_in(ends, names)).astype(np.int64)
    source, target = np.split(at, 2)
    priced = next((name for name in PRICES if name in read), PRICES[0])
    price, delay = (_from_zero_up(columns, name, len(source)) for name in (priced, "delay"))
    alone = ~np.isin(target * len(ids) + source, source * len(ids) + target)
    sources, targets = np.concatenate((source, target[alone])), np.concatenate((target, source[alone]))
    order = np.lexsort((targets, sources))
    both = [ids[sources], ids[targets], *(np.concatenate((column, column[alone])) for column in (price, delay))]
    links = dict(zip(LINKS.schema.names, (column[order] for column in both), strict=True))
    nowhere = pa.nulls(len(ids), pa.float64())
    brokers = pa.table({"id": ids, "name": names, "x": nowhere, "y": nowhere}, BROKERS.schema)
    notes = (*_notes(columns, priced), *_left_out(path, source, target))
    return Overlay(brokers, pa.table(links, LINKS.schema), {"topology": path.name}, notes)


def _left_out(path: Path, source: Ints, target: Ints) -> list[str]:
    """What the network makes nothing of, in words."""
    loops = source == target
    different = np.unique(np.stack((source, target), axis=1)[~loops], axis=0)
    repeated = len(source) - int(loops.sum()) - len(different)
    notes = [f"{path.name}: {loops.sum():,} links from a broker to itself are left out"] if loops.any() else []
    return [*notes, f"{path.name}: {repeated:,} links are there before; the cheapest counts"] if repeated else notes


def _from_zero_up(columns: Columns, name: str, rows: int) -> Floats:
    if name not in columns.values:
        return np.full(rows, HOP)
    found: Floats = np.asarray(columns.cast(name, pa.float64()).fill_null(HOP))
    bad = np.flatnonzero(~((found >= 0) & np.isfinite(found))).tolist()
    if bad:
        problems = problems_at(bad, columns.path.name, name, lambda row: f"{found[row]} is not a number from 0 up")
        raise DataError.about(str(columns.path), problems)
    return found


def _notes(columns: Columns, priced: str) -> tuple[str, ...]:
    path, read = columns.path.name, columns.values
    notes = [] if priced in read else [f"{path} has no prices: a byte costs 1 on every link"]
    if priced in read and priced != PRICES[0]:
        notes.append(f"{path}: '{priced}' is taken for the price of a byte")
    for name in (priced, "delay"):
        if name in read and read[name].null_count:
            notes.append(f"{path}: {read[name].null_count:,} links have no {name}, and take 1")
    ignored = [name for name in PRICES if name in read and name != priced] + columns.others
    return (*notes, f"{path}: not used: {', '.join(ignored)}") if ignored else tuple(notes)
