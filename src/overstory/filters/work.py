"""What a question about filters may cost, as a count of steps, so that the same question always has the same answer.

Filters come from strangers, and some questions about them take exponential time in the worst case. Whoever asks one
brings a ``Work``; whatever takes time spends steps of it. When none is left, the asker gives the safe answer.
"""


class OutOfWorkError(Exception):
    """Raised within this package only, and caught by whoever brought the work."""


class Work:
    """The steps that are left, of at most about a microsecond, and what was found out about pairs of patterns.

    Patterns occur again and again in the boxes of one filter. Each pair is compared once, and has its price once.
    """

    __slots__ = ("left", "patterns")

    def __init__(self, steps: float) -> None:
        self.left = steps
        self.patterns: dict[object, bool] = {}

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OutOfWorkError

    def remember(self, pair: object, answer: bool) -> bool:
        self.patterns[pair] = answer
        return answer


class _Uncounted(Work):
    """Work without a limit, for trusted sets. It lasts as long as the program, so it remembers nothing."""

    __slots__ = ()

    def spend(self, steps: int) -> None:
        pass

    def remember(self, pair: object, answer: bool) -> bool:
        return answer


UNCOUNTED: Work = _Uncounted(0)
