"""Random filters and events from a seed: many at once, and alike enough that trees split, nest and merge."""

import random
from collections.abc import Callable

from overstory import Filter, Untyped, parse_filter

SYMBOLS = [*(f"S{i}" for i in range(30)), "it's", "a", "ab", "abc", "", "é🙂"]
FAVOURITES = ["a", "ab", "b"]
WORDS = "abcdefgh"
APART = ["q BETWEEN 0 AND 9", "q BETWEEN 15 AND 24", "q BETWEEN 30 AND 39"]
NUMBERS, TEXTS = "pqrs", "uvw"  # the attributes


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Draws:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    # Filters of every kind

    def filter(self) -> Filter:
        dice = self.dice
        text = self._conjunction(dice.choice([1, 1, 2, 2, 3, 4]))
        if dice.random() < 0.15:
            text = f"({text}) OR ({self._conjunction(dice.randint(1, 3))})"
        if dice.random() < 0.05:
            text = f"NOT ({text})"
        return parse_filter(text)

    def filters(self, count: int) -> list[Filter]:
        return [self.filter() for _ in range(count)]

    def _conjunction(self, count: int) -> str:
        return " AND ".join(self._term() for _ in range(count))

    def _term(self) -> str:
        kinds: list[tuple[int, Callable[[], str]]] = [
            (30, self._range),
            (
                10,
                lambda: f"{self._name(NUMBERS)} {self.dice.choice(['<', '<=', '>', '>=', '<>', '='])} {self._number()}",
            ),
            (5, lambda: f"{self._name(NUMBERS)} IN ({', '.join(str(self._number()) for _ in range(self._few()))})"),
            (20, lambda: f"{self._name(TEXTS)} {self.dice.choice(['=', '=', '=', '<>'])} {self._symbol()}"),
            (5, lambda: f"{self._name(TEXTS)} IN ({', '.join(self._symbol() for _ in range(self._few()))})"),
            (3, lambda: f"{self._name(TEXTS)} {self.dice.choice(['<', '>='])} {self._symbol()}"),
            (10, self._pattern),
            (10, self._words),
            (3, lambda: f"{self._name('pqrsuvwxyz')} IS {self.dice.choice(['', 'NOT '])}NULL"),
            (3, lambda: self.dice.choice(["flag", "NOT flag"])),
            (2, lambda: f"p + q > {self._number()}"),
            (2, lambda: f"rare{self.dice.randint(0, 50)} > {self._number()}"),
        ]
        _, make = self.dice.choices(kinds, [weight for weight, _ in kinds])[0]
        return make()

    def _range(self) -> str:
        low = self._number()
        return f"{self._name(NUMBERS)} BETWEEN {low} AND {low + self.dice.choice([0, 1, 5, 20])}"

    def _pattern(self) -> str:
        pattern = self.dice.choice(["S", "S", "S1", "S2", "a", "ab", "%c", "S_", "é"])
        return f"{self._name(TEXTS)} {self.dice.choice(['', '', 'NOT '])}LIKE '{pattern}%'"

    def _words(self) -> str:
        words = ", ".join(quoted(self.dice.choice(WORDS)) for _ in range(self.dice.randint(1, 4)))
        return f"{self.dice.choice(['', '', '', 'NOT '])}tags HAS ANY ({words})"

    def _name(self, names: str) -> str:
        return self.dice.choice(names)

    def _number(self) -> int | float:
        return self.dice.choice([self.dice.randint(-5, 50), round(self.dice.uniform(-5, 50), 1)])

    def _symbol(self) -> str:
        return quoted(self.dice.choice(SYMBOLS))

    def _few(self) -> int:
        return self.dice.randint(1, 12)

    # Many boxes that differ little, so that what is too large must be split

    def boxes(self, count: int) -> list[Filter]:
        if self.dice.random() < 0.5:
            names, ranges = self.dice.choice(["uv", "uvw"]), self.dice.choice([["TRUE"], APART])
            return [self._tokens(names, ranges) for _ in range(count)]
        tokens = self.dice.choice([[], ["u = 'a'"], ["u = 'a'", "u = 'b'", "v = 'a'"], ["tags HAS ANY ('a')"]])
        names = self.dice.choice(["p", "pq", "pqrs"])
        step = self.dice.choice([0, 1])  # all about the same numbers, or one behind the other
        return [self._ranges(i * step, names, tokens) for i in range(count)]

    def _ranges(self, at: int, names: str, tokens: list[str]) -> Filter:
        """On a few attributes, under at least one of some tokens."""
        dice = self.dice
        terms = dice.sample(tokens, dice.randint(min(1, len(tokens)), len(tokens)))
        for name in dice.sample(names, dice.randint(1, len(names))):
            low = at + dice.randint(0, 20)
            terms.append(f"{name} BETWEEN {low} AND {low + dice.choice([0, 1, 2, 9])}")
        return parse_filter(" AND ".join(terms))

    def _tokens(self, names: str, ranges: list[str]) -> Filter:
        """Several of few tokens, and numbers that a tree can hardly split by: tokens must stand below tokens."""
        dice = self.dice
        terms = [
            f"{name} = {quoted(dice.choice(FAVOURITES))}" for name in dice.sample(names, dice.randint(1, len(names)))
        ]
        if dice.random() < 0.5:
            terms.append(f"tags HAS ANY ({quoted(dice.choice(WORDS[:3]))})")
        terms += [f"p <> {dice.randint(0, 50)}", f"r <> {dice.randint(0, 50)}", dice.choice(ranges)]
        return parse_filter(" AND ".join(terms))

    # Events

    def event(self) -> dict[str, object]:
        dice = self.dice
        event: dict[str, object] = {name: self._value(name) for name in NUMBERS + TEXTS}
        if dice.random() < 0.5:
            event["tags"] = dice.choices(WORDS + "yz", k=dice.randint(0, 4))
        if dice.random() < 0.5:
            event["flag"] = dice.choice([True, False, Untyped("true")])
        if dice.random() < 0.3:
            event[f"rare{dice.randint(0, 50)}"] = dice.randint(0, 50)
        if dice.random() < 0.1:
            event["x"] = {}
        for name in [name for name, value in event.items() if value is None]:
            if dice.random() < 0.5:
                del event[name]
        return event

    def events(self, count: int) -> list[dict[str, object]]:
        return [self.event() for _ in range(count)]

    def _value(self, name: str) -> object:
        dice = self.dice
        chance = dice.random()
        if chance < 0.1:
            return None
        if name in NUMBERS:
            number = dice.choice([dice.randint(-5, 50), round(dice.uniform(-5, 50), 1), dice.uniform(-5, 50)])
            return Untyped(str(number)) if chance < 0.2 else number
        symbol = dice.choice(dice.choice([FAVOURITES, [*SYMBOLS, "unknown"]]))
        return Untyped(symbol) if chance < 0.2 else symbol
