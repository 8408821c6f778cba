"""What lessons say at one moment of a run: which of them hold, stand beside what the evidence says, and in what words.

A *place* is the tools of a run's last turn; at the start of a run there are none. A lesson that counting found is
written as the advice that it gives here, with the runs that were counted (`hepm.experience.counted`). One that a model
or a person wrote keeps its own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse, takewhile
from typing import Final, NamedTuple

from hepm.evidence.decisions import ENDED, facts_of_calls
from hepm.evidence.rules import lower_bound
from hepm.experience.conditions import IN_PROJECT, Conditions, allows
from hepm.experience.lessons import EXTRACTIVE, Experience, Lesson, Principle
from hepm.experience.transcript import listed, plain
from hepm.graph.delta import flags_of
from hepm.graph.lessons.rows import next_calls
from hepm.graph.tool_life import ToolNames
from hepm.ingest.facts import facts_of_message
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.transitions import agent_state
from hepm.llm.usage import estimate_tokens
from hepm.text import quoted
from hepm.types import (
    END,
    SAID,
    START,
    Facts,
    FailedWay,
    LastTools,
    Messages,
    StateSummary,
    Suggestions,
    ToolName,
    Turn,
)


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


def advice_sentence(when: str, advice: Advice) -> str:
    """Advice in words: "after get_order, when the user says 'cancel', call cancel_order rather than refund"."""
    better, worse = (listed(sorted(tools - {END})) for tools in advice)
    stops = END in advice.worse
    if not advice.better:
        did = " or ".join([f"called {worse}"] * bool(worse) + ["stopped"] * stops)
        text = f"{'go on: ' if stops else ''}runs that {did} failed"
    else:
        text = f"call {better}" if better else "make no further call"
        if advice.worse:
            text = f"{text} rather than {' or '.join([worse] * bool(worse) + ['stop'] * stops)}"
    if when:
        text = f"{when}, {text}"
    # A prompt quotes the sentence as a JSON string: double quotes would be escaped.
    return f"{text[0].upper()}{text[1:]}.".replace('"', "'")


SENTENCE_TOKENS: Final = 60
"""Of one lesson with its evidence."""
_WRITTEN: Final = 0.5  # how surely a lesson is right that nothing counts


class LessonLine(NamedTuple):
    """A lesson as one sentence of a prompt.

    Attributes:
        support: In a few words: "worked in 8 of 8 runs", "from 3 runs"; "" for none.
        advice: The next tools it is for and against; none if it is about something else.
    """

    lesson: Lesson
    text: str
    support: str = ""
    advice: Advice = Advice()

    def bullet(self) -> str:
        """As a line of a prompt, of at most `SENTENCE_TOKENS`: '- "After a, call b." (worked in 8 of 8 runs)'."""
        support = f" ({self.support})" if self.support else ""
        room = SENTENCE_TOKENS - estimate_tokens(f"- {support}")
        # Tokens are only estimated, so that the text is shortened until it fits.
        limit = 3 * room  # characters: hardly any token has more
        text = quoted(self.text, limit)
        while estimate_tokens(text) > room and limit > 1:
            limit -= max(limit // 8, 1)
            text = quoted(self.text, limit)
        return f"- {text}{support}"


@dataclass(frozen=True)
class Moment:
    """One turn of a run, as lessons see it.

    Attributes:
        after: Tools of the last turn; none before the first call.
        names: What the agent calls its tools; advice is in these names.
        history: All calls so far. Advice to call what the run called since the user last wrote is past, unless it is to
            repeat the last call.
        state: What the agent knows.
        environment, project, user: "" for any, any, and none.
        turn: The agent's next turn, from 1; 0 if unknown.
        repeated: The call that just failed as it did before (`repeated_failure`).
        as_written: Keep the lessons' own words, an experience with its situation, and never count what runs did: as
            the papers' agents read them, who learn from a run or two.
    """

    after: Sequence[ToolName]
    names: ToolNames = ToolNames()
    history: Sequence[ToolName] = ()
    state: StateSummary = StateSummary()
    environment: str = ""
    project: str = ""
    user: str = ""
    turn: int = 0
    repeated: FailedWay | None = None
    as_written: bool = False

    @classmethod
    def of(
        cls,
        messages: Messages | None,
        state: str,
        after: LastTools,
        history: Sequence[ToolName],
        turn: int,
    ) -> Moment:
        """Where a run is after these OpenAI chat messages; without messages, as the other arguments describe it."""
        if messages is not None:
            # Messages say it themselves: `state`, `after` and `history` are passed over.
            return cls.after_turns(read_messages(messages), turn)
        if isinstance(after, str):
            last = (after,)
        else:
            last = tuple(after or history[-1:])
        known = StateSummary(said=(state,) if state else (), tools=last)
        return cls(last, history=history, state=known, turn=turn)

    @classmethod
    def after_turns(cls, turns: Sequence[Turn], turn: int = 0) -> Moment:
        """Where a run is after these turns; `turn` is the agent's next one if 0."""
        agent = agent_state(turns)
        last = [tool for tool in agent.last if tool != START]
        if not turn:
            turn = 1 + sum(earlier.is_step for earlier in turns)
        repeated = repeated_failure(turns)
        return cls(last, history=agent.history, state=agent.state(), turn=turn, repeated=repeated)

    @cached_property
    def _last(self) -> frozenset[ToolName]:
        return frozenset(map(self.names.shown, map(self.names.own, self.after or (START,))))

    @cached_property
    def _called(self) -> frozenset[ToolName]:
        """Tools that the run called since the user last wrote: the user may want something else by now."""
        return frozenset(map(self.names.shown, self.history[self.state.earlier :])) - self._last

    def advice_of(self, lesson: Lesson) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place, or words alone."""
        shown = self.names.shown
        here = [call for call in next_calls(lesson.triples) if shown(call.after) in self._last]
        better = frozenset(shown(call.tool) for call in here if call.advised)
        return Advice(better, frozenset(shown(call.tool) for call in here if not call.advised))

    def is_in(self, conditions: Conditions) -> bool:
        """Whether it is in an environment and a project that conditions allow."""
        projects = [text for text in conditions.preconditions if text.startswith(IN_PROJECT)]
        if projects and self.project and f"{IN_PROJECT}{self.project}" not in projects:
            return False
        return allows(conditions.environments, self.environment)

    def concerns(self, lesson: Experience) -> bool:
        """Whether an experience may be about what comes next: it names a tool of the last turn, or the start."""
        if START in self._last:
            return "at the start" in lesson.conditions.preconditions
        return not self._last.isdisjoint(map(self.names.shown, lesson.tools))

    def applies(self, lesson: Lesson) -> bool:
        """Whether a lesson, here or elsewhere, is about tools that the agent has, and recommends no retired one."""
        own = self.names.own
        offered = self.names.offered
        about = set(map(own, lesson.tools))
        needed = about
        if isinstance(lesson, Principle):
            needed = {own(call.tool) for call in next_calls(lesson.triples) if call.advised is not lesson.warns}
        if not lesson.warns and not self.names.retired.isdisjoint(about | needed):
            return False
        needed -= {END}
        # An agent that did not say which tools it has may have any.
        return not offered or not needed or not offered.isdisjoint(needed)

    def agrees(self, lesson: Lesson, suggestions: Suggestions) -> bool:
        """Whether a lesson may stand beside what the evidence says here; where they disagree, the evidence stays.

        It may not if it advises a tool that is warned of, retired, unlikely by `suggestions.chances`, less likely than
        what it warns of, or called already; if it warns of a tool that is suggested before any that it advises; if it
        advises none of the tools that the default policy names; or if it is about tools that the agent lacks.
        """
        better, worse = self.advice_of(lesson)
        if END in better | worse and self.state.user_spoke:  # they may want something else by now
            return False
        chances = suggestions.chances
        if (better and better <= self._called) or not self.applies(lesson):
            return False
        if not better.isdisjoint(warning.tool for warning in suggestions.warnings):
            return False
        named = [suggested.tool for suggested in suggestions.ranked]
        if chances:
            # A tool that it advises and the policy does not know is likely; one that it warns of is not.
            best = max((chances[tool] for tool in better if tool in chances), default=1.0)
            # Without another tool to compare it with more is asked: that a way led to success says less.
            least = max((chances.get(tool, 0.0) for tool in worse), default=0.1)
            if best < max(0.02, least) or (named and better and better.isdisjoint(named)):
                return False
        # Tools are suggested best first: "call a rather than b" is the order of both.
        first = next(filter((better | worse).__contains__, named), "")
        return first not in worse

    @cached_property
    def _known(self) -> Facts:
        """What is known now, with the calls made; tools by the names that memory has them under."""
        own = self.names.own
        state = self.state
        past = list(map(own, self.history))
        # A caller may give the last tools without the history that ends with them.
        past += filterfalse({*past, START}.__contains__, map(own, self.after))
        facts = {own(source): of_source for source, of_source in state.facts.items()}
        if not facts:  # described in words, not read from messages
            facts = {SAID: facts_of_message("\n".join(state.said))}
        if state.failed:
            facts[ENDED] = {"=error": 1.0}
        return {**facts, **facts_of_calls(past, flags_of(state))}

    def holds(self, lesson: Lesson) -> bool:
        """Whether a lesson may be shown now: its condition holds, and it is more than what sets one run apart."""
        if not self.as_written and lesson.distilled_by == EXTRACTIVE:
            if isinstance(lesson, Experience):
                return False
            # What is known of good results says nothing after an error.
            if self.state.failed and not any(fact.test.source == ENDED for fact in lesson.conditions.facts):
                return False
        own_names = list(map(self.names.own, self.after))
        return lesson.conditions.holds(self._known, own_names, environment=self.environment)

    def lines(self, found: Iterable[Lesson], suggestions: Suggestions) -> list[LessonLine]:
        """The lessons as sentences, the surest first: each thing once, nothing that `suggestions` says already.

        A line that speaks against a surer one is left out.
        """
        # By the tools that are advised, or by the words of a lesson that advises none.
        by_meaning: dict[str | frozenset[ToolName], LessonLine] = {}
        for line in map(self._line, found):
            # What is advised makes the condition: "call a" and "call a rather than b" are one, the latter says more.
            meaning = line.advice.better or line.text
            known = by_meaning.setdefault(meaning, line)
            if line.advice.worse and not known.advice.worse:
                by_meaning[meaning] = line
        kept: list[LessonLine] = []
        for line in sorted(by_meaning.values(), key=lambda line: -_sureness(line.lesson)):
            if not _repeats(line, suggestions) and not any(_opposes(line.advice, other.advice) for other in kept):
                kept.append(line)
        return kept

    def best(self, principles: Iterable[Principle], k: int) -> list[Principle]:
        """The k principles that runs bear out best, guiding ones first; of one advice the surest."""
        # Ties end with the text: the order does not depend on the order of the store.
        ranked = sorted(principles, key=lambda one: (-_sureness(one), one.warns, -len(one.sources), one.text))
        by_advice: dict[Advice, Principle] = {}
        for principle in ranked:
            by_advice.setdefault(self.advice_of(principle), principle)
        return list(by_advice.values())[:k]

    def _line(self, lesson: Lesson) -> LessonLine:
        advice = self.advice_of(lesson)
        support = lesson.support
        if self.as_written and not lesson.is_recipe:
            text = lesson.sentence
            support = lesson.origin
            if isinstance(lesson, Experience):
                # Where a line is too long, its end is cut: of the two, the situation may be. About 150 characters fit
                # into `SENTENCE_TOKENS`.
                room = max(150 - len(text), 30)
                text = f"{plain(lesson.situation, room).rstrip('.')}: {text}"
        elif lesson.tried and any(advice):
            # In the agent's own names of its tools.
            text = advice_sentence(lesson.conditions.when, advice)
        else:
            text = lesson.in_own_words
        return LessonLine(lesson, text, support, advice)


def repeated_failure(turns: Sequence[Turn]) -> FailedWay | None:
    """A call of the last turn that failed, as the same call did at least twice before since it last worked."""
    last = next((turn.ran for turn in reversed(turns) if turn.ran), ())
    if not any(call.error for call in last):
        return None
    calls = [call for turn in turns for call in turn.ran]
    for call in last:
        same = [one.error for one in calls if (one.name, one.arguments) == (call.name, call.arguments)]
        failures = len(list(takewhile(bool, reversed(same))))
        if failures >= 3:
            return FailedWay(call.name, 0, 0, repeats=failures)
    return None


def _sureness(lesson: Lesson) -> float:
    """How surely a lesson is right, in [0, 1]: the least share of the runs that bear it out (see `lower_bound`)."""
    if lesson.is_recipe:  # it is about the error that was just met
        return 1.0
    if not lesson.tried:
        return _WRITTEN
    failed = lesson.tried - lesson.worked
    if lesson.warns:
        return lower_bound(failed, lesson.worked)
    return lower_bound(lesson.worked, failed)


def _repeats(line: LessonLine, suggestions: Suggestions) -> bool:
    """Whether the line of suggestions says it already; a condition is more, unless a warning says what failed, too."""
    # A warning says more than the suggestion unless that warns, too.
    better, worse = line.advice
    if not (better or worse) or (better and line.lesson.conditions.facts and not worse):
        return False
    suggested = {suggestion.tool for suggestion in suggestions.ranked}
    warned = {warning.tool for warning in suggestions.warnings}
    return better <= suggested and worse <= warned


def _opposes(one: Advice, other: Advice) -> bool:
    """Whether two pieces of advice cannot both be followed."""
    if one.better & other.worse or one.worse & other.better:
        return True
    return bool(one.better and other.better and not one.better & other.better)
