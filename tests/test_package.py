"""The package as it would be published: built from the checkout, installed without it, used outside it."""

from __future__ import annotations

import ast
import gzip
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import httpx2
import pytest
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.cli.chats import chats, write
from tests.conftest import ROOT
from tests.loopback import Loopback, loopback  # noqa: F401

pytestmark = pytest.mark.xdist_group("package")  # one process builds and installs

SCRIPTS = Path(sysconfig.get_path("scripts"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
UNDECLARED = {
    "_typeshed",  # for types alone
    "pydantic_core", "mcp_types",  # parts of pydantic and of mcp
    "verl", "agents", "claude_agent_sdk", "langchain", "langchain_core", "langgraph", "litellm", "pydantic_ai",
}  # fmt: skip
"""Imports that no extra declares: a framework's adapter is imported by its users, who have it."""
NOWHERE = "127.0.0.1:9"
AS_STARTED = dict(os.environ)  # with the certificates of the machine: packages come from elsewhere
PROTOBUF = "application/x-protobuf"


def uv(*arguments: str | Path, cwd: Path) -> str:
    return ran("uv", *arguments, cwd=cwd)


def ran(program: str, *arguments: str | Path, cwd: Path, **variables: str) -> str:
    """What a program of our environment prints, which must succeed. It may fetch packages."""
    path = os.pathsep.join((str(SCRIPTS), AS_STARTED["PATH"]))
    environment = AS_STARTED | {"PATH": path} | variables
    command = [SCRIPTS / program, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made from it."""
    folder = tmp_path_factory.mktemp("built")
    uv("build", "--quiet", "--out-dir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installed:
    """An environment with hepm and nothing of the checkout, and a folder to run commands in."""

    home: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        ours = ("HEPM_", "PYTHON", "VIRTUAL_ENV", "OPENAI_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {"OPENAI_API_KEY": "k", "HF_ENDPOINT": f"http://{NOWHERE}", "HF_HUB_DOWNLOAD_TIMEOUT": "1"}

    @property
    def hepm(self) -> Path:
        return self.home / ".venv" / ("Scripts" if sys.platform == "win32" else "bin") / "hepm"

    def said(self, *arguments: str, **variables: str) -> str:
        """What a command prints, on both streams."""
        done = subprocess.run(
            [self.hepm, *arguments],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


Install = Callable[[str], Installed]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one environment for all extras: what several of them bring is compiled once."""
    folder = tmp_path_factory.mktemp("environment")
    uv("venv", "--quiet", "--python", sys.executable, cwd=folder)
    return folder


@pytest.fixture
def install(wheel: Path, environment: Path, tmp_path: Path) -> Install:
    """Install the wheel with an extra, "" for none, and nothing beside it; in a folder with a log of 24 runs."""

    def installed(extra: str) -> Installed:
        what = f"hepm[{extra}] @ {wheel.as_uri()}" if extra else f"hepm @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--exact", what, cwd=environment)
        write(tmp_path / "runs.jsonl", chats())
        return Installed(environment, tmp_path)

    return installed


def files_of(folder: str) -> set[str]:
    found = (ROOT / folder).rglob("*")
    paths = {file.relative_to(ROOT) for file in found if file.is_file() and file.suffix != ".pyc"}
    return {path.as_posix() for path in paths}


def test_every_file_of_hepm_is_in_the_sdist_and_in_the_wheel_made_from_it(built: Path, wheel: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert (files_of("hepm") | files_of("tests") | files_of("docs")) - packed == set()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert names - {name for name in names if ".dist-info/" in name} == files_of("hepm")


def test_uvx_runs_the_demo_of_the_built_wheel_and_pipx_installs_its_command(wheel: Path, tmp_path: Path) -> None:
    said = ran("uvx", "--from", wheel, "hepm", "demo", cwd=tmp_path, UV_TOOL_DIR=str(tmp_path / "tools"))
    check_demo(said)
    assert (tmp_path / "hepm-demo.html").stat().st_size > 10_000
    homes = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    ran("pipx", "install", wheel, cwd=tmp_path, **homes)
    version = subprocess.check_output([tmp_path / "bin" / "hepm", "--version"], cwd=tmp_path, text=True)
    assert version.split() == ["hepm", PROJECT["version"]]


def check_demo(said: str) -> None:
    """All that is shown is true of the desk: its agent solves more cases with hints."""
    remembered = re.search(r"Remembered 300 runs .*: (\d+) succeeded, (\d+) failed", said)
    assert sum(map(int, remembered.groups())) == 300
    assert re.search(r"about \d+ of the \d+ lost runs went wrong at \d+ places", said)
    assert "After find_case, when the user says" in said
    solved = re.search(r"on (\d+) new cases: it solves (\d+) without memory, (\d+) with hints", said)
    assert int(solved[2]) < int(solved[3]) <= int(solved[1])


def test_the_readme_of_the_package_links_to_the_repository_and_to_pictures_that_others_can_show(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"hepm-{PROJECT['version']}.dist-info/METADATA").decode()
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", text)
    pictures = [link for mark, link in links if mark]
    files = [link for mark, link in links if not mark and link.endswith(".md")]
    assert len(pictures) > 2
    assert len(files) > 20
    assert all(
        re.match(r"https://raw\.githubusercontent\.com/hepm/hepm/main/docs/images/\w", link) for link in pictures
    )
    assert all(link.startswith("https://") for _, link in links)
    places = {link.removeprefix("https://github.com/hepm/hepm/blob/main/") for link in files}
    assert {name for name in places if not (ROOT / name).is_file()} == set()


def test_a_base_install_runs_what_the_readme_shows(install: Install) -> None:
    base = install("")
    assert "24 runs stored" in base.said("ingest", "runs.jsonl")
    assert "get_order" in base.said("suggest", "--after", "find_user")
    assert "graph.html written: " in base.said("view")
    assert "report written to report.html" in base.said("report", "--html", "report.html")
    assert (base.folder / "graph.html").stat().st_size > 10_000
    assert "pip install 'hepm[cypher]'" in base.said("cypher", "first_tools")


def cypher(installed: Installed, _: Loopback) -> None:
    installed.said("ingest", "runs.jsonl")
    assert "find_user" in installed.said("cypher", "first_tools")


def openai(installed: Installed, model: Loopback) -> None:
    chosen = "ingest", "runs.jsonl", "--store", "other.hepm", "--embedder", "openai/m"
    assert "24 runs stored" in installed.said(*chosen, OPENAI_BASE_URL=model.url)


def llm(installed: Installed, model: Loopback) -> None:
    installed.said("ingest", "runs.jsonl")
    distill = "lesson", "distill", "--model", "small", "--budget", "1 calls"
    assert "hepm[llm]" not in installed.said(*distill, OPENAI_BASE_URL=model.url)
    assert [request.path for request in model.requests] == ["/v1/chat/completions"]


def zstd(installed: Installed, _: Loopback) -> None:
    packed = zstandard.ZstdCompressor().compress((installed.folder / "runs.jsonl").read_bytes())
    (installed.folder / "packed.jsonl.zst").write_bytes(packed)
    assert "24 runs stored" in installed.said("ingest", "packed.jsonl.zst")


def questions(installed: Installed, _: Loopback) -> None:
    search = "find_environment('questions').corpus().answer('Which town has a lighthouse?')"
    lines = f"from hepm.lab.environments import find_environment; print({search})"
    done = subprocess.run([installed.hepm.with_name("python"), "-c", lines], capture_output=True, text=True, check=True)
    assert "[3]" in done.stdout


def neo4j(installed: Installed, _: Loopback) -> None:
    assert f"no answer from neo4j://{NOWHERE}" in installed.said("stats", "--store", f"neo4j://{NOWHERE}")


def neo4j_local(installed: Installed, model: Loopback) -> None:
    neo4j(installed, model)
    assert "is not running" in installed.said("neo4j", "status", "--folder", "server")


def serve(installed: Installed, _: Loopback) -> None:
    with served(installed) as url:
        answer = httpx2.post(f"{url}/otlp/v1/traces", content=protobuf("s-1"), headers={"content-type": PROTOBUF})
        assert (answer.status_code, answer.content) == (200, b"")
        assert statuses_of_cut_off_bodies(url) == {400}
        assert httpx2.post(f"{url}/outcome", json={"session": "s-1", "success": True}).status_code == 200
        assert httpx2.get(url).status_code == 200  # the page
    assert '"name":"find_user"' in installed.said("export")


def embed(installed: Installed, _: Loopback) -> None:
    chosen = "ingest", "runs.jsonl", "--store", "other.hepm", "--embedder", "all-MiniLM-L6-v2"
    assert "Give the folder of a saved model" in installed.said(*chosen)


def gnn(installed: Installed, _: Loopback) -> None:
    installed.said("ingest", "runs.jsonl")
    assert "A hetero ranker of 6 tools" in installed.said("rank", "train")


def rl(installed: Installed, _: Loopback) -> None:
    code = "import trl; from trl import GRPOTrainer; import hepm.lab.rl.trl, hepm.lab.rl.sft; print(trl.__version__)"
    command = [installed.hepm.with_name("python"), "-c", code]
    environment, folder = installed.environment, installed.folder
    assert subprocess.check_output(command, env=environment, cwd=folder, text=True).startswith("1.16.")


@contextmanager
def served(installed: Installed) -> Iterator[str]:
    """The address of `hepm serve`, which must end without a traceback."""
    command = [installed.hepm, "serve", "--port", "0"]
    pipe = {"stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=installed.folder, env=installed.environment, **pipe) as process:
        try:
            yield process.stderr.readline().split()[-1]
        finally:
            process.terminate()
            log = process.stderr.read()
    assert "Traceback" not in log, log


def statuses_of_cut_off_bodies(url: str) -> set[int]:
    """The answers to compressed traces that break off anywhere."""
    bodies = {PROTOBUF: protobuf("s-2"), "application/json": b'{"resourceSpans": []}'}
    found: set[int] = set()
    for kind, body in bodies.items():
        for encoding, packed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
            headers = {"content-type": kind, "content-encoding": encoding}
            for length in range(0, len(packed), 10):
                answer = httpx2.post(f"{url}/otlp/v1/traces", content=packed[:length], headers=headers)
                found.add(answer.status_code)
    return found


def protobuf(session: str) -> bytes:
    """A request of an exporter with one call of a tool."""
    about = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_user",
        "gen_ai.conversation.id": session,
    }
    attributes = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in about.items()]
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="execute_tool find_user", attributes=attributes)
    scope = ScopeSpans(spans=[span])
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[scope])]).SerializeToString()


