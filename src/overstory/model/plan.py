"""A plan: how every event reaches its subscribers. A folder, so that planners and brokers meet in nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import DataError, Problem
from overstory.model.folders import (
    FORMAT_VERSION,
    KNOWN_BY,
    PLAN,
    check_folder,
    decoding_fault,
    fault_of_version,
    read_tables,
    write_table,
    written_whole,
)
from overstory.model.tables import ATTACHMENTS, FILTERS, FLOWS, MEMBERS, PATHS, PLAN_TABLES, REGIONS, TREES

HEADER_FILE = KNOWN_BY[PLAN]
OLD_NAME_OF_PATHS = "steered"  # when there was one kind of steered flow
EVERYTHING = "TRUE"  # the predicate of a flow that all events enter
LATE = -1  # the flow of all subscriptions that the plan does not know; it is in no table, and planners number from 0

Value = str | int | float | bool | None

STEERING = {  # what a header may say of steering, estimated on the events that the planner chose by
    "saved": "the part of the cost of one tree that the plan saves",
    "header_bytes": "bytes of a copy between brokers that say how its tree goes on; only where headers are priced",
    "entries": "entries between brokers; only where upkeep is priced",
    "entries_of_one_tree": "the same of the one tree",
}

ATTACHING = {  # what a header may say of clients that a planner moved: shares are of the cost before, as estimated
    "clients": "those whose moves save most",
    "from": "their brokers before",
    "to": "and now",
    "saved": "the share of the cost that each of these moves saves",
    "moves": "so many moves, from 0 to all",
    "cost": "what is left of the cost after so many",
    "full": "brokers whose capacity binds",
}


class DearLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a directed link between brokers is expected to carry on the whole log."""

    source: int  # the broker where it begins
    target: int
    bytes: int
    cost: float  # its part of core


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who made the plan, of what, and what it was expected to cost."""

    planner: str
    scenario: str  # its fingerprint
    seed: int = 0
    parameters: dict[str, Value] = {}
    predicted: dict[str, Value] = {}
    bounds: dict[str, Value] = {}
    dearest_links: tuple[DearLink, ...] = ()  # those with the largest parts of core, the dearest first
    alternatives: dict[str, float] = {}  # what the planner compared: the cost of each, where that of its choice is 1
    format_version: int = FORMAT_VERSION
    unmet: tuple[str, ...] = ()  # what was asked for and not reached, in words: then this is the best that was found
    attaching: dict[str, list[float]] = {}  # what moving clients saves, where the planner told: see ATTACHING
    steering: dict[str, float] = {}  # what steering saves and takes, where the planner chose to steer: see STEERING
    network: str = ""  # the fingerprint of the brokers and links that it is for


@dataclass(frozen=True, eq=False)
class Plan:
    header: Header
    attachments: pa.Table
    flows: pa.Table
    members: pa.Table
    trees: pa.Table
    filters: pa.Table
    regions: pa.Table = field(default_factory=REGIONS.schema.empty_table)

    @classmethod
    def of(cls, header: Header, tables: Mapping[str, pa.Table]) -> "Plan":
        """Tables that are not given are empty."""
        every = (ATTACHMENTS, FLOWS, MEMBERS, TREES, FILTERS, REGIONS)
        return cls(header, *[each.completed(tables.get(each.name, each.schema.empty_table())) for each in every])

    def write(self, folder: Path) -> None:
        with written_whole(folder) as unfinished:
            header = msgspec.json.format(msgspec.json.encode(self.header, order="deterministic"))
            (unfinished / HEADER_FILE).write_bytes(header + b"\n")
            for name, table in PLAN_TABLES.items():
                rows = getattr(self, name)
                if rows.num_rows or not table.optional:
                    write_table(unfinished, table, rows)

    def headed(self, header: Header) -> "Plan":
        """The same plan with another header."""
        return replace(self, header=header)


def read_plan(folder: Path) -> Plan:
    """Raises a ``DataError`` with all that is wrong, as far as it shows without the scenario."""
    check_folder(folder, PLAN)
    problems: list[Problem] = []
    try:
        header = msgspec.json.decode((folder / HEADER_FILE).read_bytes(), type=Header)
        problems += fault_of_version(HEADER_FILE, header.format_version)
    except OSError as error:
        problems.append(Problem(HEADER_FILE, None, None, f"cannot be read: {error.strerror}"))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        problems.append(Problem(HEADER_FILE, None, None, decoding_fault(error)))
    tables = read_tables(folder, PLAN_TABLES, problems)
    if problems:
        raise DataError.about(f"the plan {folder}", problems)
    kinds = tables["flows"]["kind"]
    known = pc.if_else(pc.equal(kinds, OLD_NAME_OF_PATHS), PATHS, kinds)
    tables["flows"] = tables["flows"].set_column(1, tables["flows"].schema.field("kind"), known)
    return Plan(header, **tables)
