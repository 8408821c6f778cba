"""What the documentation says is run, resolved and imported."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from hepm.cli.commands import COMMANDS, find_command
from hepm.cli.config import VARIABLES
from hepm.ingest.reading import READERS, read_runs
from hepm.types import Trajectory
from tests.faults.command import quick
from tests.papers import rows, uncovered

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks/README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "tables"),
]
FOLDERS = ("start", "use", "understand", "reference")
QUICKSTART = DOCS / "start/quickstart.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
DOTTED = re.compile(r"`(hepm(?:\.(?!toml`)\w+)+)`")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its language, text, and the line its text begins at."""

    language: str
    text: str
    line: int
    after: str


def blocks_of(page: Path) -> list[Block]:
    """Fenced blocks in order; `after` is the text between the block before and this one."""
    text = page.read_text("utf-8")
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        found.append(Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1, text[end : match.start()]))
        end = match.end()
    return found


def name_of(page: Path) -> str:
    """The page's path as a test's id."""
    return str(page.relative_to(ROOT))


def matches(shown: str, printed: str) -> bool:
    """Whether a block shows what was printed; `...` stands for anything, and runs of white space are equal."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    return re.fullmatch(r"\s*" + r".*".join(parts) + r"\s*", " ".join(printed.split())) is not None


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    """Run a block; a traceback names the page and its line. What it printed."""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """Each `$ hepm` line of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith("hepm "):
            yield command, shown


