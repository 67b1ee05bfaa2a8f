"""overstory demo: a short tour, every line of which is computed as it is shown."""

import argparse
from typing import Any

from overstory.cli.output import print_json
from overstory.errors import FilterError
from overstory.filters import Uniform, parse_filter, parse_publication
from overstory.model.values import Untyped

TRUTHS = {True: "matches", False: "does not match", None: "unknown, so it does not match"}


def add_to(commands: Any) -> None:
    command = commands.add_parser("demo", help="a short tour of what Overstory does today")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    sections = [say_what_you_want(), three_values(), untyped_values(), compare_filters(), dialects(), bad_input()]
    if arguments.json:
        print_json({"sections": [{"title": title, "lines": lines} for title, lines in sections]})
        return
    print("\n\n".join("\n".join([title, *(f"    {line}" for line in lines)]) for title, lines in sections))


def say_what_you_want() -> tuple[str, list[str]]:
    wanted = parse_filter("price > 100 AND symbol IN ('IBM', 'AIG') AND region LIKE 'eu-%'")
    events: list[dict[str, object]] = [
        {"symbol": "IBM", "price": 120.5, "region": "eu-west"},
        {"symbol": "IBM", "price": 99, "region": "eu-west"},
        {"symbol": "AIG", "region": "eu-north"},
    ]
    lines = [f"{event}  {TRUTHS[wanted.evaluate(event)]}" for event in events]
    return "A subscriber says what it wants, and receives only that.", [f"filter: {wanted}", *lines]


def three_values() -> tuple[str, list[str]]:
    texts = ("price > 100", "NOT price > 100", "price > 100 OR symbol = 'IBM'", "price IS NULL")
    results = [parse_filter(text).evaluate({"symbol": "IBM"}) for text in texts]
    lines = [f"{text:<30} {TRUTHS[result]}" for text, result in zip(texts, results, strict=True)]
    return "What is missing is neither true nor false. An event with symbol 'IBM' and no price:", lines


def untyped_values() -> tuple[str, list[str]]:
    event = {"id": Untyped("1e5")}
    texts = ("id = '1e5'", "id > 100", "id = 100000", "id LIKE '1%'")
    lines = [f"{text:<30} {TRUTHS[parse_filter(text).evaluate(event)]}" for text in texts]
    return "An MQTT user property has no type; it shows the face that is asked for. With id 1e5:", lines


def compare_filters() -> tuple[str, list[str]]:
    pairs = [
        ("price > 50", "price > 100 AND symbol = 'IBM'"),
        ("price < 10 OR price >= 5", "price = 7.5"),
        ("x < 5 OR y < 5 OR (x > 4 AND y > 4)", "x IS NOT NULL AND x > 0 AND y > 0"),
        ("region LIKE 'eu-%'", "region = 'us-east'"),
    ]
    lines = []
    for a, b in pairs:
        first, second = parse_filter(a), parse_filter(b)
        relation = "covers" if first.covers(second) else "intersects" if first.intersects(second) else "excludes"
        lines.append(f"{a}   {relation}   {b}")
    part = parse_filter("x < 5 OR y < 5").volume({"x": Uniform(0, 10), "y": Uniform(0, 10)})
    lines.append(f"x < 5 OR y < 5   matches {part:.0%} of events with x and y spread evenly from 0 to 10")
    return "Brokers ask whether one filter covers another, also where several parts cover it together.", lines


def dialects() -> tuple[str, list[str]]:
    text, publication = (
        "[class,eq,'STOCK'],[high,>,20],[symbol,str-prefix,'A']",
        "[class,'STOCK'],[symbol,'AAPL'],[high,64.25]",
    )
    wanted = parse_filter(text, "padres")
    lines = [text, f"is {wanted}", f"{publication}  {TRUTHS[wanted.evaluate(parse_publication(publication))]}"]
    return "The same in the notation of PADRES:", lines


def bad_input() -> tuple[str, list[str]]:
    lines = []
    for text in ("price > AND symbol = 'IBM'", "symbol = 'IBM"):
        try:
            parse_filter(text)
        except FilterError as error:
            lines += str(error).splitlines()
    return "A mistake is shown where it is:", lines
