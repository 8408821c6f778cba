"""The plugin for Claude Code and the entry of the MCP Registry, which stand beside the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hepm
from tests.faults.command import quick

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
