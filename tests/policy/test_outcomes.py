"""What the hybrid makes of how runs ended: ways that worked are named, ways that failed are warned of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hepm import FailedWay, Memory, Suggestions, Trajectory, from_messages
from hepm.experience.lessons import Principle, Triple
from hepm.experience.moment import LessonLine
from hepm.experience.prompt import lesson_item, render
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.transitions import without_hints
from hepm.memory.guard import SILENT, at_level
from hepm.memory.messages import as_messages
from hepm.policy import Hybrid, Query, floors_of
from hepm.policy.speech import AGREED
from hepm.types import DONE_HINT, END
from tests.evidence.remembered import filled, told
from tests.runs import messages_after, trajectory

WORDS = ["red", "blue", "green", "old", "new", "big", "small", "tall", "round", "flat", "soft", "cold", "warm", "dry"]


def request(number: int, about: str) -> str:
    """What a user says: a few words of no meaning, and what it is about."""
    return f"{WORDS[number % 14]} {WORDS[number * 5 % 14]} item {number}, {about}"


def calls(tool: str, about: str, *, won: int = 0, lost: int = 0, last: str = "get_order") -> list[Trajectory]:
    """Runs that called a tool after another one about something."""
    return [
        trajectory(f"{about} {tool} {last} {n}", last, tool, goal=request(n, about), success=n < won)
        for n in range(won + lost)
    ]


def ask(folder: Path, runs: Sequence[Trajectory], about: str, **options: object) -> Suggestions:
    """What is suggested after `get_order` in a new run about something."""
    return answer(folder, runs, request(99, about), **options)


def answer(folder: Path, runs: Sequence[Trajectory], user: str, **options: object) -> Suggestions:
    with filled(folder, runs) as memory:
        messages = messages_after(user, ("get_order", "get_order done"))
        return memory.suggest(messages=messages, **options)  # type: ignore[arg-type]


def test_the_refund_case_is_answered_with_what_worked_and_a_warning_of_what_failed(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for n in range(10):
        runs.append(trajectory(f"won {n}", "get_order", "refund", goal=f"Refund parcel {n}, it never came"))
        goal = f"Refund parcel {n + 10}, broken glass"
        runs.append(trajectory(f"lost {n}", "get_order", "close_ticket", goal=goal, success=False))
    for n, goal in enumerate(("Thanks, all is well", "My question answered itself", "Please close this")):
        runs.append(trajectory(f"other {n}", "find_ticket", "close_ticket", goal=goal))
    found = answer(tmp_path, runs, "Refund parcel 77, broken glass")
    assert FailedWay("close_ticket", 10, 10, others=10, instead="refund", worked=10, tried=10) in found.warnings
    assert found.prompt() == (
        "Suggested next tools: refund; "
        "close_ticket: failed in 10 of 10 like runs here, while refund succeeded in 10 of 10"
    )
    assert list(answer(tmp_path / "sure", runs, "Refund parcel 77, broken glass", speak="sure")) == []


@pytest.mark.parametrize(
    ("all_did", "others", "named"), [(AGREED - 1, 0, []), (AGREED, 0, ["refund"]), (AGREED, 3, [])]
)
def test_what_all_did_is_named_to_a_new_request_once_another_way_would_have_shown(
    tmp_path: Path, all_did: int, others: int, named: list[str]
) -> None:
    elsewhere = [trajectory(f"read {n}", "look", "read", "write", "leave", goal=f"letter {n}") for n in range(20)]
    runs = calls("refund", "broken", won=all_did) + calls("resend", "broken", won=others) + elsewhere
    found = ask(tmp_path, runs, "a lamp that hums", speak="sure")
    assert [one.tool for one in found] == named


def desk(number: int, *calls: str, result: str = "done") -> list[dict[str, Any]]:
    """A conversation in which a parcel, or the network, is spoken of by turns; the last call returned `result`."""
    wish = f"parcel {number} never came" if number % 2 else f"the network of desk {number} is slow"
    *others, last = calls
    return messages_after(wish, *others, (last, result))


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Memory]:
    """Parcels are refunded and closed, networks reset and closed; a few agents then look at another parcel."""
    with Memory.open(tmp_path) as memory:
        for number in range(80):
            ways = ("get_order", "refund", "close") if number % 2 else ("ping", "reset", "close")
            extra = ("get_order",) if number % 20 == 3 else ()
            memory.ingest(from_messages(desk(number, *ways, *extra), id=f"run {number}", success=True))
        yield memory


def test_after_a_call_that_runs_with_such_a_request_did_not_make_nothing_is_named(desks: Memory) -> None:
    assert [one.tool for one in desks.suggest(messages=desk(101, "get_order"))] == ["refund"]
    strayed = desks.suggest(messages=desk(100, "get_order"))
    assert not strayed
    assert strayed.abstained == "successful runs with such a request hardly ever called get_order"


def tracked(what: str) -> list[dict[str, Any]]:
    """A conversation in which something is tracked."""
    wish = f"please track the delivery, courier and status of the {what} parcel"
    return messages_after(wish, "track", "close")


def refunded(what: str, *calls: str) -> list[dict[str, Any]]:
    """A conversation in which money is refunded, or the calls that are made first."""
    return messages_after(f"refund my money of the {what}", *calls)


ANSWERED: dict[str, Any] = {"role": "assistant", "content": "It is on its way."}


def test_a_call_for_a_second_request_of_the_user_does_not_count_as_stray(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "runs.hepm") as memory:
        for number in range(40):
            memory.ingest(from_messages(tracked(WORDS[number % 14]), id=f"tracked {number}", success=True))
            whole = refunded(WORDS[number % 14], "get_order", "refund", "mail")
            memory.ingest(from_messages(whole, id=f"refunded {number}", success=True))
        found = memory.suggest(messages=[*tracked("velvet"), ANSWERED, *refunded("hat", "get_order")])
    assert [one.tool for one in found] == ["refund"]


def test_a_new_wish_of_the_user_is_answered_where_most_runs_with_the_first_one_ended(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "runs.hepm") as memory:
        for number in range(240):
            messages = tracked(WORDS[number % 14])
            if number % 6 == 0:
                messages += [ANSWERED, *refunded(WORDS[number % 14], "get_order", "refund")]
            memory.ingest(from_messages(messages, id=f"run {number}", success=True))
        assert memory.suggest(messages=tracked("velvet")).abstained == "runs like this one were done here"
        found = memory.suggest(messages=[*tracked("velvet"), ANSWERED, *refunded("hat")])
    assert [one.tool for one in found] == ["get_order"]


def test_where_most_runs_with_such_a_request_ended_nothing_is_named(desks: Memory) -> None:
    found = desks.suggest(messages=desk(101, "get_order", "refund", "close"), speak="weighed")
    assert not found
    assert found.abstained == "runs like this one were done here"


def refund_desk(folder: Path, *, went_on: int = 0, failed: int = 0, runs: int = 60) -> Memory:
    """Refunds, after some of which a mail was sent; more that failed; and deliveries that are tracked."""
    memory = Memory.open(folder)
    for number in range(runs + failed):
        called = ("get_order", "refund", "mail") if number < went_on else ("get_order", "refund")
        messages = refunded(WORDS[number % 14], *called)
        memory.ingest(from_messages(messages, id=f"refunded {number}", success=number < runs))
        memory.ingest(from_messages(tracked(WORDS[number % 14]), id=f"tracked {number}", success=True))
    return memory


@pytest.mark.parametrize("went_on", [0, 1])
def test_an_agent_is_told_where_nearly_all_runs_with_such_a_request_ended(tmp_path: Path, went_on: int) -> None:
    with refund_desk(tmp_path, went_on=went_on) as memory:
        found = memory.suggest(messages=refunded("velvet", "get_order", "refund"))
        assert found.done > 0.93
        assert not memory.suggest(messages=refunded("velvet", "get_order", "refund"), tools=["mail"]).done
    assert found.prompt().startswith(DONE_HINT)
    assert without_hints(f"thanks\n{found.prompt()}") == "thanks"
    assert not at_level(SILENT, found).prompt()


def test_an_agent_is_not_told_that_it_is_done_where_some_runs_went_on_or_most_failed(tmp_path: Path) -> None:
    for about in ({"went_on": 8}, {"failed": 120}, {"runs": 6}):
        with refund_desk(tmp_path / str(about), **about) as memory:
            assert not memory.suggest(messages=refunded("velvet", "get_order", "refund")).prompt()


def test_an_agent_is_not_told_that_it_is_done_without_a_usual_call_or_after_a_new_wish(tmp_path: Path) -> None:
    with refund_desk(tmp_path, went_on=1) as memory:
        assert not memory.suggest(messages=refunded("velvet", "refund")).done
        asked_more = [*refunded("velvet", "get_order"), ANSWERED, *refunded("hat", "refund")]
        assert not memory.suggest(messages=asked_more).done


def test_an_agent_is_not_told_that_it_is_done_beside_a_lesson_that_asks_for_more(tmp_path: Path) -> None:
    lesson = Principle("guiding", "After refund, call mail.", triples=(Triple("refund", "followed_by", "mail"),))
    item = lesson_item(LessonLine(lesson, "After refund, call mail."))
    found = Suggestions(done=0.97)
    assert render([], found).hint
    assert not render([item], found).hint


def cases(count: int) -> Iterator[Trajectory]:
    """Open cases are lost where runs stop, and won by one of two calls; nothing known separates these."""
    for n in range(count):
        state, tool, won = ("open", *((["pay", "send"][n % 4 // 2], True), ("", False))[n % 2])
        if n % 3 == 0:
            state, tool, won = "closed", "pay" if n % 9 == 0 else "", n % 9 > 0
        steps = [("look", {"state": state}), *[(tool, "done")] * bool(tool)]
        yield told(f"run {n}", *steps, success=won, goal=request(n, "see to it"), last="That is all.")


def test_an_agent_is_warned_of_stopping_where_runs_that_stopped_failed_and_not_where_they_did_not(
    tmp_path: Path,
) -> None:
    with filled(tmp_path, cases(90)) as memory:
        asked = {
            state: messages_after(request(99, "see to it"), ("look", json.dumps({"state": state})))
            for state in ("open", "closed")
        }
        found = {state: memory.suggest(messages=messages, speak="sure") for state, messages in asked.items()}
        lost = {run.id for run in memory.runs() if not run.outcome.success}
    assert found["open"].prompt() == (
        "Ways that failed from here: stopping (30 of 30 like runs here, while 30 with other tools succeeded)"
    )
    assert lost.issuperset(found["open"].warnings[0].failed_runs)
    assert not without_hints(found["open"].prompt())
    assert not found["closed"].warnings


def test_the_second_wish_of_a_conversation_is_answered_though_most_runs_had_one_wish(tmp_path: Path) -> None:
    calls_of = {
        "my card was stolen": ("block_card", "order_card"),
        "raise my limit": ("check_score", "set_limit"),
        "I moved to another street": ("update_address", "send_letter"),
    }

    def served(*wishes: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for number, wish in enumerate(wishes):
            called = calls_of[wish] if number else ("find_customer", *calls_of[wish])
            steps = [(tool, "ok") for tool in called]
            messages += [*messages_after(wish, *steps), {"role": "assistant", "content": "Done."}]
        return messages

    kinds = [*calls_of]
    with Memory.open(tmp_path) as memory:
        for n in range(150):
            first, second = kinds[n % 3], kinds[(n + 1 + n // 3 % 2) % 3]
            wishes = [first, second] if n % 5 < 2 else [first]
            memory.ingest(from_messages(served(*wishes), id=f"run {n}", success=n % 11 > 0))
        found = memory.suggest(messages=[*served(kinds[0]), {"role": "user", "content": kinds[1]}], speak="sure")
    assert [one.tool for one in found] == ["check_score"]


@pytest.mark.parametrize("tasks", [2, 8])
def test_an_agent_with_a_new_request_is_not_warned_of_stopping_by_runs_of_two_tasks(tmp_path: Path, tasks: int) -> None:
    runs: list[Trajectory] = []
    for n in range(8):
        goal, looked = request(n % tasks, "see to it"), ("look", {"state": "open"})
        runs.append(told(f"stopped {n}", looked, success=False, goal=goal, last="That is all."))
        runs.append(told(f"went on {n}", looked, (("pay", "send")[n % 2], "done"), goal=request(20 + n, "see to it")))
    messages = messages_after("round, flat and dry: see to them", ("look", json.dumps({"state": "open"})))
    with filled(tmp_path, runs) as memory:
        warned = memory.suggest(messages=messages, speak="sure").warnings
    assert [way.tool for way in warned] == [END] * (tasks > 2)


def test_nothing_is_named_before_the_user_agrees_where_runs_asked_the_user_first(tmp_path: Path) -> None:
    def looked(n: int) -> list[dict[str, Any]]:
        return messages_after(request(n, "roll it back"), ("look", "all is slow"))

    asked = [{"role": "assistant", "content": "Shall I roll it back?"}, {"role": "user", "content": "yes please"}]
    with Memory.open(tmp_path) as memory:
        for n in range(40):
            messages = looked(n) + asked + desk(1, "roll_back")[1:]
            memory.ingest(from_messages(messages, id=f"run {n}", success=n % 10 > 0))
        before, after = (memory.suggest(messages=looked(99) + agreed) for agreed in ([], asked))
    assert before.abstained == "runs like this one waited for the user here"
    assert [one.tool for one in after] == ["roll_back"]


def test_a_call_waits_for_the_user_if_it_did_in_the_runs_that_succeeded_by_it(tmp_path: Path) -> None:
    def looked(n: int) -> list[dict[str, Any]]:
        return messages_after(request(n, "my bill is wrong"), ("look", {"fee": 10 + 80 * (n % 2)}))

    asked = [{"role": "assistant", "content": "Shall I?"}, {"role": "user", "content": "yes please"}]
    with Memory.open(tmp_path) as memory:
        for n in range(80):
            waits, right = n % 10 > 1, "forward" if n % 2 else "waive"
            messages = looked(n) + asked * waits + desk(1, right)[1:]
            memory.ingest(from_messages(messages, id=f"run {n}", success=waits))
        before, after = (memory.suggest(messages=looked(98) + agreed) for agreed in ([], asked))
    assert (before.ranked, [one.tool for one in after]) == ((), ["waive"])


def test_after_thanks_at_which_most_runs_ended_nothing_is_named_for_the_failures_of_others(tmp_path: Path) -> None:
    def thanked(n: int) -> list[dict[str, Any]]:
        looked = messages_after(request(n, "raise my limit"), ("set_limit", "ok"))
        return [*looked, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "thanks"}]

    with Memory.open(tmp_path) as memory:
        for n in range(48):
            tool = {0: "block_card", 1: "check_score", 2: "check_score"}.get(n % 8)
            messages = thanked(n) + (desk(1, tool)[1:] if tool else [{"role": "assistant", "content": "Bye."}])
            memory.ingest(from_messages(messages, id=f"run {n}", success=tool != "block_card"))
        found = memory.suggest(messages=thanked(99), speak="sure")
    assert not found
    assert [way.tool for way in found.warnings] == ["block_card"]


def test_after_a_result_that_has_nothing_of_the_known_ones_nothing_is_named(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        for number in range(80):
            clean = number % 4 > 0
            result = json.dumps({"state": "clean" if clean else "dirty", "floor": number % 7})
            messages = desk(1, "get_room", result=result) + desk(1, "check_in" if clean else "call_cleaning")[1:]
            memory.ingest(from_messages(messages, id=f"run {number}", success=number % 9 > 0))
        dirty = memory.suggest(messages=desk(1, "get_room", result='{"state": "dirty", "floor": 2}'))
        unlike = memory.suggest(messages=desk(1, "get_room", result='{"error": "no such room"}'))
    assert [one.tool for one in dirty] == ["call_cleaning"]
    assert unlike.abstained == "hardly any known result of get_room was like this one"


def test_a_result_that_no_question_asks_for_is_not_strange_where_others_like_it_are_known(tmp_path: Path) -> None:
    states = ["lost", "stolen", "held", "expired", "missing", "damaged", "refused", "broken"]
    with Memory.open(tmp_path / "runs.hepm") as memory:
        for number in range(16):
            for tool in ("ship", "escalate"):
                known = "ok" if number % 2 else states[number // 2]
                messages = desk(1, "get_order", result=json.dumps({"state": known})) + desk(1, tool)[1:]
                won = (tool == "ship") == (known == "ok")
                memory.ingest(from_messages(messages, id=f"{tool} {number}", success=won))
        found = memory.suggest(messages=desk(1, "get_order", result='{"state": "held"}'))
    assert [one.tool for one in found] == ["escalate"]
    assert [way.tool for way in found.warnings] == ["ship"]


def test_what_is_strange_is_named_by_the_tool_that_returned_it(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "runs.hepm") as memory:
        for number in range(40):
            tier, tool = ("gold", "express") if number % 2 else ("silver", "normal")
            messages = desk(1, "get_user", result=json.dumps({"tier": tier})) + desk(1, "get_order", tool)[1:]
            memory.ingest(from_messages(messages, id=f"run {number}", success=True))
        messages = desk(1, "get_user", result='{"tier": "bronze"}') + desk(1, "get_order")[1:]
        assert memory.suggest(messages=messages).abstained == "hardly any known result of get_user was like this one"


def test_two_failures_warn_and_say_what_worked(tmp_path: Path) -> None:
    found = ask(tmp_path, calls("close", "broken", lost=2) + calls("refund", "broken", won=6), "broken")
    assert found.warnings == (FailedWay("close", 2, 2, others=6, instead="refund", worked=6, tried=6),)


def test_the_only_failed_run_of_a_tool_warns_of_nothing(tmp_path: Path) -> None:
    found = ask(tmp_path, calls("close", "broken", lost=1) + calls("refund", "broken", won=6), "broken")
    assert found.warnings == ()


def test_a_warning_names_no_way_that_shares_its_successes_with_others(tmp_path: Path) -> None:
    runs = calls("close", "broken", lost=4) + calls("refund", "broken", won=5) + calls("resend", "broken", won=5)
    (warning,) = ask(tmp_path, runs, "broken").warnings
    assert (warning.tool, warning.instead) == ("close", "")


def test_what_worked_is_said_by_the_name_that_the_agent_has_it_under(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.ingest(calls("close", "broken", lost=6) + calls("refund", "broken", won=6))
        memory.tools.add_alias("pay_back", "refund")
        found = memory.suggest("get_order", state=request(99, "broken"), tools=["pay_back", "close"])
    assert [warning.instead for warning in found.warnings] == ["pay_back"]


def test_a_tool_that_mostly_succeeds_is_not_warned_of_for_its_failures(tmp_path: Path) -> None:
    """Twelve of its sixty runs failed, as of the other's."""
    runs = calls("close", "broken", won=48, lost=12) + calls("refund", "broken", won=24, lost=6)
    assert ask(tmp_path, runs, "broken").warnings == ()


