"""What `hepm papers` asks of a model, by role, and what it says before that it will ask."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hepm.lab import papers
from tests.faults.command import quick
from tests.lab.bench.test_h_epm import role_of as role_in_bench
from tests.lab.environments.test_checkouts import ACEBENCH
from tests.lab.papers.played import TURNS, played, role_of
from tests.loopback import Loopback, Reply, Request, completion

FILES = Path(papers.__file__).parent


def small(played_by: Loopback, folder: Path, paper: str | Path, *options: str) -> Any:
    """The JSON of a small version of a paper's tables, after checking what it announced."""
    played_by.script = played
    known = ("--small", "--trials", "2", "--model", "small", "--user-model", "customer", "--json")
    place = ("--base-url", played_by.url, "--folder", str(folder / "papers"))
    answer = quick("papers", str(paper), *options, *known, *place, env={"OPENAI_BASE_URL": played_by.url})
    assert answer.code == 0, answer.err
    counted = sum(played(request).body["usage"]["total_tokens"] for request in played_by.requests)
    announced = answer.json["announced"]
    assert announced["calls"] == pytest.approx(len(played_by.requests), rel=0.2)
    assert announced["tokens"] == pytest.approx(counted, rel=0.2)
    assert f"the rest takes about {announced['calls'] - pilot_of(answer.err):,} calls" in answer.err
    return answer.json


def pilot_of(said: str) -> int:
    """How many calls a pilot asked."""
    [calls] = re.findall(r"the pilot asked ([\d,]+) calls", said)
    return int(calls.replace(",", ""))


def asked(played_by: Loopback) -> Counter[str]:
    return Counter(map(role_of, played_by.requests))


def test_principles_are_written_and_compared_by_a_model_for_each_run_of_evolver_and_paid_for_once(
    loopback: Loopback, tmp_path: Path
) -> None:
    found = small(loopback, tmp_path, "evolver", "--table", "ours")
    library = found["benches"]["our-library"]["rounds"]
    roles = asked(loopback)
    # One a run of the rounds (3.2.1), and of the pilot's two rounds of one run, whose first round is kept.
    assert roles["principle"] == sum(report["episodes"] for report in library) + 2
    # New ones are held against known ones (equation 1).
    assert roles["matcher"] > 0
    assert {*roles} == {"agent", "principle", "matcher"}
    [table] = found["tables"]
    untrained = ["direct", "cot", "ircot", "search-o1", "rag", "tagged-alone"]
    assert [row["row"] for row in table["rows"]] == [*untrained, "tagged"]
    assert [0 < report["quality"]["score"] < 1 for report in library] == [True, True]
    assert all(row["ours"] == [0, 0] for row in table["rows"])
    place = ("--base-url", loopback.url, "--folder", str(tmp_path / "papers"), "--model", "small")
    again = quick("papers", "evolver", "--table", "ours", "--small", "--trials", "2", *place)
    assert "0.000 / 0.000" in again.out
    assert len(loopback.requests) == roles.total()


def test_table_6_of_h_epm_learns_online_from_runs_that_a_judge_labels(loopback: Loopback, tmp_path: Path) -> None:
    def ending(request: Request) -> Reply:
        if request.body["model"] == "customer" and len(request.body["messages"]) > 3:
            return completion("finish conversation")
        return completion("yes") if role_in_bench(request) == "judge" else played(request)

    loopback.script = ending
    known = ("--table", "6", "--small", "--trials", "1", "--model", "small", "--user-model", "customer", "--json")
    known += ("--judge", "judge")
    place = ("--source", f"acebench={ACEBENCH}", "--base-url", loopback.url, "--folder", tmp_path)
    found = quick("papers", "h-epm", *known, *place, env={"OPENAI_BASE_URL": loopback.url})
    assert found.code == 0, found.err
    [table] = found.json["tables"]
    assert [row["row"] for row in table["rows"]] == ["off", "reasoningbank", "toolnet", "similar-1", "explicit"]
    assert all(None not in row["ours"] for row in table["rows"])
    roles = Counter(map(role_in_bench, loopback.requests))
    # The runs of the four arms that learn are equal for one task: the same is asked once.
    assert roles["judge"] == 1
    assert [one.body["model"] for one in loopback.requests if role_in_bench(one) == "judge"] == ["judge"]
    # In the arm "explicit" a question each turn, and as the answer is yes, a summary.
    assert roles["question"] == roles["summary"] == TURNS + 1


@pytest.mark.parametrize(("paper", "table"), [("evolver", "ours"), ("msc", "ours")])
def test_a_budget_that_the_rest_would_go_beyond_ends_after_the_pilot_by_which_a_dry_run_is_right(
    paper: str, table: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    monkeypatch.setenv("HEPM_USER_MODEL", "customer")
    loopback.script = played
    known = ("papers", paper, "--table", table, "--small", "--trials", "2", "--model", "small")
    known += ("--folder", str(tmp_path / "papers"))
    stopped = quick(*known, "--budget", "1 calls, 10000000 tokens")
    assert stopped.code == 1
    first = quick(*known, "--dry-run", "--json").json
    short = quick(*known, "--budget", f"{first['calls'] // 3} calls")
    assert "the rest would go beyond the budget" in short.err
    asked_by_pilot = len(loopback.requests)
    # Most of it is kept, too, as part of the tables.
    assert asked_by_pilot < first["calls"] // 3
    planned = quick(*known, "--dry-run", "--json").json
    assert len(loopback.requests) == asked_by_pilot
    assert quick(*known).code == 0
    assert planned["calls"] == pytest.approx(len(loopback.requests) - asked_by_pilot, rel=0.2)


def test_before_a_pilot_a_dry_run_takes_sessions_of_users_to_be_as_long_as_published(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    loopback.script = partial(played, content_after=7)
    known = ("papers", "msc", "--table", "ours", "--small", "--model", "small", "--user-model", "customer")
    known += ("--folder", str(tmp_path / "papers"), "--json")
    planned = quick(*known, "--dry-run").json
    assert not loopback.requests
    made = quick(*known)
    assert made.code == 0, made.err
    assert planned["calls"] == pytest.approx(len(loopback.requests), rel=0.2)
