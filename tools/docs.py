"""Builds the documents as a site with search, that needs no network: python tools/docs.py FOLDER

The pages are those of the repository, with the papers' claims and the reference of the Python door beside them. Links
to other files of the repository become plain words, since those are not on the site.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from reference import reference

from overstory.lab.claims import CLAIMS, PAPERS

ROOT = Path(__file__).parents[1]
NAV = {  # the pages in their order, with the files that they are made of; None: made here
    "index.md": ("Overstory", "README.md"),
    "python.md": ("Python", "docs/python.md"),
    "planners.md": ("Your own planner", "docs/planners.md"),
    "scenarios.md": ("Scenarios, plans and scores", "docs/scenarios.md"),
    "filters.md": ("Filters", "docs/filters.md"),
    "matching.md": ("The index", "docs/matching.md"),
    "routing.md": ("Routing", "docs/routing.md"),
    "broker.md": ("The broker", "docs/broker.md"),
    "network.md": ("The network", "docs/network.md"),
    "assignment.md": ("Subscriber assignment", "docs/assignment.md"),
    "topics.md": ("Clusters of topics", "docs/topics.md"),
    "lab.md": ("The lab", "docs/lab.md"),
    "claims.md": ("What the papers claim", None),
    "api.md": ("Reference of the Python door", None),
    "architecture.md": ("How it is built", "ARCHITECTURE.md"),
    "contributing.md": ("Contributing", "CONTRIBUTING.md"),
    "changelog.md": ("Changes", "CHANGELOG.md"),
}
SETTINGS = {
    "site_name": "Overstory",
    "use_directory_urls": False,  # so that pages can be opened as files
    "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 2},
    "markdown_extensions": ["tables", "fenced_code", "toc"],
    "plugins": ["search"],
    "extra_css": ["docs.css"],
    "strict": True,
    "validation": {"links": {"anchors": "warn"}},
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s:]+)\)")


def nav() -> dict[str, tuple[str, str | None]]:
    """The pages above, and those of docs/ that nobody has put there yet, at the end."""
    known = {made_of for _, made_of in NAV.values()}
    others = [path for path in sorted((ROOT / "docs").glob("*.md")) if f"docs/{path.name}" not in known]
    return NAV | {path.name: (path.stem.capitalize(), f"docs/{path.name}") for path in others}


def page_of(path: Path, names: dict[Path, str], folder: Path) -> str:
    """A page of the repository as one of the site. Pictures go with it."""

    def linked(found: re.Match[str]) -> str:
        words, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        file, _, place = target.partition("#")
        name = names.get((path.parent / file).resolve())
        return words if name is None else f"[{words}]({name}{f'#{place}' if place else ''})"

    def drawn(found: re.Match[str]) -> str:
        source = (path.parent / found[2]).resolve()
        shutil.copy(source, folder / source.name)
        return f"![{found[1]}]({source.name})"

    return LINK.sub(linked, PICTURE.sub(drawn, path.read_text("utf-8")))


def claims() -> str:
    """The table of the papers' claims, which the lab judges."""
    parts = [
        "# What the papers claim\n",
        "The lab judges each of them: see [The lab](lab.md). Numbers are the papers' own.\n",
    ]
    judged = {claim.paper for claim in CLAIMS}
    for paper, title in ((paper, title) for paper, title in PAPERS.items() if paper in judged):
        parts += [f"## {title}\n", "| claim | figure | claimed | experiment |", "|---|---|---|---|"]
        for claim in (claim for claim in CLAIMS if claim.paper == paper):
            figure = claim.figure.replace(" ", "&nbsp;")
            cells = (*map(_cell, (claim.statement, figure, claim.spoken())), f"`{claim.experiment}`")
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def assemble(folder: Path) -> None:
    """Writes all pages into a folder."""
    names = {(ROOT / made_of).resolve(): name for name, (_, made_of) in nav().items() if made_of is not None}
    shutil.copy(Path(__file__).with_name("docs.css"), folder)
    made = {"claims.md": claims, "api.md": reference}
    for name, (_, made_of) in nav().items():
        text = made[name]() if made_of is None else page_of(ROOT / made_of, names, folder)
        (folder / name).write_text(text, "utf-8")


def main() -> None:
    out = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="overstory-docs-") as folder:
        pages = Path(folder) / "pages"
        pages.mkdir()
        assemble(pages)
        settings = SETTINGS | {
            "docs_dir": str(pages),
            "site_dir": str(out),
            "nav": [{title: name} for name, (title, _) in nav().items()],
        }
        (Path(folder) / "mkdocs.yml").write_text(json.dumps(settings))  # JSON is YAML, too
        build(load_config(str(Path(folder) / "mkdocs.yml")))
    print(f"{out / 'index.html'}; for the search: python3 -m http.server --directory {out}")


if __name__ == "__main__":
    main()
