"""What is taken for a wish without a model, and what becomes of lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.experience.notes import (
    LINE_CHARS,
    NOTES_CHARS,
    cleaned,
    covers,
    gather,
    key_words,
    lines_of,
    lost,
    text_of,
)
from hepm.experience.stated_preferences import statements_in
from tests.experience.form_preferences import (
    HELD_OTHERS,
    HELD_REMINDERS,
    HELD_WISHES,
    SEEN_OTHERS,
    SEEN_REMINDERS,
    SEEN_WISHES,
)


def found(*said: str) -> list[str]:
    return [stated for stated in statements_in(said) if isinstance(stated, str)]


def notes(*said: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(gather(before, statements_in(said)))


ASKED = [
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
]


def test_a_sentence_that_asks_for_a_manner_is_a_wish_in_the_users_own_words() -> None:
    for sentence in ASKED:
        assert found(f"I need help with my order.\n{sentence} My order is #W123.") == [sentence]


OTHERS = [
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
]


def test_what_is_about_the_task_the_past_or_the_user_is_none() -> None:
    for sentence in OTHERS:
        assert found(sentence) == []


PLAIN = """
Always answer in three sentences or fewer.
Never send an email without showing me the draft first.
Please use metric units.
From now on, put the order number at the top of every message.
I prefer short answers.
Keep your replies in three sentences.
Don't page anyone at night.
I hate long answers.
No bullet points, please.
Call me Sam, not Samuel.
Whenever you book a flight, pick an aisle seat.
Can you always include the tracking link?
I'd like you to explain things step by step.
Please be more formal with me.
Ask me before you spend more than $50.
Don't ask me for confirmation for small things.
I want you to check the policy before you answer.
Stop apologizing so much.
In future, reply in French.
By default, use the staging environment.
Every time you change a file, run the tests.
Do not ever share my phone number.
I like it when you give examples.
I can't stand jargon.
Just give me the code, no explanations.
Make your answers shorter.
You should always double-check the date.
Write everything in plain English.
I don't want you to call my office.
Use 24-hour time.
Be concise.
Give me the numbers in a table.
Going forward, cc my assistant on all invites.
Remember that I'm vegetarian.
My preference is email over phone.
Avoid meetings before 10 am.
Don't schedule anything on Fridays.
Please speak to me in Spanish.
Start with the summary, then the details.
I would rather have one long message than many short ones.
Never deploy on a weekend.
Could you keep it brief?
Don't make changes without asking me.
Please stop using exclamation marks.
I really dislike it when you repeat my question.
As a rule, book refundable rates only.
If the price is over 200, check with me first.
End each answer with a next step.
I'm not a fan of long introductions.
Skip the pleasantries.
Please remember to use my work address.
Only contact me by text.
Let me know before you cancel anything.
Your answers are too long.
Don't be so wordy.
Use Python type hints in all code you write for me.
I always want the cheapest option.
Show prices in euros.
Please always confirm the total before paying.
Please respond in bullet points.
Never assume I want to upgrade.
I'd prefer that you don't use slang.
Please always include sources.
Don't call me before 9 in the morning.
You can call me Jo.
Answer me in Italian from here on.
I don't need an explanation every time.
Please keep responses under 100 words.
For code questions, show the code first.
When I ask for a hotel, only show ones with breakfast.
I need you to confirm every booking with me.
Don't ever delete files without asking.
Less small talk please.
I like bullet points.
Please address me formally.
Always reply all.
Please no more than two options at a time.
I want all times in UTC.
"""

OTHER = """
I want to cancel my order.
Please cancel my reservation and refund me.
Don't cancel my order yet.
I never received the package.
I always fly with this airline.
Never mind, I found it.
Can you give me the details of my last order?
What is the longest flight you have?
I prefer the blue one.
I'd rather have a refund than an exchange.
I want to change my flight to the morning.
Use the credit card ending in 4321.
Please send the money to my savings account.
Could you tell me the price of the larger size?
You never answered my question.
He always asks for a discount.
I hate that the parcel arrived broken.
I don't like the color of the shirt.
Is there a short flight to Denver?
My answer is yes.
Please add a note to the event.
The last time I called nobody answered.
I don't want the insurance.
Please use the gift card for the difference.
Give me a list of all flights on May 20.
Call me back at 555-0134.
Yes, please go ahead.
I would like to book two tickets in economy.
Why do you always charge a fee?
Every time I try to log in, it fails.
Whenever I open the app it crashes.
Remember the order I placed last week?
Don't worry about it.
No, thanks.
I need a hotel near the station.
I like the first option best.
Show me the cheapest flight on Friday.
Stop the car engine.
Make sure the refund goes to my PayPal account.
Send a message to Bob saying that the meeting is short.
Do not charge my card for this order.
I'd prefer an earlier departure if possible.
Please write a review of the hotel and post it.
In the future this might be a problem.
I want to buy a table with metal legs.
Please check if my bag can be delivered by Monday.
They never reply to emails.
Create a file named notes.txt with three sentences.
I avoid layovers when I can.
Are there any emojis in my profile name?
I was told to always keep the receipt.
Keep the other items in the order.
Can you explain the baggage policy?
I love this product, but it is too short.
Please set my cell phone to airplane mode only.
I only have 200 dollars left.
Don't you have anything cheaper?
The instructions were in French.
Please book it before the price goes up.
What should I always carry when traveling?
Please keep the reservation as is.
I need a table for four at 7 pm.
Do not include the receipt in the email to Tom.
Could you make it a bit shorter, the trip I mean?
I like this one better.
Always had good experiences with you before.
Can you confirm the booking?
Show me flights in the morning.
I want the shorter flight.
Please be quick, my flight leaves soon.
Tell Anna that I said hello.
I never asked for that.
When will you answer my question?
Use my saved address.
The table is too small for the room.
Stop the subscription please.
I usually pay by card.
Do you speak Spanish?
Write an email in French to Marie.
Don't send it to the old address.
"""


def test_what_users_plainly_ask_for_is_found() -> None:
    assert [line for line in PLAIN.strip().splitlines() if found(line) != [line]] == []


def test_what_is_no_standing_request_is_not_taken_for_one() -> None:
    assert [line for line in OTHER.strip().splitlines() if found(line)] == []


def test_stated_preferences_about_the_form_of_answers_are_found_and_like_sentences_of_tasks_are_not() -> None:
    assert [line for line in SEEN_WISHES if found(line) != [line]] == []
    assert [line for line in SEEN_OTHERS + HELD_OTHERS if found(line)] == []
    missed = ["Just the answer, please.", "Max. 40 words.", "Lists are fine, but no nested ones."]
    assert [line for line in HELD_WISHES if found(line) != [line]] == missed


def test_a_reminder_is_kept_as_the_wish_alone() -> None:
    for said, wish in (SEEN_REMINDERS | HELD_REMINDERS).items():
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
    ("don't use emojis", "No emojis please", True),
    ("short answers when I ask about code", "short answers", False),
    ("short answers", "short answers when I ask about code", False),
    ("ask before cancelling an order", "Ask me before you cancel orders", True),
    ("please", "please", True),
    ("please do", "please", False),
]


def test_a_line_says_what_another_does_where_it_holds_its_words_and_neither_turns_nor_narrows_it() -> None:
    for new, old, covered in COVERED:
        assert covers(new, old) is covered


def test_a_line_that_was_split_in_two_is_not_lost_and_one_whose_words_are_scattered_is() -> None:
    assert lost(["short code examples in Python"], ["code examples", "short, in Python"]) == []
    assert lost(["answer in German politely"], ["politely decline", "in English"]) == ["answer in German politely"]


@pytest.mark.parametrize("word", ["want", "different", "payment"])
def test_words_that_end_like_a_negation_are_none(word: str) -> None:
    assert covers(f"{word} cheap", f"cheap {word}")
    assert "short" in key_words(f"short {word}")


def test_a_long_line_is_cut() -> None:
    assert len(cleaned("word " * 500)) == LINE_CHARS


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
    (["I prefer short answers.", "I'd like detailed explanations."], -1),
    (["Please write long replies.", "I hate long answers."], -1),
    (["Keep your replies in three sentences.", "From now on, ten sentences at most."], -1),
    (["Show prices in euros.", "Please always show prices in dollars."], -1),
    (["Ask me before each step.", "Stop asking me before each step."], -1),
    (["Always include the tracking link.", "Never include the tracking link."], -1),
    (["Use bullet points.", "Use tables instead of bullet points."], -1),
    (["I prefer short answers.", "I no longer want short answers."], 0),
    (["From now on, give me long answers with all details.", "I no longer want long answers."], 0),
    (["Give me long answers with all details.", "I don't want long answers any more."], 0),
    (["Answer in German.", "You no longer need to answer in German."], 0),
    (["Ask me before each step.", "You don't have to ask me before each step any more."], 0),
    (["No emojis please.", "Forget what I said about emojis."], 0),
    (["No emojis please.", "You can use emojis again."], 0),
    (["Answer in German.", "Never mind my request about the language."], 0),
    (["Use bullet points.", "Never mind the bullet points."], 0),
    (["Always include the tracking link.", "The tracking link is no longer needed."], 0),
]


def test_a_later_wish_about_the_same_thing_replaces_the_former_and_a_wish_taken_back_is_gone() -> None:
    for said, kept in LATER:
        others = ("Call me Al.", "Never send me to a human agent.", "Check the policy before you answer.")
        wanted = said[kept:] if kept else []
        assert notes(*said, before=others) == (*others, *wanted)


ELSE = [
    "I no longer want to cancel my order.",
    "I no longer want the blue one.",
    "I don't need the hotel any more.",
    "Never mind, I found it.",
    "Forget about the refund, send a new one instead.",
    "I do not want a long flight any more.",
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
