"""A history is only added to, says what to go back to, and says so when it cannot be written."""

from pathlib import Path

import pytest

from overstory.control.history import BEGAN, GIVEN_UP, INSTALLED, ROLLED_BACK, Entry, History
from overstory.errors import UsageError


def entry(epoch: int, plan: str, state: str = INSTALLED) -> Entry:
    return Entry(float(epoch), epoch, plan, "spt", state)


def test_lines_come_back_in_order_with_the_files_of_their_plans(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    assert history.entries() == []
    written = [entry(1, "a"), entry(2, "b", BEGAN), entry(2, "b")]
    for one in written:
        history.add(one, {"plan.json": b"{}"})
    assert history.entries() == written
    assert (history.plan_folder("b") / "plan.json").read_bytes() == b"{}"


def test_what_to_go_back_to_is_the_last_other_plan_that_was_installed(tmp_path: Path) -> None:
    history = History(tmp_path)
    for one in (
        entry(1, "a"),
        entry(2, "b", BEGAN),
        entry(2, "b", GIVEN_UP),
        entry(3, "c"),
        entry(4, "a", ROLLED_BACK),
    ):
        history.add(one)
    before = history.before("a")
    assert before is not None
    assert before.plan == "c"
    assert History(tmp_path / "none").before("a") is None


def test_the_beginning_of_a_line_was_never_written(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(entry(1, "a"))
    with (tmp_path / "history.jsonl").open("ab") as out:
        out.write(b'{"time": 1')
    assert len(history.entries()) == 1


def test_a_history_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        History(tmp_path / "file" / "history").add(entry(1, "a"))


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("nonsense\n")
    with pytest.raises(UsageError, match="a line that is none"):
        History(tmp_path).entries()
