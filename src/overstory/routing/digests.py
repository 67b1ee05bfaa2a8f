"""Sets of keys that two brokers compare without listing them: by sums of hashes, first of all keys, then by bucket.

1. A key is the id and the version of a subscription or an advertisement. Its bucket is found from its id alone. Its
   hash is the same on every machine.
2. The sum of a set is that of its keys' hashes, modulo 2**63. So a change costs one addition, the sum of a difference
   is the difference of sums, and two sets with the same sum are equal for all that can happen by chance.
3. Two brokers that disagree compare the sums of their buckets, and list the keys of those that differ.

``Leases`` is such a set at the broker that was told of it. It knows when each bucket was last confirmed.
"""

from collections.abc import Iterable, Iterator, MutableSet, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from overstory.routing.messages import Key, Sums

BUCKETS = 256
MASK = (1 << 63) - 1  # of sums: they fit into 64 bits with a sign
WORD = (1 << 64) - 1
NEVER = float("-inf")


def bucket_of(key: Key) -> int:
    """The bucket of a key. Ids are mostly given out one after the other, so that their last bits spread them."""
    return (key[0] ^ key[0] >> 8) & (BUCKETS - 1)


def hash_of(key: Key) -> int:
    """A hash of 63 bits, in which every bit of the key counts for every bit of the hash."""
    mixed = (key[0] * 0x9E3779B97F4A7C15 + key[1] * 0xC2B2AE3D27D4EB4F + 0x165667B19E3779F9) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return (mixed ^ mixed >> 31) & MASK


def buckets_and_hashes(keys: Sequence[Key]) -> tuple[list[int], list[int]]:
    """The buckets and the hashes of many keys: what ``bucket_of`` and ``hash_of`` say of each."""
    ids, versions = np.array(keys, np.int64).reshape(-1, 2).T
    buckets: list[int] = ((ids ^ ids >> 8) & (BUCKETS - 1)).tolist()
    word = np.uint64
    mixed = ids.astype(word) * word(0x9E3779B97F4A7C15) + versions.astype(word) * word(0xC2B2AE3D27D4EB4F)
    mixed += word(0x165667B19E3779F9)
    mixed = (mixed ^ mixed >> word(30)) * word(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> word(27)) * word(0x94D049BB133111EB)
    hashes: list[int] = ((mixed ^ mixed >> word(31)) & word(MASK)).tolist()
    return buckets, hashes


class Digest(MutableSet[Key]):
    """A set of keys, and the sums of its buckets."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.total = 0
        self._buckets: dict[int, set[Key]] = {}
        self._sums: dict[int, int] = {}
        self._size = 0
        for key in keys:
            self.add(key)

    def __contains__(self, key: object) -> bool:
        """Whether the key is in the set."""
        assert isinstance(key, tuple)
        bucket = self._buckets.get((key[0] ^ key[0] >> 8) & (BUCKETS - 1))
        return bucket is not None and key in bucket

    def __iter__(self) -> Iterator[Key]:
        """The keys, bucket by bucket."""
        return (key for bucket in self._buckets.values() for key in bucket)

    def __len__(self) -> int:
        """The number of keys."""
        return self._size

    def add(self, key: Key) -> None:
        """Adds a key, if it is not here."""
        number = bucket_of(key)
        bucket = self._buckets.setdefault(number, set())
        if key not in bucket:
            bucket.add(key)
            self._count(number, hash_of(key), 1)

    def add_all(self, keys: Sequence[Key]) -> None:
        """Adds many keys, none of which is here: faster than one by one."""
        for key, number, hashed in zip(keys, *buckets_and_hashes(keys), strict=True):
            self._buckets.setdefault(number, set()).add(key)
            self._count(number, hashed, 1)

    def discard(self, key: Key) -> None:
        """Removes a key, if it is here."""
        number = bucket_of(key)
        bucket = self._buckets.get(number)
        if bucket is not None and key in bucket:
            bucket.remove(key)
            self._count(number, -hash_of(key), -1)
            if not bucket:
                del self._buckets[number], self._sums[number]

    def _count(self, number: int, hashed: int, more: int) -> None:
        self.total = (self.total + hashed) & MASK
        self._sums[number] = (self._sums.get(number, 0) + hashed) & MASK
        self._size += more

    def bucket(self, number: int) -> AbstractSet[Key]:
        """The keys of one bucket."""
        return self._buckets.get(number, frozenset())

    def sums(self, without: "Digest | None" = None) -> Sums:
        """The sums of the buckets that have any, without the keys of another set that is part of this one."""
        if without is None or not without:
            return tuple(sorted(self._sums.items()))
        left = [(number, (total - without._sums.get(number, 0)) & MASK) for number, total in self._sums.items()]
        return tuple(sorted((number, total) for number, total in left if total))


class Leases:
    """The keys that one neighbour stands by, and when it last said so."""

    def __init__(self) -> None:
        self.keys = Digest()
        self._all = NEVER  # when the neighbour confirmed all of them
        self._confirmed: dict[int, float] = {}  # buckets, and when they were confirmed since

    def confirm(self, now: float) -> None:
        """The neighbour stands by exactly these keys."""
        self._all = now
        self._confirmed.clear()

    def confirm_bucket(self, number: int, now: float) -> None:
        """The neighbour stands by exactly these keys of one bucket."""
        self._confirmed[number] = now

    def compare(self, sums: Sums, now: float) -> tuple[int, ...]:
        """Confirms the buckets that have these sums. Returns the others."""
        theirs, own = dict(sums), dict(self.keys.sums())
        differing = []
        for number in theirs.keys() | own.keys():
            if theirs.get(number) == own.get(number):
                self.confirm_bucket(number, now)
            else:
                differing.append(number)
        return tuple(sorted(differing))

    def unconfirmed(self, old: float) -> list[int]:
        """The buckets that were last confirmed before the time ``old``, or never."""
        if self._all >= old:
            return []
        return [number for number, _ in self.keys.sums() if not self.is_confirmed(number, old)]

    def is_confirmed(self, bucket: int, old: float) -> bool:
        """Whether a bucket was confirmed at the time ``old`` or later."""
        return max(self._all, self._confirmed.get(bucket, NEVER)) >= old
