"""The public door: these names and no others."""

import ast
from pathlib import Path

import pytest

import overstory
from overstory import errors

NAMES = """
    Comparison DataError DisconnectedError Discrete DistributionError EngineError Event EventError Filter FilterError
    FilterLimitError FilterSyntaxError InfeasibleError Limits OverstoryError Plan Scenario Score StalePlanError Uniform
    Untyped UsageError compare connect connect_sync engine from_networkx import_log localized make_scenario
    parse_filter parse_publication planner read_plan read_scenario sites
""".split()


def test_public_names() -> None:
    assert overstory.__all__ == NAMES
    assert all(hasattr(overstory, name) for name in NAMES)
    assert sorted(overstory._HOME) == sorted(NAMES)
    assert set(NAMES) <= set(dir(overstory))
    with pytest.raises(AttributeError, match="module 'overstory' has no attribute 'compares'"):
        _ = overstory.compares


def test_types_are_those_that_come() -> None:
    """What a type checker is told of the lazy names is what they are."""
    source = ast.parse(Path(str(overstory.__file__)).read_text())
    told = {
        alias.name: node.module
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("overstory")
        for alias in node.names
    }
    assert told == overstory._HOME


def test_every_error_is_of_the_family() -> None:
    raised = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BaseException)]
    assert raised
    assert all(issubclass(error, errors.OverstoryError) for error in raised)
