"""What is taken for a wish without a model, and what becomes of lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.experience.notes.lines import LINE_CHARS, NOTES_CHARS, cleaned, covers, lines_of, lost, telling, text_of
from hepm.experience.notes.wishes import gather, wishes_in


def found(*said: str) -> list[str]:
    return list(wishes_in(said))


def notes(*said: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    return gather(before, wishes_in(said)).lines


@pytest.mark.parametrize(
    "sentence",
    [
        "Please keep your answers short.",
        "Can you keep it short?",
        "Shorter please.",
        "Your last answer was too long.",
        "Please always answer in German.",
        "Reply to me in French!",
        "No emojis please.",
        "Please don't use emojis.",
        "Use bullet points.",
        "Explain it step by step.",
        "could we please go one step at a time?",
        "Stop apologizing.",
        "Don't ask me for confirmation every time.",
        "If anything else would trigger a fee, stop and check with me first.",
        "Call me Al.",
        "Be more formal.",
        "Never send me to a human agent.",
        "From now on put the order id first.",
        "In the future, please tell me the price before you book.",
        "I'd rather you explain the code first.",
        "I prefer detailed explanations.",
        "I usually prefer aisle seats.",
        "I don't like it when you summarise what I said.",
        "Use metric units.",
    ],
)
def test_a_sentence_that_asks_for_a_manner_is_a_wish_in_the_users_own_words(sentence: str) -> None:
    assert found(f"I need help with my order.\n{sentence} My order is #W123.") == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "I prefer the cheapest flight.",
        "I'd prefer the refund to the original payment method.",
        "I’d prefer not to type it out here, if you can pull it from my account.",
        "Never mind, I'll do it myself.",
        "I never received the parcel.",
        "You don't use emojis.",
        "You always forget the order id.",
        "Why are your answers so short?",
        "Did you answer in German?",
        "don't cancel my order",
        "please call me back tomorrow",
        "I'd like more details about my order.",
        "The item is too short, can I exchange it?",
        "Do you have tables with metal legs?",
        "use the gift card",
        "I want you to cancel my order.",
        "I always choose aisle seats.",
        "I appreciate the offer, but there’s no explanation for the delay.",
        "The flight is too long.",
        "She told me to answer in German.",
        "Please send him a concise message.",
        "Always staying sharp with my investments!",
        "I would prefer to review all the messages I've sent.",
    ],
)
def test_what_is_about_the_task_the_past_or_the_user_is_none(sentence: str) -> None:
    assert found(sentence) == []


def test_code_and_quotations_and_long_stories_hold_no_wishes() -> None:
    assert found("```\n# always answer in German\n```", "> keep it short", "keep it short " + "because " * 60) == []


@given(st.lists(st.text(max_size=80), max_size=5))
def test_every_line_is_in_words_that_the_user_said(said: list[str]) -> None:
    told = " ".join(" ".join("".join(c if c.isprintable() else " " for c in text).split()) for text in said)
    for line in found(*(f"{text} please keep it short {text}" for text in said)):
        assert all(word in f"{told} please keep it short" for word in line.split())


@pytest.mark.parametrize(
    ("said", "kept"),
    [
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
    ],
)
def test_a_wish_is_kept_once_and_a_newer_one_replaces_it_only_where_both_say_nothing_else(
    said: list[str], kept: list[str] | int
) -> None:
    lines = notes(*said)
    assert lines == tuple(said) if kept == 2 else lines == tuple(kept)  # type: ignore[arg-type]


def test_notes_that_are_full_take_no_more_and_lose_nothing() -> None:
    before = tuple(f"always mention the price of item {n} " + "x" * 240 for n in range(14))
    result = gather(before, wishes_in(["Never send me to a human agent.", "Always show the id first. " * 3]))
    assert result.lines[: len(before)] == before
    assert len(text_of(result.lines)) <= NOTES_CHARS
    more = gather(result.lines, (f"always say {n} {'y' * 150}" for n in range(30)))
    assert more.dropped
    assert len(text_of(more.lines)) <= NOTES_CHARS
    assert set(result.lines) <= set(more.lines)


# Lines


def test_lines_are_read_without_bullets_control_characters_and_repeats() -> None:
    told = "- short answers\n\n* Short answers\n2. no\x1b[31m emojis\x00\n• call me Al\n"
    assert lines_of(told) == ["short answers", "no [31m emojis", "call me Al"]


@given(st.text(max_size=2_000))
def test_lines_written_and_read_again_are_the_same_bounded_and_on_one_line_each(text: str) -> None:
    lines = lines_of(text)
    assert lines_of(text_of(lines)) == lines
    assert all(0 < len(line) <= LINE_CHARS and line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("new", "old", "covered"),
    [
        ("Keep all answers short and clear", "short answers", True),
        ("Short answers in bullet points", "short answers", True),
        ("Answer in English", "Answer in German", False),
        ("translate German quotations", "Answer in German", False),
        ("Reply in German, in code comments too", "Answer in German", True),
        ("use emojis", "no emojis", False),
        ("don't use emojis", "No emojis please", True),
        ("short answers when I ask about code", "short answers", False),
        ("short answers", "short answers when I ask about code", False),
        ("ask before cancelling an order", "Ask me before you cancel orders", True),
        ("please", "please", True),
        ("please do", "please", False),
    ],
)
def test_a_line_says_what_another_does_where_it_holds_its_words_and_neither_turns_nor_narrows_it(
    new: str, old: str, covered: bool
) -> None:
    assert covers(new, old) is covered


def test_a_line_that_was_split_in_two_is_not_lost_and_one_whose_words_are_scattered_is() -> None:
    assert lost(["short code examples in Python"], ["code examples", "short, in Python"]) == []
    assert lost(["answer in German politely"], ["politely decline", "in English"]) == ["answer in German politely"]


@pytest.mark.parametrize("word", ["want", "different", "payment"])
def test_words_that_end_like_a_negation_are_none(word: str) -> None:
    assert covers(f"{word} cheap", f"cheap {word}")
    assert "short" in telling(f"short {word}")


def test_a_long_line_is_cut() -> None:
    assert len(cleaned("word " * 500)) == LINE_CHARS
