"""Where scenarios go that Python makes."""

import atexit
import tempfile
from pathlib import Path

from overstory.model.folders import check_can_be_made

Where = str | Path | None


def new_folder(given: Where, name: str) -> Path:
    """The folder to make; one that is removed when Python ends, if none is given."""
    if given is not None:
        check_can_be_made(Path(given))
        return Path(given)
    made = tempfile.TemporaryDirectory(prefix="overstory-")
    atexit.register(made.cleanup)
    return Path(made.name) / name