def test_where_no_way_from_here_ever_worked_none_is_named_and_none_is_blamed(tmp_path: Path) -> None:
    runs = calls("close", "broken", lost=3) + calls("wait", "broken", lost=2) + calls("sing", "fun", won=9, last="hum")
    found = ask(tmp_path, runs, "broken")
    assert list(found) == []
    assert found.abstained == "every known way after get_order failed in runs like this one"
    assert found.prompt() == ""


def test_a_tool_that_is_not_at_hand_is_neither_named_nor_warned_of(tmp_path: Path) -> None:
    runs = calls("close", "broken", lost=12) + calls("refund", "broken", won=6) + calls("ask", "broken", won=6)
    found = ask(tmp_path, runs, "broken", tools=["refund", "ask"])
    assert {s.tool for s in found} <= {"refund", "ask"}
    assert found.warnings == ()


def test_where_all_that_is_at_hand_failed_from_here_that_is_told_though_other_tools_worked(tmp_path: Path) -> None:
    runs = calls("close", "broken", lost=10) + calls("refund", "broken", won=10)
    found = ask(tmp_path, runs, "broken", tools=["close", "unknown"])
    assert list(found) == []
    assert [way.tool for way in found.warnings] == ["close"]
    assert found.prompt().startswith("Ways that failed from here: close (")


