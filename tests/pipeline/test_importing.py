"""What is imported is what the files say, the same every time; and what cannot be is said, and leaves nothing."""

import gzip
import json
import tarfile
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory import parse_filter, parse_publication
from overstory.errors import DataError, UsageError
from overstory.lab.importing import Import, import_scenario
from overstory.matching import FilterIndex
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline import events_file, log_files
from overstory.pipeline.columns import batch_of
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

DATA = Path(__file__).parents[2].parent / "shared" / "data"
QUOTES = DATA / "padres_stockquotes" / "stockquotes.tar.xz"
EDITS = DATA / "wikiticker" / "wikiticker-2015-09-12-sampled.json.gz"
TRIANGLE = "source,target\n0,1\n1,2\n2,0\n"

CSV_LOG = '''name,ok,count,share,zip,long,when,empty,text
a,true,1,0.5,02139,123456789012345678901,2015-09-12T00:46:58.771Z,,"two
lines, and a ""quote"""
b,FALSE,-2,3,10001,5,2015-09-12,,""
,,,,,,2015-09-12 01:00:00+01:00,,x
'''
ROWS: list[dict[str, Any]] = [
    {"n": 1, "f": 1, "s": "x", "b": True, "tags": ["p", "q"], "nothing": None},
    {"n": None, "f": 2.5, "s": "y"},
    {"n": 3, "f": None, "s": None, "b": False, "tags": []},
]


@pytest.fixture
def triangle(tmp_path: Path) -> str:
    path = tmp_path / "links.csv"
    path.write_text(TRIANGLE)
    return str(path)


def written(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, newline="")
    return path


def in_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def events_in(folder: Path) -> pa.Table:
    return pq.read_table(read_scenario(folder).events)


def attributes(events: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in events.column_names if not name.startswith("$")]
    found: list[dict[str, Any]] = events.select(names).to_pylist()
    return found


@pytest.mark.parametrize("name", ["log.csv", "_log [1].CSV.gz"])
def test_csv(name: str, tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    log = written(tmp_path / name, CSV_LOG)
    sizes = import_scenario(tmp_path / "made", Import(log, triangle, time="when"), pipeline).sizes
    assert sizes == {"brokers": 3, "links": 3, "clients": 3, "subscriptions": 0, "events": 3}
    events = events_in(tmp_path / "made")
    text = 'two\nlines, and a "quote"'
    assert attributes(events) == [
        {
            "name": "a",
            "ok": True,
            "count": 1,
            "share": 0.5,
            "zip": "02139",
            "long": "123456789012345678901",
            "text": text,
        },
        {"name": "b", "ok": False, "count": -2, "share": 3.0, "zip": "10001", "long": "5", "text": None},
        {"name": None, "ok": None, "count": None, "share": None, "zip": None, "long": None, "text": "x"},
    ]
    kinds = [events.schema.field(name).type for name in ("ok", "count", "share", "zip", "long")]
    assert kinds == [pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.string()]
    assert events["$id"].to_pylist() == [0, 1, 2]
    assert events["$time"].to_pylist() == [1442018818.771, 1442016000.0, 1442016000.0]
    assert events["$bytes"].to_pylist() == [1, 1, 1]
    assert set(events["$publisher"].to_pylist()) <= {3, 4, 5}


@pytest.mark.parametrize("name", ["log.jsonl", "log.json.gz"])
def test_json_lines(name: str, tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    log = written(tmp_path / name, in_lines(ROWS))
    import_scenario(tmp_path / "made", Import(log, triangle), pipeline)
    events = events_in(tmp_path / "made")
    assert attributes(events) == [{name: row.get(name) for name in ("b", "f", "n", "s", "tags")} for row in ROWS]
    assert events.schema.field("n").type == pa.int64()
    assert events.schema.field("f").type == pa.float64()
    assert events["$time"].to_pylist() == [0.0, 1.0, 2.0]


def test_parquet(tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 500_000, UTC)
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int8()),
            "single": pa.array([0.5, 1.5], pa.float32()),
            "a.b `c`": ["x", "y"],
            "day": [date(2020, 1, 2), None],
            "at": pa.array([moment, moment], pa.timestamp("us", "UTC")),
            "tags": [["a"], None],
            "size": [10, 20],
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    what = Import(tmp_path / "log.parquet", triangle, time="at", bytes="size")
    import_scenario(tmp_path / "made", what, pipeline)
    events = events_in(tmp_path / "made")
    assert attributes(events) == [
        {"small": 1, "single": 0.5, "a.b `c`": "x", "day": "2020-01-02", "tags": ["a"]},
        {"small": None, "single": 1.5, "a.b `c`": "y", "day": None, "tags": None},
    ]
    assert events["$time"].to_pylist() == [moment.timestamp()] * 2
    assert events["$bytes"].to_pylist() == [10, 20]


def test_the_same_files_give_the_same_scenario_however_spark_cuts_them(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"n": number, "who": f"u{number * 7919 % 13}", "x": number / 7} for number in range(3000)]
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        log = written(tmp_path / folder / "log.jsonl", in_lines(rows))
        what = Import(log, "waxman", brokers=12, publisher="who", subscriptions="20", seed=5)
        import_scenario(tmp_path / folder / "made", what, pipeline)
        monkeypatch.setitem(log_files.SETTINGS, "spark.sql.files.maxPartitionBytes", "10k")  # for the second
    one, other = (sorted((tmp_path / folder / "made").iterdir()) for folder in ("here", "there"))
    assert [path.name for path in one] == [path.name for path in other]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert events_in(tmp_path / "there" / "made")["n"].to_pylist() == list(range(3000))


