from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hepm.evals.domains import DomainRun, by_family, by_run
from tests.evals.logs import run

LOGS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from("xyz")), max_size=30).map(
    lambda drawn: [run(f"r{i}", "a", "b", task=f"t{task}", model=model) for i, (task, model) in enumerate(drawn)]
)


@given(LOGS, st.integers(2, 7))
def test_no_tested_family_is_ever_in_memory(runs: list[DomainRun], folds: int) -> None:
    for split in by_family(runs, folds):
        assert not {r.family for r in split.train} & {r.family for r in split.test}


@given(LOGS, st.integers(2, 12))
def test_leaving_runs_out_keeps_every_other_run_in_memory(runs: list[DomainRun], folds: int) -> None:
    for split in by_run(runs, folds):
        assert set(split.train) == set(runs) - set(split.test)


@given(LOGS, st.integers(2, 12))
def test_of_a_task_one_run_is_left_out_at_a_time_or_one_of_so_many(runs: list[DomainRun], folds: int) -> None:
    for split in by_run(runs, folds):
        for task in {r.task for r in split.test}:
            of_task = sum(r.task == task for r in runs)
            assert sum(r.task == task for r in split.test) <= -(-of_task // folds)


@given(LOGS, st.randoms(use_true_random=False))
def test_which_runs_are_left_out_together_does_not_depend_on_the_order_of_the_log(
    runs: list[DomainRun], random: Random
) -> None:
    shuffled = random.sample(runs, len(runs))
    assert [set(split.test) for split in by_run(shuffled)] == [set(split.test) for split in by_run(runs)]
