"""Where clients are attached: by a file, by a column, by their own name if a broker has it too, or else by chance."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import DataError
from overstory.lab.overlays import Overlay
from overstory.lab.small_tables import read_columns
from overstory.model.folders import problems_at
from overstory.model.naming import near_names
from overstory.model.network import Ints
from overstory.model.tables import CLIENTS

EVERYWHERE, FILE, COLUMN, NAME, CHANCE = "one at each broker", "by file", "by column", "by name", "by chance"
WAYS = EVERYWHERE, FILE, COLUMN, NAME, CHANCE


class Clients(NamedTuple):
    """Clients before they are attached."""

    ids: Ints
    names: list[str | None]
    chosen: Ints  # the brokers that chance, or else the plan of one client at each broker, gives them
    told: dict[int, int]  # brokers that a column tells
    everywhere: frozenset[int] = frozenset()  # those that stand one at each broker

    def also(self, others: "Clients") -> "Clients":
        return Clients(
            np.concatenate((self.ids, others.ids)),
            self.names + others.names,
            np.concatenate((self.chosen, others.chosen)),
            self.told | others.told,
            self.everywhere | others.everywhere,
        )

    def by_name(self) -> dict[str, int]:
        return {name: int(id_) for name, id_ in zip(self.names, self.ids.tolist(), strict=True) if name is not None}


def at_every_broker(brokers: Ints, first: int) -> Clients:
    """A client without a name at each, numbered from ``first``."""
    ids = first + np.arange(len(brokers))
    return Clients(ids, [None] * len(ids), brokers, {}, frozenset(ids.tolist()))


class Attached(NamedTuple):
    table: pa.Table
    ways: dict[str, int]  # how many clients were attached how


def attached(clients: Clients, overlay: Overlay, by_file: dict[str, int]) -> Attached:
    known, brokers, ways = overlay.named(), clients.chosen.copy(), Counter[str]()
    for at, (id_, name) in enumerate(zip(clients.ids.tolist(), clients.names, strict=True)):
        if id_ in clients.everywhere:
            way = EVERYWHERE
        elif name in by_file:
            way, brokers[at] = FILE, by_file[name]
        elif id_ in clients.told:
            way, brokers[at] = COLUMN, clients.told[id_]
        elif name in known:
            way, brokers[at] = NAME, known[name]
        else:
            way = CHANCE
        ways[way] += 1
    nowhere = pa.nulls(len(clients.ids), pa.float64())
    names = [None if name == str(id_) else name for id_, name in zip(clients.ids.tolist(), clients.names, strict=True)]
    columns = {"id": clients.ids, "broker": brokers, "x": nowhere, "y": nowhere, "name": pa.array(names, pa.string())}
    return Attached(CLIENTS.completed(pa.table(columns)), {way: ways[way] for way in WAYS if ways[way]})


def attachments_in(path: Path, overlay: Overlay) -> dict[str, int]:
    """Brokers by the names of their clients."""
    read = read_columns(path, ("client", "broker"), ()).values
    known = overlay.named()
    clients, brokers = read["client"].to_pylist(), read["broker"].to_pylist()
    unknown = [row for row, broker in enumerate(brokers) if broker not in known]
    if unknown:
        what = problems_at(unknown, path.name, "broker", lambda row: overlay.unknown(brokers[row]))
        raise DataError.about(str(path), what)
    found: dict[str, int] = {}
    torn = [
        row
        for row, (client, broker) in enumerate(zip(clients, brokers, strict=True))
        if found.setdefault(client, known[broker]) != known[broker]
    ]
    if torn:
        what = problems_at(
            torn, path.name, "broker", lambda row: f"{clients[row]} has another one above; a client has one broker"
        )
        raise DataError.about(str(path), what)
    return found


def told_by_column(publishers: pa.Table, overlay: Overlay, before: dict[int, int]) -> tuple[dict[int, int], str]:
    """The brokers of publishers whose ``least`` and ``most`` broker in a log are the same one, and the first thing that
    is wrong. ``before`` are the brokers that other files tell."""
    known = overlay.named()
    told: dict[int, int] = {}
    for row in publishers.select(["id", "name", "least", "most"]).to_pylist():
        id_, name, broker = row["id"], row["name"], row["least"]
        if broker is None:
            continue
        if broker != row["most"]:
            return {}, f"publisher '{name}' is at {broker} and at {row['most']}, and a client has one broker"
        if broker not in known:
            return {}, overlay.unknown(broker)
        if before.get(id_, known[broker]) != known[broker]:
            return {}, f"publisher '{name}' is at {broker}, and elsewhere in the subscriptions"
        told[id_] = known[broker]
    return told, ""


def in_words(ways: dict[str, int]) -> str:
    """How everyone was attached, in one line."""
    return f"clients attached: {', '.join(f'{many:,} {way}' for way, many in ways.items()) or 'none'}"


def strangers(path: Path, by_file: dict[str, int], clients: Clients) -> list[str]:
    """Says which clients of a file neither publish nor subscribe."""
    known = clients.by_name()
    unknown = [name for name in by_file if name not in known]
    if not unknown:
        return []
    near = near_names(unknown[0], known) if len(known) < 10_000 else []
    hint = f", perhaps {' or '.join(near)}" if near else ""
    return [f"{path.name} attaches {len(unknown):,} that neither publish nor subscribe ({unknown[0]}{hint})"]
