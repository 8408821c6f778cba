from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.errors import InputError
from hepm.evals.baselines import Method, Ranking, States, Training, baselines
from hepm.evals.domains import DomainRun, Event
from hepm.evals.methods import find_methods, policies
from hepm.types import ToolName
from tests.evals.logs import run
from tests.runs import trajectory

BY_NAME = {method.name: method for method in baselines()}
FIRST_ORDER = BY_NAME["first-order"]
# Events: a→b three times less one: after a come b, b, c; after b come c, d; in all b 2, c 2, d 1.
LOG = [run("r1", "a", "b", "c"), run("r2", "a", "b", "d"), run("r3", "a", "c")]


def event(*turns: str, goal: str = "please help") -> Event:
    t = trajectory("asked", *turns, goal=goal)
    return DomainRun(t, "shop", "asked", "asked").events[-1]


def rank(method: Method, log: list[DomainRun], asked: Event) -> Ranking:
    return method.fit(Training(log)).rank([asked])[0]


def tools(ranking: Ranking) -> list[ToolName]:
    return [tool for tool, _ in ranking]


def test_global_frequency_ranks_by_count_and_equal_counts_by_name() -> None:
    assert tools(rank(BY_NAME["global"], LOG, event("x", "y"))) == ["b", "c", "d"]


def test_first_order_ranks_what_followed_the_last_tool_and_the_rest_by_frequency() -> None:
    assert tools(rank(FIRST_ORDER, LOG, event("x", "b", "y"))) == ["c", "d", "b"]


def test_witten_bell_by_hand() -> None:
    # p0 = .4 .4 .2. After a: λ = 3/(3+2) = .6: b .6·2/3 + .4·.4 = .56, c .6/3 + .4·.4 = .36, d .4·.2 = .08.
    # After START a the counts are the same: b .6·2/3 + .4·.56 = .624, c .2 + .4·.36 = .344, d .4·.08 = .032.
    found = Training(LOG).back_off(event("a", "y"))
    assert found == pytest.approx({"b": 0.624, "c": 0.344, "d": 0.032})
    # After b: λ = 2/(2+2) = .5: c .25 + .2 = .45, d .25 + .1 = .35, b .2. After a b once more halved towards c, d.
    found = Training(LOG).back_off(event("a", "b", "y"))
    assert found == pytest.approx({"c": 0.475, "d": 0.425, "b": 0.1})


def test_failed_runs_teach_a_baseline_nothing() -> None:
    log = [*LOG, *(run(f"bad{i}", "a", "d", success=False) for i in range(9))]
    assert tools(rank(FIRST_ORDER, log, event("a", "y")))[:2] == ["b", "c"]


def test_the_toolnet_like_graph_takes_weight_from_edges_of_failed_runs() -> None:
    log = [run("r1", "a", "b"), *(run(f"bad{i}", "a", "c", success=False) for i in range(2)), run("r2", "x", "c")]
    # b: 1/3 · (1+1)/(1+2) = .222; c: 2/3 · (0+1)/(2+2) = .167
    found = dict(rank(BY_NAME["toolnet"], log, event("a", "y")))
    assert found["b"] == pytest.approx(0.2222, abs=1e-4)
    assert found["c"] == pytest.approx(0.1667, abs=1e-4)


def test_similarity_prefers_the_tool_of_the_state_that_reads_alike() -> None:
    def about(name: str, goal: str, tool: str) -> DomainRun:
        return DomainRun(trajectory(name, "look", tool, goal=goal), "shop", name, name)

    log = [
        about("r1", "please cancel the order", "cancel"),
        *(about(f"r{i}", "exchange my shoes", "swap") for i in (2, 3)),
    ]
    asked = event("look", "y", goal="cancel it, I do not want the order")
    assert tools(rank(BY_NAME["similarity"], log, asked))[0] == "cancel"


def test_weights_of_words_are_those_worked_out_by_hand() -> None:
    # idf(aa) = ln(3/3) + 1 = 1, idf(bb) = ln(3/2) + 1 = 1.405465; length 1.724916
    found = States([], ["aa bb", "aa cc"]).weights("aa bb")
    assert found == pytest.approx({"aa": 0.579739, "bb": 0.814802}, abs=1e-6)


CALLS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=5)
RUNS = st.lists(st.tuples(CALLS, st.sampled_from([True, True, False, None])), min_size=1, max_size=6)


@given(RUNS, CALLS, st.randoms(use_true_random=False))
def test_no_ranking_depends_on_the_order_of_runs(
    drawn: list[tuple[list[str], bool | None]], asked: list[str], chance: Random
) -> None:
    log = [run(f"r{i}", *calls, success=success) for i, (calls, success) in enumerate(drawn)]
    shuffled = log[:]
    chance.shuffle(shuffled)
    question = event("a", *asked)
    for method in baselines():
        assert rank(method, log, question) == rank(method, shuffled, question), method.name


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no method is called magic\. Known: global, first-order"):
        find_methods(["magic"])


def test_hints_of_a_policy_respect_its_floors_while_its_ranking_names_every_tool() -> None:
    # After x nothing is known: a policy in use says nothing there.
    for method in policies():
        predictor = method.fit(Training(LOG))
        silent, given = predictor.hints([event("q", "x", "y"), event("a", "y")], 2)
        assert (silent.tools, len(given.tools) in (1, 2)) == ((), True), method.name
    assert len(tools(find_methods(["hybrid"])[0].fit(Training(LOG)).rank([event("x", "y")])[0])) > 2


def test_hints_of_a_policy_carry_its_warnings() -> None:
    runs = [run(f"g{i}", "a", "b") for i in range(10)] + [run(f"f{i}", "a", "c", success=False) for i in range(10)]
    (found,) = find_methods(["hybrid"])[0].fit(Training(runs)).hints([run("q", "a", "y").events[0]], 2)
    assert found.tools == ("b",)
    assert found.warned == {"c"}
