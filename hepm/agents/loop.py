"""A complete tool-using agent with memory, to use or to copy: H-EPM's inference (section 4.3, appendices C.4 and E).

Each step asks memory, sends what it says along with the conversation, and calls and records the tools that the model
chose. What memory says is part of one request, never of the conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hepm.agents.toolbox import AnyTool, Toolbox
from hepm.agents.wire import Object, Placement, objects, resolved, with_hint
from hepm.errors import AnswerError, StoreError
from hepm.experience.prompt import PromptOptions
from hepm.ingest.transitions import SUMMARY_TOOL
from hepm.llm import Endpoint
from hepm.llm.question import check_extra
from hepm.llm.usage import estimate_tokens
from hepm.memory import Memory
from hepm.memory.session import Session

_log = logging.getLogger("hepm")

_IMPLICIT: Final = (
    f"Call {SUMMARY_TOOL} whenever what you have learned should decide your next step, and at least once in each task."
)
_EXPLICIT: Final = (
    "Before your next step: would a summary of the state of the task help to choose it? "
    f"If so, call {SUMMARY_TOOL}. If not, answer No and nothing else."
)


def summarize_the_task(summary: str) -> str:
    """Note the state of the task: what the user wants and has said, what the tools returned, and what is still open."""
    del summary  # the record of the run keeps it (H-EPM, E.2)
    return "Noted."


@dataclass(frozen=True, slots=True)
class Done:
    """What a run came to.

    Attributes:
        id: Of the stored run: `Memory.label` takes it.
        text: The model's last text.
        messages: The conversation, without what memory said.
        ended: "answered", or the limit that was reached.
        tokens: Of all requests, input and output.
    """

    id: str
    text: str
    messages: Sequence[Object]
    ended: Literal["answered", "turns", "tokens"]
    turns: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A tool-using agent on an OpenAI-compatible endpoint, with memory. Threads may share it.

    Attributes:
        tools, execute: See `Toolbox`. What a tool raises, the model reads.
        strategy: "implicit" lets the model summarise when it likes; "explicit" asks it before each step, which costs a
            request, and keeps the summary out of the conversation (H-EPM, C.4); "none" does neither.
        placement: Where a hint goes: see `hepm.agents.wire.with_hint`.
        max_turns, max_tokens: Limits of a run. The last step may exceed the tokens.
        options: Further arguments of each request, such as {"temperature": 0}.
    """

    endpoint: Endpoint
    memory: Memory
    tools: Sequence[AnyTool]
    execute: Callable[[str, dict[str, Any]], object] | None = None
    system: str = ""
    strategy: Literal["implicit", "explicit", "none"] = "implicit"
    placement: Placement = "auto"
    prompt_options: PromptOptions | None = None
    max_turns: int = 30
    max_tokens: int = 1_000_000
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def run(
        self,
        request: str,
        *,
        answer: Callable[[str], str | None] = lambda text: None,
        outcome: Callable[[Done], bool | float | None] = lambda done: None,
        **about: str,
    ) -> Done:
        """Work on a request. From async code: `await asyncio.to_thread(agent.run, request)`.

        Args:
            answer: What the user says to a text of the model; None, the default, ends the run.
            outcome: Whether the run succeeded, or its reward; None, the default, stores it without a label.
            about: `id`, `task`, `user`, `environment` and `namespace`, as for `Memory.session`.
        Raises:
            LlmError: the model gave no answer. The run so far is stored without a label.
        """
        check_extra()
        own = Toolbox(self.tools, self.execute)
        known: dict[str, Any] = {**about, "model": self.endpoint.model, "system": self.instructions}
        session = self.memory.session(**known, tools=own.specs, prompt_options=self.prompt_options)
        done: Done | None = None
        try:
            with session, self.endpoint.open(timeout_s=300.0, retries=5) as client:
                done = _Run(self, client, session, own).work(request, answer)
                verdict = outcome(done)
                is_verdict = isinstance(verdict, bool)
                session.finish(success=verdict if is_verdict else None, reward=None if is_verdict else verdict)
        except StoreError as error:  # the answer is there all the same
            if done is None:
                raise
            _log.warning("the run %r is not stored: %s", done.id, error)
        return done

    @property
    def instructions(self) -> str:
        """The system prompt as the model is sent it (H-EPM, E.3)."""
        return f"{self.system}\n\n{_IMPLICIT}".strip() if self.strategy == "implicit" else self.system


