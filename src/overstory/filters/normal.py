"""From syntax to the normal form: the boxes in which a condition is true, or in which it is false.

NOT is pushed down to the leaves by asking a leaf for its false part instead of its true part; unknown is neither.
AND multiplies boxes and OR adds them, simplified at each step, so the only danger is a product that explodes: the
work is counted, and stopped at a limit.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias, cast

from overstory.filters.box import EVERYTHING, Box, canonical, intersection_of
from overstory.filters.boxes import absorbed, merged, simplified
from overstory.filters.cuts import Cut, Cuts, difference
from overstory.filters.evaluate import compile_condition, compile_value
from overstory.filters.limits import Limits
from overstory.filters.operators import COMPARISONS
from overstory.filters.syntax import (
    And,
    Arithmetic,
    Attribute,
    Compare,
    Condition,
    Function,
    HasAny,
    In,
    IsNull,
    LikeTest,
    Literal,
    Not,
    Or,
    Signed,
    Value,
)
from overstory.filters.value_sets import (
    ABSENT,
    ALL_NUMBERS,
    ALL_STRINGS,
    ANY_NUMBER,
    ANY_STRING,
    NEXT,
    NUMBER_BOTTOM,
    PRESENT,
    STRING_BOTTOM,
    Booleans,
    Numbers,
    ValueSet,
    keywords,
    numbers,
    pattern_count,
    points_of_numbers,
    points_of_strings,
    strings,
    strings_like,
)
from overstory.filters.work import OutOfWorkError, Work
from overstory.model.values import Number

Boxes: TypeAlias = tuple[Box, ...]
NOTHING: Boxes = ()
TOO_MUCH_WORK = "the normal form takes too much work"
MOST_TO_ABSORB = 4  # as many times the boxes allowed may be compared with each other


class TooLargeError(Exception):
    """Raised within this package only; ``token`` is where the operator stands."""

    def __init__(self, problem: str, token: int) -> None:
        self.problem = problem
        self.token = token


def normal_form(condition: Condition, limits: Limits) -> Boxes:
    boxes = Normaliser(limits).boxes(condition, True)
    for box in boxes:
        for allowed in box.sets.values():
            if type(allowed) is not Numbers and pattern_count(allowed) > limits.patterns:
                raise TooLargeError(_too_many_patterns(limits), 0)
    return boxes


def _too_many_patterns(limits: Limits) -> str:
    return f"one attribute has to satisfy more than {limits.patterns} patterns or word lists at once"


class Normaliser:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.work = Work(limits.work)

    def boxes(self, condition: Condition, wanted: bool) -> Boxes:
        """The boxes in which the condition has the wanted truth."""
        if type(condition) in LEAVES:
            box = LEAVES[type(condition)](condition, wanted)
            return NOTHING if box is None else (box,)
        if isinstance(condition, (And, Or)):
            if isinstance(condition, And) == wanted:
                return self.all_of(condition.operands, wanted, condition.position)
            return self.any_of(condition.operands, wanted, condition.position)
        if isinstance(condition, In):
            return self.is_in(condition, wanted)
        assert isinstance(condition, Not)
        return self.boxes(condition.operand, not wanted)

    def all_of(self, operands: Sequence[Condition], wanted: bool, token: int) -> Boxes:
        single: list[Box] = []
        several: list[Boxes] = []
        for operand in operands:
            if type(operand) in LEAVES:
                box = LEAVES[type(operand)](operand, wanted)
                if box is None:
                    return NOTHING
                single.append(box)
            else:
                boxes = self.boxes(operand, wanted)
                if not boxes:
                    return NOTHING
                if len(boxes) == 1:
                    single.append(boxes[0])
                else:
                    several.append(boxes)
        if len(operands) > self.limits.patterns:
            self.check_patterns(single, token)
        try:
            shared = intersection_of(single, self.work)
            result: Boxes = NOTHING if shared is None else (shared,)
            for boxes in several:
                result = self.product(result, boxes, token)
        except OutOfWorkError:
            raise TooLargeError(TOO_MUCH_WORK, token) from None
        return result

    def any_of(self, operands: Sequence[Condition], wanted: bool, token: int) -> Boxes:
        boxes = [box for operand in operands for box in self.boxes(operand, wanted)]
        if len(boxes) < 2:
            return tuple(boxes)
        try:
            alternatives = merged(boxes, self.work)
            if len(alternatives) <= MOST_TO_ABSORB * self.limits.boxes:
                alternatives = list(absorbed(alternatives, self.work))
        except OutOfWorkError:
            raise TooLargeError(TOO_MUCH_WORK, token) from None
        if len(alternatives) > self.limits.boxes:
            raise TooLargeError(f"the normal form needs more than {self.limits.boxes} boxes", token)
        return tuple(alternatives)

    def product(self, a: Boxes, b: Boxes, token: int) -> Boxes:
        if len(a) * len(b) > self.limits.boxes:
            raise TooLargeError(f"the normal form needs more than {self.limits.boxes} boxes", token)
        self.work.spend(len(a) * sum(box.weight() for box in b) + len(b) * sum(box.weight() for box in a))
        shared = [s for x, y in product(a, b) if (s := x.intersect(y, self.work)) is not None]
        return simplified(shared, self.work)

    def check_patterns(self, boxes: Sequence[Box], token: int) -> None:
        """Patterns and word lists on one attribute are compared with each other, so they must stay few."""
        found: Counter[str] = Counter()
        for box in boxes:
            for name, allowed in box.sets.items():
                found[name] += pattern_count(allowed)
        if max(found.values(), default=0) > self.limits.patterns:
            raise TooLargeError(_too_many_patterns(self.limits), token)

    def is_in(self, condition: In, wanted: bool) -> Boxes:
        """The boxes of IN. A list of constants of one type becomes one set directly; other lists are what IN means."""
        box = _attribute_in(condition, wanted)
        if box is not None:
            return box
        tests = [Compare("=", condition.operand, option) for option in condition.options]
        return (self.any_of if wanted else self.all_of)(tests, wanted, condition.position)


def _attribute_in(condition: In, wanted: bool) -> Boxes | None:
    values = [option.value for option in condition.options if isinstance(option, Literal)]
    if not isinstance(condition.operand, Attribute) or len(values) < len(condition.options):
        return None
    kinds = set(map(type, values))
    if kinds == {str}:
        points, everything = points_of_strings(cast(list[str], values)), ALL_STRINGS
    elif kinds <= {int, float}:
        points, everything = points_of_numbers(cast(list[Number], values)), ALL_NUMBERS
    else:
        return None
    cuts = points if wanted else difference(everything, points)
    box = _box(condition.operand.name, strings(cuts) if kinds == {str} else numbers(cuts))
    return NOTHING if box is None else (box,)


# Leaves: each gives the box in which it has the wanted truth, None if there is none.


def _bare_attribute(condition: Attribute, wanted: bool) -> Box | None:
    return _box(condition.name, Booleans(frozenset([wanted])))


def _constant(condition: Literal, wanted: bool) -> Box | None:
    return EVERYTHING if condition.value is wanted else None


def _signed(condition: Signed, wanted: bool) -> Box | None:
    return None


def _is_null(condition: IsNull, wanted: bool) -> Box | None:
    return _box(condition.name, ABSENT if wanted else PRESENT)


def _has_any(condition: HasAny, wanted: bool) -> Box | None:
    if wanted:
        return _box(condition.name, keywords(frozenset([condition.words])))
    return _box(condition.name, keywords(frozenset(), condition.words))


def _like(condition: LikeTest, wanted: bool) -> Box | None:
    if isinstance(condition.operand, Attribute):
        return _box(condition.operand.name, strings_like(condition.like, wanted))
    return _residual(condition if wanted else Not(condition))


def _compare(condition: Compare, wanted: bool) -> Box | None:
    operator = condition.operator if wanted else COMPARISONS[condition.operator].negated
    left, right = condition.left, condition.right
    if type(left) is Attribute and type(right) is Literal:
        return _box(left.name, compared_with(operator, right.value))
    if type(left) is Literal and type(right) is Attribute:
        return _box(right.name, compared_with(COMPARISONS[operator].flipped, left.value))
    folded_left, folded_right = folded(left), folded(right)
    if folded_left is None or folded_right is None:
        return None
    if (folded_left, folded_right) != (left, right):
        return _compare(Compare(operator, folded_left, folded_right), True)
    return _residual(canonical(Compare(operator, left, right)))


def folded(value: Value) -> Value | None:
    """The value, worked out if it has no attributes. None if it is unknown."""
    if type(value) is Literal or mentions_attribute(value):
        return value
    constant = compile_value(value)({})
    return Literal(constant) if isinstance(constant, (int, float, str)) else None


def mentions_attribute(value: Value) -> bool:
    return any(True for _ in _implied(value, PRESENT))


def compared_with(operator: str, constant: bool | int | float | str) -> ValueSet | None:
    """The values x for which x operator constant is true."""
    kind = type(constant)
    if kind is int or kind is float:
        return Numbers(CUTS[operator]((constant, 0), (constant, 1), NUMBER_BOTTOM))
    if isinstance(constant, str):
        return strings(CUTS[operator](constant, constant + NEXT, STRING_BOTTOM))
    if COMPARISONS[operator].ordering:
        return None
    return Booleans(frozenset([bool(constant) if operator == "=" else not constant]))


def _below(below: Cut, above: Cut, bottom: Cut) -> Cuts:
    return () if below == bottom else (bottom, below)  # nothing is below the empty string


# The cuts of x operator constant, from the cuts around the constant and the one below everything
CUTS: dict[str, Callable[[Cut, Cut, Cut], Cuts]] = {
    "=": lambda below, above, bottom: (below, above),
    "<>": lambda below, above, bottom: (*_below(below, above, bottom), above),
    "<": _below,
    "<=": lambda below, above, bottom: (bottom, above),
    ">": lambda below, above, bottom: (above,),
    ">=": lambda below, above, bottom: (below,),
}


def _box(name: str, allowed: ValueSet | None) -> Box | None:
    return None if allowed is None else Box({name: allowed})


def _residual(condition: Condition) -> Box | None:
    """The box of a condition that no value set can say. A condition without attributes is worked out."""
    implied = implied_by(condition)
    if implied is None or implied.sets:
        return implied and Box(implied.sets, frozenset([condition]))
    return EVERYTHING if compile_condition(condition)({}) is True else None


@lru_cache(maxsize=256)
def implied_by(condition: Condition) -> Box | None:
    """What must hold of single attributes for a residual to be true. None if that cannot be.

    Residuals are strict, so all their attributes are present and of a type that fits.
    """
    if isinstance(condition, Not):
        return implied_by(condition.operand)
    if isinstance(condition, LikeTest):
        return intersection_of(_implied(condition.operand, ANY_STRING))
    if isinstance(condition, Compare):
        return intersection_of([*_implied(condition.left, PRESENT), *_implied(condition.right, PRESENT)])
    raise AssertionError(f"{condition!r} is no residual")


def _implied(value: Value, fits: ValueSet) -> Iterator[Box]:
    if isinstance(value, Attribute):
        yield Box({value.name: fits})
    elif isinstance(value, Signed):
        yield from _implied(value.operand, ANY_NUMBER)
    elif isinstance(value, Arithmetic):
        yield from _implied(value.left, ANY_NUMBER)
        yield from _implied(value.right, ANY_NUMBER)
    elif isinstance(value, Function):
        needed: tuple[ValueSet, ...] = (ANY_STRING, ANY_NUMBER)
        for argument, kind in zip(value.arguments, needed, strict=False):
            yield from _implied(argument, kind)


LEAVES: dict[type, Callable[[Any, bool], Box | None]] = {
    Attribute: _bare_attribute,
    Literal: _constant,
    Signed: _signed,
    IsNull: _is_null,
    HasAny: _has_any,
    LikeTest: _like,
    Compare: _compare,
}