def test_row_groups_do_not_show_where_parts_were_cut(
    tmp_path: Path, triangle: str, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_file, "ROW_GROUP", 100)
    monkeypatch.setitem(log_files.SETTINGS, "spark.sql.files.maxPartitionBytes", "1k")
    log = written(tmp_path / "log.jsonl", in_lines([{"n": number} for number in range(250)]))
    import_scenario(tmp_path / "made", Import(log, triangle), pipeline)
    with pq.ParquetFile(tmp_path / "made" / "events.parquet") as file:
        groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    assert groups == [100, 100, 50]
    assert events_in(tmp_path / "made")["n"].to_pylist() == list(range(250))


def test_publishers_are_clients_and_those_who_also_subscribe_are_the_same_ones(
    tmp_path: Path, triangle: str, pipeline: Pipeline
) -> None:
    log = written(tmp_path / "log.csv", "who,n\nzoe,1\nann,2\nbob,3\nann,4\n")
    wanted = written(
        tmp_path / "wanted.csv", "client,filter,broker,no_local\nbob,n > 1,2,true\neve,n = 1,,\nbob,n < 9,2,\n"
    )
    what = Import(log, triangle, publisher="who", subscriptions=str(wanted))
    assert import_scenario(tmp_path / "made", what, pipeline).sizes["clients"] == 4
    scenario = read_scenario(tmp_path / "made")
    assert scenario.clients["id"].to_pylist() == [3, 4, 5, 6]  # bob, eve; then ann, zoe
    assert scenario.clients["broker"][0].as_py() == 2
    assert scenario.subscriptions.to_pylist() == [
        {"id": 0, "client": 3, "filter": "n > 1", "no_local": True, "name": None},
        {"id": 1, "client": 4, "filter": "n = 1", "no_local": False, "name": None},
        {"id": 2, "client": 3, "filter": "n < 9", "no_local": False, "name": None},
    ]
    events = events_in(tmp_path / "made")
    assert events["$publisher"].to_pylist() == [6, 5, 3, 5]
    assert events["who"].to_pylist() == ["zoe", "ann", "bob", "ann"]
    assert dict(scenario.settings.made_by) == {
        "kind": "import",
        "events": "log.csv",
        "seed": 0,
        "topology": "links.csv",
        "publisher": "who",
        "subscriptions": "wanted.csv",
    }
    pipeline.validate(scenario)


def test_links_have_names_directions_and_prices(tmp_path: Path, pipeline: Pipeline) -> None:
    log = written(tmp_path / "log.csv", "n\n1\n")
    rows = [
        {"source": "oslo", "target": "rome", "price": 2, "delay": 5.5},
        {"source": "rome", "target": "oslo", "price": 3},
        {"source": "oslo", "target": "bern", "price": 4},
    ]
    links = written(tmp_path / "links.jsonl", in_lines(rows))
    wanted = written(tmp_path / "wanted.jsonl", in_lines([{"client": 70, "filter": "n = 1", "broker": "rome"}]))
    what = Import(log, str(links), subscriptions=str(wanted))
    assert import_scenario(tmp_path / "made", what, pipeline).sizes == {
        "brokers": 3,
        "links": 2,
        "clients": 4,
        "subscriptions": 1,
        "events": 1,
    }
    scenario = read_scenario(tmp_path / "made")
    assert scenario.brokers["name"].to_pylist() == ["bern", "oslo", "rome"]
    assert [tuple(row.values()) for row in scenario.links.to_pylist()] == [
        (0, 1, 4.0, 1.0),
        (1, 0, 4.0, 1.0),
        (1, 2, 2.0, 5.5),
        (2, 1, 3.0, 1.0),
    ]
    assert scenario.clients["id"].to_pylist() == [70, 71, 72, 73]
    assert scenario.clients["broker"].to_pylist() == [2, 0, 1, 2]
    again = Import(log, str(tmp_path / "made"))  # the overlay of a scenario
    import_scenario(tmp_path / "again", again, pipeline)
    assert read_scenario(tmp_path / "again").links == scenario.links


