"""Build the site of the docs: `python docs/make_site.py [VERSION]` writes build/site/VERSION.

The pages are those that GitHub shows. Here, links to other files of the checkout become links to the repository, the
navigation and `llms.txt` are made from the tables of docs/README.md, and the links of all made pages are followed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/hepm/hepm"
ADDRESS = "https://hepm.github.io/hepm"
UNRELEASED = "dev"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")
ROW = re.compile(r"^\| \[(?P<title>[^]]+)\]\((?P<path>[^)]+\.md)\) \| (?P<about>.+) \|$", re.MULTILINE)


class IndexEntry(NamedTuple):
    """A page in the index."""

    title: str
    path: str
    about: str


def main(version: str = UNRELEASED, *, build: Path = ROOT / "build") -> None:
    """Build one version below `build`, beside those that are there, and exit with 1 where a link leads nowhere."""
    if not re.fullmatch(rf"{UNRELEASED}|\d+(\.\d+)*", version):
        sys.exit(f"{version!r} is no version: give numbers such as 0.2, or {UNRELEASED}.")
    site = build / "site" / version
    stage(build / "pages")
    (build / "site.toml").write_text(config(version), "utf-8")
    shutil.rmtree(site, ignore_errors=True)
    zensical = Path(sysconfig.get_path("scripts"), "zensical")
    command = [zensical, "build", "--strict", "--clean", "--config-file", build / "site.toml"]
    subprocess.run(command, check=True, env=os.environ | {"NO_COLOR": "1"})
    shutil.copytree(build / "pages", site, dirs_exist_ok=True, ignore=shutil.ignore_patterns("images"))
    for name, text in texts_for_models(version, build / "pages").items():
        (site / name).write_text(text, "utf-8")
    add_version(build / "site")
    broken = sorted(broken_links(site))
    if broken:
        sys.exit("\n".join([f"{len(broken)} broken links:", *broken]))


def index() -> dict[str, list[IndexEntry]]:
    """The pages of each section of docs/README.md, and under "Tables" those of docs/tables."""
    sections: dict[str, list[IndexEntry]] = {}
    for part in re.split(r"^## ", (DOCS / "README.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        rows = [IndexEntry(**row.groupdict()) for row in ROW.finditer(part)]
        sections[part.partition("\n")[0]] = [row for row in rows if not row.path.startswith("../")]
    sections["Tables"] = [entry_of(page) for page in sorted(DOCS.glob("tables/*.md"))]
    return {name: entries for name, entries in sections.items() if entries}


def entry_of(table: Path) -> IndexEntry:
    """A page of tables, by its heading."""
    heading = table.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return IndexEntry(heading, f"tables/{table.name}", "figures in full")


def stage(pages: Path) -> None:
    """Write the pages as the site needs them, their images, and what language models read."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS / "images", pages / "images")
    shutil.copy(DOCS / "site.css", pages)
    for page in DOCS.rglob("*.md"):
        copy = pages / page.relative_to(DOCS)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(with_links(page.read_text("utf-8"), partial(target, page)), "utf-8")


def with_links(text: str, lead: Callable[[str], str]) -> str:
    """A page's text with what `lead` makes of each link outside of blocks."""
    fences = [*FENCE.findall(text), ""]
    texts = [LINK.sub(lambda link: lead(link[0]), part) for part in FENCE.split(text)]
    return "".join(part + fence for part, fence in zip(texts, fences, strict=True))


def target(page: Path, link: str) -> str:
    """Where a link of a page leads on the site."""
    path, mark, anchor = link.partition("#")
    file = (page.parent / path).resolve()
    is_page = file.suffix == ".md" and file.is_relative_to(DOCS)
    of_the_site = file.is_file() and (is_page or file.is_relative_to(DOCS / "images"))
    if "://" in link or not path or of_the_site:
        return link
    if not file.exists():
        raise FileNotFoundError(f"{page.relative_to(ROOT)} links to {link}")
    kind = "tree" if file.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{file.relative_to(ROOT).as_posix()}{mark}{anchor}"


