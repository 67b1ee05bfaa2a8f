"""What import sees in a log: types by the stated rule, odd values with their lines, units of time, and files of all
kinds. Nothing becomes something else without a word."""

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.importing import Import, Imported, import_scenario
from overstory.model.scenario import read_scenario
from overstory.pipeline.importing import opened_log
from overstory.pipeline.log_files import files_of
from overstory.pipeline.log_options import Reading, Roles
from overstory.pipeline.log_preview import look_ahead
from overstory.pipeline.log_types import types_in
from overstory.pipeline.pipeline import Pipeline

Event = dict[str, Any]


class WithoutSpark(Pipeline):
    """Fails if Spark is asked for."""

    @property
    def spark(self) -> Any:
        raise AssertionError("Spark would start")


@pytest.fixture
def links(tmp_path: Path) -> str:
    path = tmp_path / "links.csv"
    path.write_text("source,target\n0,1\n1,2\n")
    return str(path)


def lines(events: list[Event]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def imported(folder: Path, pipeline: Pipeline, log: Path, links: str, **further: Any) -> tuple[Imported, pa.Table]:
    made = import_scenario(folder, Import(log, links, **further), pipeline)
    return made, pq.read_table(read_scenario(folder).events)


# Odd values

TEMPERATURES: list[Any] = [*range(50), "n/a", *[degrees + 0.5 for degrees in range(48)], "n/a", "off", None]


def in_csv(values: list[Any]) -> str:
    return "temp,n\n" + "".join(f"{'' if value is None else value},1\n\n" for value in values)  # blank lines, too


def in_json(values: list[Any]) -> str:
    return "\n" + lines([{"temp": value, "n": 1} for value in values])  # begins with a blank line


@pytest.mark.parametrize(
    ("name", "text", "first"), [("log.csv", in_csv(TEMPERATURES), 102), ("log.jsonl", in_json(TEMPERATURES), 52)]
)
def test_odd_values_are_refused_with_their_lines_or_made_absent(
    name: str, text: str, first: int, tmp_path: Path, links: str, pipeline: Pipeline
) -> None:
    log = tmp_path / name
    log.write_text(text)
    with pytest.raises(DataError) as caught:
        imported(tmp_path / "made", pipeline, log, links)
    said = str(caught.value)
    assert f"'temp' of {log}: it is of double, and 3 of 102 events have something else: 'n/a' (2, first on" in said
    assert f"first on line {first})" in said
    assert "'off' (1, first on line" in said
    assert "--bad-values null" in said
    assert "--type temp=string" in said
    assert "\n" not in said
    assert not (tmp_path / "made").exists()
    made, events = imported(tmp_path / "made", pipeline, log, links, bad_values="null")
    wanted = [value if isinstance(value, int | float) else None for value in TEMPERATURES]
    assert events["temp"].to_pylist() == wanted
    (about,) = [about for about in made.log.attributes if about.name == "temp"]
    assert (about.type, about.absent, about.odd, about.least, about.most) == ("double", 4, 3, 0.0, 49.0)
    assert [(odd.value, odd.events) for odd in about.odd_values] == [("n/a", 2), ("off", 1)]
    _, events = imported(tmp_path / "text", pipeline, log, links, types={"temp": "string"})
    assert events["temp"].to_pylist() == [None if value is None else str(value) for value in TEMPERATURES]


def test_types_can_be_told(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(lines([{"a": "1", "b": 2, "c": 1e5, "d": "true", "e": 7}, {"a": "2.5", "b": 3.0, "c": 2, "d": "1"}]))
    made, events = imported(tmp_path / "plain", pipeline, log, links)
    assert [about.type for about in made.log.attributes] == ["string", "double", "double", "string", "int64"]
    assert any("'a' has texts that look like numbers; --type a=double" in note for note in made.log.notes)
    types = types_in(["a=double", "b=int", "c=string", "d=bool", "e=string"])
    _, events = imported(tmp_path / "told", pipeline, log, links, types=types)
    assert events.select(["a", "b", "c", "d", "e"]).to_pylist() == [
        {"a": 1.0, "b": 2, "c": "100000.0", "d": True, "e": "7"},
        {"a": 2.5, "b": 3, "c": "2", "d": True, "e": None},
    ]
    with pytest.raises(
        DataError, match=r"'c' of .*: it is of bool, and 2 of 2 events have something else: '100000\.0'"
    ):
        imported(tmp_path / "wrong", pipeline, log, links, types=types_in(["c=bool"]))


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("temp", "COLUMN=TYPE"),
        ("=int", "COLUMN=TYPE"),
        ("temp=real", "no type 'real'; use bool, int64, double, string"),
    ],
)
def test_a_type_is_told_as_a_pair(pair: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        types_in([pair])


# The rule, against a plain twin

TEXTS = [
    "1",
    "-20",
    "1.5",
    "2e3",
    "007",
    "true",
    "FALSE",
    "x",
    "n/a",
    " 5 ",
    "12345678901234567890",
    "",
    "-",
    "1e",
    "0",
]
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def plain_kind(texts: list[str]) -> str | None:
    """The rule as the documentation has it, said in another way."""
    values = [text.strip() for text in texts if text]
    if not values:
        return None
    if any(re.fullmatch("0[0-9]+", value) for value in values):
        return "string"
    numbers = [value for value in values if NUMBER.fullmatch(value)]
    truths = [value for value in values if value.lower() in ("true", "false")]
    if len(numbers) * 10 >= 9 * len(values):
        fractions = [value for value in numbers if not value.lstrip("-").isdigit()]
        long = [value for value in numbers if value.lstrip("-").isdigit() and not -(2**63) <= int(value) < 2**63]
        return "double" if fractions else "string" if long else "int64"
    return "bool" if len(truths) * 10 >= 9 * len(values) else "string"


def test_types_follow_the_rule(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    dice = random.Random(7)
    columns = []
    for _ in range(80):
        usual, share = dice.sample(TEXTS, dice.randint(1, 3)), dice.choice([0, 0.05, 0.1, 0.3])
        columns.append([dice.choice(TEXTS if dice.random() < share else usual) for _ in range(30)])
    rows = zip(*columns, strict=True)
    log = tmp_path / "log.csv"
    log.write_text(",".join(f"c{at}" for at in range(80)) + "\n" + "".join(",".join(row) + "\n" for row in rows))
    made, _ = imported(tmp_path / "made", pipeline, log, links, bad_values="null")
    wanted = {f"c{at}": plain_kind(texts) for at, texts in enumerate(columns)}
    assert {about.name: about.type for about in made.log.attributes} == {k: v for k, v in wanted.items() if v}
    assert len(set(wanted.values())) == 5


def test_what_was_seen_is_what_is_there(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    dice = random.Random(3)
    events: list[Event] = [
        {"n": dice.randint(-5, 90), "f": dice.random(), "s": dice.choice("abc"), "t": f"t{at}", "b": at % 3 == 0}
        for at in range(500)
    ]
    for event in events:
        if dice.random() < 0.2:
            del event[dice.choice(list(event))]
    log = tmp_path / "log.jsonl"
    log.write_text(lines(events))
    made, _ = imported(tmp_path / "made", pipeline, log, links)
    for about in made.log.attributes:
        values: list[Any] = [event[about.name] for event in events if about.name in event]
        assert (about.values, about.absent) == (len(values), 500 - len(values))
        if about.name in "nf":
            assert (about.least, about.most) == (min(values), max(values))
        elif about.name == "s":
            assert (about.distinct, about.examples) == (3, ("a", "b", "c"))
        else:
            assert about.distinct == pytest.approx(len(set(values)), rel=0.15)


# Time


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_the_unit_of_times_shows_in_their_size_and_is_said(
    unit: str, per_second: int, tmp_path: Path, links: str, pipeline: Pipeline
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,n\n" + "".join(f"{(1_700_000_000 + at) * per_second},1\n" for at in range(3)))
    made, events = imported(tmp_path / "made", pipeline, log, links, time="ts")
    assert events["$time"].to_pylist() == [1_700_000_000.0, 1_700_000_001.0, 1_700_000_002.0]
    (said,) = [note for note in made.log.notes if "'ts' is the time" in note]
    assert "by the size of the numbers (--time-unit says otherwise): 2023-11-14T22:13:20Z to" in said
    if unit == "s":
        made, events = imported(tmp_path / "told", pipeline, log, links, time="ts", time_unit="ms")
        assert events["$time"].to_pylist() == [1_700_000.0, 1_700_000.001, 1_700_000.002]
        assert any("in milliseconds, as --time-unit says" in note for note in made.log.notes)


def test_a_unit_is_for_numbers(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,n\n2020-01-01,1\n")
    with pytest.raises(UsageError, match=r"--time-unit ms is for times that are numbers, and column 'ts' of .* has no"):
        imported(tmp_path / "made", pipeline, log, links, time="ts", time_unit="ms")


# Objects in objects

NESTED: list[Event] = [
    {"id": 1, "device": {"fw": "v1", "radio": {"rssi": -50}}, "tags": ["a", "b"], "order": {"price": 1.5}},
    {"id": 2, "device": {"fw": "v2"}, "tags": []},
]


def test_objects_are_flattened_and_lists_stay(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(lines(NESTED))
    further = {"flatten": True, "types": {"device.fw": "string"}}
    _, events = imported(tmp_path / "made", pipeline, log, links, **further)
    assert events.drop_columns(["$id", "$time", "$publisher", "$bytes"]).to_pylist() == [
        {"device.fw": "v1", "device.radio.rssi": -50, "id": 1, "order.price": 1.5, "tags": ["a", "b"]},
        {"device.fw": "v2", "device.radio.rssi": None, "id": 2, "order.price": None, "tags": []},
    ]
    _, events = imported(tmp_path / "some", pipeline, log, links, flatten=True, columns=("device", "id"), time="id")
    assert events.column_names[4:] == ["device.fw", "device.radio.rssi"]
    assert events["$time"].to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "further", "words"),
    [
        (lines(NESTED), {}, r"line 1: 'device' is an object, .* --flatten to have columns such as device\.fw"),
        (lines([{"a": 1}, {"a": {"b": [1]}}]), {"flatten": True}, r"line 2: 'a\.b' is a list, and not one of strings"),
        ('[\n{"a": 1}\n]\n', {}, "is one JSON list; write an object on each line"),
        ('{"a": 1}\nno\n', {}, "line 2: it is not JSON"),
        ('{"a": 1}\n', {"time_unit": "h"}, "no unit of time 'h'; use s, ms, us, ns"),
        ('{"a": 1}\n', {"subscriptions": "9", "selectivity": 5.0}, "selectivity is the share of events .* not 5"),
        ('{"a": 1}\n', {"subscriptions": "filters.txt"}, "neither a whole number nor a file that is there"),
        ('{"a": 1}\n', {"broker": "a"}, "--broker a tells where publishers are"),
        ('{"a": 1}\n', {"seed": -1}, "a seed must be 0 or more"),
    ],
)
def test_what_can_be_seen_before_spark_starts_is_refused_before(
    text: str, further: Event, words: str, tmp_path: Path, links: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(text)
    with WithoutSpark() as pipeline, pytest.raises((UsageError, DataError), match=words) as caught:
        import_scenario(tmp_path / "made", Import(log, links, **further), pipeline)
    assert "\n" not in str(caught.value)


def test_columns_that_are_not_there_are_refused_before_spark_starts(tmp_path: Path, links: str) -> None:
    (tmp_path / "log.csv").write_text("status,n\nok,1\n")
    pq.write_table(pa.table({"status": ["ok"], "n": [1]}), tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        with WithoutSpark() as pipeline, pytest.raises(UsageError, match=r"no column 'stauts' .*near to it: status"):
            import_scenario(tmp_path / "made", Import(tmp_path / name, links, publisher="stauts"), pipeline)
        with WithoutSpark() as pipeline, pytest.raises(UsageError, match="exists already"):
            import_scenario(tmp_path, Import(tmp_path / name, links), pipeline)


def test_a_field_that_is_called_like_a_column_is_refused(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(lines([{"a.b": 1, "a": {"b": 2}}]))
    with pytest.raises(UsageError, match=r"has two columns 'a\.b', one of them a field of an object"):
        imported(tmp_path / "made", pipeline, log, links, flatten=True)


# Files of all kinds


def write_parts(folder: Path, kind: str) -> Path:
    """Parts of different sizes, whose order by name is that of the numbers; and the path of them all."""
    folder.mkdir()
    at = 0
    for part, size in enumerate([3, 40, 5, 1, 20]):
        events = [{"n": number, "s": f"s{number % 3}"} for number in range(at, at + size)]
        at += size
        text = lines(events)
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(events), folder / f"part-{part:05}.snappy.parquet")
        elif kind == "gz":
            (folder / f"part-{part:05}.json.gz").write_bytes(gzip.compress(text.encode()))
        elif kind == "zst":
            with pa.output_stream(str(folder / f"part-{part:05}.jsonl.zst"), compression="zstd") as stream:
                stream.write(text.encode())
        else:
            rows = "".join(f"{event['n']},{event['s']}\n" for event in events)
            (folder / f"part-{part:05}.csv").write_text("n,s\n" + rows)
    (folder / "_SUCCESS").touch()
    (folder / ".part-00000.crc").touch()
    return folder / f"part-*.{'jsonl.zst' if kind == 'zst' else 'json.gz' if kind == 'gz' else kind}"


@pytest.mark.parametrize("kind", ["parquet", "gz", "zst", "csv"])
def test_folders_and_patterns_are_logs_in_the_order_of_their_names(
    kind: str, tmp_path: Path, links: str, pipeline: Pipeline
) -> None:
    pattern = write_parts(tmp_path / "log", kind)
    for path, made in ((tmp_path / "log", "folder"), (pattern, "pattern")):
        _, events = imported(tmp_path / made, pipeline, path, links)
        assert events["n"].to_pylist() == list(range(69))
        assert events["$id"].to_pylist() == list(range(69))
        assert events["s"].to_pylist() == [f"s{number % 3}" for number in range(69)]


def test_what_spark_wrote_is_read(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    """Also as the events of a scenario."""
    frame = pipeline.spark.range(0, 100, 1, 4).selectExpr("id AS n", "id % 7 AS m")
    frame.write.parquet(str(tmp_path / "log.parquet"))
    _, events = imported(tmp_path / "made", pipeline, tmp_path / "log.parquet", links)
    assert sorted(events["n"].to_pylist()) == list(range(100))
    whole = pipeline.spark.read.parquet(str(tmp_path / "made" / "events.parquet"))
    whole.repartition(3).write.parquet(str(tmp_path / "parts"))
    (tmp_path / "made" / "events.parquet").unlink()
    (tmp_path / "parts").rename(tmp_path / "made" / "events.parquet")
    scenario = read_scenario(tmp_path / "made")
    assert pipeline.summary(scenario)["events"] == 100


def test_an_odd_value_is_found_in_its_file(tmp_path: Path, links: str, pipeline: Pipeline) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    for part in range(3):
        values = [str(number) for number in range(20)]
        if part == 1:
            values[4] = "n/a"
        (folder / f"{part}.csv").write_text("n\n" + "".join(f"{value}\n" for value in values))
    with pytest.raises(DataError, match=r"'n/a' \(1, first on 1.csv line 6\)"):
        imported(tmp_path / "made", pipeline, folder, links)


@pytest.mark.parametrize(
    ("files", "path", "words"),
    [
        ({"log/a.csv": "n\n1\n", "log/b.json": "{}\n"}, "log", "files of several kinds, such as a.csv and b.json"),
        ({"log/a.txt": "n"}, "log", "the folder .* has no files that end in .csv"),
        ({"log/day=1/a.csv": "n\n1\n"}, "log", "has an attribute in the name of its folder"),
        ({"log/a.csv": "n\n1\n"}, "log/*.json", "no file is called"),
        ({"log/a.csv": "n\n1\n", "log/b.csv": "m\n1\n"}, "log", "b.csv has other columns than"),
    ],
)
def test_files_that_are_no_log(files: dict[str, str], path: str, words: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises((UsageError, DataError), match=words):
        look_ahead(tmp_path / path, Roles(), Reading())


def test_two_columns_with_odd_values_are_said_at_once(tmp_path: Path, pipeline: Pipeline) -> None:
    log = tmp_path / "log.csv"
    log.write_text("a,b\n" + "".join(f"{n},{n % 2 == 0}\n" for n in range(20)) + "x,y\n")
    (tmp_path / "beside").mkdir()
    with (
        pytest.raises(DataError) as caught,
        opened_log(pipeline, files_of(log), Roles(), tmp_path / "beside", Reading()),
    ):
        pass
    assert [problem.column for problem in caught.value.problems] == ["a", "b"]
    assert "in 2 columns" in caught.value.summary
