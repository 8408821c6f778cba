"""The report on a made-up desk whose mistakes are known, as Python, on the command line and as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.graph.trials import CONTROL, MEMORY, Trial
from hepm.report.report import Report
from hepm.report.rows import ReportRow
from hepm.report.text import report_lines
from hepm.types import TRIAL
from tests.faults.command import hepm, quick
from tests.report.desk import RIGHT, THINGS, desk_run, desk_runs
from tests.runs import trajectory


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory.open(tmp_path_factory.mktemp("desk") / "m.hepm") as memory:
        memory.ingest(desk_runs())
        yield memory


@pytest.fixture(scope="module")
def found(desk: Memory) -> Report:
    return desk.report()


def report_of(tmp_path: Path, *runs: Trajectory) -> Report:
    with Memory.open(tmp_path / f"{len(runs)}.hepm") as memory:
        memory.ingest(runs)
        return memory.report()


# Forks


def test_each_mistake_is_a_fork_with_its_condition_and_what_worked_instead(found: Report) -> None:
    told = {(fork.where, fork.mistakes[0].tool, fork.stands_out and fork.ways[0].tool) for fork in found.forks}
    assert told == {
        (f"when get_order says status is {status}", RIGHT[other], RIGHT[status])
        for status, other in (("delivered", "pending"), ("pending", "delivered"))
    }


def test_a_fork_tells_since_when_which_models_and_runs_of_each_side_to_open(desk: Memory, found: Report) -> None:
    for fork in found.forks:
        assert set(fork.models) == {"small", "large"}
        assert re.fullmatch(r"since \d{4}-\d\d-\d\d, last on \d{4}-\d\d-\d\d", fork.when)
        assert fork.stands_out
        for tally, won in ((fork.mistakes[0], False), (fork.ways[0], True)):
            assert len(tally.shown) == 2
            for shown in tally.shown:
                run = desk.run(shown.id)
                assert run.outcome.success is won
                assert run.turns[0].text == shown.request


def test_a_fork_shows_a_failed_and_a_successful_run_that_are_alike_at_the_step_where_they_part(
    desk: Memory, found: Report
) -> None:
    for fork in found.forks:
        (failed, _), (worked, _) = fork.mistakes[0].shown, fork.ways[0].shown
        did, did_instead = fork.mistakes[0].step, fork.ways[0].step
        # Both want the same thing away: ten things are asked for.
        assert failed.request.split(",")[0] == worked.request.split(",")[0]
        assert did.before.startswith("get_order(id=")
        assert f'"status": "{fork.where.split()[-1]}"' in did.before
        assert did.call.startswith(f"{fork.mistakes[0].tool}(id=")
        assert did_instead.call.startswith(f"{fork.ways[0].tool}(id=")
        lines = list(report_lines(found))
        assert any(failed.id in line and did.before in line and did.call in line for line in lines)


def test_of_two_runs_side_by_side_both_have_the_same_task_where_there_is_such_a_pair(tmp_path: Path) -> None:
    runs = [replace(run, task="") for run in desk_runs()]
    runs += [
        desk_run(number, "delivered", tool, task="same")
        for number, tool in ((300, "cancel_order"), (301, "return_items"))
    ]
    fork = next(fork for fork in report_of(tmp_path, *runs).forks if fork.where.endswith("delivered"))
    assert [tally.shown[0].id for tally in (*fork.mistakes, *fork.ways)] == ["desk-300", "desk-301"]


@pytest.fixture(scope="module")
def recorded_desks(recorded_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Recorded runs of two desks in one namespace."""
    with Memory.open(tmp_path_factory.mktemp("desks") / "m.hepm") as memory:
        for file in sorted(recorded_runs.glob("tau*/**/*.json.xz")):
            if ("airline" in file.name or "retail" in file.name) and "domains" not in file.parts:
                memory.ingest(file)
        yield memory


