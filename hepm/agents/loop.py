"""A complete tool-using agent with memory, to use or to copy: H-EPM's inference (section 4.3, appendices C.4 and E).

Each step asks memory, sends what it says along with the conversation, and calls and records the tools that the model
chose. What memory says is part of one request, never of the conversation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias

from hepm.agents.toolbox import AnyTool, Execute, Toolbox
from hepm.agents.wire import Object, Placement, object_in, objects, parsed, resolved, with_hint
from hepm.errors import AnswerError, EndpointError, EndpointRefusedError, StoreError
from hepm.experience.prompt import PromptOptions
from hepm.llm import Endpoint
from hepm.llm.question import check_extra, read_answer
from hepm.llm.usage import estimate_tokens
from hepm.memory import Memory
from hepm.memory.session import Session
from hepm.text import disarmed
from hepm.types import SUMMARY_TOOL, Objects

_log = logging.getLogger("hepm")

_IMPLICIT: Final = (
    f"Call {SUMMARY_TOOL} whenever what you have learned should decide your next step, and at least once in each task."
)
_ASKED: Final = (
    "Before your next step: does the conversation need to be summarized, so that the summary helps to choose the step? "
    'Answer only "Yes" or "No", without a reason.'
)
_SUMMARY: Final = "Write a summary of the current state, including information from the environment and the user."

Strategy: TypeAlias = Literal["off", "weight", "implicit", "explicit", "always", "hybrid"]
Ended: TypeAlias = Literal["answered", "turns", "tokens"]
Complete: TypeAlias = Callable[[Object], Object]
"""The chat completion for the body of a request."""


def summarize_the_task(summary: str) -> str:
    """Note the state of the task: what the user wants and has said, what the tools returned, and what is still open."""
    del summary  # the record of the run keeps it (H-EPM, E.2)
    return "Noted."


@dataclass(slots=True)
class LoopStep:
    """What memory added to one step: its text, "" if it said nothing, and the seconds spent in memory.

    `first_token` has the log-probabilities of the likeliest first tokens of the model's answer, where options ask the
    endpoint for them.
    """

    hint: str = ""
    memory_s: float = 0.0
    first_token: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What a run came to.

    Attributes:
        id: Of the stored run: `Memory.label` takes it.
        text: The model's last text.
        messages: The conversation, without what memory said.
        ended: "answered", or the limit that was reached.
        tokens: Of all requests, input and output.
        steps: One for each turn of the model.
        malformed: Texts of the model without an action: see `hepm.agents.tagged`.
    """

    id: str
    text: str
    messages: Sequence[Object]
    ended: Ended
    turns: int
    tokens: int
    steps: Sequence[LoopStep] = ()
    malformed: int = 0


