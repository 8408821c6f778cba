"""Why there is no suggestion: each policy says the same of the same place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from tests.runs import trajectory

EVERY_POLICY = pytest.mark.parametrize("policy", ["hybrid", "adaptive", "episodic", "procedural"])
ALL_BUT_HYBRID = pytest.mark.parametrize("policy", ["adaptive", "episodic", "procedural"])  # which looks elsewhere too


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path) as opened:
        opened.ingest(
            [
                trajectory("good", "find_user", "get_order", "refund"),
                trajectory("bad", "find_user", "guess", "apologise", success=False),
                trajectory("open", "find_user", "wait", "wait_longer", success=None),
            ]
        )
        yield opened


def why(memory: Memory, policy: str, after: str | list[str], **asked: Any) -> str:
    found = memory.suggest(after, state="please help", policy=policy, **asked)
    assert list(found) == []
    return found.abstained or ""


@EVERY_POLICY
def test_a_tool_that_no_run_called_is_said_with_the_nearest_name(memory: Memory, policy: str) -> None:
    said = "no run in the namespace 'default' called {} (nearest by name: get_order)"
    for name in ("get_ordr", "GetOrder", "mcp__shop__get_order"):
        assert why(memory, policy, name) == said.format(name)


@EVERY_POLICY
def test_where_no_name_is_near_some_that_were_called_are_said(memory: Memory, policy: str) -> None:
    assert why(memory, policy, "xyzzy") == (
        "no run in the namespace 'default' called xyzzy "
        "(tools that were called: apologise, find_user, get_order, guess, refund, …)"
    )


@ALL_BUT_HYBRID
def test_a_tool_that_every_run_ended_with_was_called_all_the_same(memory: Memory, policy: str) -> None:
    assert why(memory, policy, "refund") == "every run that called refund ended there"
    both = why(memory, policy, ["refund", "xyzzy", "apologise"])
    assert both.startswith("no run in the namespace 'default' called xyzzy (tools")
    assert both.endswith("; every run that called refund or apologise ended there")


@ALL_BUT_HYBRID
def test_a_tool_after_which_no_run_succeeded_is_no_unknown_one(memory: Memory, policy: str) -> None:
    for tool in ("guess", "wait"):
        assert why(memory, policy, tool) == f"no tool came after {tool} in any successful run"


@EVERY_POLICY
def test_tools_at_hand_that_no_run_called_are_said_to_be_so(memory: Memory, policy: str) -> None:
    none = "no run in the namespace 'default' called an available tool"
    assert why(memory, policy, "get_order", tools=["shop.refund"]) == f"{none} (nearest by name: refund)"
    assert why(memory, policy, "get_order", tools=[]) == f"{none}, since there are none"


@EVERY_POLICY
def test_a_namespace_of_nothing_is_said_to_be_so(memory: Memory, policy: str) -> None:
    assert why(memory, policy, "get_order", namespace="desk") == (
        "nothing is known after get_order: no run in the namespace 'desk' called any tool"
    )
