"""τ²-bench in its own package: its databases and tools, its evaluator, and its user where a model plays it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

Object = dict[str, Any]

importlib.import_module("loguru").logger.remove()  # the package logs every step
_registry = importlib.import_module("tau2.registry").registry
_message = importlib.import_module("tau2.data_model.message")
_simulation = importlib.import_module("tau2.data_model.simulation")
_evaluator = importlib.import_module("tau2.evaluator.evaluator")
_agent = importlib.import_module("tau2.agent.llm_agent")
_user = importlib.import_module("tau2.user.user_simulator")
_llm: Any = importlib.import_module("tau2.utils.llm_utils")
_orchestrator = importlib.import_module("tau2.orchestrator.orchestrator")

SOLO = (
    "You cannot communicate with the user, only make tool calls. When you have solved the ticket, answer in one line."
)
ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""


def _complete(*, model: str, caching: bool = False, **body: Any) -> Any:
    """Takes the place of `litellm.completion` in the package: hepm knows the model, and keeps its answers."""
    del caching
    answer = ask({name: value for name, value in body.items() if value is not None})
    return _llm.ModelResponse(**{"model": model} | answer)  # some endpoints name none, which the package reads


_llm.completion = _complete


def tasks(part: str) -> Iterator[Object]:
    """The tasks of "DOMAIN-solo" or "DOMAIN-user"; of "DOMAIN_full" also those to learn from."""
    known, domain, mode = _parts(part)
    system = _system(domain, mode)
    splits = _registry.get_task_splits_loader(domain)()
    # Of all tasks, those that the benchmark leaves out are for learning (H-EPM, D: "2.2k tasks").
    train, test = ("full", "base") if known != domain else ("train", "test")
    split_of = dict.fromkeys(splits[train], "train") | dict.fromkeys(splits[test], "test")
    for task in _tasks(known).values():
        if mode == "solo" and not _agent.LLMSoloAgent.check_valid_task(task):
            continue
        yield {
            "id": task.id,
            "request": task.ticket if mode == "solo" else "",  # else what the model that plays the user says first
            "system": system,
            "family": task.id.partition("[PERSONA:")[0],  # in telecom ids name what is broken, then the persona
            "split": split_of.get(task.id, ""),
            "gold": _gold(task) if mode == "solo" else [],
        }


def _parts(part: str) -> tuple[str, str, str]:
    """The set of tasks, the domain and the mode: "telecom_full-user" has tasks of telecom."""
    known, _, mode = part.partition("-")
    return known, known.removesuffix("_full"), mode


@cache
def _tasks(known: str) -> Object:
    return {task.id: task for task in _registry.get_tasks_loader(known)()}


def _system(domain: str, mode: str) -> str:
    """The authors' prompt of an agent with the domain's policy, and what differs where no user is played."""
    policy = _registry.get_env_constructor(domain)(solo_mode=mode == "solo").get_policy()
    instruction = _agent.AGENT_INSTRUCTION
    if mode == "solo":
        instruction += f"\n{SOLO}"
    return _agent.SYSTEM_PROMPT.format(agent_instruction=instruction, domain_policy=policy)


def _gold(task: Any) -> list[Any]:
    actions = task.evaluation_criteria.model_dump(mode="json")["actions"] or ()
    return [[[[action["name"], action["arguments"]] for action in actions], ""]]


class Tau2Episode:
    """A run: its databases, its messages, and the user if a model plays it."""

    def __init__(self, part: str, id: str, seed: int) -> None:
        known, domain, mode = _parts(part)
        self._domain = domain
        self._mode = mode
        self._task = task = _tasks(known)[id]
        self._state = _registry.get_env_constructor(domain)(solo_mode=mode == "solo")
        begin = task.initial_state
        self._state.set_state(
            initialization_data=begin and begin.initialization_data,
            initialization_actions=begin and begin.initialization_actions,
            message_history=[],
        )
        self._messages: list[Any] = []
        # Until the conversation ends by itself: the evaluator gives 0 for a run that ran out of steps.
        self._ended = "max_steps"
        self._user = self._user_state = None
        if mode == "user":
            tools = None
            if self._state.user_tools is not None:  # in telecom alone
                tools = self._state.get_user_tools()
            self._user = _user.UserSimulator(
                tools=tools, instructions=str(task.user_scenario), llm="user",
                llm_args={"temperature": 0.0, "seed": seed},
            )  # fmt: skip
            self._user_state = self._user.get_init_state()

    def tools(self) -> list[Object]:
        """The agent's tools; alone, it has the user's too."""
        tools = self._state.get_tools()
        if self._mode == "solo":
            tools = tools + self._state.get_user_tools()
        return [tool.openai_schema["function"] for tool in tools]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Run a call, with a message of its own."""
        call = _message.ToolCall(id=f"call_{len(self._messages)}", name=tool, arguments=arguments)
        [result] = self._make(_message.AssistantMessage(role="assistant", tool_calls=[call]))
        return result.content or "", result.error

    def _make(self, message: Any) -> list[Any]:
        """Run the calls of a message of the agent or the user; returns their results."""
        results = [self._state.get_response(call) for call in message.tool_calls]
        self._messages += [message, *results]
        self._state.sync_tools()  # in telecom, what the agent sets shows on the user's phone
        return results

    def answer(self, text: str) -> str | None:
        """What the played user says, who may call tools before; None at the end."""
        if self._user is None:
            self._ended = "agent_stop"
            return None
        message: Any = _message.AssistantMessage(role="assistant", content=text)
        if not self._messages:  # the agent's greeting, by which every conversation of τ²-bench begins
            message = _orchestrator.DEFAULT_FIRST_AGENT_MESSAGE.model_copy(deep=True)
        self._messages.append(message)
        while True:
            message, self._user_state = self._user.generate_next_message(message, self._user_state)
            if not message.is_tool_call():
                break
            results = self._make(message)
            if len(results) == 1:
                message = results[0]
            else:
                message = _message.MultiToolMessage(role="tool", tool_messages=results)
        self._messages.append(message)
        if _user.UserSimulator.is_stop(message):
            self._ended = "user_stop"
            return None
        return message.content

    def reward(self) -> float:
        """By the authors' evaluator: databases, actions and what the agent had to communicate."""
        run = _simulation.SimulationRun(
            id="", task_id=self._task.id, start_time="", end_time="", duration=0.0, messages=self._messages,
            termination_reason=self._ended,
        )  # fmt: skip
        judged = _evaluator.evaluate_simulation(
            run, self._task, _evaluator.EvaluationType.ALL, self._mode == "solo", self._domain
        )
        return float(judged.reward)


start = Tau2Episode
