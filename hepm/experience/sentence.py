"""A lesson as one sentence: advice with its condition, and the evidence for it in a few words."""

from __future__ import annotations

from hepm.experience.advice import Advice
from hepm.experience.lessons import Experience, Principle
from hepm.experience.occasions import OccasionEvidence
from hepm.experience.transcript import listed
from hepm.text import count_of


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


def evidence_of(evidence: OccasionEvidence, advice: Advice) -> str:
    """Why to believe it: "8 of 9 runs succeeded, 1 of 7 others", of a warning "6 of 6 runs"; "" if none counts."""
    if not evidence.tried:
        return ""
    text = f"{evidence.right} of {count_of(evidence.tried, 'run')}"
    if advice.better:
        text += " succeeded"
    if evidence.others:
        text += f", {evidence.others_right} of {count_of(evidence.others, 'other')}"
    return text


def in_own_words(lesson: Principle | Experience) -> str:
    """A lesson as a model or a person wrote it, with its condition, if the words do not name it."""
    if isinstance(lesson, Principle):
        text = lesson.text
    else:
        text = lesson.lesson
    when = lesson.conditions.when
    if not lesson.conditions.checked or when.casefold() in text.casefold():
        return text
    return f"{when[0].upper()}{when[1:]}: {text}"
