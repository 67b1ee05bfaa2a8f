"""Two sets of keys are compared by sums: laws, against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from overstory.routing.digests import BUCKETS, MASK, Digest, Leases, bucket_of, buckets_and_hashes, hash_of

KEYS = st.tuples(st.one_of(st.integers(-5, 600), st.integers(1 << 40, (1 << 40) + 50)), st.integers(0, 3))


@given(changes=st.lists(st.tuples(KEYS, st.booleans()), max_size=80))
def test_a_digest_is_a_set_with_the_sums_of_what_is_in_it(changes: list[tuple[tuple[int, int], bool]]) -> None:
    digest, plain = Digest(), set[tuple[int, int]]()
    for key, comes in changes:
        if comes:
            digest.add(key)
            plain.add(key)
        else:
            digest.discard(key)
            plain.discard(key)
    assert (set(digest), len(digest)) == (plain, len(plain))
    assert all((key in digest) == (key in plain) for key, _ in changes)
    assert digest.total == sum(map(hash_of, plain)) & MASK
    by_bucket = {number: {key for key in plain if bucket_of(key) == number} for number in range(BUCKETS)}
    assert {number: set(digest.bucket(number)) for number in range(BUCKETS)} == by_bucket
    assert dict(digest.sums()) == {n: sum(map(hash_of, keys)) & MASK for n, keys in by_bucket.items() if keys}


@given(all_=st.sets(KEYS), part=st.sets(KEYS))
def test_the_sums_of_a_difference_are_those_of_what_is_left(
    all_: set[tuple[int, int]], part: set[tuple[int, int]]
) -> None:
    assert Digest(all_ | part).sums(without=Digest(part)) == Digest((all_ | part) - part).sums()


@given(here=st.sets(KEYS), there=st.sets(KEYS))
def test_just_the_buckets_that_differ_are_asked_for(here: set[tuple[int, int]], there: set[tuple[int, int]]) -> None:
    leases = Leases()
    for key in here:
        leases.keys.add(key)
    differing = leases.compare(Digest(there).sums(), now=5.0)
    assert set(differing) == {bucket_of(key) for key in here ^ there}
    confirmed = {bucket_of(key) for key in here} - set(differing)
    assert {bucket for bucket in map(bucket_of, here) if leases.is_confirmed(bucket, 5.0)} == confirmed
    assert set(leases.unconfirmed(5.0)) == {bucket_of(key) for key in here} - confirmed


def test_versions_and_ids_are_told_apart() -> None:
    """No two keys that lie close together have the same hash, and buckets are of about equal size."""
    keys = [
        ((broker + 1 << 40) + count, version) for broker in range(10) for count in range(2000) for version in (1, 2)
    ]
    assert len({hash_of(key) for key in keys}) == len(keys)
    digest = Digest(keys)
    assert {len(digest.bucket(number)) for number in range(BUCKETS)} <= set(range(100, 220))


@given(here=st.sets(KEYS), more=st.sets(KEYS))
def test_many_keys_are_added_as_they_are_one_by_one(here: set[tuple[int, int]], more: set[tuple[int, int]]) -> None:
    together, fresh = Digest(here), sorted(more - here)
    together.add_all(fresh)
    assert buckets_and_hashes(fresh) == ([bucket_of(key) for key in fresh], [hash_of(key) for key in fresh])
    assert (together, together.total, together.sums()) == (
        Digest(here | more),
        Digest(here | more).total,
        Digest(here | more).sums(),
    )
