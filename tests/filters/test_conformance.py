"""Runs the cases of tests/conformance, which any other implementation can run too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overstory import (
    EventError,
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    Untyped,
    parse_filter,
    parse_publication,
)

FOLDER = Path(__file__).parents[1] / "conformance"
ERRORS = {"syntax": FilterSyntaxError, "limit": FilterLimitError}


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def value(raw: Any) -> Any:
    return float(raw["$float"]) if isinstance(raw, dict) and list(raw) == ["$float"] else raw


def event(raw: dict[str, Any]) -> dict[str, Any]:
    attributes = {name: value(given) for name, given in raw["attributes"].items()}
    return attributes | {name: Untyped(text) for name, text in raw.get("untyped", {}).items()}


def disagreements(cases: list[dict[str, Any]], run: Callable[[dict[str, Any]], Any]) -> list[str]:
    found = []
    for case in cases:
        outcome = run(case)
        if outcome is not None:
            found.append(f"{json.dumps(case, ensure_ascii=False)[:300]}\n    gives {outcome}")
    return found


def expect_none(found: list[str]) -> None:
    assert not found, f"{len(found)} cases disagree:\n" + "\n".join(found)


def test_sql_evaluates_as_defined() -> None:
    data = load("sql_evaluate.json")
    events = {name: event(raw) for name, raw in data["events"].items()}

    def run(case: dict[str, Any]) -> Any:
        wanted = parse_filter(case["filter"])
        result = wanted.evaluate(events[case["event"]])
        held = any(box.contains(events[case["event"]]) for box in wanted.boxes)
        return None if result is case["result"] and held == (result is True) else f"{result}, in a box: {held}"

    assert len(data["cases"]) > 900
    expect_none(disagreements(data["cases"], run))


def test_sql_refuses_as_defined() -> None:
    def run(case: dict[str, Any]) -> Any:
        text = case.get("filter")
        if text is None:
            before, unit, count, after = case["filter_repeat"]
            text = before + unit * count + after
        try:
            parse_filter(text)
        except FilterError as error:
            right = type(error) is ERRORS[case["error"]] and case.get("position", error.position) == error.position
            return None if right else f"{type(error).__name__} at {error.position}: {error.problem}"
        return "no error"

    cases = load("sql_errors.json")
    assert len(cases) > 200
    expect_none(disagreements(cases, run))


def test_padres_evaluates_as_defined() -> None:
    def run(case: dict[str, Any]) -> Any:
        result = parse_filter(case["filter"], "padres").evaluate(parse_publication(case["publication"]))
        return None if result is case["result"] else repr(result)

    cases = load("padres_evaluate.json")["cases"]
    assert len(cases) > 100
    expect_none(disagreements(cases, run))


def test_padres_refuses_as_defined() -> None:
    def run(case: dict[str, Any]) -> Any:
        try:
            if "filter" in case:
                parse_filter(case["filter"], "padres")
            else:
                parse_publication(case["publication"])
        except (FilterError, EventError):
            return None
        return "no error"

    cases = load("padres_errors.json")
    assert len(cases) > 80
    expect_none(disagreements(cases, run))


@pytest.mark.parametrize("file", ["relations.json"])
def test_relations_are_as_defined(file: str) -> None:
    def run(case: dict[str, Any]) -> Any:
        a, b = (parse_filter(case[key], case.get("dialect", "sql")) for key in ("a", "b"))
        result = {"covers": a.covers(b), "covered": b.covers(a), "intersects": a.intersects(b)}
        return None if all(case[key] == result[key] for key in result) else result

    cases = load(file)
    assert len(cases) > 300
    expect_none(disagreements(cases, run))
