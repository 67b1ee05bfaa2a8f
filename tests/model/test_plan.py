"""Plans as folders: what is written is read, byte for byte the same each time, and all that is wrong is said."""

import errno
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.errors import DataError, Problem, UsageError
from overstory.model.folders import fingerprint_of
from overstory.model.plan import Header, Plan, read_plan
from overstory.model.tables import ATTACHMENTS, FILTERS, FLOWS, MEMBERS, PATHS, PLAN_TABLES, TREE, TREES

from ..plans import random_plan, random_scenario
from ..tables import table_of

HEADER = Header(
    "spt",
    "0123abcd",
    seed=7,
    parameters={"root": "centre", "tries": 3, "share": 0.25, "exact": False, "limit": None},
    predicted={"cost": 12.5},
    bounds={"lower_bound": 10.0},
)
TABLES = {
    "attachments": table_of(ATTACHMENTS, [(10, 1), (11, 2)]),
    "flows": table_of(FLOWS, [(0, TREE, "TRUE", 0), (3, PATHS, "topic = 'é'", 2)]),
    "members": table_of(MEMBERS, [(0, 5, None), (3, 6, "topic = 'é'")]),
    "trees": table_of(TREES, [(0, 1, 2)]),
    "filters": table_of(FILTERS, [(0, 1, 2, "price > 3")]),
}


def plan() -> Plan:
    return Plan.of(HEADER, TABLES)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same(one: Plan, other: Plan) -> None:
    assert one.header == other.header
    for name in PLAN_TABLES:
        assert getattr(one, name).equals(getattr(other, name)), name


def test_what_is_written_is_read(tmp_path: Path) -> None:
    plan().write(tmp_path / "plan")
    assert_same(read_plan(tmp_path / "plan"), plan())


def test_the_same_bytes_again(tmp_path: Path) -> None:
    plan().write(tmp_path / "first")
    read_plan(tmp_path / "first").write(tmp_path / "second")
    assert bytes_of(tmp_path / "first") == bytes_of(tmp_path / "second")
    parameters = dict(reversed(HEADER.parameters.items()))  # the order in which they were given plays no part
    turned = msgspec.structs.replace(HEADER, parameters=parameters)
    Plan.of(turned, dict(reversed(TABLES.items()))).write(tmp_path / "third")
    assert bytes_of(tmp_path / "first") == bytes_of(tmp_path / "third")


def test_random_plans(tmp_path: Path) -> None:
    dice = random.Random(2)
    for number in range(20):
        drawn = random_plan(dice, random_scenario(dice, tmp_path / f"scenario {number}"), regions=0.5)
        drawn.write(tmp_path / f"{number}")
        found = read_plan(tmp_path / f"{number}")
        assert_same(found, drawn)
        found.write(tmp_path / f"{number} again")
        assert bytes_of(tmp_path / f"{number}") == bytes_of(tmp_path / f"{number} again")


def test_tables_that_are_not_given_are_empty(tmp_path: Path) -> None:
    Plan.of(HEADER, {}).write(tmp_path / "plan")
    found = read_plan(tmp_path / "plan")
    for name, table in PLAN_TABLES.items():
        assert getattr(found, name).num_rows == 0
        assert getattr(found, name).schema == table.full_schema


def test_fingerprints_of_tables() -> None:
    """The same for the same rows in any order and however they are held, and for no others."""
    dice = random.Random(3)
    found = set()
    for rows in TABLES.values():
        many = pa.concat_tables([rows] * 3 + [rows.slice(0, 1)])
        expected = fingerprint_of(many)
        for _ in range(5):
            assert fingerprint_of(many.take(dice.sample(range(many.num_rows), many.num_rows))) == expected
        assert fingerprint_of(many.combine_chunks()) == expected
        found |= {expected, fingerprint_of(rows), fingerprint_of(rows.slice(0, 0))}
        for column in rows.schema.names:
            first = rows[column][0].as_py()
            other = f"{first} OR FALSE" if rows.schema.field(column).type == pa.string() else first + 1
            cells = [other, *rows[column].to_pylist()[1:]]
            at = rows.schema.get_field_index(column)
            field = rows.schema.field(at)
            found.add(fingerprint_of(rows.set_column(at, field, pa.array(cells, field.type))))
    assert len(found) == sum(3 + rows.num_columns for rows in TABLES.values())


# What is wrong


def problems(folder: Path) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        read_plan(folder)
    assert str(folder) in caught.value.summary
    return list(caught.value.problems)


def test_all_that_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    plan().write(folder)
    (folder / "plan.json").write_text('{"planner": 3}')
    (folder / "attachments.parquet").unlink()
    (folder / "flows.parquet").write_bytes(b"")
    pq.write_table(TABLES["members"].drop_columns(["part", "flow"]), folder / "members.parquet")
    pq.write_table(TABLES["trees"].set_column(1, "source", pa.array([None], pa.int64())), folder / "trees.parquet")
    pq.write_table(TABLES["filters"].set_column(1, "source", pa.array(["one"])), folder / "filters.parquet")
    assert [(each.table, each.row, each.column) for each in problems(folder)] == [
        ("plan.json", None, None),
        ("attachments", None, None),
        ("flows", None, None),
        ("members", None, "flow"),
        ("members", None, "part"),
        ("trees", 1, "source"),
        ("filters", None, "source"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"planner": "spt"}', '{"planner": "spt", "scenario": "x", "colour": 1}', "\x00"],
)
def test_a_bad_header(text: str, tmp_path: Path) -> None:
    plan().write(tmp_path / "plan")
    (tmp_path / "plan" / "plan.json").write_text(text)
    (found,) = problems(tmp_path / "plan")
    assert found.table == "plan.json"


def test_no_header_and_no_folder(tmp_path: Path) -> None:
    plan().write(tmp_path / "plan")
    (tmp_path / "plan" / "plan.json").unlink()
    assert [str(each) for each in problems(tmp_path / "plan")] == [
        "plan.json: cannot be read: No such file or directory"
    ]
    with pytest.raises(DataError, match="no such folder"):
        read_plan(tmp_path / "none")


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = pq.write_table
    for fails_at in range(sum(not table.optional for table in PLAN_TABLES.values())):
        left = [fails_at]

        def full(*arguments: Any, left: list[int] = left, **named: Any) -> None:
            if not left[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            left[0] -= 1
            written(*arguments, **named)

        monkeypatch.setattr(pq, "write_table", full)
        with pytest.raises(DataError, match="No space left on device; nothing is left"):
            plan().write(tmp_path / "plan")
        assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    plan().write(tmp_path / "plan")
    with pytest.raises(UsageError, match="exists already"):
        Plan.of(HEADER, {}).write(tmp_path / "plan")
    assert_same(read_plan(tmp_path / "plan"), plan())
