"""The reference of the Python door, as a page: every public name with its signature and its docstring, by what it is
for, and the classes that these hand out."""

import inspect
import re
from collections.abc import Iterator

import overstory
from overstory.client.bus import Bus
from overstory.client.sync import SyncBus
from overstory.door.graphs import Graph
from overstory.door.planning import Trees

GROUPS = {  # packages whose names belong together; what they hand out stands below them
    "Scenarios": ("door.kinds", "door.making", "door.scenario"),
    "Plans, scores and comparisons": ("door.planning", "door.scoring", "door.comparing", "door.engine"),
    "Your own planner": ("planners.own",),
    "The client": ("client",),
    "Filters": ("filters", "model.values"),
    "Errors": ("errors",),
}
HANDED_OUT = {"Plans, scores and comparisons": (Graph, Trees), "The client": (Bus, SyncBus)}
MADE_FOR_YOU = ("overstory.door", "overstory.client.bus", "overstory.client.sync")  # whose classes nobody calls
WIDE = 96  # characters, beyond which a signature has a line for each parameter


def reference() -> str:
    """The whole page."""
    parts = [
        "# Reference of the Python door\n",
        "`import overstory as ov`; [Python](python.md) shows how it is used.\n",
    ]
    for title, homes in GROUPS.items():
        parts.append(f"## {title}\n")
        chosen = {f"overstory.{home}" for home in homes}
        for name in sorted(overstory.__all__, key=str.lower):
            if overstory._HOME[name] in chosen:
                parts += _section(f"ov.{name}", name, getattr(overstory, name))
        for kind in HANDED_OUT.get(title, ()):
            parts += _section(kind.__name__, kind.__name__, kind)
    return "\n".join(parts)


def _section(called: str, name: str, found: object) -> Iterator[str]:
    yield f"### {name}\n"
    yield _described(called, found)
    if inspect.isclass(found) and not issubclass(found, Exception):
        for inner, member in vars(found).items():
            if not inner.startswith("_") and _doc(member):
                yield _described(f"{name}.{inner}", member)


def _described(name: str, found: object) -> str:
    return f"```text\n{name}{_signature(found)}\n```\n\n{_doc(found)}\n"


def _doc(found: object) -> str:
    """What it says of itself: a class that says nothing is not described by the one that it comes from."""
    if inspect.isclass(found) and not found.__dict__.get("__doc__"):
        return ""
    member = inspect.ismemberdescriptor(found) or inspect.isdatadescriptor(found)
    if member and not isinstance(found, property):
        return ""
    text = inspect.getdoc(found.fget if isinstance(found, property) else found) or ""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _signature(found: object) -> str:
    """The parameters with short names of types. A class that is only handed out is called by nobody."""
    if inspect.isclass(found) and (found.__module__.startswith(MADE_FOR_YOU) or issubclass(found, Exception)):
        return ""
    try:
        signature = inspect.signature(found.fget if isinstance(found, property) else getattr(found, "__func__", found))
    except (TypeError, ValueError):
        return ""
    given = [each for each in signature.parameters.values() if each.name != "self"]
    line = _short(str(signature.replace(parameters=given)))
    if isinstance(found, property):
        return line.removeprefix("()")
    return line if len(line) <= WIDE else _broken(line)


def _broken(line: str) -> str:
    """A parameter a line; commas within brackets do not part them."""
    end, depth = line.rindex(")"), 0
    parts = [""]
    for letter in line[1:end]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return "(\n" + "".join(f"    {part.strip()},\n" for part in parts) + line[end:]


def _short(text: str) -> str:
    """Types without their modules and quotes, and limits without their values."""
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+([A-Z]\w*)", r"\1", text)
    text = re.sub(r"(?:(?<=: )|(?<=> )|(?<=\[))'([^']+)'", r"\1", text)
    return re.sub(r"\bLimits\([^)]*\)", "Limits()", text.replace("~", ""))
