"""What is told about one place in a run: by evidence, and in one voice with the suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import FailedWay, Memory, Trajectory
from hepm.evidence.decisions import LabelledRun
from hepm.evidence.nearest import Requests
from hepm.experience.comparison import compared_tools, next_in_way, says_nothing
from hepm.experience.lessons import Experience, Principle, PrincipleKind
from hepm.experience.likeness import Likeness, likeness
from hepm.experience.principle_advice import FEWEST_RUNS, MOST_RUNS, PrincipleAdvice, lower_bound, reconcile
from hepm.experience.prompt import PromptOptions
from hepm.graph.delta import words_of
from hepm.graph.lessons.rows import Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.tool_life import ToolNames
from hepm.types import Suggestion, Suggestions
from tests.runs import trajectory

NS = "default"
HERE = ("look",)


def rule(
    kind: PrincipleKind, text: str, runs: int | Sequence[str], *, better: str = "", worse: str = "", after: str = "look"
) -> Principle:
    triples = [Triple(after, "followed_by", better)] if better else []
    triples += [Triple(worse, "fails_after", after)] if worse else []
    names = [f"{text}-{n}" for n in range(runs)] if isinstance(runs, int) else runs
    return Principle(kind, text, tuple(triples), tuple(Source(name, words=False) for name in names))


def advises(tool: str, runs: int, text: str = "") -> Principle:
    return rule("guiding", text or f"call {tool}", runs, better=tool)


def warns(tool: str, runs: int, text: str = "") -> Principle:
    return rule("cautionary", text or f"keep from {tool}", runs, worse=tool)


def best(*principles: Principle, k: int = 3) -> list[str]:
    return [one.text for one in PrincipleAdvice(principles, HERE).best(k)]


@pytest.mark.parametrize(
    ("right", "wrong", "bound"),
    [(0, 3, 0), (1, 0, 0.27), (2, 0, 0.425), (10, 0, 0.787), (10, 5, 0.455), (100, 50, 0.6)],
)
def test_the_lower_bound_is_that_of_wilsons_interval(right: int, wrong: int, bound: float) -> None:
    assert lower_bound(right, wrong) == pytest.approx(bound, abs=0.001)


def test_a_lesson_about_tools_that_the_agent_lacks_is_left_out() -> None:
    def told(*offered: str) -> list[str]:
        names = ToolNames(offered=frozenset(offered))
        place = PrincipleAdvice([advises("a", 2), warns("b", 2)], HERE, names)
        return [one.text for one in place.best(3)]

    assert told() == told("a", "b", "look") == ["call a", "keep from b"]
    assert told("b", "look") == ["keep from b"]
    assert told("a") == ["call a"]
    found = Experience("s", "a", "o", "l", "golden", "exploration", 1.0, tools=("a", "look"))
    for offered, applies in ((("a",), True), (("c",), False), ((), True)):
        advice = PrincipleAdvice([], HERE, ToolNames(offered=frozenset(offered)))
        assert advice.applies(found) is applies


def test_a_share_of_many_runs_beats_more_runs_of_a_worse_share() -> None:
    disputed, against = advises("a", 9), warns("a", 6)
    assert best(disputed, against, advises("b", 5)) == ["call b", "call a"]


def test_a_rule_is_as_well_founded_as_its_weakest_part() -> None:
    both = rule("guiding", "b rather than c", 4, better="b", worse="c")
    assert best(both, advises("a", 6), warns("d", 3), rule("guiding", "then c", 3, better="c")) == [
        "call a",
        "keep from d",
        "b rather than c",
    ]


def test_a_rule_with_as_many_runs_against_it_as_for_it_is_not_told() -> None:
    assert best(advises("a", 3), warns("a", 3)) == []


def test_one_run_behind_two_rules_counts_once() -> None:
    again = rule("guiding", "call a, again", ["x"], better="a")
    assert best(rule("guiding", "call a", ["x"], better="a"), again, warns("a", 1)) == []


def test_each_rule_that_is_told_says_something_that_those_before_did_not() -> None:
    assert best(advises("a", 9), advises("a", 8, "a once more"), advises("b", 2)) == ["call a", "call b"]


def test_a_rule_of_one_run_is_told_alone_and_only_where_there_is_no_other() -> None:
    assert best(advises("a", 1), advises("b", 1)) == ["call a"]
    assert best(advises("a", 1), warns("b", 2)) == ["keep from b"]
    assert best(advises("a", 1), k=0) == []


def test_rules_about_another_place_say_nothing_here() -> None:
    assert best(rule("guiding", "elsewhere", 5, better="a", after="list")) == []


# One voice


def suggested(*tools: str, warnings: tuple[FailedWay, ...] = ()) -> Suggestions:
    return Suggestions(tuple(Suggestion(tool, 0.5, 1, 0.0, None, "why") for tool in tools), warnings=warnings)


def voiced(
    known: Sequence[Principle], found: Suggestions, counts: dict[str, tuple[int, int]], told: Sequence[Principle] = ()
) -> tuple[list[str], str]:
    """The lessons that may be told, and the line beside them."""
    kept, after = reconcile(PrincipleAdvice(known, HERE), told or known, found, lambda tool: counts.get(tool, (0, 0)))
    return [one.text for one, keep in zip(told or known, kept, strict=True) if keep], after.prompt()


def test_a_tool_that_lessons_warn_of_is_suggested_last_and_with_its_warning() -> None:
    assert voiced([warns("a", 3)], suggested("a", "b"), {"a": (11, 30)}) == (
        ["keep from a"],
        "Suggested next tools: b, a (failed in 30 of 41 runs from here)",
    )


def test_where_runs_mostly_succeeded_with_it_the_lesson_beside_is_the_warning() -> None:
    assert voiced([warns("a", 3)], suggested("a", "b"), {"a": (30, 11)}) == (
        ["keep from a"],
        "Suggested next tools: b, a",
    )


def test_a_lesson_that_advises_a_tool_that_the_suggestion_warns_of_is_not_told() -> None:
    found = suggested("b", warnings=(FailedWay("a", 9, 10),))
    assert voiced([advises("a", 9), advises("b", 2)], found, {}) == (
        ["call b"],
        "Suggested next tools: b; a: failed in 9 of 10 runs from here",
    )


def test_a_lesson_that_warns_of_a_tool_with_better_founded_advice_is_not_told_beside_it() -> None:
    known = [advises("a", 9), warns("a", 2)]
    assert voiced(known, suggested("a"), {"a": (9, 2)}) == (["call a"], "Suggested next tools: a")


def test_a_warning_of_one_run_counts_where_it_is_told_and_else_not() -> None:
    one = warns("a", 1)
    assert voiced([one], suggested("a", "b"), {})[1] == "Suggested next tools: b, a"
    assert voiced([one], suggested("a", "b"), {}, [advises("b", 2)])[1] == "Suggested next tools: a, b"


def test_lessons_beside_a_policy_that_weighed_them_advise_nothing_unlikely_or_less_likely_than_what_they_warn_of() -> (
    None
):
    found = replace(suggested("a"), chances={"a": 0.9, "b": 0.12, "c": 0.01})
    rather = rule("guiding", "b rather than a", 9, better="b", worse="a")
    known = [rather, advises("b", 5), advises("c", 9), advises("unknown", 9), warns("a", 20)]
    counts = {"a": (9, 30)}
    assert voiced(known, found, counts) == (["call b", "call unknown"], "Suggested next tools: a")
    assert voiced([rather], replace(found, chances={"a": 0.4, "b": 0.6}), counts)[0] == []
    assert voiced([rather], replace(suggested("b", "a"), chances={"a": 0.4, "b": 0.6}), counts) == (
        ["b rather than a"],
        "Suggested next tools: b, a (failed in 30 of 39 runs from here)",
    )
    given = [one.text for one in PrincipleAdvice(known, HERE).best(9, chances=found.chances)]
    assert given == ["keep from a", "call b", "call unknown"]
    unlikely = replace(found, chances={"a": 0.1, "b": 0.03})
    assert voiced([advises("b", 5), rule("guiding", "b rather than c", 9, better="b", worse="c")], unlikely, {})[0] == [
        "b rather than c"
    ]


def test_advice_to_call_what_the_run_has_called_rather_than_another_tool_is_past() -> None:
    known = [rule("guiding", "lock rather than start", 9, better="lock", worse="start"), advises("start", 2)]
    assert best(*known) == ["lock rather than start"]
    place = PrincipleAdvice(known, HERE)
    assert [one.text for one in place.in_run(["lock", "look"]).best(3)] == ["call start"]
    assert place.in_run(["lock", "look"]).runs("start") == (2, 0)
    again = PrincipleAdvice([rule("guiding", "look once more", 9, better="look", worse="start")], HERE)
    assert [one.text for one in again.in_run(["look"]).best(3)] == ["look once more"]


def test_a_warning_is_told_once() -> None:
    found = suggested("a", "b", warnings=(FailedWay("a", 5, 5),))
    assert voiced([warns("a", 3)], found, {"a": (11, 30)})[1].count("failed") == 1


def test_what_an_experience_says_of_a_place_is_read_from_its_lesson() -> None:
    lesson = "After look, runs with like requests that succeeded called b and c; this one, which failed, called a."
    assert compared_tools(lesson, ("b", "c", "a", "look")) == ({"b", "c"}, {"a"})
    lesson = "After look, this run, which succeeded, called b; runs of this task that failed called a."
    assert compared_tools(lesson, ("b", "a", "look")) == ({"b"}, {"a"})
    assert compared_tools("This way led to success: a, then b.", ("a", "b")) == (set(), set())


def test_an_experience_of_a_successful_way_advises_what_follows_the_last_tools_in_it() -> None:
    way, tools = "This way led to success: a, then b and c, then a, then d e.", ("a", "b", "c", "d e")
    assert next_in_way(way, tools, ["a"]) == {"b", "c", "d e"}
    assert next_in_way(way, tools, ["c"]) == next_in_way(way, tools, []) == {"a"}
    assert next_in_way(way, tools, ["d e"]) == next_in_way(way, tools, ["x"]) == set()
    assert next_in_way("This way led to failure: a, then b.", tools, ["a"]) == set()
    found = Experience("s", "a", "o", way, "golden", "exploration", 1.0, tools=tools)
    assert PrincipleAdvice([], ["a"]).advice_of(found).better == {"b", "c", "d e"}


# Runs of like requests


def requests_of(texts: dict[str, str]) -> Requests:
    return Requests.of([LabelledRun(1, run, True, "", "", words_of(text), ()) for run, text in texts.items()])


def test_of_two_rules_that_contradict_each_other_that_of_like_requests_is_given() -> None:
    words = {"x1": "my parcel is broken", "x2": "the parcel is broken", "y1": "redeliver it", "y2": "please redeliver"}
    place = PrincipleAdvice([rule("guiding", "a, not b", ["x1", "x2"], better="a", worse="b"),
                   rule("guiding", "b, not a", ["y1", "y2"], better="b", worse="a")], HERE)  # fmt: skip

    def given(now: str) -> list[str]:
        return [one.text for one in place.weighed(likeness(requests_of(words), now)).best(3)]

    assert place.best(3) == []
    assert given("a broken parcel") == ["a, not b"]
    assert given("redeliver, please") == ["b, not a"]


def test_a_rule_of_one_run_is_given_beside_others_if_that_run_had_a_like_request() -> None:
    place = PrincipleAdvice([advises("a", 5), rule("guiding", "call b", ["this"], better="b")], HERE)
    words = {"this": "refund the broken glass", **{f"call a-{n}": "close my account" for n in range(5)}}
    assert [one.text for one in place.best(3)] == ["call a"]
    like, unlike = (place.weighed(likeness(requests_of(words), now)) for now in ("a broken glass", "hello"))
    assert [one.text for one in like.best(3)] == ["call b", "call a"]
    assert [one.text for one in unlike.best(3)] == ["call a"]


def test_without_known_requests_each_run_counts_one() -> None:
    place = PrincipleAdvice([advises("a", 9), warns("a", 2)], HERE)
    unknown = place.weighed(likeness(requests_of({}), "hello"))
    assert unknown.runs("a") == place.runs("a") == (9, 2)
    assert likeness(requests_of({"r": "hello"}), "12") == Likeness()


def test_runs_of_unknown_requests_count_as_the_average_one_so_that_imported_rules_are_given_too() -> None:
    place = PrincipleAdvice([rule("guiding", "ours", ["r1", "r2"], better="a"), advises("b", 3, "imported")], HERE)
    found = place.weighed(likeness(requests_of({"r1": "broken glass", "r2": "a late train"}), "broken glass"))
    assert found.runs("b")[0] == pytest.approx(1.5 * found.runs("a")[0])
    assert {one.text for one in found.best(3)} == {"ours", "imported"}


def test_of_a_place_with_very_many_runs_a_sample_stands_for_all() -> None:
    place = PrincipleAdvice(
        [advises("a", 6_000), warns("a", 3_000), advises("b", 10), rule("guiding", "c", 1, better="c")], HERE
    )
    assert len(place.sources) <= MOST_RUNS + 4 * FEWEST_RUNS
    assert [place.runs(tool) for tool in "abc"] == [
        (pytest.approx(6_000), pytest.approx(3_000)), (pytest.approx(10), 0), (1, 0),
    ]  # fmt: skip


# In a memory


KINDS = (
    ("broken glass in my parcel, I want my money back", "refund", "close_ticket"),
    ("the courier came while I was out, bring the parcel again please", "redeliver", "refund"),
    ("I wrote you twice about this, forget the second message", "close_ticket", "redeliver"),
)
"""What users want, what works, and what fails: each tool works for one kind and fails for another."""


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        *((goal, at) for at, (goal, _, _) in enumerate(KINDS)),
        ("my parcel arrived broken, give me the money", 0),
        ("nobody was at home when the courier rang", 1),
        ("ignore the second message, it is the same", 2),
    ],
)
def test_a_prompt_gives_the_rule_of_the_kind_of_request_at_hand(memory: Memory, now: str, kind: int) -> None:
    memory.ingest(
        trajectory(
            f"{tool}-{at}-{n}", "get_order", tool, goal=f"Order {n}: {goal}", task=f"{at}", success=tool == right
        )
        for at, (goal, right, wrong) in enumerate(KINDS)
        for n in range(6 + 4 * at)
        for tool in (right, wrong)
    )
    memory.principles.distill(namespace=NS)
    prompt = memory.prompt(state=now, after="get_order", options=PromptOptions(experiences=0))
    _, right, wrong = KINDS[kind]
    assert re.findall(r"call (\w+) rather than (\w+)\.", prompt.text) == [(right, wrong)]
    assert {one.tool for one in prompt.suggestions[:1]} <= {right}


LINES = (
    ("Outage in the area, crew on site", "inform", "restart"),
    ("No outage, the modem does not answer", "restart", "inform"),
    ("Account blocked, the invoice is unpaid", "send_invoice", "inform"),
)
"""What the first tool returned, what works then, and what fails; users ask the same."""


def line_run(task: str, result: str, tool: str, *, success: bool) -> Trajectory:
    goal = f"My internet is down, customer {task}"
    run = trajectory(f"{task}-{tool}", "look_up", tool, "close", goal=goal, success=success)
    user, look, *others = run.turns
    return replace(run, turns=(user, replace(look, calls=(replace(look.calls[0], result=result),)), *others))


@pytest.mark.parametrize("counts", [(14, 30, 6), (8, 60, 8)])
@pytest.mark.parametrize("at", range(3))
def test_where_a_result_decides_no_lesson_of_a_prompt_contradicts_it(
    memory: Memory, at: int, counts: tuple[int, int, int]
) -> None:
    memory.ingest(
        line_run(f"{kind}-{n}", result, tool, success=tool == right)
        for kind, (result, right, wrong) in enumerate(LINES)
        for n in range(counts[kind])
        for tool in (right, wrong)[: 1 + n % 2]
    )
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    result, right, _ = LINES[at]
    messages = [
        {"role": "user", "content": "My internet is down, customer 99"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look_up", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": result},
    ]
    prompt = memory.prompt(messages, namespace=NS)
    assert prompt.suggestions[0].tool == right
    advised = set(re.findall(r"call (\w+) rather than (\w+)\.", prompt.text))
    assert right not in {worse for _, worse in advised}
    assert set(re.findall(r"look_up, then (\w+)", prompt.text)) <= {right}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path, speak="weighed") as opened:
        yield opened


def parcel(name: str, tool: str, *, success: bool) -> Trajectory:
    return trajectory(name, "get_order", tool, goal="Refund parcel, broken glass", task="parcel", success=success)


STATE = "Refund parcel 77, broken glass"


@pytest.mark.parametrize("policy", ["hybrid", "adaptive", "procedural"])
def test_a_prompt_names_what_worked_first_and_never_what_failed_without_its_warning(
    memory: Memory, policy: str
) -> None:
    memory.ingest(
        [
            *(parcel(f"g{n}", "refund", success=True) for n in range(10)),
            *(parcel(f"b{n}", "close_ticket", success=False) for n in range(10)),
            *(trajectory(f"o{n}", "get_order", "close_ticket", goal=f"Invoice {n}", task=f"{n}") for n in range(3)),
        ]
    )
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    told = memory.prompt(state=STATE, after="get_order", options=PromptOptions(policy=policy))
    assert told.suggestions[0].tool == "refund"
    line = told.text.splitlines()[-2]
    assert line.startswith("Suggested next tools: refund")
    assert "close_ticket" not in line or re.search(r"close_ticket(: | \()failed in 10 of 1[03] (like )?runs", line)
    rule = r"After get_order, when the user says .*, call refund rather than close_ticket.\" "
    rule += r"\(10 of 10 runs succeeded, 0 of 10 others\)"
    assert re.search(rule, told.text)


def test_lessons_that_name_no_tool_are_not_told_though_they_are_stored(memory: Memory) -> None:
    memory.ingest(
        [
            parcel("g", "refund", success=True),
            trajectory("b", "get_order", goal="Refund parcel, broken glass", task="parcel", success=False),
            trajectory("same", "get_order", "refund", goal="Refund parcel, broken glass", task="parcel", success=False),
        ]
    )
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    rules = [one.row.text for one in memory.lessons.list("principle", namespace=NS)]
    assert rules == ["In shop, calling get_order, then refund led to success."]
    stored = {one.row.properties["lesson"] for one in memory.lessons.list("experience", namespace=NS)}
    assert any("nothing more" in str(text) for text in stored)
    told = memory.prompt(state="Refund parcel, broken glass", after="get_order").text
    assert "nothing more" not in told
    assert "did not decide" not in told


@pytest.mark.parametrize(
    "text",
    [
        "In shop, after look, calling buy rather than nothing more led to success.",
        "In shop, at the start, calling no tool rather than look ended in failure.",
        "In shop, answering without a tool led to success.",
    ],
)
def test_rules_without_a_tool_that_were_stored_before_are_told_no_more(memory: Memory, text: str) -> None:
    memory.ingest([trajectory("r0", "look", "buy"), trajectory("r1", "look", "buy")])
    old = Principle("guiding", text, (Triple("look", "followed_by", "buy"),), (Source("r0", words=False),), ("buy",))
    memory.lessons.change(LessonChange(put=[old.row()]), namespace=NS)
    assert says_nothing(old.row())
    assert memory.principles.at(HERE, namespace=NS) == []
    assert memory.principles.search(text, namespace=NS, floor=-1.0) == []
    assert memory.lessons.lessons(NS).get(old.id) is not None


def test_what_a_model_wrote_is_told_whatever_its_words() -> None:
    words = "After look, calling no tool is right where the user asks for none."
    assert not says_nothing(Principle("guiding", words, distilled_by="small").row())
    assert not says_nothing(Experience("s", "a", "o", words, "golden", "exploration", 1.0, distilled_by="small").row())


@pytest.mark.parametrize("state", ["The user wants to change the flight of a basic economy reservation", ""])
def test_in_the_airline_runs_no_suggestion_goes_against_a_lesson_beside_it(
    memory: Memory, recorded_runs: Path, state: str
) -> None:
    """After get_user_details all five runs that called search_direct_flight failed."""
    suggested: list[str] = []
    memory.ingest(recorded_runs / "tau-bench" / "historical_trajectories" / "gpt-4o-airline.json.xz")
    memory.principles.distill(namespace=NS)
    memory.experiences.distill(namespace=NS)
    known = memory.lessons.list("principle", namespace=NS)
    for last in ("get_user_details", "get_reservation_details", "search_direct_flight"):
        told = memory.prompt(state=state, after=last, environment="airline")
        here = memory.principles.advice_after((last,), namespace=NS, environment="airline")
        suggested_now = {one.tool for one in told.suggestions}
        assert last != "get_user_details" or "search_direct_flight" not in suggested_now
        warned = {one.tool for one in told.suggestions.warnings}
        rules = [Principle.of(one.row) for one in known if one.row.id in told.lessons]
        suggested += suggested_now
        for one in rules:
            assert not here.advice_of(one).better & warned
            assert not here.advice_of(one).worse & (suggested_now - warned)
    assert suggested


def test_an_experience_about_what_comes_next_is_given_before_a_more_similar_one(memory: Memory) -> None:
    goal = "Refund parcel, broken glass"
    memory.ingest(
        [
            trajectory("a1", "get_order", "refund", goal=goal, task="a", success=True),
            trajectory("a2", "get_order", "close_ticket", goal=goal, task="a", success=False),
            trajectory("b1", "find_user", "get_order", goal=f"{goal}, order of a friend", task="b", success=True),
            trajectory("b2", "send_mail", "get_order", goal=f"{goal}, order of a friend", task="b", success=False),
        ]
    )
    memory.experiences.distill(namespace=NS)

    def given(*after: str) -> set[str]:
        here = memory.principles.advice_after(after, namespace=NS)
        found = memory.experiences.search(f"In shop. User: {goal}", here=here, k=2, namespace=NS)
        assert here.concerns(found[0].experience)
        return {one.experience.conditions.preconditions[0] for one in found}

    plain = memory.experiences.search(f"In shop. User: {goal}", k=4, namespace=NS)
    assert [one.experience.conditions.preconditions[0] for one in plain][:2] == ["after get_order"] * 2
    assert given("get_order") == {"after get_order"}
    assert given() == {"at the start"}
