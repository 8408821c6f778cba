"""Lists the rows of docs/understand/papers.md that no test covers: `python -m tests.papers`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "understand/papers.md"
NAME = re.compile(r"`(hepm(?:\.\w+)+)`")
ROW = re.compile(r"- \*\*(?P<element>.+?)\*\*(?: \((?P<place>.+?)\))?: (?P<where>(?:`[^`]+`(?:, )?)*)")
"""`- **Element** (place): names of what implements it. Departure.`"""


BY_BEHAVIOUR = {
    "The preference zone: how users behave": "test_a_reward_on_a_threshold_is_inside_its_zone",
    "Means over sessions, then over users": (
        "test_the_report_has_the_mean_over_all_sessions_and_differences_by_session"
    ),
    "Differences by session": "test_the_report_has_the_mean_over_all_sessions_and_differences_by_session",
    "Guidelines and answer format of the collaborating agent": (
        "test_the_user_and_the_judge_are_told_what_the_paper_tells_them"
    ),
    "Sessions, task success, user effort, length": (
        "test_settings_s1_to_s5_serve_the_same_users_with_the_same_problems"
    ),
    "Tokens of conversations and of notes": "test_a_row_can_be_the_mean_of_benches_or_a_session_of_an_arm",
    "Enforcement": "test_a_turn_that_contradicts_itself_is_asked_once_more_and_then_named",
    "mem0": "test_facts_that_mem0_takes_of_each_turn_reach_the_agent_in_the_next_session_and_are_paid_once",
    "w' = N + c Σ 1/n, normalised over successors": "test_weights_of_the_paper_by_hand_for_each_c",
    "ReasoningBank, AgentEvolver and Reflexion as baselines": (
        "test_a_model_digests_each_run_once_and_what_is_nearest_is_shown"
    ),
    "Exploration: 100 episodes an environment, 16 turns, temperature 1": (
        "test_each_round_is_made_with_the_lessons_of_the_rounds_before_and_the_first_with_none"
    ),
    "Success and reward by round and environment, library by zone": (
        "test_rounds_over_several_environments_report_success_reward_and_zones_of_each_and_the_agent_chooses"
    ),
    "Distillation without a model": "test_the_condition_of_a_tool_is_the_request_and_the_fact_that_decide",
    "Two prompts, for success and for failure": (
        "test_a_success_gives_a_guiding_and_a_failure_a_cautionary_principle_with_triples"
    ),
    "One of each cluster of equivalents from the same problem, checked pairwise": (
        "test_twins_of_a_task_are_told_once_and_all_their_runs_stand_behind_the_one_that_stays"
    ),
    "Actions of a run, and quality of principles, by phase": (
        "test_one_model_acts_writes_principles_of_both_kinds_and_judges_twins_and_similar_ones"
    ),
    "Alternation of offline and online phases": (
        "test_a_killed_bench_goes_on_pays_for_no_recorded_answer_twice_and_finds_the_same"
    ),
}
"""Tests of rows that are tried from outside, without a name of what implements them."""


class Row(NamedTuple):
    """An element of a paper, where the paper has it, and what implements it."""

    element: str
    place: str
    names: tuple[str, ...]


def rows() -> list[Row]:
    """The rows of the lists on the four papers."""
    part = PAGE.read_text("utf-8").partition("## The four papers")[2].partition("\n## ")[0]
    found = [ROW.match(line) for line in part.splitlines() if line.startswith("- ")]
    return [Row(row["element"], row["place"] or "", tuple(NAME.findall(row["where"]))) for row in found if row]


def uncovered() -> Iterator[Row]:
    """Rows that name something, of which no test module has a name: what a name is called, or the class it is of."""
    texts = [file.read_text("utf-8") for file in TESTS.rglob("test_*.py")]
    known = {word for text in texts for word in re.findall(r"\w+", text)}
    for row in rows():
        called = {part for name in row.names for part in name.split(".")[-2:] if part[0].isupper()}
        called |= {name.rpartition(".")[2] for name in row.names}
        called |= {BY_BEHAVIOUR[row.element]} if row.element in BY_BEHAVIOUR else set[str]()
        if row.names and not called & known:
            yield row


if __name__ == "__main__":
    for row in uncovered():
        print(f"{row.place}: {row.element}: {', '.join(row.names)}")
