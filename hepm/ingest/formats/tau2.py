"""Runs of tau2-bench, and its training set: https://github.com/sierra-research/tau2-bench."""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_object,
    is_list,
    is_object,
    list_at,
    number_at,
    object_at,
    objects_at,
    text_at,
    unix_time,
    value_at,
)
from hepm.ingest.formats.document import Document, Reader
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import Items, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Trajectory

_DOMAINS: Final = ("airline", "retail", "telecom", "banking_knowledge", "mock")


def _recognises(document: Document) -> bool:
    """An object with the runs under "simulations", a list of runs, or one run a file."""
    keys = document.keys
    if "simulations" in keys or ("info" in keys and "tasks" in keys):
        return not document.is_list
    return "messages" in keys and "task_id" in keys and ("termination_reason" in keys or "reward_info" in keys)


def _read(document: Document) -> Items:
    # A result folder keeps one file a run under simulations/ and the rest in results.json above.
    header = document.beside("../results.json") if "messages" in document.keys and not document.is_list else {}
    try:
        about = _about(header.get("info"), document)
    except RecordError:  # the header beside this file is rejected with that file
        about = _about({}, document)
    for number, value in document.records:
        runs: Any = [value]  # a run a file, in a folder simulations/, or a line
        if is_object(value) and "messages" not in value and not value.keys().isdisjoint(("info", "simulations")):
            try:
                about = _about(object_at(value, "info"), document)
            except RecordError as error:
                yield document.rejected("info", str(error))
            runs = value.get("simulations", [])
            runs = runs if is_list(runs) else [runs]
            number = 1  # noqa: PLW2901
        for run_number, run in enumerate(runs, number):
            yield document.built(run_number, run, partial(_simulation, about=about, document=document))


def _about(info: Any, document: Document) -> Object:
    """Environment, model, model by the file's name, and tags of all runs of a file."""
    name = document.file_name
    implementation = text_at(info, "agent_info.implementation")
    in_name = next((domain for domain in _DOMAINS if domain in name.lower()), "")
    environment = text_at(info, "environment_info.domain_name") or in_name
    # Without a user the agent also holds the user's tools: another environment, though the domain's name is the same.
    if environment and ("solo" in implementation or "_no-user_" in name.lower()):
        environment += "-solo"
    # "gpt-4.1_airline_4trials.json": what is left beside the domain and the settings names the model.
    parts = name.rsplit(".json", 1)[0].split("_")
    settings = r"(?i)\d+(trials?|tasks)|default|no-user|base"
    model_parts = [part for part in parts if part.lower() not in _DOMAINS and not re.fullmatch(settings, part)]
    return {
        "environment": environment,
        "model": text_at(info, "agent_info.llm"),
        "file_model": "_".join(model_parts),
        "tags": filled(agent=implementation),
    }


def _simulation(record: Object, about: Object, document: Document) -> Trajectory:
    ended = text_at(record, "termination_reason")
    messages: Objects = []
    for value in list_at(record, "messages"):
        message = as_object(value, "a message")
        # The results of parallel calls stand in one message.
        results = objects_at(message, "tool_messages", "a tool message")
        if not results or "content" in message:
            messages.append(message)
        messages += [{**result, "role": "tool"} for result in results]
    if not messages:
        raise RecordError(f"the run holds no messages (termination reason: {ended or 'unknown'})")
    # A file without header has the model in the provider's raw answers.
    models = [value_at(message, "raw_data.model") for message in messages if message.get("role") == "assistant"]
    reward = None
    # Other ends say nothing of the agent; "agent_error" and "too_many_errors" are its own failures.
    if ended not in ("infrastructure_error", "unexpected_error", "user_error"):
        reward = number_at(object_at(record, "reward_info"), "reward")
    details: Object = {
        **about,
        "task": text_at(record, "task_id"),
        "model": about["model"] or next((model for model in models if isinstance(model, str)), ""),
        "ended_at": unix_time(record.get("end_time") or record.get("timestamp")),
        "tags": about["tags"] | filled(trial=text_at(record, "trial")),
    }
    return document.run(text_at(record, "id"), chat_turns(messages), graded(reward), **details)


def _read_sft(document: Document) -> Items:
    """{"splits": {"train": [run, ...], "test": [...]}}: chat messages as the agent saw them, of all domains.

    A record is named by its split and its number there.
    """

    def build(record: Object, split: str) -> Trajectory:
        """A run, whose domain follows from its tools."""
        tools = listed_tools(list_at(record, "tools"))
        names = [tool.name for tool in tools]
        # A tool that only one domain has; a domain before the ones that contain it.
        domains = {
            "get_order_details": "retail",
            "book_reservation": "airline",
            "toggle_airplane_mode": "telecom-solo",
            "get_customer_by_phone": "telecom",
        }
        return document.run(
            text_at(record, "simulation_id"),
            chat_turns(list_at(record, "messages")),
            graded(number_at(record, "reward")),
            environment=next((domain for tool, domain in domains.items() if tool in names), ""),
            task=text_at(record, "task_id"),
            file_model=PurePosixPath(document.file_name).stem,
            tags={"split": split},
            tools=tools,
        )

    for number, value in document.records:
        try:
            splits = as_object(as_object(value, "the record").get("splits"), "'splits'")
            for split in splits:
                for run_number, run in enumerate(list_at(splits, split), 1):
                    yield document.built(f"{split} {run_number}", run, partial(build, split=split))
        except RecordError as error:
            yield document.rejected(number, str(error))


READER: Final = Reader("tau2", _recognises, _read)
SFT_READER: Final = Reader("tau2-sft", lambda document: "splits" in document.keys and not document.is_list, _read_sft)