def test_a_tool_at_hand_that_mostly_failed_here_is_warned_of_and_not_named_though_nothing_better_is(
    tmp_path: Path,
) -> None:
    runs = calls("close", "broken", won=3, lost=12) + calls("refund", "broken", won=10)
    found = ask(tmp_path, runs + calls("sing", "fun", won=10, last="hum"), "broken", tools=["close", "sing"])
    assert list(found) == []
    assert found.abstained == "what is known after get_order mostly failed in runs like this one"
    told = "close (12 of 15 like runs here, while 10 with other tools succeeded)"
    assert found.prompt() == f"Ways that failed from here: {told}"


def test_the_only_way_that_ever_worked_here_is_named_though_most_runs_failed_with_it(tmp_path: Path) -> None:
    """A hard task: what easier ones begin with does not solve it."""
    hard = calls("read_inbox", "hobbies of employees for our site", won=4, lost=13)
    others = "invite Dora to the workspace", "summarise the page on prices", "where is the coffee mug"
    easy = [run for about in others for run in calls("get_page", about, won=30)]
    found = ask(tmp_path, hard + easy, "hobbies of employees for our site")
    assert found[0].tool == "read_inbox"
    assert not found.warnings


@pytest.mark.parametrize("after", [["look", "count"], ["count", "look"]])
def test_after_parallel_calls_a_failed_way_is_warned_of_whichever_was_recorded_last(
    tmp_path: Path, after: list[str]
) -> None:
    runs = [
        trajectory(f"{tool} {n}", "look+count", tool, goal=request(n, "broken"), success=tool == "refund")
        for tool in ("close", "refund")
        for n in range(12)
    ]
    with filled(tmp_path, runs) as memory:
        found = memory.suggest(after, state=request(99, "broken"))
    assert [one.tool for one in found] == ["refund"]
    assert found.warnings == (FailedWay("close", 12, 12, others=12, instead="refund", worked=12, tried=12),)