@pytest.mark.usefixtures("servers_end_with_us")
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page)) for page in PAGES if page.name != "CONTRIBUTING.md"]
)
def test_every_python_block_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEPM_")]:
        monkeypatch.delenv(name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks_of(page):
        if block.language == "python":
            printed = run_python(page, block, namespace)
        elif block.language == "console" and page == QUICKSTART:
            for command, shown in commands_of(block):
                done = quick(*shlex.split(command)[1:], env={"COLUMNS": "200"})
                assert done.code == 0, f"{name_of(page)}: {command}\n{done.err}"
                assert matches(shown, done.out), f"{name_of(page)}: {command}\n{done.out}"
        elif block.language == "text" and printed is not None and not block.after.strip():
            assert matches(block.text, printed), f"{name_of(page)}, line {block.line}:\n{printed}"
        if block.language != "python":
            printed = None


def example_records() -> list[tuple[str, str, str]]:
    """Each JSON block of docs/reference/formats.md with the format that its section is about, and its language.

    Blocks of JSON lines are of formats without an outcome.
    """
    found: list[tuple[str, str, str]] = []
    section = ""
    for block in blocks_of(DOCS / "reference/formats.md"):
        section = ([section, *re.findall(r"^## (.*)$", block.after, re.MULTILINE)])[-1]
        if block.language in ("json", "jsonl"):
            found.append(("hepm" if section.startswith("hepm's own") else section, block.language, block.text))
    return found


@pytest.mark.parametrize(
    ("format", "language", "record"), example_records(), ids=lambda value: value if len(value) < 20 else ""
)
def test_the_record_shown_for_a_format_is_read_as_that_format_with_calls_and_a_good_outcome(
    format: str, language: str, record: str, tmp_path: Path
):
    file = tmp_path / f"runs.{language}"
    file.write_text(record, "utf-8")
    [(name, run)] = read_runs([file])
    assert isinstance(run, Trajectory), run
    assert name == format
    assert list(run.calls())
    assert run.outcome.success or language == "jsonl"


def test_every_format_has_its_section_its_row_and_its_name_among_the_choices_of_ingest() -> None:
    for format in sorted({reader.name for reader in READERS}):
        formats = (DOCS / "reference/formats.md").read_text("utf-8")
        choices = re.search(r"^- `--format`.*$", (DOCS / "reference/cli.md").read_text("utf-8"), re.MULTILINE)
        assert re.search(rf"^## {format}$", formats, re.MULTILINE) or format == "hepm"
        assert f"| [{format}](#" in formats
        assert f"`{format}`" in choices[0]


@cache
def commands() -> dict[str, click.Command]:
    """Every command of the program by the words that call it."""
    found: dict[str, Any] = {}

    def walk(words: tuple[str, ...], command: Any) -> None:
        children = getattr(command, "commands", None)
        if children is None:
            found[" ".join(words)] = command
            return
        for name, child in children.items():
            walk((*words, name), child)

    for name in COMMANDS:
        walk(("hepm", name), find_command(name))
    return found


def test_every_command_has_a_help_text_with_an_example() -> None:
    for name, command in commands().items():
        text = command.help or ""
        assert text.strip(), name
        assert f"Example: `{name}" in text


def test_every_command_has_a_section_made_from_the_code_which_names_no_option_of_others() -> None:
    for name, command in commands().items():
        section = section_of(name)
        assert "\n\n<!-- made -->\n" in section
        of_others = re.compile(r"`hepm (?!" + re.escape(name.removeprefix("hepm ")) + r"\b)[^`\n]*`")
        named = {option for option in OPTION.findall(of_others.sub("", section)) if option.startswith("--")}
        expected = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        assert named <= expected | {"--help", "--debug"}, name


def test_a_command_says_in_its_own_help_what_the_list_of_commands_says() -> None:
    for name in COMMANDS:
        assert (find_command(name).help or "").split()[0] == COMMANDS[name][1].split()[0]


CALL = re.compile(r"(?:^|[`$(&]) ?hepm ([^`\n#&;|]*)", re.MULTILINE)
"""A call of the program in a block or between backticks, up to a comment or the next command."""


def test_every_call_in_the_docs_has_options_that_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for call in CALL.findall(text):
            command = command_called(call)
            if command is not None:
                options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
                named = {option for option in OPTION.findall(call) if option.startswith("--")}
                assert named <= options | {"--help", "--debug"}, f"{name_of(page)}: hepm {call}"


def command_called(call: str) -> click.Command | None:
    """The command that `suggest -k 2` or `lesson list` calls; None if it is none, as in "hepm reads"."""
    known = commands()
    words = ["hepm", *call.split()]
    for length in (3, 2):
        command = known.get(" ".join(words[:length]))
        if command is not None:
            return command
    return None


def section_of(name: str) -> str:
    """The part of docs/reference/cli.md under the heading `name`, up to the next heading of its level."""
    text = (DOCS / "reference/cli.md").read_text("utf-8")
    parts = re.split(r"^## +", text, flags=re.MULTILINE)
    found = [part for part in parts if part.partition("\n")[0].strip().strip("`") == name]
    assert len(found) == 1, f"docs/reference/cli.md needs one section '## {name}'"
    return found[0]


def test_every_relative_link_leads_somewhere() -> None:
    for page in PAGES:
        text = FENCE.sub("", page.read_text("utf-8"))
        for target in LINK.findall(text):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{name_of(page)} links to {target}"
            assert file.is_relative_to(ROOT), f"{name_of(page)} links outside of the project: {target}"
            if anchor:
                assert anchor in anchors_of(file), f"{name_of(page)} links to {target}"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_of_the_docs_is_in_their_index():
    index = (DOCS / "README.md").read_text("utf-8")
    pages = {str(page.relative_to(DOCS)) for folder in FOLDERS for page in (DOCS / folder).glob("*.md")}
    assert pages <= set(LINK.findall(index))


def test_every_dotted_name_in_the_docs_exists() -> None:
    for page in [page for page in PAGES if page.is_relative_to(DOCS)]:
        for name in set(DOTTED.findall(page.read_text("utf-8"))):
            assert is_there(name), f"{name_of(page)} names {name}"


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module, or something inside one. What its source shows need not be imported."""
    parts = dotted.split(".")
    if any(stands_in_source(parts[:cut], parts[cut:]) for cut in range(len(parts), 0, -1)):
        return True
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


def stands_in_source(module: list[str], names: list[str]) -> bool:
    """Whether there is such a module, and it defines a class or function of the first name, which has the others."""
    place = ROOT.joinpath(*module)
    if not names:
        return place.is_dir() or place.with_suffix(".py").is_file()
    if not place.with_suffix(".py").is_file():
        return False
    body = ast.parse(place.with_suffix(".py").read_text("utf-8")).body
    for name in names:
        defined = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
        if not defined:
            return False
        body = defined[0].body
    return True


def test_the_imports_drawn_in_the_architecture_are_those_of_the_code():
    drawing = blocks_of(DOCS / "understand/architecture.md")[0]
    assert drawing.language == "mermaid"
    rows = re.findall(r"hepm\.(\w+) --> (.+)", drawing.text)
    drawn = {(room, other) for room, others in rows for other in re.findall(r"hepm\.(\w+)", others)}
    assert drawn == imports_between_rooms()
    # The lab stands on the core: of its rooms the command line alone opens it, in the commands that need it.
    assert {room for room, other in drawn if other == "lab"} == {"cli"}
    for file in (ROOT / "hepm/cli").glob("*.py"):
        at_once = [node.module for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
        assert not [module for module in at_once if (module or "").startswith("hepm.lab")], file


def imports_between_rooms() -> set[tuple[str, str]]:
    """Which folder or module of hepm imports which other, but for what stands below all."""
    package = ROOT / "hepm"
    found: set[tuple[str, str]] = set()
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        for other in re.findall(r"^ *from hepm\.(\w+)", file.read_text("utf-8"), re.MULTILINE):
            found.add((room, other))
    below = {"types", "errors", "text", "atomic_file", "settings", "__init__", "__main__"}
    return {(one, other) for one, other in found if one != other and not below & {one, other}}


def test_every_row_on_the_papers_has_a_test_or_says_that_it_is_left_out() -> None:
    assert len(rows()) > 100
    assert not [row.element for row in uncovered()]
    unnamed = [row.element for row in rows() if not row.names]
    page = (DOCS / "understand/papers.md").read_text("utf-8")
    assert [
        element for element in unnamed if not re.search(rf"- \*\*{re.escape(element)}\*\*.*\*\*Left out", page)
    ] == []


def test_what_a_page_says_of_the_code_is_made_from_it() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["made"]
    pages = ("reference/settings.md", "reference/cli.md", "reference/questions.md", "use/bench.md")
    for page in (*pages, "understand/papers.md"):
        before = (DOCS / page).read_text("utf-8")
        assert made(before) == before, f"{page}: run `make reference`"


def test_every_variable_that_the_code_reads_is_in_the_table_and_they_are_few() -> None:
    named: set[str] = set()
    for file in (ROOT / "hepm").rglob("*.py"):
        named |= set(re.findall(r"(?<!_)HEPM_[A-Z0-9_]+", file.read_text("utf-8")))
    assert named == set(VARIABLES)
    assert len(VARIABLES) <= 10
