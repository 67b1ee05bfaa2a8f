"""Logs of real events, read from a folder that has a sub-folder for each source, as their publishers packed them.

A log has no subscriptions and no brokers: it tells what happened, and who would have published it.
"""

import csv
import gzip
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from overstory.filters.padres import parse_publication

Event = dict[str, Any]
Row = TypeVar("Row")
EDIT = ("channel", "namespace", "user", "countryIsoCode", "isRobot", "isNew", "isMinor", "delta")
QUOTE = ("symbol", "open", "high", "low", "close", "volume")
FLIGHT = ("carrier", "origin", "dest")
FLIGHT_NUMBERS = ("month", "hour", "dep_delay", "distance")
LANGUAGES = "lang.txt.gz"  # beside the watches


class RealLog(NamedTuple):
    file: str
    publisher: str | None  # the attribute that tells it; None if it is left to chance
    read: Callable[[Path, int], list[Event]]  # at most so many events, from all over the log


def spread(rows: Sequence[Row], most: int) -> Iterable[Row]:
    """At most so many, at equal distances: a log changes with time."""
    count = min(len(rows), most)
    return (rows[at * len(rows) // count] for at in range(count))


def edits(path: Path, most: int) -> list[Event]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [_only(EDIT, json.loads(line)) for line in spread(file.readlines(), most)]


def quotes(path: Path, most: int) -> list[Event]:
    """In the order of symbols, each a file of the archive."""
    with tarfile.open(path) as archive:
        files = [archive.extractfile(member) for member in archive]
        lines = [line for file in files if file is not None for line in file.read().decode().splitlines()]
    return [_only(QUOTE, parse_publication(line)) for line in spread(lines, most)]


def flights(path: Path, most: int) -> list[Event]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        _only(FLIGHT, row) | {name: int(row[name]) for name in FLIGHT_NUMBERS if row[name].lstrip("-").isdigit()}
        for row in spread(rows, most)
    ]


def watches(path: Path, most: int) -> list[Event]:
    """A user begins to watch a repository, which is in some languages."""
    with gzip.open(path.with_name(LANGUAGES), "rt") as file:
        known = dict(line.rstrip("\n").split(":", 1) for line in file)
    with gzip.open(path, "rt") as file:
        pairs = [line.strip().split(":") for line in spread(file.readlines(), most)]
    return [
        {"user": int(user), "repository": int(repository), "languages": _languages(known.get(repository, ""))}
        for user, repository in pairs
    ]


def _languages(text: str) -> list[str]:
    """Of ``Ruby;395056,JavaScript;802``, where a number is of lines."""
    return [part.partition(";")[0] for part in text.split(",") if part]


def _only(names: tuple[str, ...], values: dict[str, Any]) -> Event:
    return {name: values[name] for name in names if values.get(name) is not None}


LOGS = {
    "wikiticker": RealLog("wikiticker/wikiticker-2015-09-12-sampled.json.gz", "channel", edits),
    "stockquotes": RealLog("padres_stockquotes/stockquotes.tar.xz", "symbol", quotes),
    "flights": RealLog("nycflights13/flights.csv.xz", "origin", flights),
    "watches": RealLog("github_watches/data.medium.gz", None, watches),
}


def write_log(log: RealLog, folder: Path, most: int, path: Path) -> Path:
    """Writes a log's first events as JSON lines, and returns the file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in log.read(folder / log.file, most))
    return path
