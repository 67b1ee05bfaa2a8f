"""A LIKE pattern as an automaton, to be run on short texts and on other patterns.

It needs no preparation worth speaking of, unlike the regular expressions with which ``like`` matches the texts of
events, and each character costs the same, whatever the pattern. So it suits questions that a filter asks once.
"""

from typing import NamedTuple

# Lone surrogates are no characters, so they occur in no text.
ONE = "\ud800"  # stands for _
RUN = "\ud801"  # stands for %


class Automaton(NamedTuple):
    """The states of a pattern. In state i its first i characters are matched; the states that are possible are bits."""

    spelling: str  # the pattern, with ``ONE`` and ``RUN`` for its wildcards
    takes: dict[str, int]  # for a character, the states that it leads on from
    takes_any: int  # the states that any character leads on from
    stays: int  # the states that any text leaves as they are: a % stands there
    last: int  # the state that is the end, as a bit
    letters: frozenset[str]  # the characters that stand for themselves

    def accepts(self, text: str) -> bool:
        """Whether the text matches. If the text is the spelling of a pattern and matches, so do all texts of that."""
        takes, takes_any, stays = self.takes, self.takes_any, self.stays
        states = 1
        for character in text:
            if character == RUN:
                states &= stays
            else:
                states = (states & takes.get(character, takes_any)) << 1 | states & stays
            if not states:
                return False
        return states & self.last != 0


def automaton_of(spelling: str) -> Automaton:
    takes: dict[str, int] = {}
    takes_any = stays = 0
    state = 1
    for character in spelling:
        if character == RUN:
            stays |= state
            continue
        if character == ONE:
            takes_any |= state
        else:
            takes[character] = takes.get(character, 0) | state
        state <<= 1
    letters = frozenset(takes)
    takes = {character: states | takes_any for character, states in takes.items()}
    return Automaton(spelling, takes, takes_any, stays, state, letters)