def test_the_runs_beside_a_fork_were_lost_by_its_call_and_saved_by_the_other_one(recorded_desks: Memory) -> None:
    runs = {run.id: run for run in recorded_desks.evidence().valued().runs}
    forks = [fork for fork in recorded_desks.report().forks if fork.ways]
    assert len(forks) > 3
    for fork in forks:
        failed, worked = fork.mistakes[0].shown[0], fork.ways[0].shown[0]
        # Of some tasks no run that went right there succeeded in the end.
        assert runs[worked.id].won or not any(runs[shown.id].won for shown in fork.ways[0].shown)
        assert not runs[failed.id].won
        assert worked.id not in fork.lost_runs
        # What the call cost, as a part of what the costliest call of its run did.
        part: dict[str, float] = {}
        for id in fork.lost_runs:
            missed = {(one.place.tool, tool): one.missed for one in runs[id].decisions for tool in one.tools}
            here = missed.get((fork.after, fork.mistakes[0].tool), 0.0)
            part[id] = here / max(missed.values())
        assert part[failed.id] == max(part.values()), fork.sentence


def test_the_first_sentence_says_the_sum_of_the_rows_without_what_stands_in_two(recorded_desks: Memory) -> None:
    first, *lines = report_lines(recorded_desks.report(), every=True)
    rows = [int(found[1]) for line in lines if (found := re.match(r"  about (\d+) \(\d+ to \d+\) lost ", line))]
    named = re.search(r"about (\d+) of .* at (\d+) places that other runs passed(?:, (\d+) of them at several)?", first)
    assert int(named[1]) + int(named[3] or 0) == sum(rows)
    assert int(named[2]) == len(rows)


def test_secrets_in_calls_are_not_shown_beside_a_fork(tmp_path: Path) -> None:
    def with_key(run: Trajectory) -> Trajectory:
        *turns, last = run.turns
        (call,) = last.calls
        return replace(run, turns=(*turns, replace(last, calls=(replace(call, result="password=hunter2hunter2"),))))

    found = report_of(tmp_path, *map(with_key, desk_runs()))
    assert found.forks[0].mistakes[0].step
    assert "hunter2hunter2" not in json.dumps(found.to_json())


def test_a_place_at_which_hardly_a_run_was_lost_is_no_fork(tmp_path: Path) -> None:
    def tried(number: int, tool: str) -> Trajectory:
        return trajectory(f"r{number}", "look", tool, success=tool == "buy", task=f"t{number}", goal=f"buy {number}")

    good = [tried(number, "buy") for number in range(30)]
    assert not report_of(tmp_path, *good, *(tried(number, "refund") for number in (50, 51))).forks
    assert report_of(tmp_path, *good, *(tried(number, "refund") for number in range(50, 56))).forks


