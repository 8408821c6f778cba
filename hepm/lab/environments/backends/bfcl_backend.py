"""BFCL multi-turn in its own package: its classes execute the calls, its checker judges states and results."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

Object = dict[str, Any]

_serve = importlib.import_module("serve")  # beside this module, where hepm cannot be imported
_utils = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
_checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
_config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
_prompts = importlib.import_module("bfcl_eval.constants.default_prompts")
_paths = importlib.import_module("bfcl_eval.constants.eval_config")

_names = count()
_entries: dict[str, Object] = {}


def tasks(part: str) -> Iterator[Object]:
    """The questions of a variant, each with its right calls as Python text and the descriptions of its tools."""
    file = f"BFCL_v4_multi_turn_{part or 'base'}.json"
    right = {line["id"]: line["ground_truth"] for line in _lines(_paths.POSSIBLE_ANSWER_PATH / file)}
    documents = {
        name: _lines(_paths.MULTI_TURN_FUNC_DOC_PATH / document)
        for name, document in _config.MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
        if name in _config.CLASS_FILE_PATH_MAPPING  # the others belong to other categories of BFCL
    }
    for entry in _lines(_paths.PROMPT_PATH / file):
        id: str = entry["id"]
        entry["ground_truth"] = right[id]
        entry["function"] = []
        for name in entry["involved_classes"]:
            entry["function"] += documents[name]
        _entries[id] = entry
        yield {
            "id": id,
            # What the user says first; the later texts come as answers.
            "request": "\n".join(message["content"] for message in entry["question"][0]),
            "family": id.rpartition("_")[2],  # "multi_turn_base_17" is of family 17
            "gold": [[calls, ""] for calls in right[id]],
            "tools": entry["function"],
        }


def _lines(path: Any) -> list[Object]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class BfclEpisode:
    """A run: its calls, and the objects that the package keeps for it by name."""

    def __init__(self, part: str, task: str, seed: int) -> None:
        del seed  # nothing in BFCL is drawn but from seeds of its own
        if task not in _entries:
            list(tasks(part))
        self._entry = _entries[task]
        self._name = f"episode{next(_names)}"
        self._category = task.rpartition("_")[0]
        self._turns: list[list[list[str]]] = [[]]  # calls by turn and step
        self._run([])

    def tools(self) -> list[Object]:
        """Those that are not withheld; {"2": ["mv"]} withholds mv until turn 2, counted from 0."""
        missing: set[str] = set()
        for turn, names in self._entry.get("missed_function", {}).items():
            if int(turn) >= len(self._turns):
                missing.update(names)
        return [tool for tool in self._entry["function"] if tool["name"] not in missing]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Run a call as the Python text that the package evaluates."""
        text = _serve.written(tool, arguments)
        if not text:
            return f"Error during execution: {tool!r} takes no such arguments", True
        self._turns[-1].append([text])
        [result] = self._run([text])
        return result, result.startswith(("Error during execution", '{"error"'))

    def _run(self, calls: list[str]) -> list[str]:
        results, _ = _utils.execute_multi_turn_func_call(
            calls,
            self._entry["initial_config"],
            self._entry["involved_classes"],
            self._name,
            self._entry["id"],
            long_context="long_context" in self._category,
        )
        return results

    def answer(self, text: str) -> str | None:
        """What the user says next, by script; None at the end."""
        del text
        if len(self._turns) == len(self._entry["question"]):
            return None
        messages = self._entry["question"][len(self._turns)]
        self._turns.append([])
        if not messages:
            return _prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
        return "\n".join(message["content"] for message in messages)

    def reward(self) -> float:
        """1 if states and results are right after each turn."""
        if len(self._turns) != len(self._entry["ground_truth"]):
            return 0.0  # as the package has it for runs that ended before the user did
        judged = f"judged{next(_names)}"  # the checker runs the calls again, on objects of its own
        try:
            verdict = _checker.multi_turn_checker(
                self._turns, self._entry["ground_truth"], self._entry, self._category, judged
            )
        finally:
            _serve.forget(_utils, f"{judged}_")
        return float(verdict["valid"])

    def close(self) -> None:
        _serve.forget(_utils, f"{self._name}_")


start = BfclEpisode
