"""A lesson as one sentence: advice with its condition, and the evidence for it in a few words."""

from __future__ import annotations

from hepm.experience.lessons import Experience, Principle
from hepm.experience.occasions import Told
from hepm.experience.place import Advice
from hepm.experience.transcript import listed
from hepm.text import count_of


def advice_sentence(when: str, side: Advice) -> str:
    """Advice in words: "after get_order, when the user says 'cancel', call cancel_order rather than refund"."""
    better, worse = listed(sorted(side.better)), listed(sorted(side.worse))
    does = f"call {better}" if better else f"runs that called {worse} failed"
    if better and worse:
        does += f" rather than {worse}"
    text = f"{when}, {does}." if when else f"{does}."
    return (text[0].upper() + text[1:]).replace('"', "'")


def evidence_of(told: Told, side: Advice) -> str:
    """Why to believe advice, in a few words: "8 of 8 successful runs"; "" if none counts."""
    turns = count_of(told.turns, "successful run" if side.better else "run")
    return f"{told.right} of {turns}" if told.turns else ""


def in_own_words(lesson: Principle | Experience) -> str:
    """A lesson as a model or a person wrote it, with its condition, if the words do not name it."""
    text = lesson.text if isinstance(lesson, Principle) else lesson.lesson
    when = lesson.conditions.when
    if not lesson.conditions.checked or when.casefold() in text.casefold():
        return text
    return f"{when[0].upper()}{when[1:]}: {text}"
