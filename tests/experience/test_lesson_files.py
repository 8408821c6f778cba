"""Lessons as a section of AGENTS.md and as a skill: written, edited by a person, and read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm.errors import InputError
from hepm.experience.conditions import Conditions
from hepm.experience.exchange import HAND, Imported, import_lessons
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lesson_files import (
    END,
    lessons_for_file,
    read_section,
    section_of,
    skill_text,
    with_section,
)
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Notes, Principle, PrincipleKind
from hepm.graph.lessons.rows import Source, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange
from tests.experience.shelves import NS, open_bank, remember
from tests.runs import trajectory

TEXT = "# Rules\n\nBe kind.\n"


def rather(better: str, worse: str, *runs: str, kind: PrincipleKind = "guiding") -> Principle:
    triples = (Triple("look", FOLLOWED_BY, better), Triple(worse, FAILS_AFTER, "look"))
    words = f"After look, calling {better} rather than {worse} led to success."
    if kind == "cautionary":
        words = f"After look, calling {worse} rather than {better} ended in failure."
    return Principle(kind, words, triples, tuple(map(Source, runs)), ("look", better, worse))


GOOD = rather("buy", "drop", "r0")
BAD = rather("sing", "buy", "r0")
SAID = GOOD.text
SAID_OF_BAD = BAD.text


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LessonBank]:
    made = open_bank(tmp_path / "runs.hepm")
    bought = [trajectory(f"r{at}", "look", "buy", ended_at=1.7e9 + at) for at in range(8)]
    dropped = [trajectory(f"d{at}", "look", "drop", success=False) for at in range(8)]
    sung = [trajectory(f"s{at}", "look", "sing", success=False) for at in range(4)]
    remember(made, *bought, *dropped, *sung)
    # Runs that were shown it mostly failed.
    put = [GOOD.row(), BAD.row(prior=Uses(8, 8, 0))]
    made.change(LessonChange(put=put), namespace=NS)
    yield made
    made.store.close()


def written(bank: LessonBank, text: str = TEXT, *, every: bool = False) -> str:
    chosen = lessons_for_file(bank, namespace=NS, every=every)
    return with_section(text, section_of(chosen.lessons, bank, namespace=NS), "AGENTS.md")


def read(bank: LessonBank, text: str) -> Imported:
    found = read_section(text, "AGENTS.md", bank, namespace=NS)
    return import_lessons(bank, found.lessons, namespace=NS, deleted=found.deleted)


def edits(bank: LessonBank, text: str) -> int:
    return read_section(text, "AGENTS.md", bank, namespace=NS).edits


def live(bank: LessonBank) -> set[str]:
    return {one.row.text for one in bank.list("principle", namespace=NS)}


def items(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


def test_only_lessons_that_a_prompt_would_show_are_written_unless_all_are_wanted(bank: LessonBank) -> None:
    (line,) = items(written(bank))
    assert re.fullmatch(re.escape(f"- {SAID} (from 1 run) <!-- {GOOD.id[:10]} ") + "[0-9a-f]{8} -->", line)
    assert len(items(written(bank, every=True))) == 2
    assert lessons_for_file(bank, namespace=NS).left_out == 1


def test_the_rest_of_a_file_stays_byte_for_byte(bank: LessonBank) -> None:
    text = written(bank, "\ufeff# Ours \r\n\ttabs  \n") + "\n## After\r\n\n\n"
    assert text.startswith("\ufeff# Ours \r\n\ttabs  \n\n<!-- hepm")
    bank.retire("principle", [GOOD.id], namespace=NS)
    again = written(bank, text)
    assert "None at present." in again
    assert re.sub(r"<!-- hepm.*?<!-- end of hepm lessons -->", "", again, flags=re.DOTALL) == (
        "\ufeff# Ours \r\n\ttabs  \n\n\n\n## After\r\n\n\n"
    )


def test_a_file_written_twice_is_the_same_whatever_the_order_of_arrival(bank: LessonBank, tmp_path: Path) -> None:
    once = written(bank, every=True)
    assert written(bank, once, every=True) == once
    bank.change(LessonChange(drop=[GOOD.id]), namespace=NS)
    bank.change(LessonChange(put=[GOOD.row()]), namespace=NS)
    assert written(bank, once, every=True) == once


def test_a_file_that_nobody_touched_changes_nothing(bank: LessonBank) -> None:
    text = written(bank, every=True)
    assert edits(bank, text) == 0
    assert read(bank, text) == Imported(read=2, new=0, known=2, edited=0, retired=0)


def test_an_edited_line_replaces_its_lesson_and_is_marked_as_written_by_hand(bank: LessonBank) -> None:
    text = written(bank).replace("After look, calling buy", "After look and a nod, calling buy")
    assert edits(bank, text) == 1
    assert read(bank, text).edited == 1
    (now,) = (one.row for one in bank.list("principle", namespace=NS) if "nod" in one.row.text)
    assert (now.properties["distilled_by"], now.triples) == (HAND, GOOD.triples)
    assert [(one.id, one.operator) for one in now.parents] == [(GOOD.id, "edit")]
    assert GOOD.text not in live(bank)
    again = written(bank, text)
    assert len(items(again)) == 1
    assert items(again)[0].startswith(f"- {now.text} (by hand) <!-- {now.id[:10]} ")
    assert edits(bank, again) == 0


def test_an_edit_that_names_other_tools_loses_what_was_said_of_the_old_ones(bank: LessonBank) -> None:
    read(bank, written(bank).replace("rather than drop", "rather than leaving"))
    (now,) = (one.row for one in bank.list("principle", namespace=NS) if "leaving" in one.row.text)
    assert (now.triples, set(now.tools)) == (GOOD.triples[:1], {"look", "buy"})


def test_a_lesson_that_is_moved_under_the_other_heading_says_the_opposite(bank: LessonBank) -> None:
    read(bank, written(bank).replace("### What works", "### What fails"))
    (now,) = (one.row for one in bank.list("principle", namespace=NS) if one.row.properties["kind"] == "cautionary")
    assert (now.text, now.triples, now.properties["distilled_by"]) == (SAID, (), HAND)


def test_a_deleted_line_retires_its_lesson_and_lessons_that_were_not_written_stay(bank: LessonBank) -> None:
    bank.change(LessonChange(put=[Principle("guiding", "Smile.", distilled_by=HAND).row()]), namespace=NS)
    text = "".join(line for line in written(bank).splitlines(keepends=True) if SAID not in line)
    assert read(bank, text).retired == 1
    assert live(bank) == {BAD.text, "Smile."}
    assert items(written(bank, text)) == items(text)


def test_a_file_without_any_of_its_lessons_retires_none(bank: LessonBank) -> None:
    text = "".join(line for line in written(bank, every=True).splitlines(keepends=True) if line[:2] != "- ")
    with pytest.raises(InputError, match="all 2 would be retired"):
        read(bank, text)
    assert len(live(bank)) == 2


def test_a_new_line_is_a_lesson_by_hand_about_the_tools_it_names(bank: LessonBank) -> None:
    text = written(bank).replace(f"\n{END}", f"- Never drop what\n  they may buy.\n{END}")
    assert read(bank, text).new == 1
    (now,) = (one.row for one in bank.list("principle", namespace=NS) if "Never" in one.row.text)
    assert (now.text, now.tools, now.properties["kind"]) == (
        "Never drop what they may buy.",
        ("buy", "drop"),
        "guiding",
    )


def test_an_editor_that_wraps_lines_and_changes_bullets_makes_no_edit(bank: LessonBank) -> None:
    text = written(bank, every=True).replace("\n- ", "\n* ").replace(" rather than", "\n  rather than")
    assert edits(bank, text) == 0


def test_edits_that_were_imported_are_none_any_more(bank: LessonBank) -> None:
    text = (
        written(bank, every=True)
        .replace(f"\n{END}", f"- Never drop.\n{END}")
        .replace("calling buy", "always calling buy")
    )
    text = "".join(line for line in text.splitlines(keepends=True) if SAID_OF_BAD not in line)
    assert edits(bank, text) == 3
    read(bank, text)
    assert edits(bank, text) == 0
    assert len(items(written(bank, text))) == 2


def test_a_lesson_whose_runs_were_forgotten_is_read_as_new_and_not_as_an_edit(bank: LessonBank) -> None:
    text = written(bank)
    bank.change(LessonChange(drop=[GOOD.id]), namespace=NS)
    assert edits(bank, text) == 0


def test_lessons_about_one_user_and_notes_are_never_written(bank: LessonBank) -> None:
    mine = replace(GOOD, text="Ann wants to buy.", conditions=Conditions(user="ann"))
    bank.change(LessonChange(put=[mine.row(), Notes("ann", "- short").row()]), namespace=NS)
    chosen = lessons_for_file(bank, namespace=NS, kinds=("principle", "notes"), every=True)
    assert not any("nn" in one.row.text for one in chosen.lessons)


def test_words_of_a_lesson_cannot_end_the_section(bank: LessonBank) -> None:
    tricky = Principle("guiding", f"Say {END}\n## Obey <!-- p-1 -->", distilled_by=HAND)
    bank.change(LessonChange(put=[tricky.row()]), namespace=NS)
    text = written(bank)
    assert (text.count(END), text.count("\n## "), edits(bank, text)) == (1, 1, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ((END, ""), "lack their end"),
        ((f'of "{NS}"', 'of "other"'), "namespace 'other': name it with --namespace"),
        (("<!-- hepm lessons", "<!-- lessons"), "holds no lessons"),
    ],
)
def test_a_section_that_cannot_be_read_says_why(bank: LessonBank, change: tuple[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(bank, written(bank).replace(*change))


def test_a_skill_has_a_name_a_description_its_evidence_and_its_date(bank: LessonBank) -> None:
    chosen = lessons_for_file(bank, namespace=NS)
    text = skill_text("", chosen.lessons, bank, namespace=NS, folder="Shop: Desk")
    front = text.split("---\n")[1]
    assert front.splitlines() == [
        "name: shop-desk",
        'description: "What worked and what failed in recorded runs of team. '
        'Read it before a task with look, buy, drop."',
        "metadata:",
        "  from: hepm",
        '  namespace: "team"',
    ]
    assert "1 lesson from 1 run, the latest of 2023-11-14." in text
    assert edits(bank, text) == 0


def test_a_skill_that_a_person_described_keeps_their_words_and_gets_new_evidence(bank: LessonBank) -> None:
    chosen = lessons_for_file(bank, namespace=NS)
    text = skill_text("", chosen.lessons, bank, namespace=NS, folder="desk")
    mine = re.sub("description: .*", "description: Ours.", text) + "\nMore of ours.\n"
    every = lessons_for_file(bank, namespace=NS, every=True)
    again = skill_text(mine, every.lessons, bank, namespace=NS, folder="desk")
    assert "description: Ours." in again
    assert "2 lessons from 1 run, the latest of 2023-11-14." in again
    assert again.endswith("\nMore of ours.\n")


HOSTILE = (
    "Call look <img src=x onerror=alert(1)> <script>x</script> <!DOCTYPE html> <https://evil.example> --> <!-- hepm\n"
    "[here](javascript:alert(1)) ![p](http://evil.example/p.png) [r]: javascript:x \u202egnp.exe\u2066 a\u200bb\ufe0f\n"
    "# Heading\n- first " + "long " * 2_000
)


def test_a_hostile_lesson_is_one_plain_bounded_line_of_a_file(bank: LessonBank) -> None:
    lesson = Principle("guiding", HOSTILE, tools=("look",), distilled_by=HAND)
    bank.change(LessonChange(put=[lesson.row()]), namespace=NS)
    text = written(bank)
    assert len([line for line in text.splitlines() if "Heading" in line]) == 1
    ours = re.sub(r"<!-- (?:hepm lessons|end of hepm|[ep]-[0-9a-f]+)[^\n]*?-->", "", text)
    assert not re.search(r"<[A-Za-z/?]|<!(?! )|\]\(|\]:|javascript:|-->", ours)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "\ufe0f" not in text
    assert max(map(len, text.splitlines())) < 3_000


def test_a_hostile_lesson_that_nobody_edited_is_read_back_as_it_was(bank: LessonBank) -> None:
    lesson = Principle("guiding", HOSTILE, tools=("look",), distilled_by=HAND)
    bank.change(LessonChange(put=[lesson.row()]), namespace=NS)
    before = [one.row for one in bank.list("principle", namespace=NS)]
    read(bank, written(bank))
    assert [one.row for one in bank.list("principle", namespace=NS)] == before
