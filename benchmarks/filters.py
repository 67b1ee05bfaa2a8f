"""The filter language: parsing with normalising, evaluating, and covering.

The peers are Python itself: its own parser (in C) on the same condition written in Python, and the same decision as a
plain Python function that knows nothing of types, absence or unknown.
"""

import random
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Measurement, per_item
from overstory import Filter, parse_filter
from overstory.filters.like import parse_like

SYMBOLS = [f"S{number:03}" for number in range(500)]
REGIONS = ["eu-", "us-", "ap-", "af-"]


def four_terms(dice: random.Random) -> tuple[str, str]:
    """A filter of four terms, as SQL and as Python."""
    price, volume = round(dice.uniform(1, 500), 2), dice.randrange(10**7)
    symbols = dice.sample(SYMBOLS, dice.randint(1, 3))
    region, high = dice.choice(REGIONS), round(dice.uniform(1, 500), 2)
    sql_symbols = f"IN ({', '.join(map(repr, symbols))})" if len(symbols) > 1 else f"= {symbols[0]!r}"
    comparison = dice.choice(["<", "<=", ">", ">="])
    rest = f"volume {comparison} {volume}"
    if dice.random() < 0.5:
        return (
            f"price > {price} AND symbol {sql_symbols} AND region LIKE '{region}%' AND {rest}",
            f"price > {price} and symbol in {symbols!r} and region.startswith({region!r}) and {rest}",
        )
    return (
        f"symbol {sql_symbols} AND price BETWEEN {price} AND {price + 50} AND high <> {high} AND {rest}",
        f"symbol in {symbols!r} and {price} <= price <= {price + 50} and high != {high} and {rest}",
    )


def parse(quick: bool) -> Iterator[Measurement]:
    dice = random.Random(1)
    pairs = list({four_terms(dice) for _ in range(200 if quick else 20_000)})
    ours = per_item(lambda: [parse_filter(sql) for sql, _ in pairs], len(pairs), 1 if quick else 5)
    theirs = per_item(lambda: [compile(python, "", "eval") for _, python in pairs], len(pairs), 1 if quick else 3)
    yield Measurement("parse", "4 terms, distinct", ours, "Python's compile()", theirs, bar=50)
    for terms in (16, 64, 256, 1024):
        sql = " AND ".join(f"a{i} > {i}" for i in range(terms))
        python = " and ".join(f"a{i} > {i}" for i in range(terms))
        ours = per_item(lambda sql=sql: parse_filter(sql), 1, 1 if quick else 20)  # type: ignore[misc]
        theirs = per_item(lambda python=python: compile(python, "", "eval"), 1, 1 if quick else 20)  # type: ignore[misc]
        yield Measurement("parse", f"{terms} terms", ours, "Python's compile()", theirs)


def evaluate(quick: bool) -> Iterator[Measurement]:
    dice = random.Random(2)
    filters = [parse_filter(four_terms(dice)[0]) for _ in range(20 if quick else 500)]
    events = [
        {
            "price": dice.uniform(1, 500),
            "high": dice.uniform(1, 500),
            "symbol": dice.choice(SYMBOLS),
            "region": dice.choice(REGIONS) + "west",
            "volume": dice.randrange(10**7),
        }
        for _ in range(20 if quick else 200)
    ]
    count = len(filters) * len(events)

    def plain(event: dict[str, object]) -> bool:
        return event["price"] > 100 and event["symbol"] in ("S001", "S002") and event["volume"] < 5000  # type: ignore[operator]

    theirs = per_item(lambda: [plain(event) for _ in filters for event in events], count)
    ours = per_item(lambda: [wanted.evaluate(event) for wanted in filters for event in events], count)
    yield Measurement("evaluate", "4 terms, random events", ours, "plain Python function", theirs, bar=2)
    wanted = parse_filter("price > 100 AND symbol IN ('S001', 'S002') AND region LIKE 'eu-%' AND volume <= 5000")
    event = {"price": 120.5, "symbol": "S001", "region": "eu-west", "volume": 3}
    rounds = range(100 if quick else 20_000)
    ours = per_item(lambda: [wanted.evaluate(event) for _ in rounds], len(rounds))
    theirs = per_item(lambda: [plain(event) for _ in rounds], len(rounds))
    yield Measurement("evaluate", "4 terms, all true", ours, "plain Python function", theirs, bar=2)