class ChatModel:
    """The model of an endpoint, as a `Complete`. Threads may share it.

    Raises:
        LlmError: there is no answer, or one without a choice.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        check_extra()
        self.endpoint = endpoint
        self._client = endpoint.open()
        self._answered = False

    def __call__(self, body: Object) -> Object:
        """The chat completion for the body of a request."""
        import openai

        try:
            completion = self._client.chat.completions.create(**body)
        except openai.OpenAIError as error:
            raise self.endpoint.problem(error, answered=self._answered) from None  # the cause may show the key
        if not getattr(completion, "choices", None):
            where = self.endpoint.where
            raise AnswerError(f"the endpoint at {where} gave an answer without a choice: {completion!r:.200}")
        self._answered = True
        found: Object = completion.model_dump(exclude_none=True)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A tool-using agent on an OpenAI-compatible endpoint, with memory. Threads may share it.

    Attributes:
        tools: See `Toolbox`; a function that returns them is called before each step. What a tool raises, the model
            reads.
        execute: See `Toolbox`.
        strategy: Where suggestions come from (docs/use/session.md). "off": there are none. "weight": edge weights
            alone. "implicit": the model summarises its state when it likes. "explicit": it is asked before each step,
            which costs a request and one more for each summary, and keeps summaries out of the conversation (H-EPM,
            C.4, E.1 and E.4). "always": it writes such a summary before each step. "hybrid": no summaries; memory
            compares extracts of the conversation.
        placement: Where a hint goes: see `hepm.agents.wire.with_hint`.
        prompt_options: What memory says. "off" and "weight" replace its suggestions or its policy.
        max_turns, max_tokens: Limits of a run. The last step may exceed the tokens.
        options: Further arguments of each request, such as {"temperature": 0}.
        complete: Answers the requests in place of the endpoint.
        reward: The reward so far. Each turn is stored with what it added.
    """

    endpoint: Endpoint
    memory: Memory
    tools: Sequence[AnyTool] | Callable[[], Sequence[AnyTool]]
    execute: Execute | None = None
    system: str = ""
    strategy: Strategy = "implicit"
    placement: Placement = "auto"
    prompt_options: PromptOptions | None = None
    max_turns: int = 30
    max_tokens: int = 1_000_000
    options: Mapping[str, Any] = field(default_factory=Object)
    complete: Complete | None = None
    reward: Callable[[], float] | None = None

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
        own = self.toolbox()
        settings: Object = {"tools": own.specs, "prompt_options": self._prompt_options, **about}
        session = self.memory.session(model=self.endpoint.model, system=self.instructions, **settings)
        done: Done | None = None
        try:
            with session, nullcontext(self.complete) if self.complete else ChatModel(self.endpoint) as complete:
                done = self.conversation(self, complete, session, own).work(request, answer)
                verdict = outcome(done)
                if isinstance(verdict, bool):
                    session.finish(success=verdict)
                else:
                    session.finish(reward=verdict)
        except StoreError as error:  # the answer is there all the same
            if done is None:
                raise
            _log.warning("the run %r is not stored: %s", done.id, error)
        return done

    @property
    def conversation(self) -> type[Conversation]:
        """What a run is made by."""
        return Conversation

    @property
    def instructions(self) -> str:
        """The system prompt as the model is sent it (H-EPM, E.3)."""
        if self.strategy == "implicit":
            return f"{self.system}\n\n{_IMPLICIT}".strip()
        return self.system

    def toolbox(self) -> Toolbox:
        """The tools that can be called now."""
        tools = self.tools() if callable(self.tools) else self.tools
        if self.strategy == "implicit":
            tools = [*tools, summarize_the_task]
        return Toolbox(tools, self.execute)

    @property
    def _prompt_options(self) -> PromptOptions | None:
        options = self.prompt_options or PromptOptions()
        if self.strategy == "off":
            return replace(options, suggestions=0)
        if self.strategy == "weight":
            return replace(options, policy="procedural")
        return self.prompt_options


