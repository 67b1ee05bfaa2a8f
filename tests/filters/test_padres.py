"""PADRES's own data, and what its relations should be."""

import tarfile
from pathlib import Path

import pytest

from overstory import EventError, FilterSyntaxError, parse_filter, parse_publication

QUOTES = Path(__file__).parents[2].parent / "shared" / "data" / "padres_stockquotes" / "stockquotes.tar.xz"


@pytest.mark.skipif(not QUOTES.exists(), reason="the PADRES stock quotes are not beside the project")
def test_every_stock_quote_is_a_publication() -> None:
    count = 0
    wanted = parse_filter("[class,eq,'STOCK'],[volume,>=,0],[date,str-contains,'-']", "padres")
    with tarfile.open(QUOTES) as archive:
        for member in archive:
            file = archive.extractfile(member)
            for line in file.read().decode().splitlines() if file else ():
                quote = parse_publication(line)
                assert list(quote) == ["class", "symbol", "open", "high", "low", "close", "volume", "date"]
                assert wanted.matches(quote)
                count += 1
    assert count == 245_190


@pytest.mark.parametrize(
    ("a", "b", "covers", "covered", "intersects"),
    [
        ("[t,str-postfix,'ing']", "[t,eq,'walking']", True, False, True),
        ("[t,str-postfix,'ing']", "[t,str-postfix,'king']", True, False, True),
        ("[t,str-postfix,'walking']", "[t,str-postfix,'kings']", False, False, False),
        ("[t,str-contains,'alk']", "[t,str-prefix,'walk']", True, False, True),
        ("[t,str-contains,'an']", "[t,str-contains,'banana']", True, False, True),
        ("[t,neq,'a']", "[t,str-prefix,'a']", False, False, True),
        ("[t,neq,'a']", "[t,str-prefix,'ab']", True, False, True),
        ("[n,>,100]", "[n,>=,101]", True, False, True),
        ("[n,isPresent,0]", "[n,<>,3]", True, False, True),
        ("[n,isPresent,0]", "[n,isPresent,'']", False, False, True),  # through an untyped value
    ],
)
def test_relations(a: str, b: str, covers: bool, covered: bool, intersects: bool) -> None:
    first, second = parse_filter(a, "padres"), parse_filter(b, "padres")
    assert (first.covers(second), second.covers(first)) == (covers, covered)
    assert first.intersects(second) == second.intersects(first) == intersects


def test_a_publication_keeps_its_types() -> None:
    text = "[class,'STOCK'],[n,+10],[x,-.5],[s,\"5\"],[w,bare];Tue Nov 16 18:05:30 EST 2004;"
    assert parse_publication(text) == {"class": "STOCK", "n": 10, "x": -0.5, "s": "5", "w": "bare"}


def test_variables_and_long_publications_are_refused() -> None:
    for text in ("[s,eq,'$S$X']", '[n,=,"$I$X"]', "[s,eq,$S$X]"):
        with pytest.raises(FilterSyntaxError):
            parse_filter(text, "padres")
    with pytest.raises(EventError, match="longer than"):
        parse_publication("[class,'" + "a" * 70_000 + "']")


def test_a_bad_publication_is_an_event_error() -> None:
    with pytest.raises(EventError, match="twice") as caught:
        parse_publication("[class,'STOCK'],[class,'x']")
    assert caught.value.position == 17
