"""A lesson as one sentence: advice with its condition."""

from __future__ import annotations

from hepm.experience.advice import Advice
from hepm.experience.lessons import Experience, Principle
from hepm.experience.transcript import listed


def advice_sentence(when: str, advice: Advice) -> str:
    """Advice in words: "after get_order, when the user says 'cancel', call cancel_order rather than refund"."""
    better, worse = listed(sorted(advice.better)), listed(sorted(advice.worse))
    if not better:
        text = f"runs that called {worse} failed"
    elif worse:
        text = f"call {better} rather than {worse}"
    else:
        text = f"call {better}"
    if when:
        text = f"{when}, {text}"
    # A prompt quotes the sentence as a JSON string: double quotes would be escaped.
    return f"{text[0].upper()}{text[1:]}.".replace('"', "'")


def in_own_words(lesson: Principle | Experience) -> str:
    """A lesson as a model or a person wrote it, with its condition, if the words do not name it."""
    if isinstance(lesson, Principle):
        text = lesson.text
    else:
        text = lesson.lesson
    when = lesson.conditions.when
    folded = text.casefold().replace('"', "'")
    if not lesson.conditions.checked or when.casefold().replace('"', "'") in folded:
        return text
    return f"{when[0].upper()}{when[1:]}: {text}"
