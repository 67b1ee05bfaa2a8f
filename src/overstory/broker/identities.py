"""What survives a restart: who is who, the sessions that are kept, their messages, and retained messages. In SQLite.

Changes come from the journal as named statements, many in one transaction. ``recall`` brings a broker's memory back.
"""

import sqlite3
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from overstory.broker import subscribing
from overstory.broker.journal import Change
from overstory.broker.message import Message
from overstory.broker.session import FOR_EVER, RELEASED, Delivery, Session
from overstory.broker.state import State
from overstory.broker.subscribing import Wish
from overstory.errors import BrokerError, OverstoryError
from overstory.kernels.nothing import NONE
from overstory.wire.packets import Asked, Will

FORMAT = 2
TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER);
CREATE TABLE IF NOT EXISTS sessions (number INTEGER PRIMARY KEY, client_id TEXT UNIQUE, expiry INTEGER, ends REAL,
    away INTEGER, will BLOB);
CREATE TABLE IF NOT EXISTS subscriptions (number INTEGER PRIMARY KEY, session INTEGER, options BLOB);
CREATE INDEX IF NOT EXISTS subscriptions_of ON subscriptions (session);
CREATE TABLE IF NOT EXISTS deliveries (session INTEGER, sequence INTEGER, packet_id INTEGER, state INTEGER,
    delivery BLOB, PRIMARY KEY (session, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS received (session INTEGER, packet_id INTEGER, event INTEGER, handed INTEGER,
    PRIMARY KEY (session, packet_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (entry INTEGER, event INTEGER, flows BLOB, PRIMARY KEY (entry, event, flows));
CREATE TABLE IF NOT EXISTS got (entry INTEGER, event INTEGER, subscription INTEGER,
    PRIMARY KEY (entry, event, subscription)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS moves (session INTEGER PRIMARY KEY, kind TEXT, broker INTEGER, number INTEGER);
CREATE TABLE IF NOT EXISTS departed (client_id TEXT PRIMARY KEY, heir INTEGER, version INTEGER, session BLOB)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spool (key INTEGER PRIMARY KEY, peer INTEGER, body BLOB);
CREATE TABLE IF NOT EXISTS retained (topic TEXT PRIMARY KEY, message BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS epochs (number INTEGER PRIMARY KEY, package BLOB);
CREATE TABLE IF NOT EXISTS stamps (topic TEXT PRIMARY KEY, time INTEGER, broker INTEGER) WITHOUT ROWID;
"""
STATEMENTS = {
    "counter": ("INSERT OR REPLACE INTO meta VALUES ('counter', ?)",),
    "session": ("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)",),
    "subscribe": ("INSERT OR REPLACE INTO subscriptions (session, number, options) VALUES (?, ?, ?)",),
    "unsubscribe": ("DELETE FROM subscriptions WHERE number = ?",),
    "deliver": ("INSERT INTO deliveries (session, sequence, packet_id, state, delivery) VALUES (?, ?, ?, 0, ?)",),
    "send": ("UPDATE deliveries SET packet_id = ?, state = ? WHERE session = ? AND sequence = ?",),
    "done": ("DELETE FROM deliveries WHERE session = ? AND sequence = ?",),
    "received": ("INSERT OR IGNORE INTO received VALUES (?, ?, ?, 0)",),
    "handed": ("UPDATE received SET handed = 1 WHERE session = ? AND packet_id = ?",),
    "seen": ("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)",),
    "unseen": ("DELETE FROM seen WHERE entry = ? AND event = ? AND flows = ?",),
    "got": ("INSERT OR IGNORE INTO got VALUES (?, ?, ?)",),
    "not got": ("DELETE FROM got WHERE entry = ? AND event = ? AND subscription = ?",),
    "ungot": ("DELETE FROM got WHERE entry = ? AND event = ?",),
    "move": ("INSERT OR REPLACE INTO moves VALUES (?, ?, ?, ?)",),
    "unmove": ("DELETE FROM moves WHERE session = ?",),
    "depart": ("INSERT OR REPLACE INTO departed VALUES (?, ?, ?, ?)",),
    "undepart": ("DELETE FROM departed WHERE client_id = ?",),
    "released": ("DELETE FROM received WHERE session = ? AND packet_id = ?",),
    "spool": ("INSERT INTO spool VALUES (?, ?, ?)",),
    "unspool": ("DELETE FROM spool WHERE key = ?",),
    "retain": ("INSERT OR REPLACE INTO retained VALUES (?, ?)",),
    "unretain": ("DELETE FROM retained WHERE topic = ?",),
    "stamp": ("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?)",),
    "unstamp": ("DELETE FROM stamps WHERE topic = ?",),
    "epoch": ("INSERT OR REPLACE INTO epochs VALUES (?, ?)",),
    "unepoch": ("DELETE FROM epochs WHERE number = ?",),
    "active": ("INSERT OR REPLACE INTO meta VALUES ('active', ?)",),
    "retired": ("INSERT OR REPLACE INTO meta VALUES ('retired', ?)",),
    "fence": ("INSERT OR REPLACE INTO meta VALUES ('fence', ?)",),
    "paused": ("INSERT OR REPLACE INTO meta VALUES ('paused', ?)",),
    "end": (
        "DELETE FROM sessions WHERE number = ?",
        "DELETE FROM subscriptions WHERE session = ?",
        "DELETE FROM deliveries WHERE session = ?",
        "DELETE FROM received WHERE session = ?",
        "DELETE FROM moves WHERE session = ?",
    ),
}


class Store:
    """The SQLite file of a broker's durable state. ``write`` may be called from another thread, by one at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(TABLES)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (FORMAT,))
        except (sqlite3.Error, OSError) as error:
            raise BrokerError(
                f"cannot use {path} as a store: {error}; name another file, or stop who uses it"
            ) from None
        if self.meta("format") != FORMAT:
            raise BrokerError(f"{path} is a store of another version of Overstory; name another file")

    def meta(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def write(self, changes: Iterable[Change]) -> None:
        """Writes changes in one transaction: all of them or, with a ``BrokerError``, none."""
        try:
            self._db.execute("BEGIN")
            for name, alike in groupby(changes, key=itemgetter(0)):
                rows = [values for _, values in alike]
                for statement in STATEMENTS[name]:
                    self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise BrokerError(f"cannot write to {self.path}: {error}; make room, or check its disk") from None

    def rows(self, query: str, *values: object) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        self._db.close()


def recall_network(state: State, store: Store) -> None:
    """Brings back plans, what waited for neighbours, which events were handed out here, and how old retained messages
    are."""
    state.fabric.lead.recall(store.meta("fence"), bool(store.meta("paused")))
    packages = [package for (package,) in store.rows("SELECT package FROM epochs ORDER BY number")]
    state.fabric.epochs.recall(packages, store.meta("active"), store.meta("retired"))
    for row in store.rows("SELECT key, peer, body FROM spool ORDER BY key"):
        state.fabric.recall(*row)
    for row in store.rows("SELECT entry, event, flows FROM seen ORDER BY rowid"):
        state.fabric.seen.recall(*row)
    for row in store.rows("SELECT entry, event, subscription FROM got ORDER BY event"):
        state.fabric.seen.recall_who(*row)
    for row in store.rows(
        "SELECT client_id, kind, broker, moves.number FROM moves JOIN sessions ON session = sessions.number"
    ):
        state.fabric.roaming.recall(*row)
    for row in store.rows("SELECT client_id, heir, version, session FROM departed"):
        state.fabric.roaming.recall_departed(*row)
    for (event,) in store.rows("SELECT event FROM received WHERE handed"):
        state.fabric.seen.handed(event)
    for topic, time, broker in store.rows("SELECT topic, time, broker FROM stamps ORDER BY time"):
        state.fabric.recall_stamp(topic, time, broker)


def recall(state: State, store: Store) -> None:
    """Brings back what was kept. Whoever was connected when the broker went down is away since now."""
    notes, state.journal.keeps = state.journal.keeps, False
    try:
        for (blob,) in store.rows("SELECT message FROM retained"):
            state.retained.keep(msgspec.msgpack.decode(blob, type=Message))
        for row in store.rows("SELECT number, client_id, expiry, ends, away, will FROM sessions"):
            _recall_session(state, store, row)
    except (msgspec.MsgspecError, OverstoryError) as error:
        raise BrokerError(f"{store.path} holds something that cannot be read: {error}") from None
    finally:
        state.journal.keeps = notes


def _recall_session(state: State, store: Store, row: tuple[int, str, int, float | None, int, bytes]) -> None:
    number, client_id, expiry, ends, was_away, will = row
    session = state.sessions[client_id] = state.away[client_id] = Session(client_id, number, state.house)
    session.expiry = expiry
    session.ends = ends if was_away or expiry == FOR_EVER else state.now + expiry
    left = msgspec.msgpack.decode(will, type=Will | None)
    if left is not None and not was_away:
        state.wills.wait(session, left, state.now + min(left.properties.get("will_delay_interval", 0), expiry))
    for subscription, options in store.rows(
        "SELECT number, options FROM subscriptions WHERE session = ? ORDER BY number", number
    ):
        asked, identifier, where, version, copies = msgspec.msgpack.decode(
            options, type=tuple[Asked, int, str | None, int, int]
        )
        session.copies = max(session.copies, copies)
        subscribing.restore(state, session, Wish(asked, where, identifier), (subscription, version))
    found = store.rows(
        "SELECT sequence, packet_id, state, delivery FROM deliveries WHERE session = ? ORDER BY sequence", number
    )
    for sequence, packet_id, at, blob in found:
        delivery = msgspec.msgpack.decode(blob, type=Delivery)
        delivery.sequence, delivery.state = sequence, at
        if at == RELEASED:
            delivery.message = None
        session.restore(delivery, packet_id)
    for packet_id, event in store.rows("SELECT packet_id, event FROM received WHERE session = ?", number):
        session.received.add(packet_id)
        if event != NONE:
            session.uncertain[packet_id] = event
