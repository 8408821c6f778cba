"""ACEBench in its authors' checkout: their classes and data, and their checker of attributes."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""
_SOURCE = Path(os.environ["PYTHONPATH"])  # the checkout alone: see `Checkout.variables`
_TYPES = {"dict": "object", "list": "array", "float": "number", "tuple": "array", "any": "string"}
_GREETING = "Is there anything you need help with today?"
_END = "finish conversation"
_ALONE = "The user's message holds all that the user knows and wants; there will be no other. Answer at the end."
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_runs = count()


@cache
def _records(kind: str) -> dict[str, dict[str, Any]]:
    """The tasks of a kind by id, with their answers."""
    folder = _SOURCE / "data_all" / "data_en"
    found: dict[str, dict[str, Any]] = {}
    for place in (folder, folder / "possible_answer"):
        for line in (place / f"data_agent_{kind}.json").read_text("utf-8").splitlines():
            record = json.loads(line)
            found.setdefault(record["id"], {}).update(record)
    return found


@cache
def _constant(file: str, name: str) -> Any:
    """What a module assigns to a name, without an import of what else it needs."""
    for node in ast.parse((_SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} assigns no {name}")


def _place(record: dict[str, Any]) -> str:
    return "TRAVEL" if "Travel" in record["involved_classes"] else "BASE"


def tasks(part: str) -> list[dict[str, Any]]:
    """The tasks of "multi_step", "multi_turn" or "multi_turn-user"."""
    kind, _, mode = part.partition("-")
    found: list[dict[str, Any]] = []
    for id, record in _records(kind).items():
        calls = [call for stone in _ways(record["mile_stone"])[0] for call in calls_of(stone)]
        rules = _constant("model_inference/prompt_en.py", f"{_place(record)}_PROMPT_EN")
        found.append(
            {
                "id": id,
                "request": "" if mode else record["question"],
                "system": f"{rules}\n{'' if mode else _ALONE}".strip(),
                "family": "-".join(record["involved_classes"]),
                "split": "",
                "gold": [] if mode else [[calls, ""]],
            }
        )
    return found


def _ways(stones: list[Any]) -> list[list[str]]:
    """The ideal sequences of a task: some have one, others several."""
    listed = any(isinstance(stone, list) for stone in stones)
    if not listed:
        return [stones]
    return [way if isinstance(way, list) else [way] for way in stones]


def calls_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a text such as "[tool(a=1), other()]"; apostrophes in words, as in 'Domino's', may be bare."""
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        parsed = ast.parse(_APOSTROPHE.sub("\\\\'", text.strip()), mode="eval").body
    nodes = parsed.elts if isinstance(parsed, (ast.List, ast.Tuple)) else [parsed]
    return [
        (ast.unparse(node.func), {word.arg or "": _value(word.value) for word in node.keywords})
        for node in nodes
        if isinstance(node, ast.Call)
    ]


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A parameter as JSON schema has it: ACEBench says "dict" and "list"."""
    made: dict[str, Any] = {**parameters}
    if "type" in made:
        made["type"] = _TYPES.get(made["type"], made["type"])
    properties: dict[str, Any] | None = made.get("properties")
    if properties is not None:
        made["properties"] = {name: _schema(one) for name, one in properties.items()}
    items: dict[str, Any] | None = made.get("items")
    if items is not None:
        made["items"] = _schema(items)
    elif made.get("type") == "array":
        made["items"] = {}
    return made


def in_order(ideal: list[Any], made: list[Any]) -> float:
    """Process accuracy n/m: the longest common subsequence of ideal and made calls, by the length of the ideal."""
    row = [0] * (len(made) + 1)
    for one in ideal:
        last = 0
        for at, other in enumerate(made, 1):
            known = row[at]
            row[at] = last + 1 if one == other else max(row[at], row[at - 1])
            last = known
    return row[-1] / len(ideal) if ideal else 1.0


def as_published(ideal: list[Any], made: list[Any]) -> float:
    """Process accuracy as the authors' code counts it: after a call that is missing, no later one counts."""
    found = at = 0
    for one in ideal:
        while at < len(made) and made[at] != one:
            at += 1
        found += at < len(made)
        at += 1
    return found / len(ideal) if ideal else 1.0


