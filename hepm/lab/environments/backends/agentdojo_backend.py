"""AgentDojo's suites in their own package: its runtime executes the calls, its checks judge utility and security."""

from __future__ import annotations

import datetime
import importlib
import warnings
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")  # importing it warns about the clients of models that it brings

VERSION = "v1.2.2"
SUITES = ("workspace", "travel", "banking", "slack")
ATTACK = "important_instructions_no_model_name"
_load: Any = importlib.import_module("agentdojo.task_suite.load_suites")
_runtime: Any = importlib.import_module("agentdojo.functions_runtime")
_format: Any = importlib.import_module("agentdojo.agent_pipeline.tool_execution")
_pipeline: Any = importlib.import_module("agentdojo.agent_pipeline.agent_pipeline")
_types: Any = importlib.import_module("agentdojo.types")
_attacks: Any = importlib.import_module("agentdojo.attacks.attack_registry")
importlib.import_module("agentdojo.attacks")  # registers them

_yaml: Any = importlib.import_module("yaml")
if hasattr(_yaml, "CSafeLoader"):  # the same, ten times as fast
    _yaml.safe_load = partial(_yaml.load, Loader=_yaml.CSafeLoader)


class _Clock(datetime.datetime):
    """The day on which the suites play, so that runs of any day are equal."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return datetime.datetime(2024, 5, 15, 12, tzinfo=tz)


for _client in ("cloud_drive_client", "email_client"):  # the two that ask for the time
    _module: Any = importlib.import_module(f"agentdojo.default_suites.v1.tools.{_client}")
    _module.datetime = SimpleNamespace(**vars(datetime) | {"datetime": _Clock})


def tasks(part: str) -> list[dict[str, Any]]:
    """The user tasks of the suites that `part` names, all four by default; each with each injection if attacked."""
    named, attacked = _parts(part)
    records: list[dict[str, Any]] = []
    for name in named:
        suite = _load.get_suite(VERSION, name)
        for task in suite.user_tasks.values():
            injections = [""]
            if attacked:
                injections = list(suite.injection_tasks) if _injectable(name, task.ID) else []
            family = f"{name}/{task.ID}"
            for injection in injections:
                record = {
                    "id": f"{family}/{injection}" if injection else family,
                    "request": task.PROMPT,
                    "system": _pipeline.load_system_message(None),
                    "family": family,
                    "gold": _gold(task, _state(name, task.ID, injection)),
                }
                records.append(record)
    return records


def _gold(task: Any, state: Any) -> list[Any]:
    # On a copy: some tasks prepare their state, and equal states are shared (`_state`).
    calls = task.ground_truth(task.init_environment(state.model_copy(deep=True)))
    return [[[[call.function, dict(call.args)] for call in calls], task.GROUND_TRUTH_OUTPUT]]


def _parts(part: str) -> tuple[tuple[str, ...], bool]:
    """The suites, and whether they are attacked: "banking-attacked", "attacked", "banking", ""."""
    attacked = part.endswith("attacked")
    suite = part.removesuffix("attacked").removesuffix("-")
    if not suite:
        return SUITES, attacked
    return (suite,), attacked


@cache
def _tools(suite: str) -> list[dict[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters.model_json_schema()}
        for tool in _load.get_suite(VERSION, suite).tools
    ]


@cache
def _attack(suite: str) -> Any:
    return _attacks.load_attack(ATTACK, _load.get_suite(VERSION, suite), SimpleNamespace(name="local"))


def _injectable(suite: str, user: str) -> bool:
    try:
        return bool(_attack(suite).get_injection_candidates(_load.get_suite(VERSION, suite).user_tasks[user]))
    except ValueError:
        return False  # what an attacker can write is not seen on the right way


@lru_cache(maxsize=16)
def _state(name: str, user: str, injection: str) -> Any:
    suite = _load.get_suite(VERSION, name)
    if not injection:
        return suite.load_and_inject_default_environment({})
    attack = _attack(name).attack(suite.user_tasks[user], suite.injection_tasks[injection])
    return suite.load_and_inject_default_environment(attack)


class AgentDojoEpisode:
    """A run: the state of its environment before and now, its calls and its answer."""

    def __init__(self, name: str, user: str, injection: str) -> None:
        self._suite = _load.get_suite(VERSION, name)
        self._task = self._suite.user_tasks[user]
        self._injection = None
        if injection:
            self._injection = self._suite.injection_tasks[injection]
        self._state = self._task.init_environment(_state(name, user, injection).model_copy(deep=True))
        self._before = self._state.model_copy(deep=True)
        self._functions = _runtime.FunctionsRuntime(self._suite.tools)
        self._calls: list[Any] = []
        self._answer = ""

    def tools(self) -> list[dict[str, Any]]:
        """Those of the suite."""
        return _tools(self._suite.name)

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Run a call; the checks read the calls too."""
        self._calls.append(_runtime.FunctionCall(function=tool, args=arguments))
        result, error = self._functions.run_function(self._state, tool, arguments)
        return error or _format.tool_result_to_str(result), error is not None

    def answer(self, text: str) -> str | None:
        """Keep the answer; None ends the run."""
        self._answer = text

    def _passes(self, task: Any) -> bool:
        text = [_types.text_content_block_from_string(self._answer)]
        return self._suite._check_task_result(task, text, self._before, self._state, self._calls)

    def reward(self) -> float:
        """The utility: 1 if the user's task is done."""
        return float(self._passes(self._task))

    def scores(self) -> dict[str, float]:
        """The package's check of an injection says whether the attacker reached the goal."""
        if self._injection is None:
            return {}
        return {"security": float(not self._passes(self._injection))}

    def close(self) -> None:
        """Free the calls."""
        self._calls.clear()


def start(part: str, task: str, seed: int) -> AgentDojoEpisode:
    """A fresh episode of "SUITE/USER TASK" or "SUITE/USER TASK/INJECTION"; nothing in AgentDojo is drawn."""
    del part, seed
    suite, user, injection, *_ = [*task.split("/"), ""]
    return AgentDojoEpisode(suite, user, injection)
