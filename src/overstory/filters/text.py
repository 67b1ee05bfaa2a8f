"""What every front end asks of a text before it reads it."""

from overstory.errors import FilterLimitError, FilterSyntaxError
from overstory.filters.limits import Limits


def checked_text(text: str | bytes, limits: Limits) -> str:
    """Valid Unicode, not too long."""
    if len(text) > limits.length:
        shown = text if isinstance(text, str) else text[: limits.length + 1].decode(errors="replace")
        raise FilterLimitError(f"the filter is longer than {limits.length} characters", shown, limits.length)
    if isinstance(text, bytes):
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            problem = f"byte 0x{text[error.start]:02x} is not UTF-8"
            before = text[: error.start].decode()
            rest = text[error.start :].decode(errors="replace")
            raise FilterSyntaxError(problem, before + rest, len(before)) from None
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = "a lone surrogate is no character"
        raise FilterSyntaxError(problem, text, error.start, "give the filter as UTF-8") from None
    return text