class AceBenchEpisode:
    """A run: instances of the authors' classes, the calls, and the user if a model plays it."""

    def __init__(self, kind: str, mode: str, id: str) -> None:
        self._record, self._mode = _records(kind)[id], mode
        self._utils: Any = importlib.import_module(f"model_inference.{kind}.{kind}_utils")
        self._id = f"{id}_{next(_runs)}"
        self._made: list[tuple[str, dict[str, Any]]] = []
        self._instances: dict[str, Any] = {}
        self._execute([])
        self._said: list[dict[str, str]] = []
        if mode:
            prompt: str = _constant(
                "model_inference/multi_turn/APIModel_user.py", f"SYSTEM_PROMPT_{_place(self._record)}_EN"
            )
            self._said = [{"role": "system", "content": prompt.format(instruction=self._record["question"])}]

    def _execute(self, calls: list[str]) -> Any:
        results, instances = self._utils.execute_agent_func_call(
            func_call_list=calls,
            initial_config=self._record["initial_config"],
            involved_classes=self._record["involved_classes"],
            model_name="hepm",
            test_entry_id=self._id,
            language="en",
        )
        if isinstance(instances, dict):  # else the call raised
            self._instances = instances
        return results

    def tools(self) -> list[dict[str, Any]]:
        return [{**one, "parameters": _schema(one["parameters"])} for one in self._record["function"]]

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        if tool not in {one["name"] for one in self._record["function"]}:
            return f"there is no tool {tool}", True
        self._made.append((tool, arguments))
        words = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        results = self._execute([f"{tool}({words})"])
        if isinstance(results, str):
            return "Error during execution: check the arguments", True
        return "\n".join(map(str, results)), False

    def answer(self, text: str) -> str | None:
        if not self._mode:
            return None
        self._said.append({"role": "user", "content": text if len(self._said) > 1 else _GREETING})
        reply = ask({"messages": self._said, "temperature": 0.001})["choices"][0]["message"]["content"]
        self._said.append({"role": "assistant", "content": reply})
        return None if _END in reply else reply

    def reward(self) -> float:
        """1 if all attributes that the authors compare are equal, else 0 (end-to-end accuracy)."""
        saved = _constant("model_inference/apimodel_inference.py", "SAVED_CLASS")
        checker: Any = importlib.import_module("model_eval.checker").agent_checker
        right: Any = self._record["ground_truth"]
        for wanted in [right] if "keys" in dir(right) else right:
            name = str(*wanted)
            name = {"Reminderpi": "ReminderApi"}.get(name, name)  # a slip of the data, which the authors' code skips
            if name not in self._instances:
                return 0.0
            kept: Any = self._instances[name].__dict__
            found: dict[str, Any] = {key: kept[key] for key in saved[name] if key in kept}
            # Through JSON, as their results are: keys of dictionaries are texts there.
            if not checker({name: json.loads(json.dumps(found, default=str))}, wanted)["valid"]:
                return 0.0
        return 1.0

    def scores(self) -> dict[str, float]:
        """Process accuracy in order, and as the authors count it, who give 1 where the reward is 1."""
        ways = [[call for stone in way for call in calls_of(stone)] for way in _ways(self._record["mile_stone"])]
        strict = 1.0 if self.reward() == 1 else max(as_published(way, self._made) for way in ways)
        return {"process": max(in_order(way, self._made) for way in ways), "process_published": strict}

    def close(self) -> None:
        self._instances = {}
        known: dict[str, Any] = self._utils.__dict__
        for name in [name for name in known if name.startswith(f"hepm_{self._id}_")]:
            del known[name]


def start(part: str, task: str, seed: int) -> AceBenchEpisode:
    """A fresh episode; nothing is drawn."""
    del seed
    kind, _, mode = part.partition("-")
    return AceBenchEpisode(kind, mode, task)
