"""Files of coding agents before and after `hepm init`, and its lines for Python."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hepm
from hepm import Memory
from hepm.cli.coding_agents import CODING_AGENTS
from tests.agents.serving import serving
from tests.faults.command import Answer, one_sentence, quick
from tests.runs import stored_run

SETTINGS = """\
{
\t"model": "opus",
\t"hooks": {
\t\t"Stop": [
\t\t\t{
\t\t\t\t"matcher": "x",
\t\t\t\t"hooks": [
\t\t\t\t\t{
\t\t\t\t\t\t"type": "command",
\t\t\t\t\t\t"command": "echo ü"
\t\t\t\t\t}
\t\t\t\t]
\t\t\t}
\t\t]
\t},
\t"env": {}
}"""
CONFIG = """\
# mine
model = "gpt-5"   # the model

[model_providers.azure] # keep
name = "Azure"
base_url = "http://azure.example/v1"
env_key = "AZURE_KEY"

[projects."/w"]
trust_level = "trusted"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "OPENCODE_CONFIG_DIR", "HEPM_STORE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def init(*arguments: str) -> Answer:
    answer = quick("init", *arguments)
    assert answer.code == 0, answer.err
    return answer


FILES: dict[tuple[str, ...], tuple[str, str]] = {
    ("claude-code",): (".claude/settings.json", SETTINGS),
    ("claude-code", "--mcp"): (".mcp.json", '{"mcpServers": {\n "a": 1}}'),
    ("codex", "--mcp"): ("~/.codex/config.toml", CONFIG),
    ("codex",): ("~/.codex/config.toml", '[projects."/w"]\ntrust_level = "trusted"\n'),
    ("cursor",): (
        ".cursor/mcp.json",
        '{\r\n  "mcpServers": {\r\n    "a": {\r\n      "command": "é"\r\n    }\r\n  }\r\n}\r\n',
    ),
    ("gemini-cli", "--mcp"): (".gemini/settings.json", SETTINGS),
    ("qwen-code", "--mcp", "--scope", "user"): ("~/.qwen/settings.json", SETTINGS),
    ("copilot",): (
        ".github/hooks/hepm.json",
        '{"version": 1, "hooks": {"Stop": [{"type": "command", "bash": "echo /hooks/copilot-2"}]}}',
    ),
    ("copilot", "--mcp", "--scope", "user"): ("~/.copilot/mcp-config.json", '{"mcpServers": {"a": {}}}'),
    ("opencode", "--mcp"): (
        "opencode.json",
        '{"agent": {"hepm": {"hooks": [1]}}, "mcp": {"a": {"env": {"hepm": "1"}}}}',
    ),
}


@pytest.mark.parametrize(("arguments", "name", "text"), [(k, *v) for k, v in FILES.items()])
def test_what_is_written_is_written_once_and_removed_again_and_all_else_stays(
    home: Path, arguments: tuple[str, ...], name: str, text: str
) -> None:
    file = home / name[2:] if name.startswith("~") else Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    file.chmod(0o600)
    init(*arguments, "--write")
    once = file.read_bytes()
    assert b"http://127.0.0.1:8765/" in once
    init(*arguments, "--write")
    assert file.read_bytes() == once
    init(*arguments, "--write", "--server", "http://127.0.0.1:9000", "--namespace", "désk")
    assert b"http://127.0.0.1:9000/d%C3%A9sk/" in file.read_bytes()
    assert b"8765" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    init(*arguments, "--remove")
    after = file.read_bytes().decode()
    if "\n\t" in text or "\r" in text or name.endswith("toml"):  # indented as json.dumps does, or TOML
        assert after == text
    else:
        assert json.loads(after) == json.loads(text)
    assert "no lines of hepm" in init(*arguments, "--remove").err