def config(version: str) -> str:
    """The configuration with the version's address and folder, and the navigation."""
    sections = [f"{{{json.dumps(name)} = [{entries(section)}]}}" for name, section in index().items()]
    nav = ", ".join(['{"hepm" = "README.md"}', *sections, f'{{"Repository" = "{REPOSITORY}"}}'])
    own = f'site_url = "{ADDRESS}/{version}/"\nsite_dir = "site/{version}"\nnav = [{nav}]\n'
    return (DOCS / "site.toml").read_text("utf-8").replace("[project]\n", "[project]\n" + own, 1)


def entries(section: list[IndexEntry]) -> str:
    """A section's pages as items of the navigation."""
    return ", ".join(f"{{{json.dumps(entry.title)} = {json.dumps(entry.path)}}}" for entry in section)


def texts_for_models(version: str, pages: Path) -> dict[str, str]:
    """`llms.txt`, the index with a link to each page's Markdown, and `llms-full.txt`, all pages one after the other."""
    address = f"{ADDRESS}/{version}"
    _, about, *_ = (DOCS / "README.md").read_text("utf-8").split("\n\n")
    links = [f"# hepm\n\n> {about}\n"]
    texts: list[str] = []
    for name, section in index().items():
        lines = [f"- [{entry.title}]({address}/{entry.path}): {plain(entry.about)}" for entry in section]
        title = name.replace("Tables", "Optional")  # what may be left out where there is little room
        links.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
        texts += [full_text(pages / entry.path, f"{address}/{entry.path}") for entry in section if name != "Tables"]
    return {"llms.txt": "\n".join(links), "llms-full.txt": "\n".join(texts)}


def plain(text: str) -> str:
    """A text without the addresses of its links."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)


def full_text(page: Path, address: str) -> str:
    """A page's text with its address, and with the addresses of what it links to."""
    return f"<!-- {address} -->\n\n" + with_links(page.read_text("utf-8"), partial(urljoin, address))


def add_version(site: Path) -> None:
    """List the versions that are there, the newest first, and lead from the site's root to the newest release."""
    found = [folder.name for folder in site.iterdir() if (folder / "index.html").is_file()]
    released = sorted((one for one in found if one != UNRELEASED), key=lambda one: [int(n) for n in one.split(".")])
    versions = [*reversed(released), *([UNRELEASED] if UNRELEASED in found else [])]
    listed = [{"version": one, "title": one, "aliases": []} for one in versions]
    (site / "versions.json").write_text(json.dumps(listed), "utf-8")
    newest = versions[0]
    (site / "index.html").write_text(
        f'<!doctype html><html lang="en"><title>hepm</title><meta http-equiv="refresh" content="0; url={newest}/">'
        f'<a href="{newest}/">hepm {newest}</a></html>\n',
        "utf-8",
    )
    for name in ("llms.txt", "llms-full.txt", "404.html"):  # which servers look for at the root alone
        shutil.copy(site / newest / name, site / name)
    (site / ".nojekyll").touch()  # GitHub would make pages of the Markdown once more


class LinksOfPage(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the names and links of an element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self.links |= {found[name] for name in ("href", "src") if name in found}


def broken_links(site: Path) -> set[str]:
    """The links between made pages, to their anchors, images, scripts and styles that lead nowhere."""
    site = site.resolve()
    pages = {file: LinksOfPage(file.read_text("utf-8")) for file in site.rglob("*.html")}
    root = f"{urlsplit(ADDRESS).path}/{site.name}/"  # the page for unknown addresses links from there
    broken: set[str] = set()
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            found = file
            if path.startswith(root):
                found = site / path.removeprefix(root)
            elif path:
                found = (file.parent / path).resolve()
            if found.is_dir():
                found /= "index.html"
            anchors = pages[found].anchors if found in pages else set[str]()
            if not found.is_file() or unquote(parts.fragment) not in anchors | {""}:
                broken.add(f"{file.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    main(*sys.argv[1:])
