"""What is taken for a wish without a model, and what becomes of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.experience.notes import LINE_CHARS, NOTES_CHARS, covers, gather, lines_of, lost, text_of
from hepm.experience.stated_preferences import statements_in
from tests.sections import sections

SAID = sections(Path(__file__).with_name("stated_preferences.txt"))


def found(*said: str) -> list[str]:
    return [stated for stated in statements_in(said) if isinstance(stated, str)]


def notes(*said: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(gather(before, statements_in(said)))


def test_a_sentence_that_asks_for_a_manner_is_a_wish_in_the_users_own_words() -> None:
    for sentence in SAID["wishes"]:
        assert found(sentence) == [sentence]
    for sentence in SAID["wishes"][:24]:
        assert found(f"I need help with my order.\n{sentence} My order is #W123.") == [sentence]


def test_what_is_about_the_task_the_past_or_the_user_is_none() -> None:
    assert [line for line in SAID["no wishes"] if found(line)] == []


def test_stated_preferences_about_the_form_of_answers_are_found_and_like_sentences_of_tasks_are_not() -> None:
    assert [line for line in SAID["no wishes tried at the end"] if found(line)] == []
    missed = ["Just the answer, please.", "Max. 40 words.", "Lists are fine, but no nested ones."]
    assert [line for line in SAID["wishes tried at the end"] if found(line) != [line]] == missed


def test_a_reminder_is_kept_as_the_wish_alone() -> None:
    for line in SAID["reminders"] + SAID["reminders tried at the end"]:
        said, wish = line.split(" => ")
        assert found(said) == [wish]
    assert notes("Number the steps.", "I asked before: Number the steps.") == ("Number the steps.",)


def test_code_and_quotations_and_long_stories_hold_no_wishes() -> None:
    assert found("```\n# always answer in German\n```", "> keep it short", "keep it short " + "because " * 60) == []


@given(st.lists(st.text(max_size=80), max_size=5))
def test_every_line_is_in_words_that_the_user_said(said: list[str]) -> None:
    told = " ".join(" ".join("".join(c if c.isprintable() else " " for c in text).split()) for text in said)
    for line in found(*(f"{text} please keep it short {text}" for text in said)):
        assert all(word in f"{told} please keep it short" for word in line.split())


ONCE = [
    (["Please keep your answers short.", "Keep it brief!"], ["Please keep your answers short."]),
    (["No emojis please.", "Please don't use emojis."], ["No emojis please."]),
    (["Answer in German.", "Please answer in French."], ["Please answer in French."]),
    (["Keep it short.", "Be more detailed."], ["Be more detailed."]),
    (["Keep it short.", "When I ask about code, be more detailed."], 2),
    (["Keep it short.", "Be more detailed about prices."], 2),
    (["Keep it short and no emojis.", "Be more detailed."], 2),
    (["Answer in German.", "No emojis please."], 2),
    (["Use bullet points.", "No bullet points please."], ["No bullet points please."]),
    (
        ["Keep it short.", "Please keep it short and put the price first."],
        ["Please keep it short and put the price first."],
    ),
]


def test_a_wish_is_kept_once_and_a_newer_one_replaces_it_only_where_both_say_nothing_else() -> None:
    for said, kept in ONCE:
        lines = notes(*said)
        assert lines == tuple(said) if kept == 2 else lines == tuple(kept)  # type: ignore[arg-type]


def test_notes_that_are_full_take_no_more_and_lose_nothing() -> None:
    before = [f"always mention the price of item {n} " + "x" * 240 for n in range(14)]
    result = gather(before, statements_in(["Never send me to a human agent.", "Always show the id first. " * 3]))
    assert result[: len(before)] == before
    assert len(text_of(result)) <= NOTES_CHARS
    more = gather(result, (f"always say {n} {'y' * 150}" for n in range(30)))
    assert len(more) < len(result) + 30
    assert len(text_of(more)) <= NOTES_CHARS
    assert set(result) <= set(more)


# Lines


def test_lines_are_read_without_bullets_control_characters_and_repeats() -> None:
    told = "- short answers\n\n* Short answers\n2. no\x1b[31m emojis\x00\n• call me Al\n"
    assert lines_of(told) == ["short answers", "no [31m emojis", "call me Al"]


@given(st.text(max_size=2_000))
def test_lines_written_and_read_again_are_the_same_bounded_and_on_one_line_each(text: str) -> None:
    lines = lines_of(text)
    assert lines_of(text_of(lines)) == lines
    assert all(0 < len(line) <= LINE_CHARS and line.isprintable() for line in lines)


COVERED = [
    ("Keep all answers short and clear", "short answers", True),
    ("Short answers in bullet points", "short answers", True),
    ("Answer in English", "Answer in German", False),
    ("translate German quotations", "Answer in German", False),
    ("Reply in German, in code comments too", "Answer in German", True),
    ("use emojis", "no emojis", False),
    ("short answers when I ask about code", "short answers", False),
    ("short answers", "short answers when I ask about code", False),
    ("ask before cancelling an order", "Ask me before you cancel orders", True),
    ("please do", "please", False),
]


def test_a_line_says_what_another_does_where_it_holds_its_words_and_neither_turns_nor_narrows_it() -> None:
    for new, old, covered in COVERED:
        assert covers(new, old) is covered


def test_a_line_whose_words_are_scattered_over_others_is_lost() -> None:
    assert lost(["answer in German politely"], ["politely decline", "in English"]) == ["answer in German politely"]


@pytest.mark.parametrize(
    ("message", "wishes"),
    [
        ("Write dates as 2026-11-24.", ["Write dates as 2026-11-24."]),
        ("Don't call me Mr. Smith. Refund order 4711.", ["Don't call me Mr. Smith."]),
        ("Write the date of my order as a title.", []),
        ("Don't call me back today.", []),
        ("Dr. Smith will call. Write the price as 12.50.", []),
    ],
)
def test_forms_of_dates_and_of_address_are_wishes_and_particular_ones_are_not(message: str, wishes: list[str]) -> None:
    assert list(statements_in([message])) == wishes


LATER = [
    (["I prefer short answers.", "From now on, give me long answers with all details."], -1),
    (["Keep your replies in three sentences.", "From now on, ten sentences at most."], -1),
    (["Ask me before each step.", "Stop asking me before each step."], -1),
    (["Always include the tracking link.", "Never include the tracking link."], -1),
    (["Use bullet points.", "Use tables instead of bullet points."], -1),
    (["I prefer short answers.", "I no longer want short answers."], 0),
    (["From now on, give me long answers with all details.", "I no longer want long answers."], 0),
    (["Ask me before each step.", "You don't have to ask me before each step any more."], 0),
    (["No emojis please.", "Forget what I said about emojis."], 0),
    (["No emojis please.", "You can use emojis again."], 0),
    (["Answer in German.", "Never mind my request about the language."], 0),
    (["Always include the tracking link.", "The tracking link is no longer needed."], 0),
]


def test_a_later_wish_about_the_same_thing_replaces_the_former_and_a_wish_taken_back_is_gone() -> None:
    for said, kept in LATER:
        others = ("Call me Al.", "Never send me to a human agent.", "Check the policy before you answer.")
        wanted = said[kept:] if kept else []
        assert notes(*said, before=others) == (*others, *wanted)


ELSE = [
    "I no longer want to cancel my order.",
    "Never mind, I found it.",
    "Forget about the refund, send a new one instead.",
    "The short answer is that I no longer need it.",
    "I no longer want to answer the survey in German.",
    "Don't send the order in two parcels any more.",
    "I no longer want long answers.",
    "I'd rather have the aisle seat instead of the window.",
]


def test_a_wish_that_is_about_something_else_stays() -> None:
    for said in ELSE:
        before = (
            "I prefer short answers.", "Answer in German.", "Always confirm before you cancel an order.",
            "Always book hotels with breakfast.", "No emojis please.", "Keep refunds and returns apart.",
        )  # fmt: skip
        assert notes(said, before=before)[: len(before)] == before
