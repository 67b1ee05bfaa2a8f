"""Scenarios as folders: what is written is read, the same gives the same bytes, and all that is wrong is said."""

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.errors import DataError, Problem, UsageError
from overstory.model.folders import check_can_be_made
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Access, Curves, Limits, Prices, Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, LINKS, SCENARIO_TABLES, SUBSCRIPTIONS
from overstory.pipeline.validate import problems_of_filters

from ..plans import random_scenario
from ..tables import events_table, table_of

Tables = dict[str, pa.Table]

SETTINGS = Settings(
    name="small",
    coalesce=False,
    intervals=2.5,
    prices=Prices(access=0.5, upkeep_core=0.25),
    limits=Limits(load=3.0),
    access=Access("euclidean", 2.0, 0.5),
    made_by={"generator": "by hand", "seed": 3, "share": 0.5, "sure": True},
)
TABLES: Tables = {
    "brokers": table_of(BROKERS, [(1, "one", 0.0, 0.0), (2, None, 1.0, 0.0), (3, "drei", 0.5, 2.0)]),
    "links": table_of(LINKS, [(u, v, 1.5, 2.0) for u, v in ((1, 2), (2, 1), (2, 3), (3, 2))]),
    "clients": table_of(CLIENTS, [(10, 1, 0.0, 0.0), (11, None, 0.25, 0.25)]),
    "subscriptions": table_of(SUBSCRIPTIONS, [(0, 10, "topic = 'a'", False), (1, 11, "price > 3", True)]),
    "changes": table_of(CHANGES, [(1.0, "subscribe", 10, 5, "topic = 'b'", None), (2.0, "move", 11, None, None, 3)]),
}
EVENTS = events_table(
    [(10, 5, "a", 1.0), (11, 7, None, 3.5)],
    {"topic": pa.string(), "price": pa.float64()},
)


def write(folder: Path, tables: Tables = TABLES, settings: Settings = SETTINGS, events: pa.Table = EVENTS) -> Path:
    write_scenario(folder, settings, tables, events)
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def problems(folder: Path) -> list[Problem]:
    with pytest.raises(DataError) as caught:
        read_scenario(folder)
    assert str(folder) in caught.value.summary
    assert all(str(each) in str(caught.value) for each in caught.value.problems)
    return list(caught.value.problems)


# Round trips


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = read_scenario(write(tmp_path / "scenario"))
    assert found.settings == SETTINGS
    for name, rows in TABLES.items():
        assert getattr(found, name).select(rows.column_names).equals(rows), name
    assert pq.read_table(found.events).equals(EVENTS)
    assert found.attributes == {"topic": pa.string(), "price": pa.float64()}
    assert len(found.network) == 3


def test_the_same_bytes_again(tmp_path: Path) -> None:
    first = write(tmp_path / "first")
    found = read_scenario(first)
    again = {name: getattr(found, name) for name in TABLES}
    second = write(tmp_path / "second", again, found.settings, pq.read_table(found.events))
    assert bytes_of(first) == bytes_of(second)
    assert read_scenario(second).fingerprint == found.fingerprint


def test_the_same_bytes_however_tables_are_held(tmp_path: Path) -> None:
    """In chunks, or with columns of other integers."""
    chunked = {name: pa.concat_tables([rows.slice(0, 1), rows.slice(1)]) for name, rows in TABLES.items()}
    small = TABLES["clients"].set_column(0, "id", pa.array([10, 11], pa.int32()))
    first = bytes_of(write(tmp_path / "first"))
    assert first == bytes_of(write(tmp_path / "second", chunked))
    assert first == bytes_of(write(tmp_path / "third", TABLES | {"clients": small}))


