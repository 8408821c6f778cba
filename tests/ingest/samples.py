"""Small runs in each format's layout, made up for these tests."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hepm.ingest import ReadOptions, Rejection, read_runs
from hepm.types import Trajectory

Record = dict[str, Any]

CHAT: Record = {
    "id": "chat-1",
    "environment": "shop",
    "task": "refund",
    "model": "small-model",
    "reward": 1.0,
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Where is my order?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "find_user", "arguments": '{"name": "Ann"}'}},
                {"id": "b", "type": "function", "function": {"name": "find_order", "arguments": {"number": 7}}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "order 7"},
        {"role": "tool", "tool_call_id": "a", "content": "user Ann"},
        {"role": "assistant", "content": "It is on its way."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "find_user", "description": "Finds a user.", "parameters": {"type": "object"}},
        }
    ],
}

TAU: Record = {
    "task_id": 3,
    "reward": 1.0,
    "info": {"task": {"user_id": "ann_lee_1", "actions": [], "instruction": "You are Ann.", "outputs": []}},
    "traj": [
        {"role": "system", "content": "# Retail agent policy"},
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_order_details", "arguments": '{"id": "#W1"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "get_order_details", "content": "delivered"},
        {"role": "assistant", "content": "It was delivered."},
    ],
    "trial": 0,
}

SIMULATION: Record = {
    "id": "sim-1",
    "task_id": "mobile_data",
    "trial": 2,
    "end_time": "2026-02-03T04:05:06",
    "termination_reason": "user_stop",
    "reward_info": {"reward": 1.0},
    "messages": [
        {"role": "user", "content": "No data."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "name": "get_line", "arguments": {"phone": "5"}, "requestor": "assistant"}],
        },
        {"role": "tool", "id": "1", "content": "Error: no such line", "requestor": "assistant", "error": True},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "2", "name": "toggle_data", "arguments": {}, "requestor": "user"}],
        },
        {"role": "tool", "id": "2", "content": "on", "requestor": "user", "error": False},
        {"role": "assistant", "content": "Done.", "tool_calls": None},
    ],
}

TAU2: Record = {
    "timestamp": "2026-02-03T04:00:00",
    "info": {
        "environment_info": {"domain_name": "telecom"},
        "agent_info": {"implementation": "llm_agent", "llm": "some-llm"},
    },
    "tasks": [],
    "simulations": [SIMULATION],
}

TAU2_SFT: Record = {
    "splits": {
        "train": [
            {
                "messages": TAU["traj"],
                "tools": [{"type": "function", "function": {"name": "book_reservation", "parameters": {}}}],
                "task_id": "15",
                "simulation_id": "sft-1",
                "reward": 1.0,
            }
        ],
        "test": [],
    }
}

AGENTDOJO: Record = {
    "suite_name": "slack",
    "pipeline_name": "a-model",
    "user_task_id": "user_task_4",
    "injection_task_id": "injection_task_1",
    "attack_type": "important_instructions",
    "injections": {},
    "messages": [
        {"role": "system", "content": "You are an AI."},
        {"role": "user", "content": "Read the page."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": "get_webpage", "args": {"url": "a.example"}, "id": None, "placeholder_args": None},
                {"function": "get_channels", "args": {}, "id": None, "placeholder_args": None},
            ],
        },
        {"role": "tool", "content": "A page.", "tool_call_id": None, "tool_call": {}, "error": None},
        {"role": "tool", "content": "", "tool_call_id": None, "tool_call": {}, "error": "ValueError: no channels"},
        {"role": "assistant", "content": "Read.", "tool_calls": []},
    ],
    "error": None,
    "utility": True,
    "security": False,
    "duration": 3.5,
}

ATIF: Record = {
    "schema_version": "ATIF-v1.6",
    "session_id": "session-9",
    "agent": {"name": "an-agent", "version": "1", "model_name": "a-model"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Fix it.", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "Looking.",
            "timestamp": "2026-01-01T00:00:10Z",
            "tool_calls": [{"tool_call_id": "x", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "x", "content": "a.py"}]},
        },
        {"step_id": 3, "source": "agent", "message": "Looking.", "is_copied_context": True},
        {"step_id": 4, "source": "agent", "message": "Fixed."},
    ],
}

BFCL_QUESTION: Record = {
    "id": "multi_turn_base_5",
    "question": [[{"role": "user", "content": "Sort the report."}], [{"role": "user", "content": "And go home."}]],
    "initial_config": {},
    "path": [],
    "involved_classes": ["GorillaFileSystem"],
    "excluded_function": ["cp"],
}
BFCL_ANSWER: Record = {
    "id": "multi_turn_base_5",
    "ground_truth": [["sort('report.pdf')", "mv(source='report.pdf', destination='done')"], ["cd(folder='..')"]],
}
BFCL_MANUAL: list[Record] = [
    {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {"type": "dict", "properties": {key: {"type": "string"} for key in keys}, "required": keys},
        "response": {"type": "dict"},
    }
    for name, keys in (
        ("sort", ["file_name"]),
        ("mv", ["source", "destination"]),
        ("cd", ["folder"]),
        ("cp", ["source"]),
    )
]

STATE_BENCH: Record = {
    "conversation": [
        {"role": "system", "content": "You help a shop. You are currently helping customer cust_9. Use the tools."},
        {"role": "user", "content": "The lamp from ORD-1 came broken."},
        {
            "role": "assistant",
            "content": "You get $20 back. Shall I go on?",
            "tool_calls": [
                {"name": "get_order", "arguments": {"order_id": "ORD-1"}, "result": {"status": "delivered"}},
                {"name": "process_return", "arguments": {"item_id": "I-1"}, "result": {"error": "Read the policy."}},
            ],
        },
        {"role": "user", "content": "[TASK_DONE]"},
        {"role": "assistant", "content": "Bye.", "tool_calls": None},
    ]
}

ONE_DOCUMENT: dict[str, Any] = {
    "chat": CHAT,
    "tau": [TAU],
    "tau2": TAU2,
    "tau2-sft": TAU2_SFT,
    "agentdojo": AGENTDOJO,
    "state-bench": {**STATE_BENCH, "task_id": "7-broken_lamp"},
    "atif": ATIF,
}
"""One run of each format that fits in one JSON document."""


def changed(record: Record, **values: Any) -> Record:
    """A copy of a record with other values at its top level."""
    return {**copy.deepcopy(record), **values}


def write(path: Path, *values: Any) -> Path:
    """A file with one JSON value, or with several as lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(value) for value in values) + ("\n" if len(values) > 1 else ""), "utf-8")
    return path


def write_bfcl(folder: Path) -> Path:
    """A folder in BFCL's layout; the question file is returned."""
    write(folder / "possible_answer" / "BFCL_v4_multi_turn_base.json", BFCL_ANSWER)
    write(folder / "multi_turn_func_doc" / "gorilla_file_system.json", *BFCL_MANUAL)
    return write(folder / "BFCL_v4_multi_turn_base.json", BFCL_QUESTION)


def read(*sources: Path | str, options: ReadOptions | None = None) -> tuple[list[Trajectory], list[Rejection]]:
    """Everything that is read, the runs and the rejections apart."""
    items = [item for _, item in read_runs(sources, options or ReadOptions())]
    runs = [item for item in items if isinstance(item, Trajectory)]
    return runs, [item for item in items if isinstance(item, Rejection)]


def read_one(source: Path | str, options: ReadOptions | None = None) -> Trajectory:
    """The one run in a source."""
    runs, rejected = read(source, options=options)
    assert (len(runs), rejected) == (1, [])
    return runs[0]


def read_reason(source: Path | str, options: ReadOptions | None = None) -> str:
    """Why the one record in a source is rejected."""
    runs, rejected = read(source, options=options)
    assert (runs, len(rejected)) == ([], 1)
    return rejected[0].reason
