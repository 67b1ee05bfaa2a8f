"""What a measurement is, and how to take one."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec


class Measurement(msgspec.Struct, frozen=True):
    subject: str
    size: str
    microseconds: float  # per operation
    peer: str
    peer_microseconds: float
    bar_microseconds: float | None = None  # at most this; None where only the curve is of interest

    @property
    def ratio(self) -> float:
        """How many times the peer's time it takes."""
        return self.microseconds / self.peer_microseconds

    @property
    def verdict(self) -> str:
        if self.bar_microseconds is None:
            return ""
        return "ok" if self.microseconds <= self.bar_microseconds else "MISSED"


Subject: TypeAlias = Callable[[bool], Iterator[Measurement]]  # told whether to be quick


def per_item(work: Callable[[], object], items: int, rounds: int = 7) -> float:
    """The best of several rounds, in microseconds per item, with the garbage collector on as it is in use."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best / items * 1e6


def table(measurements: Sequence[Measurement]) -> str:
    rows = [("subject", "size", "µs", "bar", "", "peer", "µs", "times the peer")]
    for m in measurements:
        bar = "" if m.bar_microseconds is None else f"≤ {m.bar_microseconds:g}"
        peer = f"{m.peer_microseconds:.2f}"
        rows.append((m.subject, m.size, f"{m.microseconds:.2f}", bar, m.verdict, m.peer, peer, f"{m.ratio:.1f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
