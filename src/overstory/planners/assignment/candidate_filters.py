"""FilterGen of Yu, Agarwal and Yang: few rectangles, one of which is nearly as small as any that might be needed.

In each dimension lengths are doubled from the shortest to the whole; for each length, intervals begin at left ends of
subscriptions, no two of them overlapping by more than η of it. Products of intervals, drawn tight around the
subscriptions within, are the candidates (Lemma 4: any smallest box is within one of at most 4^d times its volume).
Super-subscriptions, the boxes around clusters in the joint space of events and network, make them fewer still.
"""

import numpy as np

from overstory.model.network import Floats, Ints

OVERLAP = 0.5  # η
PER_BROKER = 5  # super-subscriptions
LLOYD = 8  # rounds of k-means


def intervals(low: Ints, high: Ints, overlap: float = OVERLAP) -> Ints:
    """Candidate intervals of one dimension, as rows of two ends; ``low`` and ``high`` are those of subscriptions."""
    whole, shortest = int(high.max() - low.min()), max(int((high - low).min()), 1)
    length, found = shortest, [np.unique(np.stack([low, high], axis=1), axis=0)[:0]]
    while True:
        length = min(2 * length, 2 * whole)
        mine = high - low <= length / 2
        found.append(_of_length(low[mine], high[mine], length, overlap))
        if length >= 2 * whole:
            break
    return np.unique(np.concatenate(found), axis=0)


def _of_length(low: Ints, high: Ints, length: int, overlap: float) -> Ints:
    """Intervals of one length, drawn tight around the subscriptions within."""
    found, left = [], np.unique(low)
    while len(left):
        first = left[0]
        inside = (low >= first) & (high <= first + length)
        found.append((low[inside].min(), high[inside].max()))
        left = left[left > first + (1 - overlap) * length]
    return np.array(found, np.int64).reshape(-1, 2)


def candidates(rectangles: Ints, overlap: float = OVERLAP) -> Ints:
    """The candidates for subscriptions, which are rectangles of four ends: each is drawn tight, and there once."""
    across, up = (intervals(rectangles[:, at], rectangles[:, at + 1], overlap) for at in (0, 2))
    found = []
    for first, last in across.tolist():
        mine = rectangles[(rectangles[:, 0] >= first) & (rectangles[:, 1] <= last)]
        if not len(mine):
            continue
        inside = (mine[None, :, 2] >= up[:, None, 0]) & (mine[None, :, 3] <= up[:, None, 1])
        kept = inside.any(axis=1)
        inside = inside[kept]
        low = [np.where(inside, mine[None, :, at], np.iinfo(np.int64).max).min(axis=1) for at in (0, 2)]
        high = [np.where(inside, mine[None, :, at], -1).max(axis=1) for at in (1, 3)]
        found.append(np.stack([low[0], high[0], low[1], high[1]], axis=1))
    return np.unique(np.concatenate(found), axis=0)


def super_subscriptions(rectangles: Ints, mask: np.ndarray, clusters: int, draw: np.random.Generator) -> Ints:
    """Boxes around clusters of subscriptions that are alike in what they want and in who can serve them: k-means on the
    centre, the logarithm of the sides, and the brokers in time."""
    if len(rectangles) <= clusters:
        return np.unique(rectangles, axis=0)
    points = _points(rectangles, mask)
    centres = points[draw.choice(len(points), clusters, replace=False)]
    for _ in range(LLOYD):
        cluster = _nearest(points, centres)
        counts = np.maximum(np.bincount(cluster, minlength=clusters), 1)
        sums = np.zeros_like(centres)
        np.add.at(sums, cluster, points)
        centres = sums / counts[:, None]
    cluster = _nearest(points, centres)
    found = np.empty((clusters, 4), np.int64)
    found[:, 0::2], found[:, 1::2] = np.iinfo(np.int64).max, -1
    for at in (0, 2):
        np.minimum.at(found[:, at], cluster, rectangles[:, at])
        np.maximum.at(found[:, at + 1], cluster, rectangles[:, at + 1])
    return np.unique(found[np.bincount(cluster, minlength=clusters) > 0], axis=0)


def _points(rectangles: Ints, mask: np.ndarray) -> Floats:
    centre = (rectangles[:, 0::2] + rectangles[:, 1::2]) / 2
    side = np.log(np.maximum(rectangles[:, 1::2] - rectangles[:, 0::2], 1))
    near = mask / np.sqrt(np.maximum(mask.sum(axis=1, keepdims=True), 1))
    parts = [(part - part.mean(axis=0)) / max(float(part.std()), 1e-9) for part in (centre, side)]
    return np.concatenate([*parts, 2 * near], axis=1)


def _nearest(points: Floats, centres: Floats) -> Ints:
    far = (centres**2).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(far.argmin(axis=1))
