"""`hepm bench` on a small environment, with a model played by a real server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.errors import BudgetSpentError
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import open_model, tokens_of
from hepm.lab.environments import Task
from hepm.llm import Budget, Endpoint
from tests.faults.command import Answer, quick
from tests.lab.bench.parcels import clerk, customer_or_clerk
from tests.loopback import Loopback, completion, error

PARCELS = "tests.lab.bench.parcels:Parcels"


def bench(folder: Path, url: str, *options: str, env: str = PARCELS, model: str = "small") -> Answer:
    known = ("--model", model, "--base-url", url, "--folder", str(folder))
    return quick("bench", env, *known, *options)


def report(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return answer.json


@pytest.fixture
def clerks(loopback: Loopback) -> Loopback:
    loopback.script = clerk
    return loopback


def test_hints_help_an_agent_that_guesses_and_the_sentence_says_so(clerks: Loopback, tmp_path: Path) -> None:
    found = report(bench(tmp_path, clerks.url, "--json"))
    shown = bench(tmp_path, clerks.url).out
    off, hybrid = found["arms"]["off"], found["arms"]["hybrid"]
    assert found["tasks"] == 24
    success = hybrid["measures"]["success"]
    assert off["measures"]["success"]["value"] < 0.6 < success["value"]
    assert len(hybrid["won"]) - len(hybrid["lost"]) == round(24 * success["difference"]["value"])
    assert success["interval"][0] <= success["value"] <= success["interval"][1]
    won = hybrid["won"][0]
    assert "Suggested next tools" in won["hint"]
    assert won["without"][0] != won["with_memory"][0]
    assert won["with_memory"][-1] == "Done."
    said = found["sentences"][0]
    assert said.startswith("hybrid beside off: Memory raised success by ")
    assert f") in 24 tasks. It solved {len(hybrid['won'])} tasks that failed with off, and failed" in said
    assert found["calls"] == len(clerks.requests) == 2 * 24 * 3
    assert off["measures"]["tokens"]["value"] == 20 + 5 + 2 * 15
    assert off["measures"]["hinted"]["value"] == 0 < hybrid["measures"]["hinted"]["value"]
    for part in ("won with hybrid: ", "memory said: Suggested next tools:"):
        assert part in shown
    # Of environments with 0 and 1 alone it would repeat the success.
    assert " reward " not in shown.partition("success: a reward")[0]


def test_a_bench_of_eight_arms_fits_100_columns(clerks: Loopback, tmp_path: Path) -> None:
    arms = "off,hybrid,weight,lessons,all,similar-1,toolnet,react"
    shown = bench(tmp_path, clerks.url, "--arms", arms, "--tasks", "[bl]*", "--prices", "1,2").out
    table = shown.partition("\nsuccess: a reward")[0].splitlines()
    assert sum(line.startswith("similar-1 ") for line in table) == 3  # success, thrift, and the means
    assert max(map(len, table)) <= 100


def test_the_folder_is_an_archive_of_runs(clerks: Loopback, tmp_path: Path) -> None:
    report(bench(tmp_path / "runs", clerks.url, "--tasks", "[bl]*-Ada,[bl]*-Ben", "--json"))
    answer = quick("ingest", str(tmp_path / "runs"), "--store", str(tmp_path / "m.hepm"), "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["stored"], answer.json["rejected"]) == (12, [])
    with Memory.open(tmp_path / "m.hepm") as memory:
        run = memory.run("parcels/small/hybrid/broken-Ada/0")
        assert run.tags["arm"] == "hybrid"
        assert run.outcome.success is not None
        assert "Suggested next tools" not in str(run)
        assert memory.suggest(after="get_parcel", speak="all")


def test_memory_never_holds_a_run_of_the_tasks_family(clerks: Loopback, tmp_path: Path) -> None:
    report(bench(tmp_path, clerks.url, "--arms", "similar-3", "--tasks", "[bl]*", "--json"))
    shown = [request.body["messages"] for request in clerks.requests if "solved before" in str(request.body)]
    assert len(shown) >= 12
    for messages in shown:
        name = messages[-1 if len(messages) == 2 else 1]["content"].split()[2].rstrip(".")
        assert f"I am {name}" not in messages[0]["content"]
        assert "get_parcel" in messages[0]["content"]


def test_online_a_task_sees_what_came_before_it(clerks: Loopback, tmp_path: Path) -> None:
    options = ("--learn-from", "online", "--arms", "off,hybrid", "--trials", "2", "--tasks", "*-Ada,*-Cleo", "--json")
    found = report(bench(tmp_path, clerks.url, *options))
    hints = [
        [line for line in str(request.body["messages"]).split("\\n") if "Suggested next tools" in line]
        for request in clerks.requests
    ]
    assert any(hints)
    first = [request for request in clerks.requests if "parcel 0 is late" in str(request.body)]
    assert len(first) == 4 * 3
    assert not any("Suggested" in str(request.body) for request in first)
    assert len(found["arms"]["hybrid"]["pass_k"]) == 2


def test_a_given_memory_is_used_and_left_as_it_was(clerks: Loopback, tmp_path: Path) -> None:
    report(bench(tmp_path / "runs", clerks.url, "--arms", "off", "--tasks", "*-Ada,*-Ben", "--json"))
    store = tmp_path / "m.hepm"
    quick("ingest", str(tmp_path / "runs"), "--store", str(store))
    before = sorted(tmp_path.iterdir())
    with Memory.open(store) as memory:
        revision = memory.header.revision
    found = report(bench(tmp_path / "more", clerks.url, "--memory", str(store), "--tasks", "l*-Cleo", "--json"))
    assert found["arms"]["hybrid"]["measures"]["hinted"]["value"] > 0
    fits = tmp_path / "m.hepm-fit"  # what was measured in it
    assert sorted({*tmp_path.iterdir()} - {fits}) == sorted([*before, tmp_path / "more"])
    with Memory.open(store) as memory:
        assert memory.header.revision == revision


def test_reflexion_shows_an_agent_its_own_advice_after_a_failure_alone(clerks: Loopback, tmp_path: Path) -> None:
    options = ("--arms", "off,reflexion", "--trials", "3", "--tasks", "*-Ada", "--json")
    found = report(bench(tmp_path, clerks.url, *options))
    asked = [request for request in clerks.requests if "An agent that uses tools failed" in str(request.body)]
    off, own = found["arms"]["off"], found["arms"]["reflexion"]
    failed = round(6 * (1 - off["measures"]["success"]["value"]))
    assert 0 < failed < len(asked) <= 2 * failed
    advised = [request for request in clerks.requests if "Your own advice" in str(request.body)]
    assert len(advised) == 2 * 3 * failed
    assert own["measures"]["success"]["value"] > off["measures"]["success"]["value"]
    before = len(clerks.requests)
    report(bench(tmp_path, clerks.url, *options))
    assert len(clerks.requests) == before
    refused = bench(tmp_path / "one", clerks.url, "--arms", "reflexion")
    assert "give --trials 2 or more" in refused.err


def test_graded_rewards_have_a_column_with_an_interval_a_paired_difference_and_the_threshold_of_success(
    clerks: Loopback, tmp_path: Path
) -> None:
    graded = "tests.lab.bench.parcels:GradedParcels"
    found = report(bench(tmp_path, clerks.url, "--tasks", "[bl]*", "--json", env=graded))
    off, hybrid = (found["arms"][arm]["measures"] for arm in ("off", "hybrid"))
    # Each run looks at the parcel, for half of the reward.
    for arm in (off, hybrid):
        low, high = arm["reward"]["interval"]
        assert low <= arm["reward"]["value"] <= high
        assert arm["reward"]["value"] == pytest.approx((1 + arm["success"]["value"]) / 2, abs=1e-3)
    gain, plain = hybrid["reward"]["difference"]["value"], off["reward"]["value"]
    assert gain == pytest.approx(hybrid["reward"]["value"] - plain, abs=2e-3)
    assert found["success_from"] == 0.7
    shown = bench(tmp_path, clerks.url, "--tasks", "[bl]*", env=graded).out
    assert "success: a reward of 0.7 or more; in brackets: 95 %" in shown
    assert re.search(rf" reward +beside off\noff +{plain:.3f} \(.*\n.* \+{gain:.3f} \(", shown)


@pytest.mark.parametrize(("model", "success"), [("gold", 1.0), pytest.param("none", 0.0, marks=pytest.mark.exhaustive)])
def test_gold_and_none_ask_no_model(model: str, success: float, loopback: Loopback, tmp_path: Path) -> None:
    found = report(bench(tmp_path, loopback.url, "--json", model=model))
    assert [found["arms"][arm]["measures"]["success"]["value"] for arm in ("off", "hybrid")] == [success, success]
    solved = "each task was solved as often as with off: too few tasks, or no effect"
    if not success:
        solved = "no task was solved, as with off: too hard for this model, or its limits are too low"
    assert found["sentences"] == [f"With hybrid {solved}."]
    assert not loopback.requests


def test_a_dry_run_asks_and_leaves_nothing_and_counts_the_missing_runs(clerks: Loopback, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert "12 runs would be played, in" in bench(folder, clerks.url, "--tasks", "6", "--dry-run").out
    assert not folder.exists()
    bench(folder, clerks.url, "--tasks", "6", "--budget", "9 calls", "--concurrency", "1")
    asked = len(clerks.requests)
    found = report(bench(folder, clerks.url, "--tasks", "6", "--dry-run", "--json"))
    assert (found["runs"], len(clerks.requests)) == (12 - asked // 3, asked)


def test_a_spent_budget_ends_a_bench_which_then_goes_on(clerks: Loopback, tmp_path: Path) -> None:
    stopped = bench(tmp_path, clerks.url, "--tasks", "*-Ada", "--budget", "20 calls")
    assert stopped.code == 1
    assert "the budget of 20 calls is spent" in stopped.err
    assert len(clerks.requests) == 20
    report(bench(tmp_path, clerks.url, "--tasks", "*-Ada", "--json"))
    assert len(clerks.requests) == 12 * 3


def test_requests_of_a_model_that_plays_the_user_count_in_the_budget(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    loopback.script = customer_or_clerk
    talking, one_task = "tests.lab.bench.parcels:TalkingParcels", ("--arms", "off", "--tasks", "1")
    stopped = bench(tmp_path, loopback.url, *one_task, "--budget", "220 tokens", env=talking)
    assert "the budget of 220 tokens has" in stopped.err
    assert "asked small and customer: " in stopped.err
    asked = len(loopback.requests)
    done = bench(tmp_path, loopback.url, *one_task, "--json", env=talking)
    assert len(loopback.requests) == 3 + 2  # three of the agent; the customer begins and ends
    assert report(done)["paid_before"] == asked
    assert f"{5 - asked} calls" in done.err
    assert report(done)["arms"]["off"]["measures"]["tokens"]["value"] == 20 + 5 + 2 * 15  # what the agent took


@pytest.mark.parametrize("rounds", ["0", "2"])
def test_without_a_model_for_the_user_nothing_is_installed_and_the_variable_is_named(
    rounds: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEPM_USER_MODEL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    refused = quick("bench", "tau2-retail-user", "--model", "none", "--rounds", rounds, "--memory", tmp_path / "m.hepm")
    assert refused.code == 1
    assert "name it in HEPM_USER_MODEL" in refused.err
    assert [*tmp_path.iterdir()] == []


def test_without_a_limit_of_answers_the_longest_so_far_is_reserved(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script = lambda request: completion("text", usage=(10, 400))
    budget, endpoint = Budget(tokens=900), Endpoint("small", loopback.url)
    with Folder(tmp_path, {}) as folder, open_model(endpoint, folder, budget=budget, prices=None) as model:
        answer = model.recorded(Key("off", "a", 0), Task("a", ""))
        for number in range(2):
            answer({"model": "small", "messages": [{"role": "user", "content": str(number)}]})
        with pytest.raises(BudgetSpentError):
            answer({"model": "small", "messages": []})
    assert budget.used.tokens == 820


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_budget_reserves_the_answers_that_requests_limit(loopback: Loopback, tmp_path: Path, limit: str) -> None:
    body = {"model": "small", "messages": [{"role": "user", "content": "Where is it?"}], limit: 150}
    each = tokens_of(body)
    loopback.script = lambda _: completion("Here.", usage=(each, 150)).after(0.02)
    budget, endpoint = Budget(tokens=1_000), Endpoint("small", loopback.url)
    with Folder(tmp_path, {}) as folder, open_model(endpoint, folder, budget=budget, prices=None) as model:
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(model.recorded(Key("off", f"task-{n}", 0), Task("a", "")), body) for n in range(16)]
        refused = [one for one in asked if isinstance(one.exception(), BudgetSpentError)]
    assert budget.used.tokens <= 1_000
    assert len(asked) - len(refused) == len(loopback.requests) == 1_000 // (each + 150)


def test_runs_whose_model_failed_are_named_and_made_again(clerks: Loopback, tmp_path: Path) -> None:
    def moody(request: Any) -> Any:
        return error(400, "too long") if "parcel 2 is damp" in str(request.body) else clerk(request)

    clerks.script = moody
    options = ("--arms", "off,similar-1", "--learn-from", "online", "--tasks", "[dl]*-Ben,[dl]*-Cleo")
    found = report(bench(tmp_path, clerks.url, *options, "--json"))
    assert list(found["failed"]) == ["off/damp-Cleo/0", "similar-1/damp-Cleo/0"]
    assert "too long" in found["failed"]["off/damp-Cleo/0"]
    assert found["unfinished"] == 6 - 5
    planned = report(bench(tmp_path, clerks.url, *options, "--dry-run", "--json"))
    assert planned["runs"] == 2
    shown = bench(tmp_path, clerks.url, *options)
    assert "2 runs broke off (off/damp-Cleo/0)" in " ".join(shown.out.split())
    clerks.script = clerk
    found = report(bench(tmp_path, clerks.url, *options, "--json"))
    assert (found["failed"], found["unfinished"]) == ({}, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arms", "of"], "no arm is called of. There are: off, weight"),
        (["--tasks", "nobody*"], "no task is called nobody*; there are late-Ada"),
        (["--memory", "m.hepm", "--learn-from", "online"], "benches with --memory have no use for it: leave it out"),
        (["--embedder", "all-MiniLM"], "no embedder is called 'all-MiniLM'; known are: 'hash-512'"),
        (["--budget", "1 usd"], "a budget in usd needs the prices"),
        (["--budget", "1 dollar"], "is no limit: write '100 calls'"),
        (["--rounds", "2"], "name the store that rounds are learned into"),
        (["--rounds", "2", "--memory", "new.hepm", "--arms", "off,lessons"], "one arm: lessons, chosen, tagged"),
    ],
)
def test_what_cannot_be_benched_is_refused_in_a_sentence(
    options: Sequence[str], message: str, clerks: Loopback, tmp_path: Path
) -> None:
    answer = bench(tmp_path, clerks.url, *options)
    assert answer.code in (1, 2)
    assert message in " ".join(answer.err.split())
    assert not clerks.requests


def test_a_folder_of_another_bench_is_refused(clerks: Loopback, tmp_path: Path) -> None:
    report(bench(tmp_path, clerks.url, "--tasks", "*-Ada", "--arms", "off", "--json"))
    answer = bench(tmp_path, clerks.url, "--tasks", "*-Ada", "--arms", "off", "-o", "temperature=0")
    assert 'holds runs with another options ({}, now {"temperature": 0}): name another --folder' in answer.err
    assert bench(tmp_path, clerks.url, env="tests.lab.bench.parcels:nothing").code == 1