def test_that_a_result_lacks_a_word_names_no_fork(tmp_path: Path) -> None:
    def noted(number: int) -> Trajectory:
        gift, tool = number % 2 == 0, ("keep", "send")[number // 2 % 2]
        words = f"a {'gift' if gift else ''} order of {THINGS[number % 10]}"
        turns = (
            Turn("user", f"do what is due, {number}"),
            Turn("assistant", calls=(ToolCall("read_note", {}, words),)),
            Turn("assistant", calls=(ToolCall(tool, {}, "done"),)),
        )
        won = gift or tool == "keep"
        return Trajectory(f"n{number}", turns, Outcome(None, won), task=f"t{number}")

    found = report_of(tmp_path, *map(noted, range(120)))
    assert not any("does not say" in fork.where for fork in found.forks)


def test_where_no_run_was_lost_or_none_has_an_outcome_the_sentence_says_so(tmp_path: Path) -> None:
    won = report_of(tmp_path, *(trajectory(f"r{number}", "look", "buy") for number in range(5)))
    assert won.sentence == "5 runs, 100 % succeeded; none was lost."
    open_ones = (trajectory(f"r{number}", "look", success=None) for number in range(4))
    assert report_of(tmp_path, *open_ones).sentence.endswith("nothing can be said of what goes wrong.")
    assert report_of(tmp_path).sentence == "No run is stored yet."


def test_a_mistake_in_one_task_alone_is_a_fork_of_that_task(tmp_path: Path) -> None:
    def tried(number: int, tool: str, task: str) -> Trajectory:
        won = tool == "look_again" or task != "hard"
        return trajectory(f"{task} {number}", "look", tool, success=won, task=task, goal=f"do {task}")

    runs = [tried(number, "look_again" if number % 2 else "refund", "hard") for number in range(16)]
    runs += [tried(number, "refund", f"easy {number % 10}") for number in range(60)]
    (fork,) = report_of(tmp_path, *runs).forks
    assert (fork.task, fork.mistakes[0].tool, fork.line) == ("hard", "refund", "")
    assert fork.stands_out
    assert fork.ways[0].tool == "look_again"


def test_two_tasks_under_one_id_are_no_fork_of_that_task(tmp_path: Path) -> None:
    def tried(number: int, tool: str, goal: str) -> Trajectory:
        won = tool == "look_again"
        return trajectory(f"{goal} {number}", "look", tool, success=won, task="7", goal=goal)

    goals = {"refund": "give my money back", "look_again": "book three flights"}
    told = [(number, ("refund", "look_again")[number % 2]) for number in range(16)]
    alike = [tried(number, tool, "give my money back") for number, tool in told]
    unlike = [tried(number, tool, goals[tool]) for number, tool in told]
    others = [trajectory(f"easy {n}", "look", "refund", task=f"easy {n % 10}", goal=f"do {n}") for n in range(60)]
    (fork,) = report_of(tmp_path, *alike, *others).forks
    assert fork.task == "7"
    assert not report_of(tmp_path, *unlike, *others, *others[:1]).forks


def test_equal_ids_of_tasks_in_two_environments_are_two_tasks(tmp_path: Path) -> None:
    runs = [desk_run(number, "delivered", "return_items", task="7") for number in range(12)]
    runs += [
        trajectory(f"f{number}", "search", "book", success=False, task="7", environment="flights")
        for number in range(12)
    ]
    found = report_of(tmp_path, *runs)
    assert not found.forks
    (row,) = rows_of(found, "Requests that fail")
    assert (row.name.split(" (")[0], row.counts["failed"], row.counts["runs"]) == ("task 7 of flights", 12, 12)


def test_warnings_at_the_start_of_two_environments_without_a_common_tool_are_two_forks(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for number in range(60):
        for desk in ("hotels", "mails"):
            tool = ("wrong", "list", "search")[number % 3]
            won = tool != "wrong"
            name, goal = f"{desk} {number}", f"{desk} {number}"
            runs.append(trajectory(name, f"{desk}_{tool}", success=won, task=name, goal=goal, environment=desk))
    told = {fork.mistakes[0].tool for fork in report_of(tmp_path, *runs).forks}
    assert told == {"hotels_wrong", "mails_wrong"}


def test_what_depends_on_who_the_user_is_is_no_fork(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for number in range(60):
        user = ("ann", "bob")[number % 2]
        tool = ("mail", "call")[number // 2 % 2]
        won = (user == "ann") == (tool == "mail")
        runs.append(trajectory(f"r{number}", "look", tool, success=won, user=user, task=f"t{number}"))
    found = report_of(tmp_path, *runs)
    assert not any("ann" in line or "bob" in line for line in report_lines(found))


# Requests, waste, tools, what memory did


def rows_of(report: Report, heading: str) -> list[ReportRow]:
    """The rows of a section; none where the report lacks it."""
    return [row for section in report.sections if section.heading == heading for row in section.rows]


def test_a_task_that_no_run_solved_is_named_by_its_id(tmp_path: Path) -> None:
    runs = [trajectory(f"w{n}", "look", "buy", task=f"t{n % 9}", goal=f"buy a lamp {n % 9}") for n in range(27)]
    runs += [trajectory(f"h{n}", "look", "sing", success=False, task="hard", goal="lamp for zorro") for n in range(4)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Requests that fail")
    assert (row.name, row.below) == ("task hard of shop", ["tried: look, sing"])
    assert row.text.startswith(": never solved in 4 runs")


def test_a_request_that_no_run_solved_is_not_named_by_words_whose_other_requests_were(tmp_path: Path) -> None:
    goals = [f"refund the broken {thing}" for thing in ("lamp", "cup", "plate", "clock")]
    runs = [trajectory(f"r{n}", "look", success=n % 4 > 0, goal=goals[n % 4]) for n in range(40)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Requests that fail")
    assert row.name == 'requests such as "refund the broken lamp"'


def test_of_runs_without_outcomes_no_report_says_how_many_failed(tmp_path: Path) -> None:
    failed, mended = ToolCall("deploy", {"to": "a"}, "no", error=True), ToolCall("deploy", {"to": "b"}, "done")
    runs = [replace(with_calls(f"r{n}", failed, mended), outcome=Outcome()) for n in range(3)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Waste")
    assert (row.kind, row.below) == ("error", ["it worked with other arguments in 3 runs"])
    assert "of these runs failed" not in row.text


def test_a_request_without_words_of_a_user_is_not_quoted(memory: Memory) -> None:
    call = Turn("assistant", calls=(ToolCall("look", result="x"),))
    lost = [Trajectory(f"lost {n}", (call,), Outcome(success=False), task="hard") for n in range(6)]
    won = [
        Trajectory(f"won {n}", (Turn("user", f"thing {n}"), call), Outcome(success=True), task=f"t{n}")
        for n in range(20)
    ]
    memory.ingest([*lost, *won])
    lines = list(report_lines(memory.report()))
    assert [line.strip() for line in lines if line.strip().startswith("run lost")] == ["run lost 4"]


def test_words_whose_requests_fail_far_more_often_name_a_kind(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for number in range(60):
        hard = number % 3 == 0
        goal = f"please {'insure' if hard else 'send'} parcel {'abcdefghij'[number % 10] * 4}"
        runs.append(trajectory(f"r{number}", "look", "send", success=not hard, goal=goal, task=f"t{number}"))
    (row, *_) = rows_of(report_of(tmp_path, *runs), "Requests that fail")
    assert row.name.startswith('requests that say "insure"')
    assert (row.counts["failed"], row.counts["runs"]) == (20, 20)


def test_words_that_name_a_kind_count_the_runs_that_say_them(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for number in range(120):
        hard = number % 60 % 3 == 0
        says = "insure" if hard != (number > 110) else "send"  # the same tasks again, two of them in other words
        goal = f"please {says} parcel {'abcdefghij'[number % 10] * 4}"
        runs.append(trajectory(f"r{number}", "look", "send", success=not hard, goal=goal, task=f"t{number % 60}"))
    (row, *_) = rows_of(report_of(tmp_path, *runs), "Requests that fail")
    said = [run for run in runs if "insure" in run.turns[0].text]
    assert row.name.startswith('requests that say "insure"')
    assert row.counts["runs"] == len(said)
    assert row.counts["failed"] == sum(run.outcome.success is False for run in said) < len(said)


def with_calls(name: str, *calls: ToolCall, success: bool = True, task: str = "t") -> Trajectory:
    turns = [Turn("user", "please help"), *(Turn("assistant", calls=(call,)) for call in calls)]
    return Trajectory(name, tuple(turns), Outcome(float(success), success), environment="shop", task=task)


def test_equal_calls_with_equal_results_are_waste_from_the_third_on(tmp_path: Path) -> None:
    same = ToolCall("poll", {"id": 1}, "pending", latency_s=2.0)
    other = [ToolCall("poll", {"id": 1}, f"{number} %") for number in range(5)]
    report = report_of(tmp_path, with_calls("loops", same, same, same, same), with_calls("moves on", *other))
    (row,) = rows_of(report, "Waste")
    assert (row.kind, row.name) == ("repeated", "poll")
    assert row.counts == {"calls": 3, "runs": 1, "seconds": 6.0, "tokens": row.counts["tokens"]}
    assert row.text.startswith(" called three times or more without change: 3 repeats in 1 run, 6 s, about ")
    assert [run.id for run in row.runs] == ["loops"]


def test_an_error_is_told_with_what_ended_it(tmp_path: Path) -> None:
    failed = ToolCall("deploy", {"to": "a"}, "Error: port 8080 is already in use", error=True)
    mended = ToolCall("deploy", {"to": "b"}, "done", error=False)
    runs = [with_calls(f"r{n}", failed, ToolCall("stop", {"port": n}, "ok"), mended) for n in range(3)]
    runs += [with_calls(f"s{n}", failed, mended, success=False) for n in range(2)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Waste")
    assert (row.kind, row.name, row.counts["runs"]) == ("error", "deploy", 5)
    assert row.text.startswith(' failed "port … is already in use": 5 calls in 5 runs, about ')
    assert row.text.endswith("; 2 of these runs failed")
    assert row.below == [
        "it worked after stop in 3 runs, of which 3 succeeded; "
        "worked with other arguments in 2 runs, of which 0 succeeded"
    ]


def test_what_ended_an_error_is_what_came_before_the_first_call_without_it_though_that_failed_otherwise(
    tmp_path: Path,
) -> None:
    refused, other = (ToolCall("test", {}, f"Error: {what}", error=True) for what in ("no database", "one is not two"))
    start, edit, good = ToolCall("start"), ToolCall("edit"), ToolCall("test", {}, "passed", error=False)
    runs = [with_calls(f"r{n}", refused, start, other, edit, good) for n in range(3)]
    runs += [with_calls(f"s{n}", refused, edit, other, refused, start, good) for n in range(2)]
    runs += [with_calls("last", refused, start, other, edit, success=False)]
    rows = {
        row.text.split('"')[1]: row.below for row in rows_of(report_of(tmp_path, *runs), "Waste") if row.kind == "error"
    }
    [of_refused] = rows["no database"]
    assert of_refused.startswith("it worked after start in 5 runs, of which 5 succeeded; ")
    assert "never worked again in 1 run, of which 0 succeeded" in of_refused


def test_calls_that_successful_runs_of_the_task_leave_out_are_waste(tmp_path: Path) -> None:
    runs = [trajectory(f"w{n}", "look", "buy", task="t") for n in range(5)]
    runs += [trajectory(f"l{n}", "look", "sing", "buy", success=False, task="t") for n in range(3)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Waste")
    assert (row.kind, row.name, row.counts["calls"], row.counts["runs"]) == ("left out", "sing", 3, 3)


def test_a_call_that_few_successful_runs_need_is_no_waste(tmp_path: Path) -> None:
    runs = [trajectory(f"w{n}", "look", "buy", success=n > 3, task="t") for n in range(25)]
    runs += [trajectory(f"h{n}", "look", "hold", "buy", task="t") for n in range(4)]
    assert rows_of(report_of(tmp_path, *runs), "Waste") == []


@pytest.mark.parametrize("lost", [3, 5])
def test_a_task_is_never_solved_only_if_chance_hardly_explains_it(tmp_path: Path, lost: int) -> None:
    runs = [trajectory(f"o{n}", "look", success=n % 2 == 0, task=f"other {n % 5}", goal="find it") for n in range(30)]
    runs += [trajectory(f"l{n}", "look", success=False, task="hard", goal="mend the lamp") for n in range(lost)]
    found = [row.name.split(" (")[0] for row in rows_of(report_of(tmp_path, *runs), "Requests that fail")]
    assert ("task hard of shop" in found) is (lost == 5)


def test_runs_of_one_task_id_with_requests_that_are_not_alike_share_no_row(tmp_path: Path) -> None:
    flight = ("change my flight to Boston", "I would like to change a flight to Boston", "flight to Boston, change it")
    lamp = ("return the broken lamp", "please take my broken lamp in return", "a broken lamp: return it")
    runs = [trajectory(f"o{n}", "look", success=n % 2 == 0, task=f"other {n % 5}", goal="find it") for n in range(30)]
    runs += [trajectory(f"f{n}", "look", success=False, task="22", goal=flight[n % 3]) for n in range(6)]
    runs += [trajectory(f"l{n}", "look", task="22", goal=lamp[n % 3]) for n in range(6)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Requests that fail")
    assert row.lines[0].startswith(
        'task 22 of shop, requests such as "change my flight to Boston": never solved in 6 runs'
    )


def test_no_fork_of_a_task_pools_requests_that_are_not_alike(tmp_path: Path) -> None:
    def asked(number: int, tool: str, goal: str) -> Trajectory:
        return trajectory(f"{tool} {number}", "look", tool, success=tool == "wait", task="22", goal=goal)

    def families(folder: str, worked: str) -> list[str]:
        runs = [asked(number, "refund", "return the broken lamp") for number in range(12)]
        runs += [asked(number, "wait", worked) for number in range(12)]
        with Memory.open(tmp_path / folder) as memory:
            memory.ingest(runs)
            return [rule.family for rule in memory.evidence().rules() if rule.family]

    assert families("alike", "please return that broken lamp") == ["shop/22"]
    assert families("apart", "change my flight to Boston") == []


def test_requests_of_a_part_of_the_runs_are_said_to_be_of_that_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hepm.evidence.upkeep.MOST_CALLS", 60)
    runs = [trajectory(f"r{n}", "look", "buy", success=n % 3 > 0, task=f"t{n % 4}") for n in range(60)]
    runs += [trajectory(f"l{n}", "look", success=False, task="hard", goal="mend the lamp") for n in range(9)]
    headings = [line for line in report_lines(report_of(tmp_path, *runs)) if line.startswith("Requests")]
    assert headings == ["Requests that fail (in the 38 runs that were compared)"]


def test_errors_of_a_tool_are_counted_in_runs_whose_records_tell_of_them(tmp_path: Path) -> None:
    runs = [with_calls(f"known {n}", ToolCall("pay", {}, "no card", error=n < 4)) for n in range(8)]
    runs += [with_calls(f"unknown {n}", ToolCall("pay", {}, "no card")) for n in range(92)]
    (row,) = rows_of(report_of(tmp_path, *runs), "Tools")
    assert row.lines == ["pay: 4 calls failed; every call did in 4 of 8 runs (50 %)"]


def test_nothing_is_said_of_time_where_runs_without_dates_are_in_the_order_of_files(tmp_path: Path) -> None:
    def dated(run: Trajectory, number: int) -> Trajectory:
        return replace(run, ended_at=1e9 + number, model=f"m{number % 2}")

    pay = [with_calls(f"r{n}", ToolCall("pay", {}, "no card", error=n > 30), success=n < 31) for n in range(40)]
    (row,) = rows_of(report_of(tmp_path, *[dated(run, n) for n, run in enumerate(pay)]), "Tools")
    assert row.text.startswith(": fails now, in 9 of its last 9 runs (never before)")
    (row,) = rows_of(report_of(tmp_path, *[replace(run, model=run.id) for run in pay[1:]]), "Tools")
    assert "now" not in row.text
    # Of the runs that one of the two forks lost, one is without a date.
    partly = [replace(run, ended_at=None) if run.id == "desk-4" else run for run in desk_runs()]
    assert sorted(bool(fork.when) for fork in report_of(tmp_path, *partly).forks) == [False, True]


def test_tools_that_were_offered_and_never_called_share_a_row(tmp_path: Path) -> None:
    from hepm import Tool

    def told(*names: str) -> list[str]:
        run = replace(trajectory(f"r{len(names)}", "look", "buy"), tools=tuple(map(Tool, ("look", *names))))
        return [row.name + row.text for row in rows_of(report_of(tmp_path, run), "Tools")]

    assert told("audit") == ["1 tool offered and never called: audit"]
    assert told(*(f"x{number:02}" for number in range(12))) == [
        "13 tools offered and never called: audit, x00, x01, x02, x03, x04, x05, x06 and 5 more"
    ]


def test_hints_of_a_call_that_nearly_all_runs_make_are_not_counted_as_followed(tmp_path: Path) -> None:
    def hinted(run: Trajectory, named: dict[str, str]) -> Trajectory:
        turns = []
        for turn in run.turns:
            calls = [call.name for call in turn.calls]
            turns.append(replace(turn, hinted=(named[calls[0]],)) if calls and calls[0] in named else turn)
        return replace(run, turns=tuple(turns))

    runs = [trajectory(f"r{n}", "look", "buy" if n % 2 else "ask") for n in range(20)]
    runs += [hinted(trajectory(f"h{n}", "look", "buy"), {"look": "look", "buy": "ask"}) for n in range(4)]
    [row] = rows_of(report_of(tmp_path, *runs), "What memory did")
    assert row.name.startswith(
        "a hint named a tool in 4 of the latest 24 runs; 0 of 4 hints followed, calls that nearly"
    )
    assert row.counts == {"hints": 4, "followed": 0}


def test_the_receipt_says_what_memory_turned_by_the_control_arm_and_week_by_week(tmp_path: Path) -> None:
    runs: list[Trajectory] = []
    for number in range(400):
        arm = CONTROL if number % 4 == 0 else MEMORY
        won = number % 10 < (4 if arm == CONTROL else 9)
        tags = {TRIAL: Trial(arm, 0.25).to_tag()}
        run = trajectory(
            f"r{number}", "look", "buy", success=won, task=f"t{number % 7}", ended_at=1.76e9 + 6_000 * number
        )
        runs.append(replace(run, tags=tags))
    row = rows_of(report_of(tmp_path, *runs), "What memory did")[1]
    assert row.name.startswith("300 sessions had memory; by the control arm it turned about ")
    assert "failures into successes" in row.name
    weeks = [
        re.fullmatch(r"week of [\d-]+: (\d+) with memory, \d+ succeeded.*; turned about .*", week) for week in row.below
    ]
    assert sum(int(week[1]) for week in weeks if week) == 300
    assert all(weeks)


# Texts


def test_markdown_and_terminal_tell_the_same_rows(found: Report) -> None:
    markdown = "\n".join(report_lines(found, markdown=True))
    for line in report_lines(found):
        assert line.strip().removesuffix(": --all") in markdown


HOSTILE = "<script>alert(1)</script> [x](javascript:alert(1)) \u202egnp.exe"


def test_texts_of_runs_form_no_html_links_or_hidden_characters(tmp_path: Path) -> None:
    runs = [trajectory(f"h{n}", "look", HOSTILE, success=False, task=HOSTILE, goal=HOSTILE) for n in range(4)]
    runs += [trajectory(f"w{n}", "look", "buy", task=f"t{n}", goal="buy") for n in range(8)]
    found = report_of(tmp_path, *runs)
    markdown = "\n".join(report_lines(found, every=True, markdown=True))
    assert "alert" in markdown
    assert "<script" not in markdown
    assert "](javascript" not in markdown
    assert "\u202e" not in markdown + "\n".join(report_lines(found, every=True))


# The command line


def test_report_reads_runs_without_a_store_and_writes_lessons_that_check_holds_against_other_runs(
    desk: Memory, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text("\n".join(desk.export()), "utf-8")
    (tmp_path / "AGENTS.md").write_text("# Ours\n", "utf-8")
    page, agents = tmp_path / "report.html", tmp_path / "AGENTS.md"
    done = hepm("report", tmp_path / "runs.jsonl", "--html", page, "--write", agents)
    assert done.code == 0, done.err
    written = (tmp_path / "AGENTS.md").read_text("utf-8")
    assert written.startswith("# Ours\n")
    assert "When get_order says status is delivered, call return_items rather than cancel_order." in written
    assert "<script>" in (tmp_path / "report.html").read_text("utf-8")
    same = quick("check", "AGENTS.md", "runs.jsonl", "--json", cwd=tmp_path)
    assert same.code == 0, same.err
    verdicts = {row["verdict"] for row in same.json if "get_order" in row["text"]}
    assert verdicts == {"supported"}

    # The desk's rules changed: what was right fails now.
    with Memory.open(tmp_path / "later.hepm") as later:
        later.ingest(
            replace(run, id=f"late {run.id}", outcome=Outcome(None, not run.outcome.success)) for run in desk_runs()
        )
        (tmp_path / "later.jsonl").write_text("\n".join(later.export()), "utf-8")
    changed = quick("check", "AGENTS.md", "later.jsonl", cwd=tmp_path)
    assert changed.code == 1
    assert "untrue: " in changed.out
    assert "no longer supported by the runs" in changed.err


def test_what_the_report_tells_the_agent_is_what_it_writes_in_a_file(recorded_runs: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        for file in recorded_runs.glob("tau*/**/*telecom*.json.xz"):
            if file.parent.name != "telecom":  # definitions of tasks
                memory.ingest(file)
    told = quick("report", "--store", "m.hepm", "--json", cwd=tmp_path).json["advice"]
    done = quick("report", "--store", "m.hepm", "--write", "AGENTS.md", cwd=tmp_path)
    assert done.code == 0, done.err
    written = (tmp_path / "AGENTS.md").read_text("utf-8").splitlines()
    assert told
    assert sorted(told) == sorted(line[2:].partition(" <!--")[0] for line in written if line.startswith("- "))
    # The second time they are stored, and the text is cut to the most useful ones.
    shown = quick("report", "--store", "m.hepm", cwd=tmp_path).out.partition("What to tell the agent")[2]
    assert [line.strip() for line in shown.splitlines()[1:9]] == told[:8]


def test_a_line_that_was_deleted_from_the_file_does_not_come_back_with_the_next_report(
    desk: Memory, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text("\n".join(desk.export()), "utf-8")
    file = tmp_path / "AGENTS.md"
    assert quick("report", "runs.jsonl", "--write", "AGENTS.md", cwd=tmp_path).code == 0
    kept = [line for line in file.read_text("utf-8").splitlines() if "status is delivered" not in line]
    file.write_text("\n".join(kept), "utf-8")
    for _ in range(2):
        assert quick("report", "runs.jsonl", "--write", "AGENTS.md", cwd=tmp_path).code == 0
        again = file.read_text("utf-8")
        assert "status is delivered" not in again
        assert "status is pending" in again


def test_what_cannot_be_read_or_checked_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("[]", "utf-8")
    (tmp_path / "AGENTS.md").write_text("# Ours\n", "utf-8")
    for code, arguments, sentence in (
        (1, ("report", "empty.json"), "no run could be read from empty.json"),
        (2, ("report", "--store", "none.hepm"), "Make one with `hepm ingest RUNS --store none.hepm`"),
        (1, ("check", "AGENTS.md", "empty.json"), "AGENTS.md holds no lessons: `hepm report --write AGENTS.md`"),
    ):
        done = quick(*arguments, cwd=tmp_path)
        assert done.code == code
        assert sentence in done.err


# In a browser


def test_the_page_is_one_file_that_opens_the_runs_behind_a_fork(
    chromium: Any, desk: Memory, found: Report, tmp_path: Path
) -> None:
    from hepm.web.transcripts import report_page

    file = tmp_path / "report.html"
    file.write_text(report_page(desk, found), "utf-8")
    page = chromium.new_page(viewport={"width": 400, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(one.text))
    page.on("request", lambda one: one.url.startswith(("file:", "data:")) or complaints.append(one.url))
    page.goto(file.as_uri())
    assert page.title() == "hepm report: default"
    assert page.inner_text(".lead") == found.sentence
    assert page.locator(".fork").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.locator(".fork .mistake .shown-runs button").first.click()
    turns = page.locator("#run[open] .turns > li")
    assert turns.count() == 3
    assert "get_order" in turns.nth(1).inner_text()
    assert not complaints
    page.close()