def test_a_tool_whose_runs_are_all_forgotten_is_as_unknown_as_to_a_fresh_memory(tmp_path: Path) -> None:
    kept, gone = calls("refund", "broken", won=6), calls("sing", "fun", won=6, last="hum")
    with (
        Memory.open(tmp_path / "live", speak="weighed") as live,
        Memory.open(tmp_path / "fresh", speak="weighed") as fresh,
    ):
        live.ingest(kept + gone)
        live.suggest("hum", state="fun")
        for run in gone:
            live.forget(trajectory=run.id)
        fresh.ingest(kept)
        found = live.suggest("hum", state="fun").abstained
        assert found == fresh.suggest("hum", state="fun").abstained
        assert found.startswith("no run in the namespace 'default' called hum")


def test_one_failed_run_that_called_many_tools_is_no_proof_that_all_ways_failed(tmp_path: Path) -> None:
    runs = [
        trajectory("lost", "get_order", "a", "get_order", "b", "get_order", "c", success=False),
        trajectory("won", "hum", "a", "hum", "b"),
    ]
    assert ask(tmp_path, runs, "broken").warnings == ()


def test_runs_without_vectors_count_as_support_beside_one_with_them(tmp_path: Path) -> None:
    with filled(tmp_path, calls("refund", "broken", won=20), options=IngestOptions(vectors=False)) as memory:
        memory.ingest(calls("sing", "fun", won=1, last="hum"))
        assert memory.suggest("get_order", state="please refund it")[0].tool == "refund"