class _Run:
    """The conversation as the model sees it, beside the session that records it."""

    def __init__(self, agent: Agent, client: Any, session: Session, own: Toolbox) -> None:
        self.agent, self.client, self.session, self.tools = agent, client, session, own
        self.summaries = Toolbox([summarize_the_task])
        if agent.strategy == "implicit":
            self.tools = Toolbox([*agent.tools, summarize_the_task], agent.execute)
        self.messages: list[Object] = [{"role": "system", "content": agent.instructions}] * bool(agent.instructions)
        self.placement: Placement = resolved(agent.placement, agent.endpoint.base_url)
        self.tokens, self.stable = 0, ""  # what memory said first, kept so that a provider's prompt cache works

    def work(self, request: str, answer: Callable[[str], str | None]) -> Done:
        self.hear(request)
        turns = 0
        while True:
            turns += 1
            text, calls = self.step()
            for number, call in enumerate(calls):
                self.call(call["id"], call["function"], together=number > 0)
            heard = None if calls else answer(text)
            if heard is not None:
                self.hear(heard)
            answered, spent = not calls and heard is None, self.tokens >= self.agent.max_tokens
            if answered or spent or turns >= self.agent.max_turns:
                ended = "answered" if answered else "tokens" if spent else "turns"
                return Done(self.session.id, text, self.messages, ended, turns, self.tokens)

    def hear(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
        self.session.say("user", text)

    def offer_summary(self) -> None:
        # The summary goes into the record alone: it decides what memory finds (H-EPM, E.1 and E.4).
        reply = self.ask(self.summaries, stable=self.stable, present=_EXPLICIT, placement="tail")
        for call in objects(reply.get("tool_calls")):
            arguments, _, failed = self.summaries.call(call["function"]["name"], call["function"]["arguments"])
            if not failed:
                self.session.record(SUMMARY_TOOL, arguments)

    def step(self) -> tuple[str, list[Object]]:
        if self.agent.strategy == "explicit":
            self.offer_summary()
        prompt = self.session.prompt()
        self.stable = self.stable or prompt.stable
        reply = self.ask(self.tools, stable=self.stable, present=prompt.present, placement=self.placement)
        self.messages.append(reply)
        text = str(reply.get("content") or "")
        if text:
            self.session.say("assistant", text)
        return text, objects(reply.get("tool_calls"))

    def call(self, id: str, function: Object, *, together: bool) -> None:
        arguments, result, failed = self.tools.call(function["name"], function["arguments"])
        self.session.record(function["name"], arguments, result, error=failed, together=together)
        self.messages.append({"role": "tool", "tool_call_id": id, "content": result})

    def ask(self, tools: Toolbox, *, stable: str, present: str, placement: Placement) -> Object:
        import openai

        endpoint = self.agent.endpoint
        body: Object = {**self.agent.options, "model": endpoint.model, "messages": self.messages}
        if tools.specs:
            body["tools"] = tools.specs
        sent = with_hint("chat", body, stable=stable, present=present, placement=placement)
        try:
            completion = self.client.chat.completions.create(**sent)
        except openai.OpenAIError as error:
            raise endpoint.problem(error, answered=self.tokens > 0) from None  # the cause may show the key
        if not getattr(completion, "choices", None):
            raise AnswerError(f"the endpoint at {endpoint.where} gave an answer without a choice: {completion!r:.200}")
        message: Object = completion.choices[0].message.model_dump(exclude_none=True)
        usage = getattr(completion, "usage", None)
        self.tokens += usage.total_tokens if usage else estimate_tokens(str((self.messages, message)))
        return message if message.get("tool_calls") else {"content": "", **message}
