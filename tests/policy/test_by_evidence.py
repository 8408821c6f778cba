"""What the policy in trial says: what worked in situations like this one, and what failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hepm import Memory, from_messages
from hepm.policy.by_evidence import ByEvidence


def messages(number: int, status: str, *further: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": f"I do not want order {number} any more"}]
    for place, tool in enumerate(("get_order", *further)):
        call = {"id": f"c{place}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = json.dumps({"status": status}) if tool == "get_order" else "done"
        said.append({"role": "tool", "tool_call_id": f"c{place}", "content": result})
    return said


def orders(memory: Memory) -> None:
    kinds = (("delivered", "give_back"), ("pending", "cancel"))
    for number in range(48):
        status, right = kinds[number % 2]
        tool = right if number % 4 < 2 else kinds[1 - number % 2][1]
        run = from_messages(messages(number, status, tool), id=f"r{number}", task=f"t{number}", success=tool == right)
        memory.ingest(run)


def test_the_fact_that_decides_is_followed_and_the_other_way_is_warned_of_with_what_worked(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        orders(memory)
        for status, right, wrong in (("delivered", "give_back", "cancel"), ("pending", "cancel", "give_back")):
            found = memory.suggest(messages=messages(99, status), policy=ByEvidence())
            assert [one.tool for one in found] == [right]
            assert [(way.tool, way.failures, way.instead) for way in found.warnings] == [(wrong, 12, right)]


def test_a_run_that_is_forgotten_says_nothing_any_more(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        orders(memory)
        assert memory.suggest(messages=messages(99, "pending"), policy=ByEvidence())
        for number in range(48):
            memory.forget(trajectory=f"r{number}")
        assert not memory.suggest(messages=messages(99, "pending"), policy=ByEvidence())