def test_vectors_of_another_size_are_not_compared(tmp_path: Path) -> None:
    """While another process embeds anew, queries and what was read may differ for a moment."""
    with filled(tmp_path, calls("refund", "broken", won=20)) as memory:
        query = Query(("get_order",), ("get_order",), vector=np.ones(64, dtype=np.float32) / 8)
        assert memory.suggest("get_order", policy=Hybrid(floors=floors_of("weighed")))[0].tool == "refund"
        assert Hybrid(floors=floors_of("weighed")).suggest(memory.mirror(), query)[0].tool == "refund"


def test_without_a_state_the_most_frequent_way_that_does_not_fail_is_named(memory: Memory) -> None:
    memory.ingest(calls("close", "broken", won=6, lost=30) + calls("refund", "broken", won=5, lost=1))
    found = memory.suggest("get_order")
    assert [s.tool for s in found] == ["refund"]
    assert found[0].reason == "5 of 6 such runs succeeded with it, 6 of 36 with close"
    assert [(way.tool, way.failures, way.runs) for way in found.warnings] == [("close", 30, 36)]


def test_a_reason_counts_runs_that_succeeded_though_no_later_mistake_is_charged_to_a_call(tmp_path: Path) -> None:
    goals = [request(i, "broken") for i in range(24)]
    runs = [trajectory(f"won {i}", "get_order", "refund", "close", goal=goals[i]) for i in range(18)]
    runs += [
        trajectory(f"lost {i}", "get_order", "refund", "shout", goal=goals[i], success=False) for i in range(18, 24)
    ]
    [first, *_] = ask(tmp_path, runs, "broken", speak="all")
    assert first.tool == "refund"
    assert "18 of 24 such runs succeeded with it" in first.reason


