"""``overstory filter bench``: what it prints, and what it makes of bad files. No test looks at a time."""

import io
import json
from pathlib import Path

import pytest

from overstory.cli import FAILED, OK, USAGE
from overstory.cli.filter_bench import WrongMatchError
from overstory.matching.index import FilterIndex
from overstory.matching.matcher import Matches

from .test_filter import run

FILTERS = "x > 5\n\nx > 1 AND u = 'a'\n   \nx + y > 3\n"
EVENTS = '{"x": 6}\n\n{"x": 2, "u": "a"}\n{"x": 0}\n{"x": 6, "u": "a", "y": 1}\n'  # 1, 1, 0 and 3 matches


@pytest.fixture
def filters(tmp_path: Path) -> Path:
    path = tmp_path / "filters.txt"
    path.write_text(FILTERS)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(EVENTS)
    return path


def bench(capsys: pytest.CaptureFixture[str], filters: object, events: object, *more: str) -> tuple[int, str, str]:
    return run(capsys, "filter", "bench", str(filters), "--events", str(events), *more)


def test_the_report_has_one_line_for_each_thing(
    capsys: pytest.CaptureFixture[str], filters: Path, events: Path
) -> None:
    code, out, err = bench(capsys, filters, events)
    assert (code, err) == (OK, "building an index of 3 filters …\n")
    lines = out.splitlines()
    names = ["filters", "index", "events", "in batch", "singly", "reference", "checked"]
    assert [line[:10].rstrip() for line in lines] == names
    assert all(line[10] == " " and line[11] != " " for line in lines)
    said = {name: line[11:] for name, line in zip(names, lines, strict=True)}
    assert said["filters"] == "3: 3 boxes, 1 with a residual"
    assert said["events"] == "4, with 1.2 matches each"
    assert said["checked"] == "4 events against the reference: all are right"
    assert "µs a filter" in said["index"]
    assert all("µs an event" in said[name] for name in ("in batch", "singly", "reference"))


def test_json_has_every_figure(capsys: pytest.CaptureFixture[str], filters: Path, events: Path) -> None:
    code, out, _ = bench(capsys, filters, events, "--json")
    assert code == OK
    assert len(out.splitlines()) == 1
    result = json.loads(out)
    index = result.pop("index")
    counted = {name: result.pop(name) for name in ("events", "matches", "checked_events", "wrong_events")}
    assert counted == {"events": 4, "matches": 5, "checked_events": 4, "wrong_events": 0}
    assert result.pop("format_version") == 1
    times = {"build_microseconds", "batch_microseconds", "single_microseconds", "reference_microseconds"}
    assert result.keys() == times | {"times_faster"}
    assert all(isinstance(value, float) and value > 0 for value in result.values())
    assert index.items() >= {"filters": 3, "boxes": 3, "residuals": 1, "attributes": 3}.items()
    assert index.keys() >= {"tokens", "bins", "bytes", "events", "rows_per_match", "candidates_per_match"}


def test_filters_may_be_of_the_padres_dialect(capsys: pytest.CaptureFixture[str], tmp_path: Path, events: Path) -> None:
    filters = tmp_path / "padres.txt"
    filters.write_text("[x,>,5]\n[x,>,1],[u,eq,'a']\n")
    code, out, _ = bench(capsys, filters, events, "--dialect", "padres", "--json")
    result = json.loads(out)
    assert (code, result["matches"], result["index"]["filters"]) == (OK, 4, 2)


def test_events_may_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], filters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(EVENTS))
    code, out, _ = bench(capsys, filters, "-", "--json")
    assert (code, json.loads(out)["matches"]) == (OK, 5)


def test_a_bad_filter_is_named_by_line_and_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, events: Path
) -> None:
    filters = tmp_path / "bad.txt"
    filters.write_text("x > 5\n\nx >\n")
    code, out, err = bench(capsys, filters, events)
    assert (code, out) == (FAILED, "")
    first, text, caret = err.splitlines()
    assert first.startswith(f"overstory: filter: line 3 of {filters}: expected a value")
    assert (text, caret.strip()) == ("  x >", "^")


def test_a_bad_filter_is_named_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, events: Path) -> None:
    filters = tmp_path / "bad.txt"
    filters.write_text("x > 5\nx = 08\n")
    code, out, err = bench(capsys, filters, events, "--json")
    assert (code, err) == (FAILED, "")
    error = json.loads(out)["error"]
    assert (error["kind"], error["position"]) == ("FilterSyntaxError", 4)
    assert f"line 2 of {filters}" in error["problem"]


def test_a_bad_event_is_named_by_line_and_file(
    capsys: pytest.CaptureFixture[str], filters: Path, tmp_path: Path
) -> None:
    events = tmp_path / "bad.jsonl"
    events.write_text('{"x": 1}\n\n{"x": }\n')
    code, out, err = bench(capsys, filters, events)
    assert (code, out) == (FAILED, "")
    assert err.startswith(f"overstory: event: line 3 of {events} is not JSON")


def test_a_missing_file_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], filters: Path, events: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "none"
    expected = (
        USAGE,
        "",
        f"overstory: cannot read {missing}: No such file or directory; give the path of a text file\n",
    )
    assert bench(capsys, missing, events) == expected
    assert bench(capsys, filters, missing) == expected


def test_a_file_that_is_not_utf8_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], filters: Path, tmp_path: Path
) -> None:
    events = tmp_path / "latin"
    events.write_bytes(b'{"x": "\xe9"}\n')
    assert bench(capsys, filters, events) == (
        USAGE,
        "",
        f"overstory: {events} is not UTF-8; convert it, or unzip it, first\n",
    )


@pytest.mark.parametrize("blank", ["", "\n", " \n\t\n\n"])
def test_nothing_to_try_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], filters: Path, events: Path, tmp_path: Path, blank: str
) -> None:
    nothing = tmp_path / "blank"
    nothing.write_text(blank)
    for code, out, err in (bench(capsys, filters, nothing), bench(capsys, nothing, events)):
        assert (code, out, len(err.splitlines())) == (USAGE, "", 1)
    assert f"there are no events in {nothing}" in bench(capsys, filters, nothing)[2]
    assert f"there are no filters in {nothing}" in bench(capsys, nothing, events)[2]


def test_the_events_option_is_required(capsys: pytest.CaptureFixture[str], filters: Path) -> None:
    code, out, err = run(capsys, "filter", "bench", str(filters))
    assert (code, out) == (USAGE, "")
    assert "--events" in err


def test_an_index_that_is_wrong_is_found_out(
    capsys: pytest.CaptureFixture[str], filters: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = FilterIndex.match_batch

    def one_filter_off(index: FilterIndex, *arguments: object) -> Matches:
        found = right(index, *arguments)  # type: ignore[arg-type]
        return found._replace(filters=found.filters + 1)

    monkeypatch.setattr(FilterIndex, "match_batch", one_filter_off)
    code, out, err = bench(capsys, filters, events, "--json")
    assert code == FAILED
    assert json.loads(out)["error"]["kind"] == WrongMatchError.__name__
    assert "3 events have wrong matches" in json.loads(out)["error"]["problem"]
    assert err == "building an index of 3 filters …\n"
