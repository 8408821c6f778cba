"""Experiences offered as tools to a model that is played by a real server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hepm import Memory
from hepm.experience.conditions import Conditions
from hepm.experience.experiences import Experiences, FoundExperience
from hepm.experience.lessons import Experience
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.transaction import LessonChange
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, open_bank
from tests.loopback import Loopback, completion, error
from tests.runs import trajectory

STATE = "the user wants a refund of an order"


def experience(lesson: str, **changes: object) -> Experience:
    made = Experience(
        situation="a user wants a refund of an order",
        action="called look",
        outcome="",
        lesson=lesson,
        zone="golden",
        stage="exploration",
        reward=1.0,
        conditions=Conditions(preconditions=("the order is known",)),
        distilled_by="hand",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


LESSONS = [
    experience("refund only after looking"),
    experience("refund needs a yes", zone="warning"),
    experience("refund to the card", zone="preference"),
    experience("refund twice is a mistake"),
]


@pytest.fixture
def experiences(tmp_path: Path) -> Iterator[Experiences]:
    bank = open_bank(tmp_path / "runs.hepm")
    bank.change(LessonChange(put=[one.row() for one in LESSONS], imported=True), namespace=NS)
    yield Experiences(bank)
    bank.store.close()


@pytest.fixture
def client(loopback: Loopback) -> Iterator[Client]:
    with Client(Endpoint("small", loopback.url), retries=0) as opened:
        yield opened


def search(experiences: Experiences, client: Client, **more: int) -> list[FoundExperience]:
    return experiences.search(STATE, namespace=NS, model=client, **more)


def name_of(lesson: Experience) -> str:
    """What a lesson is called as a tool: endpoints refuse some characters of ids."""
    return lesson.id.replace("-", "_")


def calls(*lessons: Experience) -> list[tuple[str, dict[str, str]]]:
    return [(name_of(one), {}) for one in lessons]


def test_the_experiences_that_the_model_calls_are_found_in_its_order(
    loopback: Loopback, client: Client, experiences: Experiences
) -> None:
    loopback.replies = [completion(None, tool_calls=calls(LESSONS[3], LESSONS[1], LESSONS[3]))]
    assert [one.experience for one in search(experiences, client)] == [LESSONS[3], LESSONS[1]]
    body = loopback.requests[0].body
    assert {tool["function"]["name"] for tool in body["tools"]} == set(map(name_of, LESSONS))
    assert STATE in body["messages"][-1]["content"]


def test_a_tool_says_when_it_applies_and_what_it_teaches_by_zone(
    loopback: Loopback, client: Client, experiences: Experiences
) -> None:
    search(experiences, client)
    told = {tool["function"]["name"]: tool["function"]["description"] for tool in loopback.requests[0].body["tools"]}
    warning = told[name_of(LESSONS[1])]
    assert warning.startswith("Went wrong before, in the exploration of a run. Applies when: ")
    assert "the order is known" in warning
    assert '"refund needs a yes"' in warning


def test_names_that_were_not_offered_are_dropped_and_no_more_than_k_are_kept(
    loopback: Loopback, client: Client, experiences: Experiences
) -> None:
    loopback.replies = [completion(None, tool_calls=[("e_unknown", {}), *calls(*LESSONS)])]
    assert [one.experience for one in search(experiences, client, k=2)] == LESSONS[:2]


def test_where_the_model_fails_similarity_chooses_and_the_log_says_so(
    loopback: Loopback, client: Client, experiences: Experiences, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.script = lambda _: error(500)
    with caplog.at_level(logging.WARNING, logger="hepm"):
        found = search(experiences, client)
    assert found == experiences.search(STATE, namespace=NS)
    assert len(found) == 3
    assert "chosen by similarity" in caplog.text


def test_a_model_may_choose_what_no_word_of_the_state_is_in_and_similarity_alone_may_not(
    loopback: Loopback, client: Client, experiences: Experiences
) -> None:
    loopback.replies = [completion(None, tool_calls=calls(LESSONS[0])), error(400, "too long")]
    found = [experiences.search(text, namespace=NS, model=client) for text in ("zzz", "qqq")]
    assert [[one.experience for one in each] for each in found] == [[LESSONS[0]], []]


PICK = completion('{"reasoning": "", "lines": [2]}')


def recalled(told: str) -> str:
    return told.partition("Of what this user prefers, now:")[2].partition("</")[0]


def test_a_prompt_can_ask_a_model_which_lines_of_the_notes_and_which_experiences_matter(
    loopback: Loopback, client: Client, memory: Memory
) -> None:
    memory.lessons.change(LessonChange(put=[one.row() for one in LESSONS], imported=True))
    memory.preferences.edit("ann", "Say whether a refund is free.\nUse metric units.")
    options = PromptOptions(model=client, suggestions=0, principles=0)
    loopback.script = lambda request: (
        completion(None, tool_calls=calls(LESSONS[3])) if "tools" in request.body else PICK
    )
    told = memory.prompt(state=STATE, user="ann", options=options)
    assert recalled(told.text).strip() == '- "Use metric units."'
    assert [lesson for lesson in told.lessons if lesson.startswith("e")] == [LESSONS[3].id]
    plain = memory.prompt(state=STATE, user="ann", options=replace(options, model=None))
    assert recalled(plain.text).strip() == '- "Say whether a refund is free."'


def test_of_lessons_that_differ_in_a_number_the_best_used_one_is_shown(memory: Memory) -> None:
    for number in (17, 18, 19):
        goal, task = f"please refund order {number}", f"t{number}"
        memory.ingest(trajectory(f"won{number}", "look", "check", "buy", goal=goal, task=task))
        memory.ingest(trajectory(f"lost{number}", "look", "buy", goal=goal, task=task, success=False))
    memory.experiences.distill()
    ids = [one.row.id for one in memory.lessons.list("experience")]
    assert len(ids) == 6
    search = partial(memory.lessons.search, "please refund order 20", "experience", floor=-1.0, limit=6)
    assert sorted(one.row.properties["zone"] for one, _ in search()) == ["golden", "warning"]
    for used in ids:
        memory.lessons.show(used, [used])
        memory.lessons.record_outcome(used, success=True)
        assert used in [one.row.id for one, _ in search()]
        memory.lessons.record_outcome(used, success=False)
