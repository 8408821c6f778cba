"""Keys and passwords that runs hold are nowhere in the bytes on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.command import quick
from tests.faults.logs import lines

SECRETS = {"github": "ghp_1A2b3C4d5E6f7G8h9I0jK1l2M3n4O5p6Q7r8", "aws": "AKIAQ3EGRTY7UIOP4KLM"}


def hepm_record(secret: str) -> dict[str, Any]:
    """A run that holds it in every text."""
    text = f"here it is: {secret} thank you"
    call = {"name": "look", "arguments": {"q": text, "deep": [{"x": text}]}, "result": text, "error": False}
    return {
        "hepm": 1, "id": "secret", "success": True, "tags": {"note": text},
        "turns": [
            {"role": "system", "text": text}, {"role": "user", "text": text},
            {"role": "assistant", "text": text, "calls": [call]},
            {"role": "assistant", "calls": [{"name": "buy", "arguments": {"api_key": "short1", "password": "tiny22"}}]},
        ],
    }  # fmt: skip


def chat_record(secret: str) -> dict[str, Any]:
    """The same as chat messages."""
    text = f"here it is: {secret} thank you"
    buying = {"id": "2", "type": "function", "function": {"name": "buy", "arguments": "{}"}}
    function = {"name": "look", "arguments": json.dumps({"q": text, "password": "tiny22"})}
    looking = {"id": "1", "type": "function", "function": function}
    return {
        "id": "secret", "reward": 1, "metadata": {"note": text},
        "messages": [
            {"role": "system", "content": text}, {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": [looking]},
            {"role": "tool", "tool_call_id": "1", "content": text},
            {"role": "assistant", "content": None, "tool_calls": [buying]},
        ],
    }  # fmt: skip


def bytes_beside(store: Path) -> Iterator[tuple[str, bytes]]:
    for path in store.parent.glob(store.name + "*"):
        yield path.name, path.read_bytes()


def test_a_secret_cut_in_two_by_the_limit_on_texts_does_not_stay_in_half(tmp_path: Path) -> None:
    for before in range(560, 601, 5):
        secret = SECRETS["github"]
        call = {"name": "look", "result": "x" * before + " " + secret + " and more" * 20}
        turns = [{"role": "assistant", "calls": [call]}, {"role": "assistant", "calls": [{"name": "buy"}]}]
        (tmp_path / "runs.jsonl").write_bytes(
            lines([{"hepm": 1, "id": f"at {before}", "success": True, "turns": turns}])
        )
        quick("ingest", tmp_path / "runs.jsonl", "--store", tmp_path / "store.hepm")
    assert secret[:12].encode() not in (tmp_path / "store.hepm").read_bytes()


def test_a_secret_in_the_description_of_a_tool_does_not_reach_the_disk(tmp_path: Path) -> None:
    text = f"call it with {SECRETS['github']}"
    tool = {"name": "look", "description": text, "parameters": {"type": "object", "description": text}}
    wrapped = {"type": "function", "function": tool}
    runs = [{**hepm_record("nothing"), "tools": [tool]}, {**chat_record("nothing"), "id": "other", "tools": [wrapped]}]
    for number, record in enumerate(runs):
        (tmp_path / f"{number}.jsonl").write_bytes(lines([record]))
    store = tmp_path / "store.hepm"
    answer = quick("ingest", tmp_path / "0.jsonl", tmp_path / "1.jsonl", "--store", store, "--json")
    assert answer.json["stored"] == 2
    assert SECRETS["github"].encode() not in store.read_bytes()


def test_the_tools_file_of_an_ingest_brings_no_secret_in(tmp_path: Path) -> None:
    tool = {
        "name": "look",
        "description": f"call it with {SECRETS['github']}",
        "parameters": {"default": SECRETS["aws"]},
    }
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    (tmp_path / "runs.jsonl").write_bytes(lines([hepm_record("nothing")]))
    store = tmp_path / "store.hepm"
    assert quick("ingest", tmp_path / "runs.jsonl", "--tools", tmp_path / "tools.json", "--store", store).code == 0
    assert SECRETS["github"].encode() not in store.read_bytes()
    assert SECRETS["aws"].encode() not in store.read_bytes()


def test_a_forgotten_run_leaves_no_trace_of_its_texts(tmp_path: Path) -> None:
    record = hepm_record("nothing")
    record["turns"][1]["text"] = "I live at 17 Wisteria Lane"
    (tmp_path / "runs.jsonl").write_bytes(lines([record]))
    store = tmp_path / "store.hepm"
    quick("ingest", tmp_path / "runs.jsonl", "--store", store)
    assert b"Wisteria" in store.read_bytes()
    assert quick("forget", "--trajectory", "secret", "--store", store).code == 0
    assert [name for name, content in bytes_beside(store) if b"Wisteria" in content] == []
