from __future__ import annotations

from hepm.evals.domains import Record, families_of, fold_of, task_of
from hepm.types import ToolCall, Trajectory, Turn


def record(
    name: str, environment: str, task: str, *heard: str, id: str = "r", source: str = "", result: str | None = None
) -> Record:
    turns = [Turn("user", text) for text in heard]
    turns.append(Turn("assistant", "", (ToolCall("look", result=result),)))
    return name, Trajectory(id, tuple(turns), environment=environment, task=task, source=source)


def test_a_retail_run_belongs_to_the_customer_that_it_names_most() -> None:
    runs = [
        record("tau", "retail", "7", "I am mia_li_0001", result="mia_li_0001"),
        record("tau", "retail", "7", "it is mia_li_0001"),
        record("tau", "retail", "7", "like yusuf_ito_0002, yusuf_ito_0002"),
        record("tau", "retail", "7", "no name"),
        record("tau", "retail", "8", "mia_li_0001 again"),
    ]
    assert families_of(runs) == ["mia_li_0001", "mia_li_0001", "yusuf_ito_0002", "mia_li_0001", "mia_li_0001"]


def test_equal_numbers_of_two_benchmarks_are_two_tasks() -> None:
    runs = [record("tau", "retail", "7", "mia_li_0001"), record("tau2", "retail", "7", "yusuf_ito_0002")]
    assert families_of(runs) == ["mia_li_0001", "yusuf_ito_0002"]
    assert len({task_of(run) for run in runs}) == 2


def test_runs_of_one_number_about_two_customers_are_two_tasks() -> None:
    runs = [record("tau2", "retail", "7", "mia_li_0001"), record("tau2", "retail", "7", "yusuf_ito_0002")]
    assert len({task_of(run) for run in runs}) == 2


def test_a_family_does_not_depend_on_the_order_of_files() -> None:
    one = record("tau", "retail", "7", "mia_li_0001", source="a.json")
    two = record("tau", "retail", "7", "yusuf_ito_0002", source="b.json")
    other = record("tau", "retail", "7", "no name")
    assert families_of([one, two, other])[2] == families_of([two, one, other])[2] == "mia_li_0001"


def test_personas_of_one_telecom_task_are_one_family() -> None:
    runs = [record("tau2", "telecom", f"[mms]roaming[PERSONA:{who}]") for who in ("None", "Hard")]
    assert families_of(runs) == ["[mms]roaming"] * 2


def test_variants_of_one_bfcl_task_are_one_family() -> None:
    runs = [record("bfcl", f"bfcl-multi_turn_{kind}", f"multi_turn_{kind}_12") for kind in ("base", "miss_func")]
    assert families_of(runs) == ["12", "12"]


def test_elsewhere_a_family_is_a_task_and_a_run_without_one_stands_alone() -> None:
    runs = [record("chat", "shop", "t1", "mia_li_0001"), record("chat", "shop", "", "mia_li_0001", id="r9")]
    assert families_of(runs) == ["t1", "r9"]


def test_the_fold_of_a_family_is_the_same_on_every_machine() -> None:
    # int(md5(b"g" + name).hexdigest(), 16) % 5, worked out apart from the code
    assert [fold_of(name, 5) for name in ("user_task_0", "mia_li_0001", "17")] == [1, 1, 3]
