"""The fuzzer's target holds for conversations as they should be, and for some that are spoiled."""

import random

import pytest

from .target import one_input, seeds


@pytest.mark.parametrize("number", range(len(seeds())))
def test_conversations_as_they_should_be(number: int) -> None:
    one_input(seeds()[number])


@pytest.mark.parametrize("start", range(4))
def test_spoiled_conversations(start: int) -> None:
    chance = random.Random(start)
    for _ in range(25):
        data = bytearray(chance.choice(seeds()))
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            data[place] = chance.choice((0, 1, 2, 127, 128, 255, data[place] ^ 1 << chance.randrange(8)))
        if chance.random() < 0.5:
            cut = chance.randrange(len(data))
            data[cut : cut + chance.randrange(9)] = chance.choice(seeds())[1 : chance.randrange(2, 60)]
        one_input(bytes(data))
