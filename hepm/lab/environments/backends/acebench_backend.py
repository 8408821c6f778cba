"""ACEBench in its authors' checkout: their classes and data, and their checker of attributes."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Call = tuple[str, Object]
"""A tool and its arguments."""

_serve = importlib.import_module("serve")  # beside this module, where hepm cannot be imported
ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""
_SOURCE = Path(os.environ["PYTHONPATH"])  # the checkout alone: see `Package.variables`
_ALONE = "The user's message holds all that the user knows and wants; there will be no other. Answer at the end."
# The one of "Domino's", within a text in single quotes.
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_runs = count()  # the authors' code keeps instances by the id of a run: each needs another


@cache
def _records(kind: str) -> dict[str, Object]:
    """The tasks of a kind by id, with their answers."""
    folder = _SOURCE / "data_all" / "data_en"
    records: dict[str, Object] = {}
    for place in (folder, folder / "possible_answer"):
        for line in (place / f"data_agent_{kind}.json").read_text("utf-8").splitlines():
            record = json.loads(line)
            records.setdefault(record["id"], {}).update(record)
    return records


@cache
def _constant(file: str, name: str) -> Any:
    """What a module assigns to a name, without an import of what else it needs."""
    for node in ast.parse((_SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} assigns no {name}")


def _place(record: Object) -> str:
    """How the authors' prompts for a task are named: flights have rules of their own."""
    if "Travel" in record["involved_classes"]:
        return "TRAVEL"
    return "BASE"


def tasks(part: str) -> Iterator[Object]:
    """The tasks of "multi_step", or of "multi_turn-user" with a user whom a model plays."""
    kind, _, user = part.partition("-")
    for id, record in _records(kind).items():
        system = _constant("model_inference/prompt_en.py", f"{_place(record)}_PROMPT_EN")
        request = ""  # the model that plays the user says it
        gold: list[Any] = []
        if not user:
            system = f"{system}\n{_ALONE}"
            request = record["question"]
            gold = [[_ideal_calls(record)[0], ""]]
        yield {
            "id": id,
            "request": request,
            "system": system.strip(),
            "family": "-".join(record["involved_classes"]),
            "gold": gold,
        }


def _ideal_calls(record: Object) -> list[list[Call]]:
    """The ideal sequences of calls of a task: some have one, others several."""
    ways: list[Any] = record["mile_stone"]
    if not any(isinstance(way, list) for way in ways):
        ways = [ways]
    sequences: list[list[Call]] = []
    for way in ways:
        steps = [way] if isinstance(way, str) else way
        sequences.append([call for step in steps for call in calls_of(step)])
    return sequences


def calls_of(text: str) -> list[Call]:
    """The calls of a text such as "[tool(a=1), other()]"; apostrophes in words, as in 'Domino's', may be bare."""
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        parsed = ast.parse(_APOSTROPHE.sub("\\\\'", text.strip()), mode="eval").body
    nodes = [parsed]
    if isinstance(parsed, (ast.List, ast.Tuple)):
        nodes = parsed.elts
    calls: list[Call] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            calls.append((ast.unparse(node.func), {word.arg or "": _value(word.value) for word in node.keywords}))
    return calls


def _value(node: ast.expr) -> Any:
    """An argument; a name without quotes as its text."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def in_order(ideal: list[Any], made: list[Any]) -> float:
    """Process accuracy n/m: the longest common subsequence of ideal and made calls, by the length of the ideal."""
    if not ideal:
        return 1.0
    # before[n] is the length for the ideal calls before this one and the first n made ones.
    before = [0] * (len(made) + 1)
    for ideal_call in ideal:
        lengths = [0]
        for n, made_call in enumerate(made):
            lengths.append(before[n] + 1 if ideal_call == made_call else max(before[n + 1], lengths[n]))
        before = lengths
    return before[-1] / len(ideal)


class AceBenchEpisode:
    """A run: instances of the authors' classes, the calls, and the user if a model plays it."""

    def __init__(self, part: str, id: str, seed: int) -> None:
        del seed  # nothing is drawn
        kind, _, user = part.partition("-")
        self._record = _records(kind)[id]
        self._utils: Any = importlib.import_module(f"model_inference.{kind}.{kind}_utils")
        self._id = f"{id}_{next(_runs)}"
        self._made: list[Call] = []
        self._instances: Object = {}
        self._execute([])
        self._conversation: list[dict[str, str]] = []
        if user:
            prompt: str = _constant(
                "model_inference/multi_turn/APIModel_user.py", f"SYSTEM_PROMPT_{_place(self._record)}_EN"
            )
            self._conversation = [{"role": "system", "content": prompt.format(instruction=self._record["question"])}]

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

    def tools(self) -> list[Object]:
        return self._record["function"]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Run a call as the text that the authors' code evaluates."""
        self._made.append((tool, arguments))
        text = _serve.written(tool, arguments)
        results = self._execute([text]) if text else ""
        if isinstance(results, str):
            return "Error during execution: check the arguments", True
        return "\n".join(map(str, results)), False

    def answer(self, text: str) -> str | None:
        """What the model that plays the user says; None where there is none, or at the end."""
        if not self._conversation:
            return None
        if len(self._conversation) == 1:
            text = "Is there anything you need help with today?"  # by which the authors' agent begins
        # For the model that plays the user, the agent is the "user".
        self._conversation.append({"role": "user", "content": text})
        reply = ask.text(self._conversation, temperature=0.001)
        self._conversation.append({"role": "assistant", "content": reply})
        return None if "finish conversation" in reply else reply

    def reward(self) -> float:
        """1 if all attributes that the authors compare are equal, else 0 (end-to-end accuracy)."""
        saved = _constant("model_inference/apimodel_inference.py", "SAVED_CLASS")
        checker: Any = importlib.import_module("model_eval.checker").agent_checker
        right: Any = self._record["ground_truth"]
        if isinstance(right, dict):
            right = [right]
        for wanted in right:
            name = str(*wanted)
            name = {"Reminderpi": "ReminderApi"}.get(name, name)  # a slip of the data, which the authors' code skips
            if name not in self._instances:
                return 0.0
            kept: Any = self._instances[name].__dict__
            attributes: Object = {key: kept[key] for key in saved[name] if key in kept}
            # Through JSON, as their results are: keys of dictionaries are texts there.
            if not checker({name: json.loads(json.dumps(attributes, default=str))}, wanted)["valid"]:
                return 0.0
        return 1.0

    def scores(self) -> dict[str, float]:
        """Process accuracy; of several ideal sequences the best one counts."""
        return {"process": max(in_order(way, self._made) for way in _ideal_calls(self._record))}

    def close(self) -> None:
        """Remove what the authors' code keeps of the run in its module."""
        self._instances = {}
        _serve.forget(self._utils, f"hepm_{self._id}_")


start = AceBenchEpisode
