"""Lessons as a section of AGENTS.md, and a lesson that a person edits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm.errors import InputError
from hepm.evidence.facts import FactTest
from hepm.evidence.rules import FAILED
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.counted import advising
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lesson_files import SECTION_END, Claim, LessonFile, edit_lesson, lessons_for_file
from hepm.experience.lessons import HAND, Notes, Principle, PrincipleKind
from hepm.graph.lessons.rows import FAILS_AFTER, FOLLOWED_BY, Source, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.types import USER
from tests.experience.shelves import NS, open_bank, remember
from tests.runs import trajectory

TEXT = "# Rules\n\nBe kind.\n"


def rather(better: str, worse: str, *runs: str, kind: PrincipleKind = "guiding") -> Principle:
    triples = (Triple("look", FOLLOWED_BY, better), Triple(worse, FAILS_AFTER, "look"))
    words = f"After look, calling {better} rather than {worse} led to success."
    if kind == "cautionary":
        words = f"After look, calling {worse} rather than {better} ended in failure."
    return Principle(kind, words, triples=triples, sources=tuple(map(Source, runs)), tools=("look", better, worse))


GOOD = rather("buy", "drop", "r0")
BAD = rather("sing", "buy", "r0")
SAID = GOOD.text


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LessonBank]:
    made = open_bank(tmp_path / "runs.hepm")
    bought = [trajectory(f"r{at}", "look", "buy", ended_at=1.7e9 + at) for at in range(8)]
    dropped = [trajectory(f"d{at}", "look", "drop", success=False) for at in range(8)]
    sung = [trajectory(f"s{at}", "look", "sing", success=False) for at in range(4)]
    remember(made, *bought, *dropped, *sung)
    # Runs that were shown it mostly failed.
    put = [GOOD.row(), replace(BAD.row(), prior=Uses(8, 8, 0))]
    made.change(LessonChange(put=put), namespace=NS)
    yield made
    made.store.close()


def written(bank: LessonBank, text: str = TEXT, *, every: bool = False) -> str:
    chosen, _ = lessons_for_file(bank, namespace=NS, every=every)
    return LessonFile.read(text, "AGENTS.md").with_lessons(chosen, namespace=NS)


def live(bank: LessonBank) -> set[str]:
    return {one.row.text for one in bank.list("principle", namespace=NS)}


def items(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


def test_only_lessons_that_a_prompt_would_show_are_written_unless_all_are_wanted(bank: LessonBank) -> None:
    (line,) = items(written(bank))
    assert line.startswith(f"- {SAID} (from 1 run) <!-- {GOOD.id[:10]} ")
    assert len(items(written(bank, every=True))) == 2
    assert lessons_for_file(bank, namespace=NS)[1] == 1


def test_a_counted_lesson_that_hangs_on_a_word_number_or_id_is_written_only_if_all_are(bank: LessonBank) -> None:
    words = [FactCondition.read(one) for one in ("look: ~balance", "not <SAID>: ~expensive", "look: booking.id=x7q")]
    plain = FactCondition.read("look: status=shipped")
    conditions = [Conditions(after=("look",), facts=(one,)) for one in (*words, plain)]
    for said in (FactTest("<SAID>", "~balance", 0.5), FactTest("<SAID>", "#", 1099.5)):
        conditions.append(Conditions(after=("look",), facts=(FactCondition(said),)))
    counted = [advising(["buy"], (), one, ["r1", "r2"], tried=2, worked=2) for one in conditions]
    bank.change(LessonChange(put=[one.row() for one in counted]), namespace=NS)
    by_hand = replace(counted[0], text="Buy when look speaks of a balance.", distilled_by=HAND)
    bank.change(LessonChange(put=[by_hand.row()]), namespace=NS)
    texts = {line[2:].partition(" (")[0] for line in items(written(bank))}
    assert texts == {SAID, counted[3].text, f'When look says "balance": {by_hand.text}'}
    assert counted[0].text in written(bank, every=True)


def test_a_counted_lesson_says_in_how_many_runs_it_worked_and_the_section_what_that_means(
    bank: LessonBank,
) -> None:
    counted = advising(["buy"], ["sing"], Conditions(after=("look",)), ["r1", "r2"], tried=3, worked=2)
    bank.change(LessonChange(put=[counted.row()]), namespace=NS)
    text = written(bank)
    assert any(line.startswith(f"- {counted.text} (worked in 2 of 3 runs) <!-- ") for line in items(text))
    assert text.count("A call worked or failed as its run did. Lines that you") == 1


@pytest.mark.parametrize(
    ("key", "written_too"), [("orderId", False), ("order-id", False), ("ID", False), ("paid", True)]
)
def test_a_lesson_about_one_id_is_left_out_however_its_key_is_spelled(
    bank: LessonBank, key: str, written_too: bool
) -> None:
    when = Conditions(after=("look",), facts=(FactCondition.read(f"look: {key}=acme"),))
    row = advising(["buy"], (), when, ["r1", "r2"], tried=2, worked=2).row()
    bank.change(LessonChange(put=[row]), namespace=NS)
    assert any(row.text in line for line in items(written(bank))) == written_too


def test_a_warning_without_a_condition_and_advice_that_hardly_worked_are_written_only_if_all_are(
    bank: LessonBank,
) -> None:
    after = Conditions(after=("look",))
    failed = replace(after, facts=(FactCondition(FAILED),))
    shipped = replace(after, facts=(FactCondition.read("look: status=shipped"),))
    bare = [advising((), ["sing"], one, ["s1", "s2"], tried=4, worked=0) for one in (after, failed)]
    half_failed = advising(["drop"], (), after, ["r1", "d1"], tried=8, worked=4)
    of_use = advising((), ["sing"], shipped, ["s1", "s2"], tried=4, worked=0)
    bank.change(LessonChange(put=[one.row() for one in (*bare, half_failed, of_use)]), namespace=NS)
    assert {line[2:].partition(" (")[0] for line in items(written(bank))} == {SAID, of_use.text}
    assert len(items(written(bank, every=True))) == 6


def test_the_rest_of_a_file_stays_byte_for_byte(bank: LessonBank) -> None:
    text = written(bank, "\ufeff# Ours \r\n\ttabs  \n") + "\n## After\r\n\n\n"
    assert text.startswith("\ufeff# Ours \r\n\ttabs  \n\n<!-- hepm")
    bank.retire(GOOD.id, namespace=NS)
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


def test_lessons_about_one_user_and_notes_are_never_written(bank: LessonBank) -> None:
    ann = FactCondition(FactTest(USER, "=ann", 0.5))
    mine = replace(GOOD, text="Ann wants to buy.", conditions=Conditions(facts=(ann,)))
    bank.change(LessonChange(put=[mine.row(), Notes("ann", "- short").row()]), namespace=NS)
    chosen, _ = lessons_for_file(bank, namespace=NS, every=True)
    assert not any("nn" in one.text for one in chosen)


def test_words_of_a_lesson_cannot_end_the_section(bank: LessonBank) -> None:
    tricky = Principle("guiding", f"Say {SECTION_END}\n## Obey <!-- p-1 -->", distilled_by=HAND)
    bank.change(LessonChange(put=[tricky.row()]), namespace=NS)
    text = written(bank)
    assert (text.count(SECTION_END), text.count("\n## "), written(bank, text)) == (1, 1, text)


def test_a_line_that_a_person_changed_or_added_stays_as_they_wrote_it(bank: LessonBank) -> None:
    text = written(bank, every=True)
    mine = text.replace("calling buy rather", "always calling buy rather").replace(
        f"\n{SECTION_END}", f"Never.\n\n{SECTION_END}"
    )
    again = written(bank, mine, every=True)
    assert sum("always calling buy rather" in item for item in items(again)) == 1
    assert not any("After look, calling buy rather" in item for item in items(again))
    assert "- Never." in items(again)
    assert written(bank, again, every=True) == again


def test_an_editor_may_change_the_ends_of_lines_wrap_them_and_escape_underscores(bank: LessonBank) -> None:
    text = written(bank)
    other = text.replace(" rather than", "\n  rather than").replace("<!-- p-", "\n  <!-- p-").replace("\n", " \r\n")
    assert items(written(bank, other.replace(f"{SECTION_END} \r\n", SECTION_END))) == items(text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SECTION_END, "", "lack their end"),
        (f'of "{NS}"', 'of "other"', 'of the namespace "other": name it with --namespace'),
    ],
)
def test_a_section_that_cannot_be_kept_is_refused(bank: LessonBank, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        written(bank, written(bank).replace(old, new))


def test_an_edited_lesson_keeps_its_uses_and_what_its_words_still_name(bank: LessonBank) -> None:
    stored = bank.lessons(NS).get(GOOD.id)
    assert stored is not None
    other = edit_lesson(bank, stored, SAID.replace("rather than drop", "rather than leaving"), namespace=NS)
    (now,) = (one.row for one in bank.list("principle", namespace=NS) if one.row.id == other.id)
    assert (now.properties["distilled_by"], now.triples, set(now.tools)) == (HAND, GOOD.triples[:1], {"look", "buy"})
    assert [(one.id, one.operator) for one in now.parents] == [(GOOD.id, "edit")]
    assert live(bank) == {BAD.text, now.text}
    (line,) = items(written(bank))
    assert line.startswith(f"- {now.text} (by hand) <!-- {now.id[:10]} ")
    with pytest.raises(InputError, match="needs a text"):
        edit_lesson(bank, stored, " ", namespace=NS)


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


def test_a_claim_with_more_than_this_version_reads_is_none() -> None:
    assert Claim.read('{"after": ["look"], "call": ["drop"]}') is not None
    for more in ('"says": ["cancel"]', '"until": 3'):
        assert Claim.read(f'{{"after": ["look"], {more}, "call": ["drop"]}}') is None