USES = {
    "openai": openai, "llm": llm, "serve": serve, "zstd": zstd, "cypher": cypher,
    "neo4j": neo4j, "neo4j-fast": neo4j, "neo4j-local": neo4j_local,
    "embed": embed, "gnn": gnn, "rl": rl,
    "questions": questions,
}  # fmt: skip
SHARE = ("serve",)  # each is an environment of its own, of some seconds


@pytest.mark.parametrize(
    "extra", [pytest.param(name, marks=() if name in SHARE else pytest.mark.exhaustive) for name in USES]
)
def test_each_extra_alone_does_what_it_promises(
    install: Install,
    loopback: Loopback,  # noqa: F811
    extra: str,
) -> None:
    USES[extra](install(extra), loopback)


def test_every_extra_is_tried() -> None:
    assert sorted(USES) == sorted(PROJECT["optional-dependencies"])


def test_hepm_imports_no_package_that_neither_it_nor_an_extra_declares() -> None:
    declared = PROJECT["dependencies"] + [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in declared}
    provided = {module for module, by in packages_distributions().items() if names & {name.lower() for name in by}}
    assert imported() - provided - sys.stdlib_module_names - {"hepm"} <= UNDECLARED


def imported() -> set[str]:
    """The first part of every module that hepm imports anywhere."""
    found: set[str] = set()
    for file in (ROOT / "hepm").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found
