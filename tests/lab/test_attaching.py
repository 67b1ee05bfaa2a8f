"""Where clients are attached, and that they keep their names: by file, by column, by name, else by chance."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.errors import DataError
from overstory.lab.attaching import Clients, attached, attachments_in, in_words, strangers
from overstory.lab.overlays import Overlay, overlay_of
from overstory.lab.subscription_files import wanted_in

LINKS = "source,target\noslo,rome\nrome,bern\n"


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    (tmp_path / "links.csv").write_text(LINKS)
    return overlay_of(str(tmp_path / "links.csv"), None, 0)


def names_at(table: Any) -> dict[str, int]:
    return dict(zip(table["name"].to_pylist(), table["broker"].to_pylist(), strict=True))


# Subscriptions in files


def test_a_text_has_one_filter_a_line(tmp_path: Path, overlay: Overlay) -> None:
    path = tmp_path / "filters.txt"
    path.write_text("# all\n\ntemp > 30\n  oslo: status = 'a: b'\noslo : n = 1\n\"a:b\" = 'x'\n")
    wanted = wanted_in(path, overlay, 3)
    assert wanted.subscriptions["filter"].to_pylist() == ["temp > 30", "status = 'a: b'", "n = 1", "\"a:b\" = 'x'"]
    names = dict(zip(wanted.ids.tolist(), wanted.names, strict=True))
    assert [names[id_] for id_ in wanted.subscriptions["client"].to_pylist()] == ["line 3", "oslo", "oslo", "line 6"]
    path.write_text("temp > 30\n\ntemp >\n")
    with pytest.raises(DataError, match=r"filters\.txt line 3: filter: ") as caught:
        wanted_in(path, overlay, 3)
    assert len(caught.value.problems) == 1
    path.write_text("# nothing\n")
    with pytest.raises(DataError, match="has no filters in it"):
        wanted_in(path, overlay, 3)


def test_columns_of_names_and_brokers(tmp_path: Path, overlay: Overlay) -> None:
    path = tmp_path / "wanted.csv"
    path.write_text("client,filter,broker,name,colour\nann,n = 1,rome,ones,red\nbob,n = 2,,,\n")
    wanted = wanted_in(path, overlay, 3)
    assert wanted.subscriptions["name"].to_pylist() == ["ones", None]
    assert (wanted.names, wanted.told) == (["ann", "bob"], {3: 2})
    assert wanted.notes == ("wanted.csv: not used: colour",)
    path.write_text("client,filter,broker\nann,n = 1,roma\n")
    with pytest.raises(DataError, match="row 1 column broker: there is no broker roma; near to it: rome"):
        wanted_in(path, overlay, 3)


def test_clients_that_are_numbered_like_brokers_get_other_numbers(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("source,target\n0,1\n1,2\n")
    numbered = overlay_of(str(tmp_path / "links.csv"), None, 0)
    (tmp_path / "wanted.csv").write_text("client,filter\n2,n = 1\n9,n = 2\n")
    wanted = wanted_in(tmp_path / "wanted.csv", numbered, 3)
    assert (wanted.ids.tolist(), wanted.names) == ([3, 4], ["2", "9"])
    clients = Clients(wanted.ids, list(wanted.names), numbered.ids[:2], {})
    placed = attached(clients, numbered, {})
    assert names_at(placed.table)["2"] == 2
    assert placed.ways == {"by name": 1, "by chance": 1}


# Attachments


def test_the_file_goes_before_the_column_before_the_name_before_chance(tmp_path: Path, overlay: Overlay) -> None:
    (tmp_path / "at.csv").write_text("client,broker\noslo,bern\nzoe,1\neva,rome\n")
    by_file = attachments_in(tmp_path / "at.csv", overlay)
    assert by_file == {"oslo": 0, "zoe": 1, "eva": 2}
    ids = np.arange(10, 15)
    clients = Clients(ids, ["oslo", "rome", "bern", "ann", "zoe"], np.full(5, 2), {11: 1, 12: 1})
    placed = attached(clients, overlay, by_file)
    assert names_at(placed.table) == {"oslo": 0, "rome": 1, "bern": 1, "ann": 2, "zoe": 1}
    assert placed.ways == {"by file": 2, "by column": 2, "by chance": 1}
    assert in_words(placed.ways) == "clients attached: 2 by file, 2 by column, 1 by chance"
    assert strangers(tmp_path / "at.csv", by_file, clients) == [
        "at.csv attaches 1 that neither publish nor subscribe (eva)"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("client,broker\nann,olso\n", "row 1 column broker: there is no broker olso; near to it: oslo"),
        ("client,broker\nann,oslo\nann,rome\n", "row 2 column broker: ann has another one above"),
        ("client,brokr\nann,oslo\n", "has no column 'broker', and needs client and broker; near to it: brokr"),
    ],
)
def test_attachments_that_cannot_be(text: str, words: str, tmp_path: Path, overlay: Overlay) -> None:
    (tmp_path / "at.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        attachments_in(tmp_path / "at.csv", overlay)
