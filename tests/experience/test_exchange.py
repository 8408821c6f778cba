from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm.errors import InputError
from hepm.experience.conditions import Conditions
from hepm.experience.exchange import export_lessons, import_lessons, read_documents, write_documents
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience, Notes, Principle
from hepm.graph.lessons.rows import Source, Triple, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.sqlite import SQLiteStore
from tests.experience.shelves import NS, bank_in

ASK = Experience(
    situation='a user says "refund" & more\n# not a heading\n> nor a quote',
    action="called look",
    outcome="",
    lesson="Ask for the order ☃ first.",
    zone="golden",
    stage="exploration",
    reward=0.9,
    conditions=Conditions(("retail", "1.5"), 1, 4, ("the user is known",)),
    sources=(Source("r1", 0.9), Source("r2", None, words=False)),
    tools=("look", "buy: now"),
)
RULE = Principle(
    "cautionary", "Do not drop before looking.", (Triple("drop", "fails_after", "START"),), tools=("drop",)
)
NOTES = Notes("ann", "- short answers\n- in German")


def bank(path: Path) -> LessonBank:
    return bank_in(SQLiteStore(path))


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[LessonBank]:
    made = bank(tmp_path / "ours.hepm")
    rows = [ASK.row(), RULE.row(), NOTES.row()]
    made.change(LessonChange(put=rows, imported=True), namespace=NS)
    made.store.lessons.show("r9", [ASK.id], namespace=NS)
    made.store.lessons.report_outcomes({"r9": True}, namespace=NS)
    made.lessons(NS).follow(made.store.header)
    yield made
    made.store.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[LessonBank]:
    made = bank(tmp_path / "theirs.hepm")
    yield made
    made.store.close()


def text_of(source: LessonBank, *, retired: bool = False) -> str:
    return "\n".join(write_documents(export_lessons(source, namespace=NS, retired=retired))) + "\n"


def read(target: LessonBank, text: str, **more: object) -> object:
    return import_lessons(target, read_documents(text.splitlines(keepends=True), "lessons"), namespace=NS, **more)  # type: ignore[arg-type]


def test_lessons_come_through_a_file_as_they_were_with_what_is_known_of_them(
    ours: LessonBank, theirs: LessonBank
) -> None:
    read(theirs, text_of(ours))
    assert text_of(theirs) == text_of(ours)
    for mine, other in zip(ours.store.lessons.list(namespace=NS), theirs.store.lessons.list(namespace=NS), strict=True):
        assert replace(other.row, prior=Uses()) == mine.row
        assert other.uses == mine.uses


def test_a_file_read_twice_or_where_it_came_from_changes_nothing(ours: LessonBank) -> None:
    before = ours.store.lessons.list(namespace=NS)
    text = text_of(ours)
    for _ in range(2):
        read(ours, text)
    after = ours.store.lessons.list(namespace=NS)
    assert [(one.row, one.uses) for one in after] == [(one.row, one.uses) for one in before]


def test_an_edited_lesson_takes_the_place_of_the_former_and_keeps_its_uses(ours: LessonBank) -> None:
    read(ours, text_of(ours).replace("first.", "first, then look."))
    (now,) = ours.lessons(NS).all("experience")
    assert Experience.of(now.row).lesson == "Ask for the order ☃ first, then look."
    assert now.uses == Uses(1, 1, 1)
    assert [(parent.id, parent.operator) for parent in now.row.parents] == [(ASK.id, "edit")]
    former = ours.lessons(NS).get(ASK.id)
    assert former is not None
    assert former.row.retired == "superseded"


def test_notes_of_another_store_add_the_lines_that_lack_and_edited_ones_are_taken_as_they_are(
    ours: LessonBank, theirs: LessonBank
) -> None:
    theirs.change(LessonChange(put=[Notes("ann", "- no emojis\n- Short  answers").row()]), namespace=NS)
    read(ours, text_of(theirs))
    (now,) = (Notes.of(one.row) for one in ours.lessons(NS).all("notes")[-1:])
    assert (now.text, now.version) == ("- short answers\n- in German\n- no emojis", 2)
    read(ours, text_of(ours).replace("- in German\\n- no emojis", "- in French"))
    assert Notes.of(ours.lessons(NS).all("notes")[-1].row).text == "- short answers\n- in French"


def test_what_a_file_lacks_is_retired_only_where_that_is_asked_for(ours: LessonBank) -> None:
    other = Principle("guiding", "Stay.")
    ours.change(LessonChange(put=[other.row()]), namespace=NS)
    whole = text_of(ours)
    kept = "\n".join(line for line in whole.splitlines() if RULE.id not in line)
    read(ours, kept)
    assert len(ours.lessons(NS).all("principle")) == 2
    read(ours, kept, retire_missing=("principle",))
    assert [one.row.id for one in ours.lessons(NS).all("principle")] == [other.id]
    assert ours.lessons(NS).all("principle", retired=True)[0].row.retired == "deleted"
    read(ours, whole)
    assert len(ours.lessons(NS).all("principle")) == 2