def wider(dice: random.Random) -> tuple[Filter, Filter]:
    """A typical question of a router: a subscription, and one that may cover it."""
    price, symbol = dice.randrange(100), dice.choice(SYMBOLS[:3])
    inner = f"price > {price} AND price < {price + 20} AND symbol = '{symbol}' AND volume > {dice.randrange(1000)}"
    outer = dice.choice(
        [
            f"price > {dice.randrange(100)} AND symbol IN ('S000', 'S001')",
            f"symbol = '{dice.choice(SYMBOLS[:3])}' AND volume > {dice.randrange(1000)}",
            f"symbol LIKE 'S0%' AND price > {dice.randrange(100)} AND price < 110 AND volume >= 0",
        ]
    )
    return parse_filter(outer), parse_filter(inner)


def _plain_inside(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    return (
        outer[0] <= inner[0]
        and inner[1] <= outer[1]
        and outer[2] <= inner[2]
        and inner[3] <= outer[3]
        and outer[4] <= inner[4]
        and inner[5] <= outer[5]
    )


def _plain_box(dice: random.Random) -> tuple[float, ...]:
    """Three intervals, about as likely to be inside another box as the typical filters are."""
    return tuple(bound for _ in range(3) for bound in sorted((dice.random() / 3, 1 - dice.random() / 3)))


def covers(quick: bool) -> Iterator[Measurement]:
    dice = random.Random(3)
    pairs = [wider(dice) for _ in range(50 if quick else 5_000)]
    boxes = [(_plain_box(dice), _plain_box(dice)) for _ in pairs]
    ours = per_item(lambda: [outer.covers(inner) for outer, inner in pairs], len(pairs))
    theirs = per_item(lambda: [_plain_inside(outer, inner) for outer, inner in boxes], len(boxes))
    yes = sum(outer.covers(inner) for outer, inner in pairs) / len(pairs)
    size = f"typical pairs, {yes:.0%} yes"
    yield Measurement("covers", size, ours, "three intervals in plain Python", theirs, bar=5)


def covers_unions(quick: bool) -> Iterator[Measurement]:
    for count in (5, 20) if quick else (5, 20, 80):
        bar = 100 if count == 20 else None
        for size, outer, inner in _unions(count):
            assert outer.covers(inner) == ("yes" in size), size
            times = 2 if quick else 200
            ask = partial(_asked, outer, inner, times)
            ours = per_item(ask, times, 1 if quick else 7)
            pairs = [(0.0, 1.0, 0.0, 1.0, 0.0, 1.0)] * (count * count)
            theirs = per_item(lambda p=pairs: [_plain_inside(box, box) for box in p], 1, 1 if quick else 7)  # type: ignore[misc]
            yield Measurement("covers unions", size, ours, f"{count}×{count} boxes in plain Python", theirs, bar)


def _asked(outer: Filter, inner: Filter, times: int) -> list[bool]:
    return [outer.covers(inner) for _ in range(times)]


def _unions(count: int) -> Iterator[tuple[str, Filter, Filter]]:
    narrow = [f"(price > {i * 10} AND price < {i * 10 + 5} AND symbol = 'S{i}')" for i in range(count)]
    wide = [f"(price > {i * 10 - 1} AND price < {i * 10 + 6} AND symbol = 'S{i}')" for i in range(count)]
    outer, inner = parse_filter(" OR ".join(wide)), parse_filter(" OR ".join(narrow))
    yield f"{count} in {count}: yes, one in one", outer, inner
    yield f"{count} in {count}: no", inner, outer
    tiles = parse_filter(" OR ".join(f"(x >= {i} AND x < {i + 1} AND y > {i % 3})" for i in range(count)))
    yield f"1 in {count}: yes, all together", tiles, parse_filter(f"x >= 0 AND x < {count} AND y > 2")
    yield f"1 in {count}: no, one tile missing", tiles, parse_filter(f"x >= 0 AND x <= {count} AND y > 2")
    shifted = parse_filter(" OR ".join(f"(x >= {i - 0.5} AND x < {i + 0.5} AND y > {i - 1})" for i in range(count + 2)))
    steps = parse_filter(" OR ".join(f"(x >= {i} AND x < {i + 1} AND y > {i})" for i in range(count)))
    yield f"{count} in {count}: yes, two to each", shifted, steps


def like(quick: bool) -> Iterator[Measurement]:
    """Linear in the text, whatever the pattern: time per kilobyte at growing lengths of a hostile text."""
    for pattern in ("%a%a%a%a%a%b", "%a_a_a_b%"):
        matches = parse_like(pattern).matches
        for kilobytes in (1, 16, 256):
            text = "a" * (1024 * kilobytes)
            ours = per_item(lambda m=matches, t=text: m(t), kilobytes, 2 if quick else 10)  # type: ignore[misc]
            theirs = per_item(lambda t=text: "b" in t, kilobytes, 2 if quick else 10)  # type: ignore[misc]
            yield Measurement("like, per KB", f"{pattern} on {kilobytes} KB", ours, "'b' in text", theirs)
