"""The real Claude Code with a scripted model behind it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from hepm import Memory, Trajectory
from tests.agents.adapters.frameworks import ROOT, python_of_frameworks
from tests.agents.serving import serving
from tests.faults.command import HEPM
from tests.loopback import Loopback, Reply, Request, Rules, Script, answer_well, completion
from tests.runs import stored_run

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("frameworks"), pytest.mark.timeout(900)]

READ = ("Read", {"file_path": "missing.txt"})
FIRST = [READ, ("Bash", {"command": "echo hello"})]
BETTER, OTHER = [("Bash", {"command": "date"})], [READ]
NAMES = [[("Read", True), ("Bash echo", False)], [("Read", True)], [("Read", True)], [("Bash date", False)]]
ADVICE = "the same call failed 3 times in this run"


def play_claude(request: Request) -> Reply:
    """A call that fails, made again until memory says so; then another one, and an answer."""
    if request.path.endswith("/count_tokens"):
        return answer_well(request)
    said = json.dumps(request.body["messages"])
    calls = {0: FIRST, 2: OTHER, 3: OTHER, 4: BETTER if ADVICE in said else OTHER}.get(said.count('"tool_result"'), [])
    return completion(None, tool_calls=calls) if calls and request.body.get("tools") else completion("done")


class NoRules(Rules):
    """For a client that knows more of its endpoint than these tests do."""

    def check(self, request: Request) -> None:
        pass


@contextlib.contextmanager
def played_by(script: Script) -> Iterator[Loopback]:
    """An endpoint with a script."""
    model = Loopback()
    model.script = script
    if script is play_claude:
        model.rules = NoRules()
    yield model
    model.stop()


@pytest.fixture
def model() -> Iterator[Loopback]:
    with played_by(play_claude) as model:
        yield model


@pytest.fixture
def environment(model: Loopback, tmp_path: Path) -> dict[str, str]:
    return environment_of(model, tmp_path)


def environment_of(model: Loopback, folder: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": model.url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # as the tests may run as root
    }


def check(run: Trajectory, model: Loopback) -> None:
    assert [[(call.name, call.error) for call in turn.calls] for turn in run.turns if turn.calls] == NAMES
    assert (run.turns[0].text, run.turns[-1].text) == ("Say hello.", "done")
    assert run.outcome.success is True
    assert ADVICE not in repr(run)


@pytest.mark.parametrize("how", ["init", "plugin"])
def test_claude_code_with_the_hooks_of_hepm_follows_advice_and_its_session_is_recorded(
    model: Loopback, environment: dict[str, str], tmp_path: Path, how: str
) -> None:
    where = "import claude_agent_sdk as sdk, pathlib; print(pathlib.Path(sdk.__file__).parent / '_bundled' / 'claude')"
    python = python_of_frameworks()
    claude = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    project = tmp_path / "project"
    project.mkdir()
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory, serving(memory) as (_, url):
        command = [claude, "-p", "Say hello.", "--output-format", "json"]
        if how == "init":
            subprocess.run([HEPM, "init", "claude-code", "--write", "--server", url], cwd=project, check=True)
        else:
            plugin = shutil.copytree(ROOT / "clients/claude-code", tmp_path / "plugin")
            subprocess.run([claude, "plugin", "validate", plugin], env={**os.environ, **environment}, check=True)
            for file in (plugin / "hooks/hooks.json", plugin / ".mcp.json"):
                file.write_text(file.read_text("utf-8").replace("http://127.0.0.1:8765", url), "utf-8")
            command += ["--plugin-dir", str(plugin)]
        given = {"cwd": project, "env": {**os.environ, **environment}, "stdin": subprocess.DEVNULL, "timeout": 120}
        done = subprocess.run(command, **given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        session = json.loads(done.stdout)["session_id"]
        assert httpx2.post(f"{url}/outcome", json={"session": session, "success": True}).status_code == 200
        run = stored_run(memory, session)
    check(run, model)
