"""The command line as a user meets it: what is printed, where, and the exit code."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from overstory.cli import FAILED, OK, USAGE, main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, err = run(capsys, *arguments, "--json")
    assert err == ""
    result = json.loads(out)
    assert result.pop("format_version") == 1
    return code, result


def test_eval(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "filter", "eval", "x > 5", '{"x": 6}') == (OK, "true\n", "")
    assert run(capsys, "filter", "eval", "x > 5", '{"x": 5}') == (OK, "false\n", "")
    assert run(capsys, "filter", "eval", "x > 5") == (OK, "unknown: the event has no 'x'\n", "")
    reasons = ["the event has no 'x'"]
    expected = {"result": None, "matches": False, "reasons": reasons}
    assert run_json(capsys, "filter", "eval", "x > 5") == (OK, expected)
    padres = ("[x,>,5]", "--dialect", "padres", "--publication", "[class,'a'],[x,6]")
    assert run(capsys, "filter", "eval", *padres) == (OK, "true\n", "")


def test_eval_of_many_events(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = '{"x": 6}\n\n{"x": 1}\n{}\n'
    file = tmp_path / "events.jsonl"
    file.write_text(lines)
    assert run(capsys, "filter", "eval", "x > 5", "--events", str(file)) == (OK, "true\nfalse\nunknown\n", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    expected = {"results": [True, False, None], "matches": 1}
    assert run_json(capsys, "filter", "eval", "x > 5", "--events", "-") == (OK, expected)


def test_covers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "filter", "covers", "x > 5", "x > 6")[1] == "yes\n"
    assert run(capsys, "filter", "covers", "x > 6", "x > 5")[1].startswith("no\nIt is the other way round")
    assert run(capsys, "filter", "covers", "x > 5", "x < 5")[1] == "no\nNo event matches both.\n"
    assert "the same events" in run(capsys, "filter", "covers", "NOT x > 5", "x <= 5")[1]
    assert "safe answer" in run(capsys, "filter", "covers", "x * 2 > 5", "x > 5")[1]
    answer = {"covers": True, "covered": False, "intersects": True, "exact": True}
    assert run_json(capsys, "filter", "covers", "x > 5", "x > 6") == (OK, answer)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert "every event" in run(capsys, "filter", "explain", "TRUE")[1]
    assert "no event matches" in run(capsys, "filter", "explain", "x > 5 AND x < 3")[1]
    boxes = [{"conditions": ["y = 1"], "residuals": ["x * 2 > 5"]}]
    expected = {"filter": "y = 1 AND x * 2 > 5", "exact": False, "boxes": boxes}
    assert run_json(capsys, "filter", "explain", "x * 2 > 5 AND y = 1") == (OK, expected)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["filter", "eval", "x >"], FAILED, "filter: expected a value, but the filter ends"),
        (["filter", "eval", "x = 1", '{"x": }'], FAILED, "event: the event is not JSON"),
        (["filter", "eval", "x = 1", "[1]"], FAILED, "not a JSON object"),
        (["filter", "eval", "x = 1", "[" * 100_000], FAILED, "not JSON"),
        (["filter", "eval", "x = 1", "--events", "no-such-file"], USAGE, "cannot read no-such-file"),
        (["filter", "eval", "x = 1", "{}", "--events", "-"], USAGE, "one of"),
        (["filter", "eval", "x = 1", "{}", "--publication", "[a,1]"], USAGE, "not both"),
        (["filter", "eval", "x = 1", "--property", "x"], USAGE, "NAME=TEXT"),
        (["filter", "eval", "x = '\udcff'"], FAILED, "give the text as UTF-8"),
        (["filter", "eval", "x = 'a'", '{"x": "\\ud900"}'], FAILED, "lone surrogate"),
        (["filter", "eval"], USAGE, "required: FILTER"),
        (["filter", "dance"], USAGE, "is not known"),
        (["filter", "eval", "x", "--dialect", "xpath"], USAGE, "is not known"),
        ([], USAGE, "overstory --help"),
    ],
)
def test_bad_input_is_one_line_and_a_caret(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, "")
    assert words in err.splitlines()[0]
    assert len(err.splitlines()) in (1, 3)
    assert "Traceback" not in err


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run_json(capsys, "filter", "eval", "x = 08")
    assert code == FAILED
    assert result["error"]["kind"] == "FilterSyntaxError"
    assert result["error"]["position"] == 4
    assert run_json(capsys, "filter", "eval")[0] == USAGE


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (['status = "fail"', '{"status": "fail"}'], "no 'fail'; a string stands in single quotes: status = 'fail'"),
        (["stauts = 'fail'", '{"status": "fail"}'], "the event has no 'stauts'; near to it: status"),
        (["temp > 'thirty'", '{"temp": 31}'], "'temp' is a number, and is compared with 'thirty', which is a string"),
        (["a.b = 1", '{"a": {"b": 1}}'], "'a' is an object"),
        (["temp > 30", '{"temp": null}'], "the event has no 'temp'"),
        (["id > 100", "--property", "id=abc"], "'id' is a string"),
    ],
)
def test_unknown_says_why(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "eval", *arguments]) == 0
    out = capsys.readouterr().out
    assert out.startswith("unknown: ")
    assert reason in out
    assert main(["filter", "eval", *arguments, "--json"]) == 0
    assert reason in "".join(json.loads(capsys.readouterr().out)["reasons"])
