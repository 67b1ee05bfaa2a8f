"""What every front end asks of a text before it reads it."""

from overstory.errors import FilterLimitError, FilterSyntaxError, UsageError
from overstory.filters.limits import Limits


def checked_text(text: str | bytes, limits: Limits) -> str:
    """The text as Unicode. Raises an error if it is no text, not valid, or too long."""
    if not isinstance(text, (str, bytes)):
        raise UsageError(f"a text is wanted, str or bytes, not {type(text).__name__}; write it as a string")
    if isinstance(text, bytes):
        text = _decoded(text[: limits.length * 4 + 1])  # a character has at most four bytes
    if len(text) > limits.length:
        raise FilterLimitError(f"the text is longer than {limits.length} characters", text, limits.length)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = "a lone surrogate is no character"
            raise FilterSyntaxError(problem, text, error.start, "give the text as UTF-8") from None
    return text


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start].decode()
        shown = before + text[error.start :].decode(errors="replace")
        raise FilterSyntaxError(f"byte 0x{text[error.start]:02x} is not UTF-8", shown, len(before)) from None
