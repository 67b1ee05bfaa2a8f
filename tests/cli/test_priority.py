"""Commands that plan or install give way to brokers."""

import os

import pytest

from overstory.cli.priority import BEHIND, behind_brokers


def test_the_process_is_behind_others_for_as_long_as_the_block_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    nice = [3]

    def change(more: int) -> int:
        nice[0] += more
        return nice[0]

    monkeypatch.setattr(os, "nice", change)
    with behind_brokers():
        assert nice == [3 + BEHIND]
    assert nice == [3]


def test_whoever_may_not_take_it_back_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    nice = [0]

    def change(more: int) -> int:
        if more < 0:
            raise PermissionError
        nice[0] += more
        return nice[0]

    monkeypatch.setattr(os, "nice", change)
    with behind_brokers():
        pass
    assert nice == [BEHIND]
