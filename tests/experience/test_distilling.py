from __future__ import annotations

from pathlib import Path

from hepm.evidence.decisions import CallPlace
from hepm.evidence.rules import RunsOf, ToolRule
from hepm.experience.counted import next_tools
from hepm.experience.distilling import ExtractiveDistiller, distill_into
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.principles import Principles
from hepm.graph.lessons.rows import Source
from hepm.graph.lessons.transaction import LessonChange
from tests.experience.shelves import NS, forget, open_bank, remember
from tests.runs import trajectory


def distill(bank: LessonBank) -> tuple[int, int, int]:
    report = distill_into(bank, ExtractiveDistiller(), namespace=NS)
    return report.runs, report.new, report.merged


def test_a_run_that_gets_its_label_late_is_distilled_then(bank: LessonBank) -> None:
    remember(bank, trajectory("late", "look", success=None, task="t"), trajectory("won", "look", "buy", task="t"))
    assert distill(bank) == (1, 1, 0)
    assert distill(bank) == (0, 0, 0)
    remember(bank, trajectory("late", "look", success=False, task="t"))
    assert distill(bank) == (1, 1, 0)


def test_equal_words_make_one_experience_with_several_sources(bank: LessonBank) -> None:
    remember(bank, trajectory("b", "look", task="t"), trajectory("a", "look", task="t"))
    assert distill(bank) == (2, 1, 1)
    (found,) = bank.list("experience", namespace=NS)
    assert found.row.sources == (Source("a", 1.0), Source("b", 1.0, words=False))


def rules(bank: LessonBank) -> dict[str, set[str]]:
    """The principles that are found, each with the runs behind it."""
    return {one.row.text: {source.run for source in one.row.sources} for one in bank.list("principle", namespace=NS)}


def test_a_later_run_is_compared_with_the_earlier_ones_which_are_not_distilled_again(bank: LessonBank) -> None:
    remember(bank, trajectory("won", "look", "buy", task="t"))
    assert distill(bank) == (1, 1, 0)
    remember(bank, trajectory("lost", "look", "drop", success=False, task="t"))
    assert distill(bank) == (1, 1, 0)
    first, second = (one.row.properties["lesson"] for one in bank.list("experience", namespace=NS))
    assert first == "This way led to success: look, then buy."
    assert second == ("After look, runs of this task that succeeded called buy; this one, which failed, called drop.")


def test_a_rule_that_runs_do_not_teach_any_more_is_retired_and_comes_back_with_its_uses(bank: LessonBank) -> None:
    good = [trajectory(f"g{n}", "look", "buy") for n in range(6)]
    remember(bank, *good, *(trajectory(f"b{n}", "look", "drop", success=False) for n in range(6)))
    Principles(bank).distill(namespace=NS)
    (rule,) = rules(bank)
    (id,) = (one.row.id for one in bank.list("principle", namespace=NS))
    bank.show("live", [id], namespace=NS)
    for name in range(6):
        forget(bank, f"g{name}")
    bank.mirror.refresh()
    Principles(bank).distill(namespace=NS)
    assert rules(bank) == {}
    remember(bank, *good)
    bank.mirror.refresh()
    Principles(bank).distill(namespace=NS)
    assert {*rules(bank)} == {rule}
    assert [one.uses.shown for one in bank.list("principle", namespace=NS)] == [1]


def test_an_imported_rule_whose_runs_are_elsewhere_outlives_what_the_runs_here_teach(tmp_path: Path) -> None:
    there, here = open_bank(tmp_path / "there.hepm"), open_bank(tmp_path / "here.hepm")
    for bank, good, bad in ((there, "buy", "drop"), (here, "sell", "keep")):
        remember(bank, *(trajectory(f"{good}{n}", "look", good) for n in range(6)))
        remember(bank, *(trajectory(f"{bad}{n}", "look", bad, success=False) for n in range(6)))
    Principles(there).distill(namespace=NS)
    (rule,) = there.list("principle", namespace=NS)
    here.change(LessonChange(put=[rule.row], imported=True), namespace=NS)
    for _ in range(2):
        Principles(here).distill(namespace=NS)
        assert {rule.row.text} < {*rules(here)}


def test_a_lesson_that_a_hand_retired_does_not_come_back_when_it_is_taught_again(bank: LessonBank) -> None:
    remember(bank, *(trajectory(f"g{n}", "look", "buy") for n in range(6)))
    remember(bank, *(trajectory(f"b{n}", "look", "drop", success=False) for n in range(6)))
    Principles(bank).distill(namespace=NS)
    (one,) = bank.list("principle", namespace=NS)
    bank.change(LessonChange(retire={one.row.id: "deleted"}), namespace=NS)
    remember(bank, trajectory("later", "look", "buy"))
    Principles(bank).distill(namespace=NS)
    assert rules(bank) == {}


def test_a_lesson_counts_all_runs_that_made_the_call_as_the_report_and_its_check_do() -> None:
    runs = RunsOf(won=("a",), passed=("g",), failed=("b", "c", "d"), lost=("e", "f"))
    [lesson] = next_tools([ToolRule(CallPlace("calculate"), (), "", ("book",), {"book": runs})])
    assert lesson.evidence == "failed in 6 of 7 runs"
