"""What lessons say at one moment: where their condition holds, one sentence each, the same thing once.

A lesson that was made without a model is told as the advice that it gives here, under the condition that tells the runs
apart (`hepm.experience.occasions`). One that a model or a person wrote is told in its own words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from hepm.experience.comparison import compares
from hepm.experience.conditions import Conditions
from hepm.experience.experiences import FoundExperience
from hepm.experience.lessons import EXTRACTIVE, Experience, Principle, in_brackets, is_content
from hepm.experience.occasions import FEWEST, Occasions, Told
from hepm.experience.place import Advice, PrincipleAdvice, lower_bound, places_of
from hepm.experience.principles import FoundPrinciple
from hepm.experience.sentence import advice_sentence, evidence_of, in_own_words
from hepm.experience.transcript import plain
from hepm.graph.tool_life import ToolNames
from hepm.ingest.facts import facts_of_message
from hepm.llm.usage import estimate_tokens
from hepm.policy.hybrid.known_facts import with_calls, with_user
from hepm.text import count_of, quoted
from hepm.types import SAID, Facts, StateSummary, Suggestions, ToolName

SENTENCE_TOKENS: Final = 60
"""Of one lesson with its evidence."""
FEWEST_ALIKE: Final = 2
"""Turns of runs with like requests that bear a lesson out, where nothing else tells the runs apart."""
_WRITTEN_CHARS: Final = 150  # of an experience in its own words; about as many fit into `SENTENCE_TOKENS`
_FEWEST_CHARS: Final = 30
_WRITTEN: Final = 0.5  # how surely a lesson is right that nothing counts

FoundLesson: TypeAlias = FoundPrinciple | FoundExperience


@dataclass(frozen=True, slots=True)
class SaidLesson:
    """One sentence for a prompt.

    Attributes:
        evidence: In a few words: "8 of 8 successful runs"; "" if none was counted.
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

    def line(self) -> str:
        """As a line of a prompt, of at most `SENTENCE_TOKENS`."""
        told = f" ({self.evidence})" if self.evidence else ""
        room = SENTENCE_TOKENS - estimate_tokens(f"- {told}")
        limit = 3 * room
        while estimate_tokens(quoted(self.text, limit)) > room and limit > 1:
            limit -= max(limit // 8, 1)
        return f"- {quoted(self.text, limit)}{told}"


class LessonTeller:
    """Tells lessons at one moment of a run.

    Args:
        here: Where the run is.
        occasions: None where runs cannot be read now: what a lesson says is then not counted.
        state: What the agent knows.
        history: All calls so far.
        as_written: Tell lessons in their own words, an experience with its situation, and never count what runs did:
            as the papers' agents read them, who learn from a run or two.
    """

    def __init__(
        self,
        here: PrincipleAdvice,
        occasions: Occasions | None,
        *,
        state: StateSummary,
        after: Sequence[ToolName],
        history: Sequence[ToolName],
        names: ToolNames,
        environment: str = "",
        user: str = "",
        as_written: bool = False,
    ) -> None:
        self._as_written = as_written
        self._here, self._occasions, self._names = here, occasions, names
        self._after = tuple(map(names.own, after))
        called = Counter(map(names.own, history))
        for tool in self._after:
            called.setdefault(tool, 1)
        facts = {names.own(source): of_source for source, of_source in state.facts.items()}
        if not facts:  # described in words, not read from messages
            facts = {SAID: facts_of_message("\n".join(state.said))}
        self._known: Facts = with_user(with_calls(facts, called), user)
        self._environment, self._user = environment, user
        self._heard: dict[Advice, Told] = {}

    def holds(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson may be told now: its own condition holds, and that of what it advises here."""
        own = lesson.conditions
        if not self._counted(lesson):
            return own.holds(self._known, self._after, environment=self._environment, user=self._user)
        # What the store holds is of the day it was distilled; what decides is asked anew.
        outside = self._environment and own.environments and self._environment not in own.environments
        if outside or own.user not in ("", self._user):
            return False
        return any(self._advice(lesson))

    def _counted(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson was made without a model, and tells which calls runs made."""
        if self._as_written or lesson.distilled_by != EXTRACTIVE:
            return False
        return compares(lesson.lesson) if isinstance(lesson, Experience) else bool(places_of(lesson))

    def _advice(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says about the next call; of one that was counted, what the runs bear out now."""
        side = self._here.sides(lesson)
        if not self._counted(lesson):
            return side
        better = frozenset(tool for tool in side.better if self._supports(Advice(frozenset((tool,)))))
        if side.better:
            return Advice(better, side.worse) if better else Advice()
        return Advice(worse=frozenset(tool for tool in side.worse if self._supports(Advice(worse=frozenset((tool,))))))

    def _supports(self, side: Advice) -> bool:
        told = self._told(side)
        return not told.known or told.reliable  # without turns it came with other runs, and nothing speaks against it

    def _told(self, side: Advice) -> Told:
        """What is known of advice here and now; nothing reliable if its condition does not hold."""
        if side not in self._heard:
            self._heard[side] = self._find(side)
        return self._heard[side]

    def _find(self, side: Advice) -> Told:
        if self._occasions is None:
            return Told(Conditions())
        better, worse = (frozenset(map(self._names.own, tools)) for tools in side)
        told = self._occasions.told(self._after, right=better, wrong=worse)
        if told.reliable and told.conditions.holds(self._known, self._after, user=self._user):
            return told
        if self._user:
            of_user = self._occasions.of_user(self._after, self._user, right=better, wrong=worse)
            if of_user.right >= FEWEST and of_user.reliable:
                return of_user
        like = self._occasions.among(self._after, self._here.alike, right=better, wrong=worse)
        if like.right >= FEWEST_ALIKE and like.reliable:
            return like
        return told._replace(right=0)

    def tell(self, found: Sequence[FoundLesson], suggestions: Suggestions, fading: dict[str, str]) -> list[SaidLesson]:
        """The lessons as sentences, the surest first: each thing once, nothing that `suggestions` says already.

        A line that speaks against a surer one is left out. `fading` says by id why a lesson is no longer fresh.
        """
        said: dict[str | frozenset[ToolName], SaidLesson] = {}
        for one in found:
            sentence = self._sentence(one, fading.get(one.id, ""))
            # What is advised makes the condition: "call a" and "call a rather than b" are one.
            meaning = sentence.advice.better or sentence.text
            known = said.get(meaning)
            said[meaning] = sentence if known is None else _joined(known, sentence)
        kept: list[SaidLesson] = []
        for sentence in sorted(said.values(), key=lambda one: -one.sure):
            if not _repeats(sentence, suggestions) and not any(_opposes(sentence.advice, one.advice) for one in kept):
                kept.append(sentence)
        return kept

    def _sentence(self, one: FoundLesson, fading: str) -> SaidLesson:
        lesson = one.principle if isinstance(one, FoundPrinciple) else one.experience
        runs = tuple(source.run for source in lesson.sources)
        behind = f"from {count_of(len(runs), 'run')}" if runs else ""
        text = _as_written(lesson) if self._as_written else in_own_words(lesson)
        plain = SaidLesson(text, "; ".join(filter(None, (behind, fading))), (one.id,), runs)
        if isinstance(lesson, Principle) and is_content(lesson):
            return replace(plain, text=in_brackets(lesson.row()), evidence=fading, sure=1.0)
        side = self._advice(lesson)
        plain = replace(plain, advice=side)
        if not (self._counted(lesson) and any(side)):
            return plain
        told = self._told(side)
        conditions = told.conditions
        if told.known:
            plain = replace(plain, evidence="; ".join(filter(None, (evidence_of(told, side), fading))))
        return replace(
            plain,
            text=advice_sentence(conditions.when, side),
            sure=lower_bound(told.right, told.turns - told.right),
            reasoned=conditions.checked,
        )


def _as_written(lesson: Principle | Experience) -> str:
    if isinstance(lesson, Principle):
        return lesson.text
    # Where a line is too long, its end is cut: of the two, the situation may be.
    room = max(_WRITTEN_CHARS - len(lesson.lesson), _FEWEST_CHARS)
    return f"{plain(lesson.situation, room).rstrip('.')}: {lesson.lesson}"


def _joined(one: SaidLesson, other: SaidLesson) -> SaidLesson:
    """One sentence for both; of the same advice, the one that also says what to do without."""
    if other.advice.worse and not one.advice.worse:
        one, other = other, one
    lessons = dict.fromkeys((*one.lessons, *other.lessons))
    runs = dict.fromkeys((*one.runs, *other.runs))
    return replace(one, lessons=tuple(lessons), runs=tuple(runs), sure=max(one.sure, other.sure))


def _repeats(said: SaidLesson, suggestions: Suggestions) -> bool:
    """Whether the line of suggestions says it already; a condition is more than that line says."""
    better, worse = said.advice
    suggested = {one.tool for one in suggestions.ranked}
    warned = {one.tool for one in suggestions.warnings}
    return bool(better or worse) and better <= suggested and worse <= warned and not (better and said.reasoned)


def _opposes(one: Advice, other: Advice) -> bool:
    """Whether two pieces of advice cannot both be followed."""
    if one.better & other.worse or one.worse & other.better:
        return True
    return bool(one.better and other.better) and one.better.isdisjoint(other.better)


def fitting(said: Sequence[SaidLesson], tokens: int) -> list[SaidLesson]:
    """The sentences that take at most so many tokens together, the first ones first."""
    kept: list[SaidLesson] = []
    for one in said:
        cost = estimate_tokens(one.line()) + 1
        if cost <= tokens:
            kept.append(one)
            tokens -= cost
    return kept
