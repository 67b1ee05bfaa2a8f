"""What can be refused before Spark starts: files that are not there, columns that are not, values that no attribute can
have. It looks at headers and at first lines alone."""

from pathlib import Path
from typing import Any

from overstory.errors import DataError, UsageError
from overstory.model.naming import near_words
from overstory.pipeline.log_files import JSON, LogFiles, check_events, columns_seen, files_of, first_objects, some_of
from overstory.pipeline.log_options import Reading, Roles, is_kept


def look_ahead(path: Path, roles: Roles, reading: Reading) -> LogFiles:
    """Raises what can be seen without Spark: files that are not there, columns that are not, values that no attribute
    can have in the first lines."""
    files = files_of(path)
    names = columns_seen(files)
    if names is not None and not reading.flatten:
        check_names(files.path, names, roles, reading)
    check_events(files)
    if files.kind == JSON:
        for line, event in first_objects(files):
            _check_object(f"{files.files[0]} line {line}", event, "", reading, roles)
    return files


def check_names(path: Path, names: list[str], roles: Roles, reading: Reading) -> None:
    if not names:
        raise DataError(f"{path} has no columns with values; give a log whose events have attributes")
    for name in names:
        if name.startswith("$"):
            raise UsageError(f"column '{name}' of {path} begins with $, as only our own do; rename it")
    by_case: dict[str, str] = {}
    for name in names:
        if by_case.get(name.lower()) == name:
            raise UsageError(f"{path} has two columns '{name}', one of them a field of an object; rename one")
        other = by_case.setdefault(name.lower(), name)
        if other != name:
            raise UsageError(f"columns '{other}' and '{name}' of {path} differ in nothing but case; rename one")
    for wanted in (*roles, *(reading.columns or ()), *reading.types):
        inner = wanted is not None and any(name.startswith(f"{wanted}.") for name in names)
        if wanted is not None and wanted not in names and not (inner and wanted in (reading.columns or ())):
            near = near_words(wanted, names)
            raise UsageError(f"{path} has no column '{wanted}' with values{near or f'; it has {some_of(names)}'}")


def _check_object(where: str, event: dict[str, Any], before: str, reading: Reading, roles: Roles) -> None:
    for key, value in event.items():
        name = before + key
        if before == "" and not is_kept(name, reading, roles):
            continue
        if isinstance(value, dict):
            if not reading.flatten:
                inner = next(iter(value), "field")
                raise UsageError(
                    f"{where}: '{name}' is an object, and an attribute is not; give --flatten to have columns such as "
                    f"{name}.{inner}, or --columns to leave it out"
                )
            _check_object(where, value, f"{name}.", reading, roles)
        elif isinstance(value, list) and not all(isinstance(item, str | None) for item in value):
            raise UsageError(
                f"{where}: '{name}' is a list, and not one of strings, which alone an attribute can be; "
                "make strings of its values, or leave it out with --columns"
            )
