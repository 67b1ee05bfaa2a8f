"""The coordinator's journal: what it has to remember to go on after a crash, in one SQLite file.

A row is written before anything that follows from it is told to anybody.
"""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from overstory.errors import DataError
from overstory.topics.coordination import Coordination, Place, Told
from overstory.topics.protocol import Take

TABLES = """
CREATE TABLE IF NOT EXISTS starts (number INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE IF NOT EXISTS clients (client TEXT PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS plain (topic TEXT PRIMARY KEY, why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS places (topic TEXT, cluster INTEGER, state TEXT NOT NULL, PRIMARY KEY (topic, cluster));
"""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a client."""

    takes: list[Take]
    confirmed: int
    wants: list[str]
    publishes: list[str]


class Journal:
    def __init__(self, path: Path) -> None:
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(TABLES)
        except sqlite3.Error as error:
            raise DataError(f"the journal {path} cannot be used: {error}; give another, or remove it") from None

    def begin(self) -> int:
        """Counts one more start of the coordinator. Returns its number."""
        return int(self._db.execute("INSERT INTO starts DEFAULT VALUES").lastrowid or 1)

    def restore(self, into: Coordination) -> bool:
        """Gives what is written to a coordination that begins. Returns whether there was anything."""
        clients: dict[str, Told] = {}
        wants: dict[str, list[str]] = {}
        for client, blob in self._db.execute("SELECT client, row FROM clients ORDER BY client"):
            row = msgspec.msgpack.decode(blob, type=Row)
            told = clients[client] = Told()
            told.takes, told.confirmed, told.publishes = row.takes, row.confirmed, set(row.publishes)
            wants[client] = row.wants
        rows = self._db.execute("SELECT topic, cluster, state FROM places ORDER BY topic, cluster")
        places: dict[Place, str] = {(topic, cluster): state for topic, cluster, state in rows}
        into.resume(clients, wants, places, dict(self._db.execute("SELECT topic, why FROM plain ORDER BY topic")))
        return bool(clients or places)

    def write(self, kept: Coordination) -> None:
        """Writes what has changed since the last time, in one transaction."""
        clients, kept.dirty_clients = kept.dirty_clients, set()
        places, kept.dirty_places = kept.dirty_places, set()
        plain, kept.dirty_plain = kept.dirty_plain, set()
        if not clients and not places and not plain:
            return
        rows: list[tuple[Any, ...]] = []
        for client in clients & kept.clients.keys():
            told = kept.clients[client]
            wants = sorted(kept.deciding.wanted_by(client))
            rows.append(
                (client, msgspec.msgpack.encode(Row(told.takes, told.confirmed, wants, sorted(told.publishes))))
            )
        self._db.execute("BEGIN")
        self._db.executemany("REPLACE INTO clients VALUES (?, ?)", rows)
        self._db.executemany(
            "DELETE FROM clients WHERE client = ?", [(each,) for each in clients - kept.clients.keys()]
        )
        held = [(*place, kept.places[place]) for place in places & kept.places.keys()]
        self._db.executemany("REPLACE INTO places VALUES (?, ?, ?)", held)
        self._db.executemany("DELETE FROM places WHERE topic = ? AND cluster = ?", list(places - kept.places.keys()))
        self._db.executemany("REPLACE INTO plain VALUES (?, ?)", [(topic, kept.plain[topic]) for topic in plain])
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()
