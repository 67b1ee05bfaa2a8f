"""Names that people write, and what they may have meant."""

from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

MOST_NEAR = 3


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like it, whatever their case."""
    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(each.lower(), each)
    return [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=MOST_NEAR, cutoff=0.65)]


def near_words(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says what may have been meant; nothing if nothing is near."""
    near = near_names(name, known)
    return f"; near to it: {', '.join(near)}" if near else ""


def told_apart(names: Mapping[int, str]) -> dict[int, str]:
    """Names by id; where several have the same name, the id stands beside it."""
    counts = Counter(names.values())
    return {number: name if counts[name] == 1 else f"{name} ({number})" for number, name in names.items()}