def test_random_scenarios(tmp_path: Path) -> None:
    dice = random.Random(5)
    for number in range(30):
        drawn = random_scenario(dice, tmp_path / str(number))
        tables = {name: getattr(drawn, name) for name in TABLES if name != "changes"}
        write_scenario(tmp_path / f"{number} again", drawn.settings, tables, pq.read_table(drawn.events))
        assert bytes_of(drawn.folder) == bytes_of(tmp_path / f"{number} again")
        assert read_scenario(tmp_path / f"{number} again").fingerprint == drawn.fingerprint


def test_tables_that_are_not_given_are_empty(tmp_path: Path) -> None:
    found = read_scenario(write(tmp_path / "scenario", {"brokers": TABLES["brokers"].slice(0, 1)}))
    assert not (found.folder / "changes.parquet").exists()
    for name in ("links", "clients", "subscriptions", "changes"):
        assert getattr(found, name).num_rows == 0
        assert getattr(found, name).schema == SCENARIO_TABLES[name].full_schema


def test_a_log_is_moved_in(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "log.parquet", compression="zstd")
    write_scenario(tmp_path / "scenario", SETTINGS, TABLES, tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()
    assert bytes_of(tmp_path / "scenario") == bytes_of(write(tmp_path / "other"))


# Names


def test_names_survive_and_may_be_missing(tmp_path: Path) -> None:
    plain = read_scenario(write(tmp_path / "plain"))
    assert plain.clients["name"].to_pylist() == [None, None]
    assert plain.client_names == plain.subscription_names == {}
    assert plain.broker_names == {1: "one", 3: "drei"}
    nobody = TABLES["clients"].append_column("name", pa.nulls(2, pa.string()))
    assert bytes_of(plain.folder) == bytes_of(write(tmp_path / "nobody", TABLES | {"clients": nobody}))
    named = TABLES | {
        "clients": TABLES["clients"].append_column("name", pa.array(["ann", None])),
        "subscriptions": TABLES["subscriptions"].append_column("name", pa.array([None, "dear"])),
    }
    found = read_scenario(write(tmp_path / "named", named))
    assert (found.client_names, found.subscription_names) == ({10: "ann"}, {1: "dear"})
    assert found.fingerprint != plain.fingerprint


# A log in parts


def test_events_may_be_a_folder_of_parts(tmp_path: Path) -> None:
    """As Spark writes one: with hidden files beside the parts."""
    folder = write(tmp_path / "scenario")
    (folder / "events.parquet").unlink()
    parts = folder / "events.parquet"
    parts.mkdir()
    (parts / "_SUCCESS").touch()
    for number in range(2):
        pq.write_table(EVENTS.slice(number, 1), parts / f"part-0000{number}.snappy.parquet")
    found = read_scenario(folder)
    assert found.attributes == {"topic": pa.string(), "price": pa.float64()}
    before = found.fingerprint
    pq.write_table(EVENTS.slice(0, 1), parts / "part-00001.snappy.parquet")
    assert read_scenario(folder).fingerprint != before
    pq.write_table(EVENTS.slice(0, 1).drop_columns(["price"]), parts / "part-00001.snappy.parquet")
    assert "part-00001.snappy.parquet has other columns than part-00000" in problems(folder)[0].what
    for part in parts.glob("*.parquet"):
        part.unlink()
    assert problems(folder) == [Problem("events", None, None, "the folder events.parquet has no Parquet files in it")]


def test_what_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, words in {"file": "exists already", "file/inner/made": "file is a file, not a folder"}.items():
        with pytest.raises(UsageError, match=words):
            check_can_be_made(tmp_path / folder)
    check_can_be_made(tmp_path / "new" / "made")
    assert not (tmp_path / "new").exists()


# Fingerprints


def with_cell(rows: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    values = rows[column].to_pylist()
    values[row] = value
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


def test_a_fingerprint_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    dice = random.Random(1)
    expected = read_scenario(write(tmp_path / "0")).fingerprint
    for number in range(1, 6):
        shuffled = {name: rows.take(dice.sample(range(rows.num_rows), rows.num_rows)) for name, rows in TABLES.items()}
        assert read_scenario(write(tmp_path / str(number), shuffled)).fingerprint == expected


def test_a_fingerprint_changes_with_the_content(tmp_path: Path) -> None:
    """With any cell, row, price or event."""
    changes: list[Callable[[], dict[str, Any]]] = []
    others = {pa.int64(): 77, pa.float64(): 0.125, pa.string(): "topic = 'z'", pa.bool_(): True}
    for name, rows in TABLES.items():
        for column in rows.schema.names:
            changed = with_cell(rows, 0, column, others[rows.schema.field(column).type])
            changes.append(lambda name=name, changed=changed: {"tables": TABLES | {name: changed}})  # type: ignore[misc]
        changes.append(lambda name=name, rows=rows: {"tables": TABLES | {name: rows.slice(1)}})  # type: ignore[misc]
        doubled = pa.concat_tables([rows, rows.slice(0, 1)])
        changes.append(lambda name=name, rows=doubled: {"tables": TABLES | {name: rows}})  # type: ignore[misc]
    changes.append(lambda: {"events": EVENTS.slice(1)})
    changes.append(lambda: {"events": with_cell(EVENTS, 0, "topic", "b")})
    changes.append(lambda: {"settings": Settings()})
    changes.append(lambda: {"settings": Settings(prices=Prices(core=2.0))})
    changes.append(dict)
    found = []
    for number, change in enumerate(changes):
        arguments: dict[str, Any] = {"settings": SETTINGS, "tables": TABLES, "events": EVENTS} | change()
        folder = tmp_path / str(number)
        write_scenario(folder, **arguments)
        found.append(Scenario(folder, arguments["settings"], **arguments["tables"]).fingerprint)
    assert len(set(found)) == len(changes)


def test_a_currency_leaves_plans_valid(tmp_path: Path) -> None:
    """It is only printed."""
    found = {}
    for currency in ("", "EUR"):
        folder = write(tmp_path / f"in {currency}", settings=msgspec.structs.replace(SETTINGS, currency=currency))
        scenario = read_scenario(folder)
        assert scenario.settings.currency == currency
        found[currency] = scenario.fingerprint
    assert found[""] == found["EUR"]


def test_a_fingerprint_sees_what_is_null(tmp_path: Path) -> None:
    null = TABLES["brokers"]
    empty = with_cell(null, 1, "name", "")
    found = {
        read_scenario(write(tmp_path / str(number), TABLES | {"brokers": rows})).fingerprint
        for number, rows in enumerate((null, empty))
    }
    assert len(found) == 2


# What is wrong


def test_all_that_is_wrong_between_tables(tmp_path: Path) -> None:
    nan = float("nan")
    tables = {
        "brokers": table_of(BROKERS, [(1, None, 0.0, 0.0), (2, None, None, 1.0), (1, None, nan, 0.0)]),
        "links": table_of(LINKS, [(1, 2, -1.0, 0.0), (2, 99, 1.0, nan), (98, 1, nan, -2.0), (2, 1, float("inf"), 0.0)]),
        "clients": table_of(CLIENTS, [(10, 97, 0.0, 0.0), (2, None, 0.0, 0.0), (10, 1, 0.0, 0.0)]),
        "subscriptions": table_of(SUBSCRIPTIONS, [(0, 96, "TRUE", False), (0, 10, "TRUE", False)]),
        "changes": table_of(CHANGES, [(0.0, "explode", 95, None, None, 94)]),
    }
    found = problems(write(tmp_path / "scenario", tables))
    assert {(each.table, each.row, each.column) for each in found} == {
        ("brokers", 3, "id"),
        ("brokers", 2, "x"),
        ("brokers", 3, "x"),
        ("links", 1, "price"),
        ("links", 3, "price"),
        ("links", 4, "price"),
        ("links", 2, "delay"),
        ("links", 3, "delay"),
        ("links", 2, "target"),
        ("links", 3, "source"),
        ("clients", 1, "broker"),
        ("clients", 2, "id"),
        ("clients", 3, "id"),
        ("subscriptions", 1, "client"),
        ("subscriptions", 2, "id"),
        ("changes", 1, "operation"),
        ("changes", 1, "client"),
        ("changes", 1, "broker"),
    }
    said = " ".join(map(str, found))
    for value in (
        "-1.0",
        "nan",
        "inf",
        "broker or client 99",
        "broker 97",
        "client 96",
        "'explode'",
        "2 is also the id",
    ):
        assert value in said


def test_a_network_in_pieces(tmp_path: Path) -> None:
    for number, (links, whole) in enumerate(
        [
            ([(1, 2), (2, 1)], False),
            ([(1, 2), (2, 3), (3, 1)], False),  # round and round, but never back: there is no tree
            ([(1, 2), (2, 1), (2, 3), (3, 2), (1, 3)], True),
        ]
    ):
        rows = table_of(LINKS, [(*link, 1.0, 0.0) for link in links])
        folder = write(tmp_path / str(number), TABLES | {"links": rows})
        if whole:
            read_scenario(folder)
        else:
            (found,) = problems(folder)
            assert (found.table, found.row, found.column) == ("links", None, None)
            assert "not connected" in found.what
            assert "drei" in found.what


def test_no_brokers(tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path / "scenario", {}))
    assert (found.table, found.what) == ("brokers", "there is none")


def test_all_that_is_wrong_with_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "scenario")
    (folder / "scenario.toml").write_text("coalesce = 'perhaps'")
    (folder / "brokers.parquet").unlink()
    (folder / "links.parquet").write_bytes(b"PAR1 but not for long")
    clients = TABLES["clients"].set_column(0, "id", pa.array(["ten", "eleven"]))
    pq.write_table(clients.drop_columns(["x"]), folder / "clients.parquet")
    subscriptions = TABLES["subscriptions"].set_column(2, "filter", pa.array(["TRUE", None]))
    pq.write_table(subscriptions, folder / "subscriptions.parquet")
    pq.write_table(TABLES["changes"].drop_columns(["time"]), folder / "changes.parquet")
    events = EVENTS.drop_columns(["$bytes"]).append_column("seen", pa.array([1, 2], pa.timestamp("s")))
    pq.write_table(events.set_column(0, "$id", pa.array([1.5, 2.5])), folder / "events.parquet")
    found = problems(folder)
    assert [(each.table, each.row, each.column) for each in found] == [
        ("scenario.toml", None, None),
        ("brokers", None, None),
        ("links", None, None),
        ("clients", None, "id"),
        ("clients", None, "x"),
        ("subscriptions", 2, "filter"),
        ("changes", None, "time"),
        ("events", None, "$id"),
        ("events", None, "$bytes"),
        ("events", None, "seen"),
    ]
    for value in (
        "brokers.parquet is missing",
        "links.parquet is not a Parquet file",
        "cannot be read as int64",
        "bool",
    ):
        assert value in " ".join(map(str, found))


