"""Memory for LiteLLM, as SDK and as proxy: `litellm.callbacks = [HepmLogger(memory)]`."""

# pyright: basic, reportMissingImports=false
# The environment of the type check lacks this framework.
from __future__ import annotations

import asyncio
from time import monotonic, sleep
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from hepm.agents.adapter import fail_open
from hepm.agents.live_run import Bounded, LiveRun
from hepm.agents.replies import Reply
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import placement_for, session_id_of, tools_of, with_hint, without_foreign_hints
from hepm.memory import Memory
from hepm.types import DEFAULT_NAMESPACE, Object, Objects


class HepmLogger(CustomLogger):
    """Adds a hint to each chat completion with tools, and records the runs that the requests belong to.

    A request's `metadata` names its run: `session_id`, also `litellm_session_id`. Without one, requests whose messages
    continue one another are one run. A run ends with `finish`; one that rests is stored without a label.

    Args:
        idle_s: A run that rests for so long is stored.
        about: Further arguments of `Memory.session`: task, environment.
    """

    def __init__(
        self, memory: Memory, *, namespace: str = DEFAULT_NAMESPACE, idle_s: float = 1_800.0, **about: Any
    ) -> None:
        super().__init__()
        self.runs = LiveRuns(memory, idle_s=idle_s)
        self._namespace = namespace
        self._about = about
        # Streams that their client left have no end.
        self._calls = Bounded[str, tuple[LiveRun, int]](10_000)

    def finish(self, session_id: str, *, success: bool | None = None, reward: float | None = None) -> None:
        """Store a run with its outcome, after its last reply: LiteLLM calls back late, at first by seconds.

        In async code call it with `asyncio.to_thread`: LiteLLM needs the event loop to call back.

        Raises:
            InputError: no such run is known, or it has another outcome.
            StoreError: the store cannot be written.
        """
        end = monotonic() + 10
        while any(run.name == session_id for run, _ in [*self._calls.values()]) and monotonic() < end:
            sleep(0.01)
        self.runs.finish(session_id, namespace=self._namespace, success=success, reward=reward)

    async def async_pre_call_deployment_hook(self, kwargs: Object, call_type: Any) -> Object | None:
        """Add a hint to an async call, of the SDK or in the proxy."""
        if getattr(call_type, "value", call_type) != "acompletion" or not kwargs.get("messages"):
            return None
        id = str(kwargs.get("litellm_call_id"))
        return {**kwargs, "messages": await asyncio.to_thread(self._hinted, id, kwargs, kwargs)}

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        """Add a hint to a call that is not async: LiteLLM has no other hook before it sends the request."""
        with fail_open("goes on without a hint"):
            id = str(kwargs.get("litellm_call_id"))
            sent = (kwargs.get("additional_args") or {}).get("complete_input_dict")
            if id in self._calls or not isinstance(sent, dict) or not sent.get("messages"):
                return
            sent["messages"] = self._hinted(id, sent, kwargs.get("litellm_params") or {})

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Record a reply, whole also if it was streamed."""
        await asyncio.to_thread(self.log_success_event, kwargs, response_obj, start_time, end_time)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Record a reply, whole also if it was streamed."""
        id = str(kwargs.get("litellm_call_id"))
        with fail_open("has an unrecorded reply"):
            call = self._calls.get(id)
            if call is not None:
                run, known = call
                choices = getattr(response_obj, "choices", None) or ()
                messages: Objects = []
                if choices and len(run.messages) == known:  # else a next request has brought the reply
                    messages.append(choices[0].message.model_dump(exclude_none=True))
                self.runs.replied(run, Reply(tuple(messages)))
            self.runs.sweep()
        self._calls.pop(id, None)

    # A call that failed has no choices, and may be repeated.
    log_failure_event = log_success_event
    async_log_failure_event = async_log_success_event

    def _hinted(self, call: str, sent: Object, about: Object) -> Objects:
        """The messages of a request, with a hint; `about` holds its metadata."""
        messages: Objects = sent["messages"]
        with fail_open("goes on without a hint"):
            own = without_foreign_hints("chat", {"messages": [dict(message) for message in messages]})
            said = messages
            messages = own["messages"]
            metadata = {**(about.get("litellm_metadata") or {}), **(about.get("metadata") or {})}
            given = {**about, **sent, "metadata": metadata}
            if not tools_of(given):
                return messages
            run = self.runs.of_request(
                "chat",
                {**given, "messages": [dict(message) for message in said]},
                id=session_id_of(given) or str(given.get("litellm_session_id") or ""),
                namespace=self._namespace,
                door="litellm",
                model=str(given.get("model") or ""),
                **self._about,
            )
            self._calls[call] = run, len(run.messages)
            prompt = self.runs.prompt(run)
            placement = placement_for(str(given.get("model")))
            hinted = with_hint("chat", own, stable=run.stable, present=prompt.present, placement=placement)
            return hinted["messages"]
        return messages