def test_a_file_with_nothing_else_is_made_and_deleted(home: Path) -> None:
    init("claude-code", "--write", "--mcp")
    init("codex", "--write")
    assert (home / ".codex/config.toml").exists()
    assert json.loads(Path(".mcp.json").read_text("utf-8"))["mcpServers"]["hepm"]["type"] == "http"
    init("claude-code", "--remove")
    init("codex", "--remove")
    for client in ("copilot", "cline", "opencode"):
        init(client, "--write")
        init(client, "--remove")
    assert [one for folder in (home, Path()) for one in folder.rglob("*") if one.is_file()] == []


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"a": 1,}'),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {}}}'),
        ("cursor", ".cursor/mcp.json", "{\n// mine\n}"),
        ("opencode", ".opencode/plugins/hepm.js", "export const Mine = 1"),
        ("cline", ".clinerules/hooks/UserPromptSubmit", "#!/bin/sh\necho mine\n"),
        ("codex", "codex/config.toml", "model = "),
        ("codex", "codex/config.toml", 'model_provider = "azure"\n'),
        ("codex", "codex/config.toml", 'model_providers = { a = { name = "x" } }\n'),
        ("codex", "codex/config.toml", '[model_providers.hepm]\nname = "x"\n'),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_in_a_sentence_and_left_as_it_is(
    client: str, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", "codex")
    file = Path(name)
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    answer = quick("init", client, "--write")
    one_sentence(answer)
    assert f"{name} is left as it is" in answer.err
    assert ("it has comments" in answer.err) == ("mine" in text and name.endswith("json"))
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_files_of_hepms_own_are_replaced_and_removed_and_those_of_others_beside_them_stay(home: Path) -> None:
    for client, names in {"opencode": ["hepm.js"], "cline": list(CODING_AGENTS["cline"].events)}.items():
        folder = {"opencode": home / ".config/opencode/plugins", "cline": Path(".clinerules/hooks")}[client]
        arguments = (client, *(("--scope", "user") if client == "opencode" else ()))
        init(*arguments, "--write")
        assert "has these lines already" in init(*arguments, "--write").err
        init(*arguments, "--write", "--server", "http://127.0.0.1:9000")
        written = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
        assert set(written) == set(names)
        assert all("127.0.0.1:9000" in text and "8765" not in text for text in written.values())
        if client == "cline":
            assert all(os.access(file, os.X_OK) for file in folder.iterdir())
        (folder / "mine").write_text("mine", "utf-8")
        init(*arguments, "--remove")
        assert [file.name for file in folder.iterdir()] == ["mine"]


def test_no_address_is_more_than_an_address_in_the_shell_that_runs_a_hook() -> None:
    init("cline", "--write", "--server", "http://x;touch$IFS-y")
    script = Path(".clinerules/hooks/PreToolUse")
    subprocess.run([script.absolute()], input=b"{}", check=True)
    assert not Path("-y").exists()


def test_codex_gets_a_provider_of_the_responses_api(home: Path) -> None:
    file = home / ".codex/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG, "utf-8")
    init("codex", "--write", "--mcp", "--token-env", "HEPM_TOKEN")
    config = tomllib.loads(file.read_text("utf-8"))
    assert config["model_provider"] == "hepm"
    assert config["model_providers"]["hepm"] == {
        "name": "OpenAI with memory",
        "base_url": "http://127.0.0.1:8765/v1",
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
        "env_http_headers": {"X-Hepm-Token": "HEPM_TOKEN"},
    }
    assert config["mcp_servers"]["hepm"] == {"url": "http://127.0.0.1:8765/mcp", "bearer_token_env_var": "HEPM_TOKEN"}
    assert config["model_providers"]["azure"]["env_key"] == "AZURE_KEY"


def test_the_hooks_of_claude_code_record_a_run_through_a_server_with_a_token(tmp_path: Path) -> None:
    from hepm.agents.guard import Access

    with Memory.open(tmp_path / "m.hepm") as memory, serving(memory, tokens={"a-long-token": Access()}) as (_, url):
        init("claude-code", "--write", "--server", url, "-n", "desk", "--token-env", "HEPM_TOKEN")
        hooks = json.loads(Path(".claude/settings.json").read_text("utf-8"))["hooks"]

        def fire(kind: str, **more: Any) -> None:
            [[hook]] = [group["hooks"] for group in hooks[kind]]
            assert hook["allowedEnvVars"] == ["HEPM_TOKEN"]
            headers = {name: value.replace("${HEPM_TOKEN}", "a-long-token") for name, value in hook["headers"].items()}
            event = {"session_id": "s", "hook_event_name": kind, "cwd": "/w", "permission_mode": "default", **more}
            answer = httpx2.post(hook["url"], json=event, headers=headers)
            assert answer.status_code == 200, answer.text

        fire("UserPromptSubmit", prompt="list the files")
        call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t", "tool_response": "a"}
        fire("PostToolBatch", tool_calls=[call])
        fire("Stop", stop_hook_active=False, last_assistant_message="one file")
        fire("SessionEnd", reason="other")
        outcome = {"session": "s", "success": True}
        httpx2.post(f"{url}/desk/outcome", json=outcome, headers={"X-Hepm-Token": "a-long-token"}).raise_for_status()
        stored = stored_run(memory, "s", namespace="desk")
    found = [(turn.text, [call.name for call in turn.calls]) for turn in stored.turns]
    assert found == [("list the files", []), ("", ["Bash ls"]), ("one file", [])]


def test_no_token_is_written_and_wrong_options_are_refused() -> None:
    assert "a-long-token" not in init("claude-code", "--token-env", "HEPM_TOKEN").out
    for arguments in (
        ("claude-code", "--token-env", "a-long-token"),
        ("claude-code", "--write", "--remove"),
        ("claude-code", "--server", "localhost:8765"),
        ("claude-code", "--namespace", "mcp"),
        ("claude-code", "--namespace", "a/b"),
        ("codex", "--scope", "project"),
        ("claude-code", "--write", "--scope", "user", "--mcp"),
        ("mcp", "--write"),
        ("cline", "--mcp", "--token-env", "HEPM_TOKEN"),
        ("emacs",),
    ):
        answer = quick("init", *arguments)
        one_sentence(answer)
        assert answer.code == 2, arguments
    assert not list(Path().iterdir())


def test_the_lines_for_mcp_start_the_command_from_any_folder_and_environment(tmp_path: Path) -> None:
    lines = json.loads(init("mcp", "-n", "desk", "--store", str(tmp_path / "m.hepm")).out)["mcpServers"]["hepm"]
    assert lines["args"] == ["mcp", "--store", str(tmp_path / "m.hepm"), "--namespace", "desk"]
    answer = subprocess.run([lines["command"], "--version"], env={}, cwd="/", capture_output=True, check=True)
    assert b"hepm" in answer.stdout


def test_a_missing_client_is_answered_with_the_clients_in_a_readable_line() -> None:
    answer = quick("init")
    assert answer.code == 2
    assert "\\n" not in answer.err
    assert "\\t" not in answer.err
    assert "Choose from: claude-code, gemini-cli, qwen-code, opencode, copilot, cline, cursor, codex, mcp" in answer.err


def test_a_missing_value_names_the_command_whose_help_says_more() -> None:
    assert "Try `hepm init --help`." in quick("init", "codex", "--scope").err


# What stands beside the package

ROOT = Path(__file__).parent.parent.parent
PLUGIN = ROOT / "clients/claude-code"


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_the_plugin_has_the_hooks_and_the_server_that_hepm_init_writes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert quick("init", "claude-code", "--write", "--mcp").code == 0
    assert (PLUGIN / "hooks/hooks.json").read_text("utf-8") == Path(".claude/settings.json").read_text("utf-8")
    assert (PLUGIN / ".mcp.json").read_text("utf-8") == Path(".mcp.json").read_text("utf-8")


def test_the_marketplace_and_the_registry_name_this_package_in_its_version() -> None:
    marketplace, plugin = read(ROOT / ".claude-plugin/marketplace.json"), read(PLUGIN / ".claude-plugin/plugin.json")
    [listed] = marketplace["plugins"]
    assert (ROOT / listed["source"]).samefile(PLUGIN)
    assert (listed["name"], listed["description"]) == (plugin["name"], plugin["description"])
    entry = read(ROOT / "server.json")
    [package] = entry["packages"]
    assert {plugin["version"], entry["version"], package["version"]} == {hepm.__version__}
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text("utf-8")  # the owner's mark on PyPI
    words = [argument["value"] for argument in package["packageArguments"]]
    help = quick(*words, "--help")
    assert help.code == 0
    assert all(one["name"] in help.out for one in package["environmentVariables"])
