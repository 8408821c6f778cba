"""Lessons as lines of a prompt: where their condition holds, one sentence each, the same thing once.

A lesson that counting found is written as the advice that it gives here, with the runs that were counted
(`hepm.experience.counted`). One that a model or a person wrote keeps its own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from hepm.evidence.decisions import ENDED, known_before
from hepm.evidence.rules import lower_bound
from hepm.experience.advice import Advice, AdviceHere, advice_sentence
from hepm.experience.comparison import compares
from hepm.experience.lessons import (
    EXTRACTIVE,
    Experience,
    Principle,
    is_content,
)
from hepm.experience.transcript import plain
from hepm.ingest.facts import facts_of_message
from hepm.llm.usage import estimate_tokens
from hepm.text import count_of, quoted
from hepm.types import SAID, START, Facts, StateSummary, Suggestions, ToolName

SENTENCE_TOKENS: Final = 60
"""Of one lesson with its evidence."""
_WRITTEN_CHARS: Final = 150  # of an experience in its own words; about as many fit into `SENTENCE_TOKENS`
_FEWEST_CHARS: Final = 30
_WRITTEN: Final = 0.5  # how surely a lesson is right that nothing counts


@dataclass(frozen=True, slots=True)
class LessonLine:
    """One sentence for a prompt.

    Attributes:
        evidence: In a few words: "8 of 8 runs succeeded"; "" if none was counted.
        lessons: Ids of the lessons that say it; they are credited together.
        runs: Ids of runs behind them.
        advice: The next tools it is for and against; none if it is about something else.
        sure: How surely it is right, in [0, 1]: the order of a prompt.
        reasoned: Whether it says when it holds.
    """

    text: str
    evidence: str = ""
    lessons: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    advice: Advice = field(default_factory=Advice)
    sure: float = _WRITTEN
    reasoned: bool = False

    def bullet(self) -> str:
        """As a line of a prompt, of at most `SENTENCE_TOKENS`: '- "After a, call b." (8 of 8 runs succeeded)'."""
        evidence = f" ({self.evidence})" if self.evidence else ""
        room = SENTENCE_TOKENS - estimate_tokens(f"- {evidence}")
        # Tokens are only estimated, so that the text is shortened until it fits.
        limit = 3 * room  # characters: hardly any token has more
        while estimate_tokens(quoted(self.text, limit)) > room and limit > 1:
            limit -= max(limit // 8, 1)
        return f"- {quoted(self.text, limit)}{evidence}"


@dataclass(frozen=True)
class LessonWriter:
    """Writes lessons as lines for one turn of a run.

    Attributes:
        here: What lessons say after the last tools.
        state: What the agent knows.
        history: All calls so far.
        as_written: Keep the lessons' own words, an experience with its situation, and never count what runs did: as
            the papers' agents read them, who learn from a run or two.
    """

    here: AdviceHere
    state: StateSummary
    history: Sequence[ToolName]
    environment: str = ""
    user: str = ""
    as_written: bool = False

    @cached_property
    def _known(self) -> Facts:
        """What is known now, with the calls made and the user; tools by the names that memory has them under."""
        own, state = self.here.names.own, self.state
        past = [*map(own, self.history)]
        # A caller may give the last tools without the history that ends with them.
        past += [tool for tool in self.here.after if tool not in (*past, START)]
        facts = {own(source): of_source for source, of_source in state.facts.items()}
        if not facts:  # described in words, not read from messages
            facts = {SAID: facts_of_message("\n".join(state.said))}
        if state.failed:
            facts[ENDED] = {"=error": 1.0}
        return known_before(replace(state, facts=facts), past, self.user)

    def holds(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson may be shown now: its condition holds, and it is more than what sets one run apart."""
        if not self.as_written and lesson.distilled_by == EXTRACTIVE:
            if isinstance(lesson, Experience):
                if compares(lesson.lesson):
                    return False
            # What is known of good results says nothing after an error.
            elif self.state.failed and not any(fact.test.source == ENDED for fact in lesson.conditions.facts):
                return False
        return lesson.conditions.holds(self._known, self.here.after, environment=self.environment, user=self.user)

    def lines(self, found: Iterable[Principle | Experience], suggestions: Suggestions) -> list[LessonLine]:
        """The lessons as sentences, the surest first: each thing once, nothing that `suggestions` says already.

        A line that speaks against a surer one is left out.
        """
        # By the tools that are advised, or by the words of a lesson that advises none.
        by_meaning: dict[str | frozenset[ToolName], LessonLine] = {}
        for lesson in found:
            line = self._line(lesson)
            # What is advised makes the condition: "call a" and "call a rather than b" are one.
            meaning = line.advice.better or line.text
            if meaning in by_meaning:
                line = _joined(by_meaning[meaning], line)
            by_meaning[meaning] = line
        kept: list[LessonLine] = []
        for line in sorted(by_meaning.values(), key=lambda line: -line.sure):
            if not _repeats(line, suggestions) and not any(_opposes(line.advice, other.advice) for other in kept):
                kept.append(line)
        return kept

    def best(self, principles: Iterable[Principle], k: int) -> list[Principle]:
        """The k principles that hold and that runs bear out best, guiding before cautionary ones, then by their runs.

        One that adds nothing to those before it is skipped.
        """

        def order(principle: Principle) -> tuple[float, bool, int, str]:
            # Ties end with the text: the order does not depend on the order of the store.
            return -_sureness(principle), principle.kind != "guiding", -len(principle.sources), principle.text

        chosen: list[Principle] = []
        better: set[ToolName] = set()
        worse: set[ToolName] = set()
        for principle in sorted(filter(self.holds, principles), key=order):
            advice = self.here.advice_of(principle)
            if not (advice.better <= better and advice.worse <= worse):
                chosen.append(principle)
                better |= advice.better
                worse |= advice.worse
        return chosen[:k]

    def _line(self, lesson: Principle | Experience) -> LessonLine:
        runs = lesson.run_ids
        if isinstance(lesson, Principle) and is_content(lesson):
            text = f"{lesson.text} ({lesson.evidence})" if lesson.evidence else lesson.text
            return LessonLine(text, "", (lesson.id,), runs, sure=1.0)
        # A lesson that nothing counts has only the number of its runs.
        evidence = f"from {count_of(len(runs), 'run')}" if runs else ""
        text = _with_situation(lesson) if self.as_written else lesson.in_own_words
        advice = self.here.advice_of(lesson)
        if isinstance(lesson, Principle) and lesson.tried and not self.as_written:
            evidence = ("worked in " if advice.better else "") + lesson.evidence
            # In the agent's own names of its tools.
            if any(advice):
                text = advice_sentence(lesson.conditions.when, advice)
        reasoned = lesson.conditions.checked
        return LessonLine(text, evidence, (lesson.id,), runs, advice, _sureness(lesson), reasoned)