@pytest.mark.parametrize("whole", range(0, 1400, 100))
def test_files_that_were_cut_off(whole: int, tmp_path: Path) -> None:
    folder = write(tmp_path / "scenario")
    for name in ("links", "events"):
        path = folder / f"{name}.parquet"
        path.write_bytes(path.read_bytes()[:whole])
    assert {(each.table, each.row) for each in problems(folder)} == {("links", None), ("events", None)}


@pytest.mark.parametrize(
    "text",
    [
        "coalesce = ",
        "[prices]\ncore = -1",
        "[prices]\ncore = nan",
        "[prices]\ncore = inf",
        "[prices]\ncorr = 1",
        "[limits]\nload = -0.5",
        "[access]\nmetric = 'taxi'",
        "intervals = 'many'",
        "\x00",
        b"name = '\xff'",
    ],
)
def test_a_bad_settings_file(text: str | bytes, tmp_path: Path) -> None:
    folder = write(tmp_path / "scenario")
    (folder / "scenario.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = problems(folder)
    assert found.table == "scenario.toml"
    assert "docs/scenarios.md" in found.what


def test_no_settings_file_and_no_log(tmp_path: Path) -> None:
    folder = write(tmp_path / "scenario")
    (folder / "scenario.toml").unlink()
    (folder / "events.parquet").unlink()
    assert [str(each) for each in problems(folder)] == [
        "scenario.toml: cannot be read: No such file or directory",
        "events: the file events.parquet is missing",
    ]


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        read_scenario(tmp_path / "none")


def test_a_filter_that_does_not_parse(tmp_path: Path) -> None:
    rows = [(number, 10, f"price > {number % 100}", False) for number in range(1000)]
    rows[730] = (730, 10, "price >", False)
    rows[731] = (731, 10, "$broker = 3", False)
    rows[732] = (732, 10, "topic = 'a $broker'", False)  # which is a text
    scenario = read_scenario(write(tmp_path / "scenario", TABLES | {"subscriptions": table_of(SUBSCRIPTIONS, rows)}))
    found = problems_of_filters(scenario)
    assert [(each.table, each.row, each.column) for each in found] == [
        ("subscriptions", 731, "filter"),
        ("subscriptions", 732, "filter"),
    ]
    assert "price >" in found[0].what
    assert "$broker is not for subscriptions" in found[1].what


# Writing


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whichever table it is that has no room."""
    written = pq.write_table
    for fails_at in range(6):
        left = [fails_at]

        def full(*arguments: Any, left: list[int] = left, **named: Any) -> None:
            if not left[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            left[0] -= 1
            written(*arguments, **named)

        monkeypatch.setattr(pq, "write_table", full)
        with pytest.raises(DataError, match="No space left on device; nothing is left"):
            write(tmp_path / "scenario")
        assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    read_scenario(write(tmp_path / "scenario"))


def test_whatever_stops_it_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "scenario")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    folder = write(tmp_path / "scenario")
    before = bytes_of(folder)
    with pytest.raises(UsageError, match="exists already"):
        write(folder, settings=Settings())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write(tmp_path / "file")
    assert bytes_of(folder) == before
    (tmp_path / "empty").mkdir()
    assert bytes_of(write(tmp_path / "empty")) == before
    assert {path.name for path in tmp_path.iterdir()} == {"scenario", "file", "empty"}


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot write"):
        write(tmp_path / "file" / "scenario")


# Capacities, shares, places, curves


def with_column(table: str, name: str, values: list[Any]) -> Tables:
    column = next(each for each in SCENARIO_TABLES[table].columns if each.name == name)
    return TABLES | {table: TABLES[table].append_column(pa.field(name, column.type), pa.array(values, column.type))}


def test_folders_that_were_made_before_have_the_fingerprint_that_they_had(tmp_path: Path) -> None:
    assert read_scenario(write(tmp_path / "one")).fingerprint == "9f9b627bfb680e962548b5f35f84f31a"
    plain = Settings()
    assert read_scenario(write(tmp_path / "two", settings=plain)).fingerprint == "1741f8769e5f64ef9269c7f2fb3c11d7"
    for number, settings in enumerate(
        [
            msgspec.structs.replace(plain, headers=True),
            msgspec.structs.replace(plain, curves=Curves(((1.0, 2.0),))),
            msgspec.structs.replace(plain, limits=Limits(load_wanted=2.0)),
            msgspec.structs.replace(plain, limits=Limits(boxes=3)),
            msgspec.structs.replace(plain, limits=Limits(transit=True)),
            msgspec.structs.replace(plain, access=Access(seed=1)),
        ]
    ):
        again = read_scenario(write(tmp_path / f"other-{number}", settings=settings))
        assert again.settings == settings
        assert again.fingerprint != "1741f8769e5f64ef9269c7f2fb3c11d7"


@pytest.mark.parametrize(
    ("table", "name", "values", "row", "words"),
    [
        ("brokers", "capacity", [1.0, -2.0, None], 2, "-2.0 is not a number from 0 up"),
        ("brokers", "capacity", [1.0, float("inf"), None], 2, "inf is not a number"),
        ("brokers", "share", [0.5, None, 1.5], 3, "1.5 is no share from 0 to 1"),
        ("brokers", "share", [0.5, -0.1, None], 2, "-0.1 is no share"),
        ("brokers", "share", [0.5, 0.4, 0.2], 3, "all shares are more than 1 (they are 1.1)"),
        ("brokers", "share", [0.0, 0.0, 0.0], None, "no broker takes clients"),
        ("brokers", "place", [[1.0, 2.0], [1.0], [0.0, 0.0]], 2, "it has 1 coordinates, where the first place has 2"),
        ("brokers", "place", [[1.0, 2.0], [1.0, float("nan")], None], 2, "a coordinate is not a number"),
        ("brokers", "place", [[1.0, 2.0], [1.0, None], None], 2, "a coordinate is not a number"),
        ("clients", "latest", [-1.0, None], 1, "-1.0 is not a number from 0 up"),
    ],
)
def test_bad_columns_are_named(
    tmp_path: Path, table: str, name: str, values: list[Any], row: int | None, words: str
) -> None:
    (found,) = problems(write(tmp_path / "bad", with_column(table, name, values)))
    assert (found.table, found.row, found.column) == (table, row, name)
    assert words in found.what


def test_places_are_needed_by_their_metric_and_of_one_length_everywhere(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, access=Access("places"))
    tables = with_column("brokers", "place", [[1.0], [2.0], None])
    found = problems(write(tmp_path / "some", tables, settings))
    assert [(each.table, each.row, each.column) for each in found] == [
        ("brokers", 3, "place"),
        ("clients", 1, "place"),
        ("clients", 2, "place"),
    ]
    tables |= {"clients": with_column("clients", "place", [[1.0], [1.0, 2.0]])["clients"]}
    (other,) = problems(write(tmp_path / "lengths", tables))
    assert (other.table, other.row, other.what) == ("clients", 2, "it has 2 coordinates, where the first place has 1")


@pytest.mark.parametrize(
    ("curve", "row", "words"),
    [
        (((1.0, 2.0), (2.0, 1.5)), 2, "it falls, from 2 to 1.5"),
        (((1.0, 2.0), (5.0, 3.0), (5.0, 4.0)), 3, "5 clients come after 5"),
    ],
)
def test_a_curve_that_falls_is_named(tmp_path: Path, curve: Any, row: int, words: str) -> None:
    (found,) = problems(write(tmp_path / "bad", settings=msgspec.structs.replace(SETTINGS, curves=Curves(curve))))
    assert (found.table, found.row, found.column) == ("scenario.toml", row, "curves.upkeep")
    assert words in found.what


def test_another_format_is_said_before_anything_else_of_it_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "later")
    (folder / "scenario.toml").write_text("format_version = 7\nthe_newest = true\n")
    (found,) = problems(folder)
    assert (found.table, found.column) == ("scenario.toml", "format_version")
    assert "it is 7" in found.what


def test_new_columns_are_read_as_they_were_written(tmp_path: Path) -> None:
    tables = with_column("brokers", "place", [[1.0, 2.0], None, [0.0, 0.0]])
    assert read_scenario(write(tmp_path / "a", tables)).brokers["place"].to_pylist() == [[1.0, 2.0], None, [0.0, 0.0]]
    again = with_column("brokers", "place", [[1.0, 2.0], None, [0.0, 0.5]])
    prints = {read_scenario(write(tmp_path / name, rows)).fingerprint for name, rows in (("b", tables), ("c", again))}
    assert len(prints) == 2
