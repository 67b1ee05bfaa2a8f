"""What a measurement is, and how to take one."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec


class Measurement(msgspec.Struct, frozen=True):
    subject: str
    size: str
    value: float  # less is better
    peer: str = ""
    peer_value: float | None = None
    bar: float | None = None  # at most this
    bar_ratio: float | None = None  # the peer takes at least so many times as much
    unit: str = "µs"  # per operation

    @property
    def ratio(self) -> float | None:
        """How many times as much the peer takes."""
        return None if self.peer_value is None else self.peer_value / self.value

    @property
    def verdict(self) -> str:
        if self.bar is None and self.bar_ratio is None:
            return ""
        missed = self.bar is not None and self.value > self.bar
        missed |= self.bar_ratio is not None and (self.ratio or 0) < self.bar_ratio
        return "MISSED" if missed else "ok"


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
    rows = [("subject", "size", "measured", "bar", "", "peer", "measured", "ratio", "bar")]
    for m in measurements:
        bar = "" if m.bar is None else f"≤ {m.bar:g}"
        peer = "" if m.peer_value is None else f"{m.peer_value:,.2f}"
        ratio = "" if m.ratio is None else f"{m.ratio:,.2f}"
        bar_ratio = "" if m.bar_ratio is None else f"≥ {m.bar_ratio:g}"
        rows.append((m.subject, m.size, f"{m.value:,.2f} {m.unit}", bar, m.verdict, m.peer, peer, ratio, bar_ratio))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
