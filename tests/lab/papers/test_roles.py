"""What `hepm papers` asks of a model, by role."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hepm.lab import papers
from tests.faults.command import quick
from tests.lab.bench.test_h_epm import role_of as role_in_bench
from tests.lab.environments.test_checkouts import ACEBENCH
from tests.lab.papers.played import TURNS, played, role_of
from tests.loopback import Loopback, Reply, Request, completion

FILES = Path(papers.__file__).parent


def small(played_by: Loopback, folder: Path, paper: str | Path, *options: str) -> Any:
    """The JSON of a small version of a paper's tables."""
    played_by.script = played
    known = ("--small", "--trials", "2", "--model", "small", "--user-model", "customer", "--json")
    place = ("--base-url", played_by.url, "--folder", str(folder / "papers"))
    answer = quick("papers", str(paper), *options, *known, *place, env={"OPENAI_BASE_URL": played_by.url})
    assert answer.code == 0, answer.err
    return answer.json


def asked(played_by: Loopback) -> Counter[str]:
    return Counter(map(role_of, played_by.requests))


def test_principles_are_written_and_compared_by_a_model_for_each_run_of_evolver_and_paid_for_once(
    loopback: Loopback, tmp_path: Path
) -> None:
    found = small(loopback, tmp_path, "evolver", "--table", "ours")
    library = found["benches"]["our-library"]["rounds"]
    roles = asked(loopback)
    # One a run of the rounds (3.2.1).
    assert roles["principle"] == sum(report["episodes"] for report in library)
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