def test_a_file_that_holds_none_of_a_kind_retires_none_of_it(ours: LessonBank) -> None:
    with pytest.raises(InputError, match="holds no lesson of kind 'principle'"):
        read(ours, "", retire_missing=("principle",))
    assert len(ours.lessons(NS).all("principle")) == 1


def test_a_lesson_written_by_hand_needs_only_its_words(theirs: LessonBank) -> None:
    read(theirs, json.dumps({"kind": "principle", "principle": "guiding", "text": "Look before you buy."}))
    (stored,) = theirs.lessons(NS).all("principle")
    assert Principle.of(stored.row) == Principle("guiding", "Look before you buy.", distilled_by="hand")


HEAD = {"kind": "experience", "lesson": "x", "zone": "golden", "stage": "completion"}
RULE_HEAD = {"kind": "principle", "principle": "guiding", "text": "x"}
BROKEN = {
    "no JSON": ("{", "line 1: it is no JSON"),
    "an unknown kind": ('{"kind": "wisdom"}', "line 1: its kind is 'wisdom'"),
    "a zone that is none": (json.dumps(HEAD | {"zone": "gold"}), "zone"),
    "no words": (json.dumps(RULE_HEAD | {"text": " "}), "its text is ' ', and must be a text"),
    "turns": (json.dumps(HEAD | {"turns": [3]}), "turns"),
    "uses": (json.dumps(RULE_HEAD | {"uses": {"shown": 1, "uses": 2, "successes": 0}}), "uses"),
    "half a character": (json.dumps(RULE_HEAD | {"text": "\ud800"}), "text"),
    "too many turns": (json.dumps(HEAD | {"turns": [1, 10**40]}), "turns"),
    "too many uses": (json.dumps(RULE_HEAD | {"uses": {"shown": 2**63, "uses": 0, "successes": 0}}), "uses"),
    "sources": (json.dumps(RULE_HEAD | {"sources": [{"run": 3}]}), "sources"),
    "a reward beyond all numbers": (json.dumps(RULE_HEAD | {"sources": [{"run": "r", "reward": 10**400}]}), "sources"),
    "Markdown": ("## principle p-1\n", "line 1: it is no JSON"),
    "no object": ("[]\n", "line 1: it is no lesson, but list"),
    "deep": ('{"kind":' + "[" * 100_000, "line 1: it is no JSON"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_is_broken_somewhere_says_where_and_changes_nothing(ours: LessonBank, what: str) -> None:
    text, sentence = BROKEN[what]
    before = ours.store.lessons.list(namespace=NS)
    with pytest.raises(InputError, match="lessons, ") as error:
        read(ours, text_of(ours).replace("☃", "snow") + text if text[0] == "{" else text)
    assert sentence.split(": ", 1)[-1] in str(error.value)
    assert [one.row for one in ours.store.lessons.list(namespace=NS)] == [one.row for one in before]


def test_an_edit_that_is_taken_back_leaves_the_bank_as_it_was(ours: LessonBank) -> None:
    read(ours, text_of(ours).replace("first.", "first, then look."))
    for _ in range(2):
        done = read(ours, text_of(ours).replace("first, then look.", "first."))
        (now,) = ours.lessons(NS).all("experience")
        assert (now.row.id, now.uses) == (ASK.id, Uses(1, 1, 1))
    assert (done.new, done.edited, done.known) == (0, 0, 3)  # type: ignore[attr-defined]


def test_the_same_edited_file_read_twice_counts_the_edit_once(ours: LessonBank) -> None:
    edited = text_of(ours).replace("first.", "first, then look.")
    counts = [read(ours, edited) for _ in range(2)]
    assert [(one.new, one.edited, one.known) for one in counts] == [(0, 1, 2), (0, 0, 3)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("user", ["1234", '["a"]', "u\r", "a\nb", '"', " x "])
def test_a_user_of_any_name_comes_through_a_file(ours: LessonBank, theirs: LessonBank, user: str) -> None:
    ours.change(LessonChange(put=[Notes(user, "- mine").row()]), namespace=NS)
    read(theirs, text_of(ours))
    assert {one.row.user: one.row.text for one in theirs.lessons(NS).all("notes")} == {
        "ann": NOTES.text,
        user: "- mine",
    }


def test_two_files_one_after_the_other_are_read_as_one(ours: LessonBank, theirs: LessonBank) -> None:
    both = text_of(ours) + text_of(ours)
    assert read(theirs, both).read == 6  # type: ignore[attr-defined]