def _sureness(lesson: Principle | Experience) -> float:
    """How surely a lesson is right: the least share of the runs that bear it out (see `lower_bound`)."""
    if not lesson.tried:
        return _WRITTEN
    failed = lesson.tried - lesson.worked
    return lower_bound(failed, lesson.worked) if lesson.warns else lower_bound(lesson.worked, failed)


def _with_situation(lesson: Principle | Experience) -> str:
    """A lesson in its own words, an experience after its situation."""
    if isinstance(lesson, Principle):
        return lesson.text
    # Where a line is too long, its end is cut: of the two, the situation may be.
    room = max(_WRITTEN_CHARS - len(lesson.lesson), _FEWEST_CHARS)
    return f"{plain(lesson.situation, room).rstrip('.')}: {lesson.lesson}"


def _joined(one: LessonLine, other: LessonLine) -> LessonLine:
    """One line for both; of the same advice, the one that also says what not to do."""
    if other.advice.worse and not one.advice.worse:
        one, other = other, one
    lessons = tuple(dict.fromkeys((*one.lessons, *other.lessons)))
    runs = tuple(dict.fromkeys((*one.runs, *other.runs)))
    return replace(one, lessons=lessons, runs=runs, sure=max(one.sure, other.sure))


def _repeats(line: LessonLine, suggestions: Suggestions) -> bool:
    """Whether the line of suggestions says it already; a condition is more, unless a warning says what failed, too."""
    # A warning says more than the suggestion unless that warns, too.
    better, worse = line.advice
    if not (better or worse) or (better and line.reasoned and not worse):
        return False
    suggested = {suggestion.tool for suggestion in suggestions.ranked}
    warned = {warning.tool for warning in suggestions.warnings}
    return better <= suggested and worse <= warned


def _opposes(one: Advice, other: Advice) -> bool:
    """Whether two pieces of advice cannot both be followed."""
    if one.better & other.worse or one.worse & other.better:
        return True
    return bool(one.better and other.better) and one.better.isdisjoint(other.better)
