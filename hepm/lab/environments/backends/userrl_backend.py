"""UserRL in its authors' checkout: their tasks, prompts, gyms, users and rewards, set as in their `eval/eval.py`."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Object = dict[str, Any]

_numpy = importlib.import_module("numpy")
_parquet = importlib.import_module("pyarrow.parquet")
_yaml = importlib.import_module("yaml")

ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""
_ROOT = Path(os.environ["PYTHONPATH"])
_TAU = _ROOT / "gyms" / "utils" / "tau-bench"
_GYMS = ("travel", "turtle", "function", "tau", "persuade", "intention", "telepathy", "search")
# Folders of tasks that are not called after their gym, and what the authors' evaluation sets.
_DATA = {"travel": "travel_multiturn_onechoice", "persuade": "persuasion_multiturn", "search": "bamboogle_multiturn"}
_SETTINGS: dict[str, Object] = {
    "travel": {"one_choice_per_aspect": True, "search_correct_reward": 0.2, "preference_correct_reward": 0.6},
    "turtle": {"success_threshold": 1.0},
    "search": {"eval_method": "llm"},
}


class _Client:
    """Takes the place of `openai.AsyncOpenAI` in the gyms: hepm knows the model, and keeps its answers."""

    def __init__(self, **_: Any) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    async def _create(self, *, model: str, timeout: float, **body: Any) -> Any:
        del model, timeout
        return _complete(**body)


def _complete(*, model: str = "", custom_llm_provider: str = "", **body: Any) -> Any:
    """A completion as the gyms read it; also `litellm.completion`, which the users of tau-bench call."""
    del model, custom_llm_provider
    said = {"role": "assistant", "content": ask.text(**body)}
    message = SimpleNamespace(content=said["content"], model_dump=lambda: said)
    return SimpleNamespace(choices=[SimpleNamespace(message=message)], _hidden_params={"response_cost": 0.0})


# Before a gym is imported: neither package is installed here.
modules: Object = sys.modules
modules["openai"] = SimpleNamespace(OpenAI=_Client, AsyncOpenAI=_Client)
modules["litellm"] = SimpleNamespace(completion=_complete)


@cache
def _rows(gym: str, split: str) -> list[Object]:
    """The published tasks; none where a split is not published."""
    file = _ROOT / "data" / _DATA.get(gym, f"{gym}_multiturn") / f"{split}.parquet"
    return _parquet.ParquetFile(file).read().to_pylist() if file.is_file() else []


def tasks(part: str) -> Iterator[Object]:
    """The tasks of a gym, or with part "" of all but those that search the web without a key for it."""
    gyms = [part]
    if not part:
        gyms = [gym for gym in _GYMS if gym != "search" or "SERPER_API_KEY" in os.environ]
    for gym in gyms:
        for split in ("train", "test"):
            for number, row in enumerate(_rows(gym, split)):
                system, user = (message["content"] for message in row["prompt"])
                yield {
                    "id": f"{gym}-{split}-{number}",
                    "request": user,
                    "system": system,
                    "family": gym,
                    "split": split,
                    "place": f"userrl-{gym}",
                }


@cache
def _package(gym: str) -> Any:
    """The gym's package."""
    sys.path.insert(0, str(_ROOT / "gyms" / f"{gym.capitalize()}Gym"))
    if gym == "tau":
        if not _TAU.is_dir():
            raise FileNotFoundError(f"tau-bench is not in {_TAU}: clone it there, as install_gyms.sh does")
        sys.path.insert(0, str(_TAU))
    package = importlib.import_module(f"{gym}gym")
    data = sys.modules.get(f"{gym}gym.env.task_data")
    if data is not None:
        # Some gyms read all their tasks for each run, and shuffle options as they read.
        tasks: Any = data.__dict__["load_tasks"]()
        data.__dict__["load_tasks"] = lambda: tasks
    return package


class UserRLEpisode:
    """A run: an environment of UserRL, of which an agent knows one tool."""

    def __init__(self, part: str, task: str, seed: int) -> None:
        del part
        gym, split, number = task.split("-")
        package = _package(gym)
        self._gym = gym
        self._rewards: list[tuple[str, float]] = []
        self._over = self._begun = False
        config = package.get_default_config()
        known = _rows(gym, split)[int(number)]["reward_model"]
        source = str(known.get("id") or known["title"])
        # 16 turns as in `eval/eval.sh`, and in PRIME.
        given = {"max_steps": 16, "data_mode": "single", "data_source": source} | _SETTINGS.get(gym, {})
        if gym == "tau":
            given["task_category"] = "retail" if "retail" in source else "airline"
            given["task_split"] = "train" if "train" in source else "test"
        if hasattr(config, "api_key"):
            # Only to be there: no endpoint is asked by the gym itself.
            given["api_key"] = "none"
        for field, value in given.items():
            setattr(config, field, value)
        # What some gyms draw is not seeded by them.
        random.seed(seed)
        _numpy.random.seed(seed)
        name = "Story" if gym == "turtle" else gym.capitalize()
        self._made = getattr(package, f"{name}Env")(config=config)

    def tools(self) -> list[Object]:
        return [_schema()["function"]]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Act: the user's reply, or what was found."""
        fields = ("choice", "content")
        if set(arguments) != set(fields) or any(type(arguments[field]) is not str for field in fields):
            return f"{tool} takes choice and content, as texts", True
        if self._over:
            return "the conversation is over", True
        if not self._begun:  # here, as the first word of some users is a model's
            self._made.reset()
            self._begun = True
        choice, content = arguments["choice"], arguments["content"]
        action = content
        if choice in ("action", "answer", "search") and not content.startswith(f"[{choice}]"):
            action = f"[{choice}] {content}"
        seen, reward, terminated, truncated, _ = asyncio.run(self._made.step_async(action))
        self._rewards.append((action, float(reward)))
        self._over = bool(terminated or truncated)
        end = "\nThe conversation is over." if self._over else ""
        return f"{seen['feedback']}{end}", False

    def answer(self, text: str) -> str | None:
        """None: a turn without a call ends the run."""
        del text

    def reward(self) -> float:
        """The published score, at most 1; of an intention, the share of its details that came out."""
        if self._gym == "intention" and self._begun:
            return len(self._made.covered_details) / len(self._made.current_task["missing_details"])
        return min(1.0, self._published())

    def scores(self) -> dict[str, float]:
        """The score as `eval/analyze.py` counts it, which can be above 1."""
        return {"published": self._published()}

    def _published(self) -> float:
        """The sum over turns; of a trip, the best choice for each aspect, which the first letter of an option names."""
        if self._gym != "travel":
            return sum(reward for _, reward in self._rewards)
        best: dict[str, float] = {}
        for action, reward in self._rewards:
            choice, _, chosen = action.partition("]")
            if choice == "[answer" and chosen.strip():
                aspect = chosen.strip()[0]
                best[aspect] = max(reward, best.get(aspect, 0.0))
        return sum(best.values()) / len(self._made.current_task["dimensions"])

    def close(self) -> None:
        self._made.close()


@cache
def _schema() -> Object:
    return _yaml.safe_load((_ROOT / "eval" / "schema" / "interact_tool.yaml").read_text("utf-8"))["tool_schema"]


start = UserRLEpisode