WRONG: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "ending": ("log.txt", "x", {}, r"no ending that is known; give a file that ends in \.csv"),
    "zipped parquet": ("log.parquet.gz", "x", {}, "no ending that is known"),
    "no CSV": ("log.csv", "", {}, "has no header; name the columns on the first line"),
    "no header": ("log.csv", "1,2\n3,4\n", {}, "has no header: '1' is not the name of a column"),
    "twice": ("log.csv", "a,b,a\n1,2,3\n", {}, "has two columns 'a'"),
    "case": ("log.jsonl", '{"a": 1, "A": 2}\n', {}, "'A' and 'a' of .* differ in nothing but case"),
    "short row": ("log.csv", "a,b\n1,2\n3\n", {}, "line 3: it has 1 values, and the header names 2"),
    "long row": ("log.csv", "a,b\n1,2,3\n", {}, "line 2: it has 3 values"),
    "no rows": ("log.csv", "a,b\n", {}, "has no events in it"),
    "no lines": ("log.jsonl", "", {}, "has no events in it"),
    "not UTF-8": ("log.csv", "\udcff\udcfe,b\n", {}, "is not in UTF-8"),
    "malformed": ("log.jsonl", '{"a": 1}\n{"a":\n', {}, r"line 2: it is not JSON: Expecting value \(column"),
    "scalar": ("log.jsonl", '{"a": 1}\n3\n', {}, "line 2: it is not a JSON object"),
    "struct": (
        "log.jsonl",
        '{"a": {"b": 1}}\n',
        {},
        "log.jsonl line 1: 'a' is an object, .* give --flatten to have columns such as a.b",
    ),
    "numbers": ("log.jsonl", '{"a": [1, 2]}\n', {}, "log.jsonl line 1: 'a' is a list, and not one of strings"),
    "ours": ("log.csv", "$id,b\n1,2\n", {}, r"column '\$id' of .* begins with \$"),
    "no such": ("log.csv", "a\n1\n", {"time": "when"}, "has no column 'when' with values; it has a"),
    "absent": ("log.csv", "a,when\n1,\n", {"time": "when"}, "column 'when' of .* has no values"),
    "a time": ("log.csv", "a,t\n1,2020-01-01\n1,12:30\n", {"time": "t"}, "line 3, which has '12:30'"),
    "no time": (
        "log.csv",
        "a,t\n1,5\n1,\n1,\n",
        {"time": "t"},
        "in 2 of 3 events; the first is on line 3, which has no",
    ),
    "truth": ("log.csv", "a,t\n1,true\n", {"time": "t"}, "is of boolean, not of times"),
    "size": ("log.csv", "a\n1\n-1\n", {"bytes": "a"}, "has to tell the bytes, .* line 3, which has '-1'"),
    "half": ("log.csv", "a\n1\n1.5\n", {"bytes": "a"}, "line 3, which has '1.5'"),
    "nobody": ("log.csv", "a,b\nx,1\n,1\n", {"publisher": "a"}, "has to tell who published"),
    "list": ("log.jsonl", '{"a": ["x"]}\n', {"publisher": "a"}, "is of lists"),
    "topology": ("log.csv", "a\n1\n", {"topology": "nowhere"}, "there is no topology 'nowhere'"),
    "links": ("log.csv", "a\n1\n", {"topology": "nowhere.csv"}, r"nowhere\.csv is not there"),
    "brokers": ("log.csv", "a\n1\n", {"brokers": 7}, "has 3 brokers, not 7"),
    "number": ("log.csv", "a\n1\n", {"subscriptions": "many"}, "many is neither a whole number nor"),
    "seed": ("log.csv", "a\n1\n", {"subscriptions": "2", "seed": -1}, "a seed must be 0 or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_and_leaves_nothing(case: str, tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    name, text, further, message = WRONG[case]
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    before = sorted(tmp_path.iterdir())
    with pytest.raises((UsageError, DataError), match=message) as caught:
        import_scenario(tmp_path / "made", Import(tmp_path / name, **({"topology": triangle} | further)), pipeline)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


BESIDE: dict[str, tuple[str, str, str]] = {
    "no target": ("links.csv", "source,price\n1,2\n", "has no column 'target', and needs source and target"),
    "price": (
        "links.csv",
        "source,target,price\n1,2,-1\n",
        "links.csv row 1 column price: -1.0 is not a number from 0 up",
    ),
    "cheap": ("links.csv", "source,target,price\n1,2,cheap\n", "row 1 column price: 'cheap' is not a number"),
    "gap": ("links.csv", "source,target\n1,\n", "row 1 column target: has no value"),
    "apart": ("links.csv", "source,target\n1,2\n3,4\n", "the network is not connected"),
    "empty": ("links.csv", "source,target\n", "has no rows in it"),
    "filter": ("wanted.csv", "client,filter\na,n >\n", "wanted.csv row 1 column filter: filter: "),
    "unknown": ("wanted.csv", "client,filter,broker\na,n > 1,x\n", "column broker: there is no broker x"),
    "two": (
        "wanted.csv",
        "client,filter,broker\na,n = 1,1\na,n = 2,2\n",
        "row 2 column broker: the client has another one above",
    ),
    "local": ("wanted.csv", "client,filter,no_local\na,n > 1,perhaps\n", "no_local: 'perhaps' is not true or false"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_what_is_wrong_beside_the_log_is_said(case: str, tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    name, text, message = BESIDE[case]
    log = written(tmp_path / "log.csv", "n\n1\n")
    path = written(tmp_path / name, text)
    what = Import(log, triangle, subscriptions=None if name == "links.csv" else str(path))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=message):
        import_scenario(tmp_path / "made", what, pipeline)
    assert sorted(tmp_path.iterdir()) == before


def test_a_broken_archive_is_said(tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    whole = gzip.compress(in_lines([{"n": number, "x": number**5} for number in range(5000)]).encode())
    (tmp_path / "log.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read: Compressed file ended"):
        import_scenario(tmp_path / "made", Import(tmp_path / "log.jsonl.gz", triangle), pipeline)


def test_a_full_folder_is_not_touched(tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    log = written(tmp_path / "log.csv", "n\n1\n")
    with pytest.raises(UsageError, match="exists already"):
        import_scenario(tmp_path, Import(log, triangle), pipeline)


def test_columns_can_be_chosen(tmp_path: Path, triangle: str, pipeline: Pipeline) -> None:
    log = written(tmp_path / "log.jsonl", '{"a": {"b": 1}, "n": 1, "t": 5, "s": "x"}\n')
    import_scenario(tmp_path / "made", Import(log, triangle, time="t", columns=("s", "n")), pipeline)
    events = events_in(tmp_path / "made")
    assert attributes(events) == [{"s": "x", "n": 1}]
    assert events["$time"].to_pylist() == [5.0]


def quotes(path: Path) -> Path:
    with tarfile.open(QUOTES) as archive:
        files = (archive.extractfile(member) for member in archive)
        lines = (line for file in files if file is not None for line in file.read().decode().splitlines()[::100])
        rows = [dict(parse_publication(line)) for line in islice(lines, 5000)]
    return written(path, in_lines(rows))


@pytest.mark.skipif(not QUOTES.exists(), reason="the PADRES stock quotes are not beside the project")
def test_stock_quotes_are_imported_planned_and_scored(tmp_path: Path, pipeline: Pipeline) -> None:
    journey(quotes(tmp_path / "quotes.jsonl"), {"publisher": "symbol"}, tmp_path / "made", pipeline)


@pytest.mark.skipif(not EDITS.exists(), reason="the Wikipedia edits are not beside the project")
def test_wikipedia_edits_are_imported_planned_and_scored(tmp_path: Path, pipeline: Pipeline) -> None:
    journey(EDITS, {"time": "time"}, tmp_path / "made", pipeline)


def journey(log: Path, further: dict[str, Any], folder: Path, pipeline: Pipeline) -> None:
    what = Import(log, "zoo:Geant2012", subscriptions="200", **further)
    sizes = import_scenario(folder, what, pipeline).sizes
    scenario = read_scenario(folder)
    card = pipeline.score(scenario, make_plan("spt", scenario, pipeline, {})).card
    assert card.events == sizes["events"]
    assert card.deliveries > 0
    assert 0 < card.lower_bound <= card.core
    assert_matches(scenario, log)


def assert_matches(scenario: Scenario, log: Path) -> None:
    """What the index finds in the imported events is what filters say of the log's own."""
    with gzip.open(log) if log.suffix == ".gz" else open(log, "rb") as file:
        lines = file.readlines()
    sample = np.random.default_rng(1).choice(len(lines), 50, replace=False)
    filters = [parse_filter(text) for text in scenario.subscriptions["filter"].to_pylist()]
    (batch,) = pq.read_table(scenario.events).take(pa.array(sample)).combine_chunks().to_batches()
    found = FilterIndex(filters).match_batch(batch_of(batch))
    for at, row in enumerate(sample.tolist()):
        event = json.loads(lines[row])
        assert sorted(found.of(at).tolist()) == [n for n, each in enumerate(filters) if each.matches(event)]
