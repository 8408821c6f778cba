from __future__ import annotations

from dataclasses import replace

from hepm.evals.domains import Domain, by_request, domains_of
from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import find_methods
from hepm.evals.metrics import find_divergences
from tests.runs import trajectory

WISHES = ("refund a broken parcel", "change my address", "log in again", "cancel the abo", "book a room", "find a shop")


def log(*, task: str = "", failing: int = 3) -> Domain:
    """Runs of six kinds of requests, four of each that went well, and some that did not."""
    runs = [
        trajectory(
            f"{kind}-{n}",
            "look",
            "ask" if n < failing else f"do_{kind}",
            goal=f"please {wish} {n}",
            success=n >= failing,
        )
        for kind, wish in enumerate(WISHES)
        for n in range(4 + failing)
    ]
    (found,) = domains_of([("chat", replace(run, task=task and f"{task} {run.id[0]}")) for run in runs])
    return found


def test_where_no_task_repeats_like_requests_are_tasks_and_families() -> None:
    domain = log()
    assert not find_divergences(domain.runs)
    grouped = by_request(domain)
    assert grouped.grouped
    assert {(run.task, run.id[0]) for run in grouped.runs} == {(run.family, run.id[0]) for run in grouped.runs}
    assert len({run.family for run in grouped.runs}) == len(WISHES)
    assert len(find_divergences(grouped.runs)) == 18


def test_where_tasks_repeat_and_where_nothing_failed_they_stay_as_they_are() -> None:
    for domain in (log(task="t"), log(failing=0)):
        assert by_request(domain) is domain


def test_requests_that_do_not_tell_runs_apart_are_not_grouped() -> None:
    runs = [trajectory(f"r{n}", "look", "do", success=n % 2 == 0) for n in range(20)]
    (domain,) = domains_of([("chat", run) for run in runs])
    assert by_request(domain) is domain


def test_the_report_says_that_requests_were_grouped() -> None:
    report = evaluate([log()], find_methods(["first-order"]), EvalOptions())
    (found,) = report.to_json()["domains"].values()
    assert (found["grouped"], found["families"]) == (True, len(WISHES))
    assert report.verdict.endswith("may be far off: name the task of each run.")
    assert "likeness" not in evaluate([log(task="t")], find_methods(["first-order"]), EvalOptions()).verdict