def contract(number: int, country: str, annex: str, tool: str, *, well: bool) -> Trajectory:
    """A run that reads a template, whose one word says whether an annex is needed, for a customer in a country."""
    about = {"goal": f"Prepare the contract with {country} papers and {country} law, number {number}"}
    calls = ("fetch_template", {"annex": annex, "country": country}), (tool, "done")
    return told(f"{country} {annex} {tool} {number}", *calls, success=well, task=f"{number}", **about)


def test_a_tool_that_only_failed_in_like_runs_is_not_warned_of_where_a_fact_speaks_for_it(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for n in range(20):
        runs.append(contract(n, "Swiss", "needed", "add_annex", well=True))
        runs.append(contract(n, "Swiss", "none", "send_contract", well=True))
    for n in range(6):
        # In Norway no run needed one, so that the runs most like the next one only failed with it.
        runs.append(contract(n, "Norwegian", "none", "add_annex", well=False))
        runs.append(contract(n, "Norwegian", "none", "send_contract", well=True))
    asked = "Prepare the contract with Norwegian papers and Norwegian law, number 99"

    def warned(annex: str) -> list[str]:
        messages = messages_after(asked, ("fetch_template", json.dumps({"annex": annex, "country": "Norwegian"})))
        return [way.tool for way in memory.suggest(messages=messages).warnings]

    with filled(tmp_path, runs) as memory:
        assert warned("none") == ["add_annex"]
        assert warned("needed") == []


def logs(number: int, *texts: str, then: str) -> Trajectory:
    """A run that reads a log for each text, and then makes a call."""
    goal = f"{WORDS[number % 14]} host {number} is slow, {WORDS[number * 5 % 14]}"
    return told(f"log {number}", *(("read_log", text) for text in texts), (then, ""), goal=goal)


def test_a_word_that_an_earlier_result_of_the_same_tool_said_decides_too(tmp_path: Path) -> None:
    quiet, full = "all requests were answered in time", "write failed as no space is left on the device"
    runs = [logs(number, full, quiet, then="clean_up") for number in range(12)]
    runs += [logs(number, quiet, quiet, then="restart") for number in range(12, 24)]
    asked = logs(99, full, quiet, then="restart").turns[:-1]
    with Memory.open(tmp_path) as memory:
        memory.ingest(runs)
        [first, *_] = memory.suggest(messages=list(as_messages(asked)), speak="all")
    assert first.tool == "clean_up"
    assert 'a result of read_log says "device" (12 of 12 such runs succeeded with it)' in first.reason


@pytest.mark.parametrize("numbered", [True, False])
def test_requests_in_the_same_words_are_cases_of_their_own_if_their_numbers_differ(
    tmp_path: Path, numbered: bool
) -> None:
    """Of two wordings alone nothing could be said that holds for others."""
    runs: list[Trajectory] = []
    for number in range(48):
        zone = ("east", "west")[number // 2 % 2]
        order = f"O-{1000 + number}" if numbered else "my order"
        goal = f"{('route', 'which depot takes')[number % 2]} {order}"
        runs.append(told(f"run {number}", ("get_address", {"zone": zone}), (f"send_{zone}", ""), goal=goal))
    for number in range(10):  # so many families that each is one case
        goal = f"{WORDS[number]} {WORDS[number + 2]} wants something else"
        runs.append(told(f"other {number}", ("get_address", {"zone": "none"}), ("hand_over", ""), goal=goal))
    with Memory.open(tmp_path) as memory:
        memory.ingest(runs)
        [first, *_] = memory.suggest(messages=list(as_messages(runs[2].turns[:-1])), speak="all")
    assert ("get_address says zone is west" in first.reason) is numbered


def test_a_word_of_a_result_decides_however_long_the_result_is(tmp_path: Path) -> None:
    """What is stored of a long result, and what an agent sees of it, are the same facts."""

    def sent(number: int) -> Trajectory:
        zone = ("east", "west")[number % 2]
        lines = [{"sku": f"S-{number}{line}", "left": (number * line) % 7} for line in range(60)]
        order = {"id": f"O-{number}", "lines": lines, "zone": zone}
        goal = f"{WORDS[number % 14]} {WORDS[number * 5 % 14]} asks about order {number}"
        return told(f"run {number}", ("get_order", order), (f"send_{zone}", ""), goal=goal)

    with Memory.open(tmp_path) as memory:
        memory.ingest(map(sent, range(80)))
        for number in (100, 101):
            [first, *_] = memory.suggest(messages=list(as_messages(sent(number).turns[:-1])))
            assert first.tool == ("send_east", "send_west")[number % 2]
            assert "get_order says zone is" in first.reason
