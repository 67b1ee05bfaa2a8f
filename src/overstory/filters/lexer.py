"""Cuts SQL text into tokens, and reads the tokens that are literals.

One regular expression does it in a single call. A token is just its text: what kind it is shows in its first
character. Where it stands is worked out only when there is something to complain about, because filters are
parsed by the million and nearly all are right.
"""

import re
from typing import NoReturn

from overstory.errors import FilterLimitError, FilterSyntaxError
from overstory.filters.limits import Limits

BLANKS = " \t\f\r\n"
SPACE = re.escape(BLANKS)
# Beyond ASCII this takes all there is; ``is_bare_name`` looks closer.
NAME = re.compile(r"[a-zA-Z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*(?:\.[\w$\x80-\U0010ffff]+)*")
TOKEN = re.compile(
    rf"""[{SPACE}]*(
      {NAME.pattern}                               # a name or a keyword
    | '(?:[^']|'')*+'                              # a string
    | 0[xX][0-9a-fA-F_]+[lL]?                      # numbers
    | 0[bB][01_]+[lL]?
    | (?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?[lLfFdD]?
    | <>|<=|>=|!=|[=<>+\-*/%(),]
    | "(?:[^"]|"")*+"                              # a name in double quotes
    | [^{SPACE}]                                   # anything else is an error later
    )""",
    re.VERBOSE,
)
NUMBER_START = "0123456789."
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[lL]?")
FLOAT = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)[fFdD]?")
MISPLACED_UNDERSCORE = re.compile(r"(?<![0-9a-fA-F_])_|_(?![0-9a-fA-F_])")
INT64 = range(-(2**63), 2**63)
MOST_DIGITS = 400  # of a number; none that fits has more unless it is padded
END = ""  # stands after the last token
# What other languages write, by its first character, and what to write here
HABITS = {
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT",
    "[": "brackets are of the dialect padres",
    "‘": "a string stands in straight single quotes",
    "“": "a string stands in straight single quotes",
}


def starts_name(token: str) -> bool:
    """Whether a token is meant as a name or a keyword."""
    first = token[:1]
    return first.isidentifier() or first == "$"


def is_bare_name(name: str) -> bool:
    """Whether a name can stand without quotes: an identifier, but with $ like a letter and dots inside."""
    if not starts_name(name) or NAME.fullmatch(name) is None:
        return False
    return name.isascii() or all(f"_{part}".replace("$", "_").isidentifier() for part in name.split("."))


def _upper_if_ascii(token: str) -> str:
    return token.upper() if token.isascii() else token


class Tokens:
    """The tokens of one filter and the place that has been read to."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.tokens: list[str] = TOKEN.findall(text.rstrip(BLANKS))
        self.tokens.append(END)
        # In upper case to be recognised as keywords; beyond ASCII that would find some that are none.
        self.words = [*map(str.upper, self.tokens)] if text.isascii() else [*map(_upper_if_ascii, self.tokens)]
        self.index = 0
        self.depth = 0
        if len(self.tokens) - 1 > limits.tokens:
            self.over_limit(f"the filter has more than {limits.tokens} tokens", limits.tokens)

    def expect(self, token: str, otherwise: str = "") -> None:
        if self.words[self.index] != token:
            self.wrong(otherwise or f"expected {token}")
        self.index += 1

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > self.limits.depth:
            self.over_limit(f"the filter is nested more than {self.limits.depth} levels deep")

    def string(self, role: str) -> str:
        token = self.tokens[self.index]
        if token[:1] != "'":
            self.wrong(f"expected {role}, a string in single quotes")
        if len(token) == 1:
            self.wrong("this string is never closed")
        self.index += 1
        return token[1:-1].replace("''", "'")

    def number(self, sign: str = "") -> int | float:
        token = self.tokens[self.index]
        digits = token.replace(".", "", 1)
        if digits.isdigit() and len(digits) < 18 and (token[0] != "0" or "." in token):
            # plain decimal, as nearly all are
            value: int | float = float(sign + token) if "." in token else int(sign + token)
        elif token == ".":
            self.wrong("a dot alone is no number")
        elif len(token) > MOST_DIGITS:
            self.wrong("the number has too many digits")
        elif MISPLACED_UNDERSCORE.search(token):
            self.wrong("in a number, _ stands between digits only")
        elif match := INTEGER.fullmatch(token.replace("_", "")):
            value = self._integer(sign, match[1])
        else:
            value = self._float(sign, token.replace("_", ""))
        self.index += 1
        return value

    def _integer(self, sign: str, digits: str) -> int:
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbB"
        try:
            value = int(f"0o{digits[1:]}" if octal else digits, 0)
        except ValueError:
            self.wrong("this number is malformed", advice="one that starts with 0 is octal" if octal else "")
        if digits[0] == "0" and 2**63 <= value < 2**64:
            value -= 2**64  # all 64 bits may be written, as in Java
        value = -value if sign == "-" else value
        if value not in INT64:
            self.wrong("the integer does not fit 64 bits", advice="write it with a decimal point")
        return value

    def _float(self, sign: str, token: str) -> float:
        match = FLOAT.fullmatch(token)
        if match is None:
            self.wrong("this number is malformed")
        value = float(sign + match[1])
        if value in (float("inf"), float("-inf")):
            self.wrong("the number is too large for a float")
        if value == 0 and match[1].lower().split("e")[0].strip("0."):
            self.wrong("the number is too small for a float")
        return value

    def wrong(self, problem: str, index: int | None = None, advice: str = "") -> NoReturn:
        """Complains about the token at ``index``, or else the current one."""
        index = self.index if index is None else index
        if self.tokens[index] == END:
            problem = f"{problem}, but the filter ends" if index else "the filter is empty"
        raise FilterSyntaxError(problem, self.text, self.position(index), advice or self._habit(index))

    def _habit(self, index: int) -> str:
        """What to write instead of what stands there out of habit."""
        if not self.tokens[0]:
            return "TRUE matches every event"
        if self.tokens[index] == "=" and self.tokens[index - 1] == "=":
            return "equality is one ="
        return HABITS.get(self.tokens[index][:1], "")

    def over_limit(self, problem: str, index: int | None = None) -> NoReturn:
        raise FilterLimitError(problem, self.text, self.position(self.index if index is None else index))

    def position(self, index: int) -> int:
        if self.tokens[index] == END:
            return len(self.text)
        return next(match.start(1) for i, match in enumerate(TOKEN.finditer(self.text)) if i == index)
