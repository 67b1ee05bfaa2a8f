"""The documents as a site: it is built, its links lead somewhere, it asks nothing of a network, and it can be searched.
And every command that a document shows is one that there is."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import sync_playwright

import overstory
from overstory import cli
from overstory.lab.claims import CLAIMS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "tools" / "docs.py"), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    pages = {path.name: path.read_text("utf-8") for path in site.glob("*.html") if path.name != "404.html"}
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    assert len(pages) > 12
    for name, text in pages.items():
        for target in re.findall(r'\bhref="([^"]+)"', text):
            file, _, place = target.partition("#")
            if "://" in target or file.startswith("data:"):
                continue
            assert not file or (site / file.partition("?")[0]).exists(), f"{name}: {target}"
            known = ids.get(file or name)
            assert not place or known is None or place in known, f"{name}: {target}"


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.glob("*.html"):
        text = path.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
        assert loaded
        assert not [each for each in loaded if "//" in each and path.name != "404.html"]
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?(?:https?:)?//", style.read_text("utf-8")), style


def test_the_site_has_the_claims_and_the_reference(site: Path) -> None:
    claims, reference = ((site / f"{name}.html").read_text("utf-8") for name in ("claims", "api"))
    assert claims.count("<tr>") == len(CLAIMS) + len({claim.paper for claim in CLAIMS})
    for name in overstory.__all__:
        assert re.search(rf'<h3 id="{name.lower()}(_\d)?">{name}</h3>', reference), name
    assert "Comparison.to_pandas" in reference


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; run as root: apt-get install chromium")
def test_the_site_can_be_searched(served: str) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{served}/search.html?q=networkx")
        page.wait_for_selector("#mkdocs-search-results article")
        assert "python.html" in page.inner_html("#mkdocs-search-results")
        assert all(url.startswith(served) for url in asked)
        browser.close()


def commands() -> Iterator[tuple[str, str]]:
    """Each command of ours in a block of a page. What stands after two spaces tells what it does."""
    for page in PAGES:
        within = False
        for line in page.read_text("utf-8").splitlines():
            within ^= line.startswith("```")
            found = re.match(r"(?:\$ )?(?:\.venv/bin/)?(overstory [a-z].*)", line)
            if within and found:
                yield page.name, re.split(r"\s{2,}", found[1])[0]


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())), ids=lambda text: text[:60])
def test_commands_of_the_documents_are_understood(page: str, command: str) -> None:
    """Whether files are there is asked later: the command line itself has to be right."""
    words = shlex.split(command, comments=True)[1:]
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match="0"):
            cli.parser().parse_args(words)
    else:
        cli.parser().parse_args(words)
