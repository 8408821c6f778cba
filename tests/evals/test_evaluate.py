from __future__ import annotations

import pytest

from hepm.errors import InputError
from hepm.evals.domains import domains_of
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import find_methods
from hepm.types import Trajectory
from tests.evals.logs import domain, run
from tests.runs import trajectory

PLAIN = find_methods(["global", "first-order"])
# Each run is predicted from the other.
TWO = domain(run("r1", "a", "b", "c"), run("r2", "a", "b", "d"))


def test_hits_and_mrr_of_a_tiny_log_by_hand() -> None:
    report = evaluate([TWO], PLAIN)
    # r1 from r2: b is first of b, d; c was never seen. r2 from r1: b first of b, c; d never seen. So 1, 0, 1, 0.
    found = report.domains["shop"]
    assert (found.events, found.families) == (4, 2)
    assert found.methods["first-order"].values == {"hit@1": 0.5, "hit@2": 0.5, "hit@3": 0.5, "mrr": 0.5}
    # b and d (or c) are equally frequent, and b comes first by name: the same four ranks.
    assert found.methods["global"].values["mrr"] == 0.5


def test_the_macro_mean_weighs_domains_alike() -> None:
    other = domains_of(
        [("chat", trajectory(f"{i}", "a", "b", "b", "b", task=f"t{i}", environment="bank")) for i in range(2)]
    )
    report = evaluate([TWO, *other], PLAIN)
    assert report.domains["bank"].methods["first-order"].values["hit@1"] == 1.0
    assert report.macro["first-order"].values["hit@1"] == 0.75


def test_a_method_is_no_different_from_itself() -> None:
    report = evaluate([TWO], [*PLAIN, *find_methods(["procedural-c0"])])
    assert "first-order" in report.settings.reference
    assert not report.macro["first-order"].difference
    # In these runs no edge is taken twice, so that counts of runs and of calls are equal.
    found = report.macro["procedural-c0"].difference["hit@2"]
    assert (found.value, found.interval.low, found.interval.high) == (0.0, 0.0, 0.0)


def test_the_json_has_the_promised_shape() -> None:
    found = evaluate([TWO], PLAIN).to_json()
    assert {"domains", "macro", "verdict"} <= set(found)
    assert {"events", "families", "methods"} <= set(found["domains"]["shop"])
    for scores in (found["domains"]["shop"]["methods"]["global"], found["macro"]["global"]):
        assert {"hit@1", "hit@2", "hit@3", "mrr", "interval"} <= set(scores)
        assert set(scores["interval"]) == {"hit@1", "hit@2", "hit@3", "mrr"}


def test_rescue_is_judged_without_the_family_in_memory() -> None:
    # Only the sibling knows b; from the others memory knows y.
    runs = [run("good", "a", "b", task="t"), run("bad", "a", "x", task="t", success=False)]
    others = [run(f"r{i}", "a", "y") for i in range(6)]
    found = evaluate([domain(*runs, *others)], PLAIN)
    assert (found.rescue["first-order"].divergences, found.rescue["first-order"].rescue) == (1, 0.0)


def test_rescue_is_judged_again_with_the_other_runs_of_the_task_in_memory() -> None:
    runs = [run(f"good{i}", "a", "b", task="t") for i in range(9)] + [run("bad", "a", "x", task="t", success=False)]
    others = [run(f"r{i}", "a", "y") for i in range(6)]
    found = evaluate([domain(*runs, *others)], PLAIN)
    seen = found.rescue_seen["first-order"]
    assert (seen.divergences, found.rescue["first-order"].rescue) == (1, 0.0)
    assert seen.rescue == pytest.approx(1)  # nine forks


def test_runs_without_labels_cannot_be_evaluated() -> None:
    log = domain(run("r1", "a", "b", success=None), run("r2", "a", "b", success=None))
    with pytest.raises(InputError, match="none of the 2 runs says whether it succeeded"):
        evaluate([log], PLAIN)


def test_unlabelled_runs_beside_labelled_ones_are_counted_and_left_out() -> None:
    report = evaluate([domain(*(run(f"r{i}", "a", "b") for i in range(3)), run("u", "a", "c", success=None))], PLAIN)
    assert report.settings.unlabelled == 1
    assert report.domains["shop"].events == 3


def test_runs_that_tell_nothing_cannot_be_evaluated() -> None:
    one_family = [run(name, "a", "b", task="t") for name in ("r1", "r2")]
    for logs, said in (
        ([], "there are no runs to evaluate"),
        ([domain(run("r1", "a", "b", success=False))], "none of the 1 runs succeeded"),
        ([domain(*one_family)], r"of too few task families \(t\), and at least two are needed"),
        ([domain(run("r1", "a"), run("r2", "a"))], "no successful run calls two tools"),
    ):
        with pytest.raises(InputError, match=said):
            evaluate(logs, PLAIN)


def test_a_domain_that_cannot_be_measured_does_not_stop_the_others() -> None:
    runs = [trajectory(name, "a", "b", "c", task="t", environment="bank") for name in "xy"]
    runs.append(trajectory("z", "a", "d", task="t", environment="bank", success=False))
    lonely = domains_of(("chat", one) for one in runs)
    report = evaluate([*lonely, TWO], PLAIN)
    assert list(report.domains) == ["shop"]
    assert "too few task families" in report.skipped["bank"]
    assert report.rescue_seen["first-order"].divergences == 0


def test_attacks_and_goals_of_attackers_stay_out() -> None:
    kept = trajectory("r1", "a", "b", task="user_task_1")
    attacked = Trajectory(
        "r2", kept.turns, kept.outcome, "shop", "user_task_2", tags={"attack": "important_instructions"}
    )
    injected = trajectory("r3", "a", "b", task="injection_task_1")
    unharmed = Trajectory("r4", kept.turns, kept.outcome, "shop", "user_task_4", tags={"attack": "none"})
    (found,) = domains_of([("agentdojo", t) for t in (kept, attacked, injected, unharmed)])
    assert [r.id for r in found.runs] == ["r1", "r4"]