class Conversation:
    """A run: the conversation as the model sees it, and the session that records it."""

    offers_tools: ClassVar[bool] = True

    def __init__(self, agent: Agent, complete: Complete, session: Session, own: Toolbox) -> None:
        self.agent = agent
        self.complete = complete
        self.session = session
        self.tools = own
        self.messages: Objects = []
        if agent.instructions:
            self.messages.append({"role": "system", "content": agent.instructions})
        self.placement: Placement = resolved(agent.placement, agent.endpoint.base_url)
        self.tokens = 0
        self.stable = ""  # what memory said first, kept so that a provider's prompt cache works
        self.steps: list[LoopStep] = []
        self.step = LoopStep()  # the last of them; before the first, none
        self.malformed = 0

    def work(self, request: str, answer: Callable[[str], str | None]) -> Done:
        """Turn after turn until the user has an answer, or a limit is reached."""
        self.hear(request)
        reward = self.agent.reward() if self.agent.reward else 0.0
        while True:
            text, acted = self.turn()
            # A text beside calls is a thought: the user reads only texts without calls.
            heard = None if acted else answer(text)
            if self.agent.reward:
                before = reward
                reward = self.agent.reward()
                self.session.reward(reward - before)
            if heard is not None:
                self.hear(heard)
            ended: Ended | None = None
            if not acted and heard is None:
                ended = "answered"
            elif self.tokens >= self.agent.max_tokens:
                ended = "tokens"
            elif len(self.steps) >= self.agent.max_turns:
                ended = "turns"
            if ended is not None:
                turns = len(self.steps)
                return Done(self.session.id, text, self.messages, ended, turns, self.tokens, self.steps, self.malformed)

    def turn(self) -> tuple[str, bool]:
        """One turn of the model: its text, and whether the run goes on without an answer to it."""
        text, calls = self._step()
        for number, call in enumerate(calls):
            self._call(call["id"], call["function"], together=number > 0)
        return text, bool(calls)

    def begin_step(self) -> None:
        """Begin a turn of the model."""
        self.step = LoopStep()
        self.steps.append(self.step)

    def hear(self, text: str) -> None:
        """Take what the user said."""
        self.messages.append({"role": "user", "content": disarmed(text)})
        with self.metered():
            self.session.say("user", text)

    def _ask_for_summary(self) -> None:
        if self.agent.strategy != "always" and not self._answer(_ASKED).casefold().startswith("yes"):
            return
        summary = self._answer(_SUMMARY)
        if summary:
            # It goes into the record alone: it decides what memory finds (H-EPM, E.1 and E.4).
            with self.metered():
                self.session.record(SUMMARY_TOOL, {"summary": summary}, hidden=True)

    def _answer(self, question: str) -> str:
        """The model's answer to a question of this loop, which stays out of the conversation."""
        placement: Placement = "tail" if self.placement == "tail" else "behind"
        message = self.ask(stable=self.stable, present=question, placement=placement, calls=False)
        try:
            return read_answer(str, str(message.get("content") or ""))
        except ValueError:  # it is empty
            return ""

    def _step(self) -> tuple[str, Objects]:
        if callable(self.agent.tools) and self.steps:
            self.tools = self.agent.toolbox()
        self.begin_step()
        if self.agent.strategy in ("explicit", "always"):
            self._ask_for_summary()
        with self.metered():
            names = [spec["function"]["name"] for spec in self.tools.specs]
            # After a step, `record` has just put its calls on disk.
            due = self.messages[-1]["role"] != "tool"
            prompt = self.session.prompt(tools=names, horizon=self.agent.max_turns, keep=due)
        self.step.hint = prompt.text
        self.stable = self.stable or prompt.stable
        reply = self.ask(stable=self.stable, present=prompt.present, placement=self.placement)
        self.messages.append(reply)
        text = str(reply.get("content") or "")
        if text:
            with self.metered():
                self.session.say("assistant", text)
        return text, objects(reply.get("tool_calls"))

    def _call(self, id: str, function: Object, *, together: bool) -> None:
        name = function["name"]
        arguments = object_in(parsed(function["arguments"]))
        with self.metered():
            denial = self.session.denial(name, arguments)
        if denial is None:
            arguments, result, failed = self.tools.call(name, function["arguments"])
        else:
            result = denial.text
            failed = None
        with self.metered():
            refused = denial is not None
            self.session.record(name, arguments, result, error=failed, refused=refused, together=together)
        self.messages.append({"role": "tool", "tool_call_id": id, "content": disarmed(result)})

    def ask(self, *, stable: str, present: str, placement: Placement, calls: bool = True) -> Object:
        """The model's next message, on the conversation and what memory says."""
        body: Object = {**self.agent.options, "model": self.agent.endpoint.model, "messages": self.messages}
        if self.tools.specs and self.offers_tools:
            body["tools"] = self.tools.specs  # also where none may be called: messages with calls need them
            if not calls:
                body["tool_choice"] = "none"
        completion = self._completion(partial(with_hint, "chat", body, stable=stable, present=present), placement)
        message: Object = completion["choices"][0]["message"]
        self.step.first_token = _first_token(completion["choices"][0])
        usage: Object = completion.get("usage") or {}
        # Local servers may send no usage: then it is estimated from the bytes.
        self.tokens += int(usage.get("total_tokens") or estimate_tokens(str((self.messages, message))))
        if message.get("tool_calls"):
            return message
        return {"content": "", **message}  # endpoints refuse a message with neither

    def _completion(self, hinted: Callable[..., Object], placement: Placement) -> Object:
        """The answer to a request. Some chat templates take no user's message behind a result."""
        sent = hinted(placement=placement)
        try:
            return self.complete(sent)
        except EndpointRefusedError:
            raise
        except EndpointError:
            # The same request with its hint in the last message, for chat templates that refuse it behind results.
            in_tail = hinted(placement="tail")
            if self.agent.placement != "auto" or placement != "behind" or in_tail == sent:
                raise
            completion = self.complete(in_tail)
        self.placement = "tail"
        return completion

    @contextmanager
    def metered(self) -> Generator[None]:
        """Add what happens inside to the seconds of memory in this step."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.step.memory_s += time.perf_counter() - started


def _first_token(choice: Object) -> tuple[float, ...]:
    logprobs: Object = choice.get("logprobs") or {}
    tokens = objects(logprobs.get("content"))
    if not tokens:
        return ()
    return tuple(float(token["logprob"]) for token in objects(tokens[0].get("top_logprobs")))
