"""The site of the docs, built as `make site` builds it."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

SCRIPT = ROOT / "docs/make_site.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_site_is_built_without_a_broken_link_with_every_page_in_its_index(
    script: dict[str, Any], tmp_path: Path
) -> None:
    script["main"]("0.2", build=tmp_path)
    site = tmp_path / "site/0.2"
    index = (site / "llms.txt").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs")
        assert (site / path).is_file(), path
        assert path.name == "README.md" or f"(https://hepm.github.io/hepm/0.2/{path.as_posix()})" in index, path
    report = (site / "use/report/index.html").read_text("utf-8")
    assert 'href="../../understand/measurements/"' in report
    measurements = (site / "understand/measurements/index.html").read_text("utf-8")
    assert 'href="https://github.com/hepm/hepm/blob/main/benchmarks/LOG.md"' in measurements
    full = (tmp_path / "site/llms-full.txt").read_text("utf-8")
    assert "(https://hepm.github.io/hepm/0.2/understand/measurements.md)" in full
    assert "](../" not in full


def test_a_link_to_a_page_an_anchor_or_a_picture_that_is_not_there_is_named(
    script: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/index.html").write_text('<h1 id="one">One</h1>')
    links = "there/", "there/#one", "there/#two", "gone/", "#three", "https://example.com/gone"
    page = "".join(f'<a href="{link}">link</a>' for link in links)
    (tmp_path / "index.html").write_text(page + '<img src="gone.png">')
    broken = {line.partition(": ")[2] for line in script["broken_links"](tmp_path)}
    assert broken == {"there/#two", "gone/", "#three", "gone.png"}


def test_a_link_of_a_page_leads_to_the_site_or_to_the_repository_and_not_out_of_the_checkout(
    script: dict[str, Any],
) -> None:
    page = ROOT / "docs/use/report.md"
    target = script["target"]
    for unchanged in ("serve.md#metrics", "../images/report.png", "#how-good-it-is", "https://example.com"):
        assert target(page, unchanged) == unchanged
    assert target(page, "../../README.md#try-it") == "https://github.com/hepm/hepm/blob/main/README.md#try-it"
    assert target(page, "../tables") == "https://github.com/hepm/hepm/tree/main/docs/tables"
    assert target(page, "../site.toml") == "https://github.com/hepm/hepm/blob/main/docs/site.toml"
    for wrong in ("gone.md", "../../../elsewhere"):
        with pytest.raises((FileNotFoundError, ValueError)):
            target(page, wrong)


def test_the_newest_release_is_where_the_site_begins_and_versions_are_sorted_by_number(
    script: dict[str, Any], tmp_path: Path
) -> None:
    for version in ("0.9", "dev", "0.10"):
        (tmp_path / version).mkdir()
        for name in ("index.html", "404.html", "llms.txt", "llms-full.txt"):
            (tmp_path / version / name).write_text(version)
    script["add_version"](tmp_path)
    versions = [one["version"] for one in json.loads((tmp_path / "versions.json").read_text())]
    assert versions == ["0.10", "0.9", "dev"]
    assert "url=0.10/" in (tmp_path / "index.html").read_text()
    assert [(tmp_path / name).read_text() for name in ("llms.txt", "404.html")] == ["0.10", "0.10"]
    with pytest.raises(SystemExit, match=r"'\.\./x' is no version"):
        script["main"]("../x", build=tmp_path)


def test_the_site_is_of_the_repository_that_the_package_names(script: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Documentation"] == script["ADDRESS"] + "/"
    assert project["urls"]["Source"] == script["REPOSITORY"]


def test_what_stands_in_a_list_is_indented_by_four_as_the_site_needs_and_github_allows() -> None:
    """With less, the site ends the list there: its numbers begin anew, and what is nested is not."""
    shallow = re.compile(r"^ {1,3}(?:[-*] |\d+\. |```)", re.MULTILINE)
    for page in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert not shallow.search(text), page
