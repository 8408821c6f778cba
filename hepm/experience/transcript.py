"""The tool calls of a run by turn, and texts of bounded length."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from hepm.text import CUT, on_one_line
from hepm.types import SUMMARY_TOOL, StateSummary, ToolCall, ToolName, Trajectory

Tools: TypeAlias = frozenset[ToolName]
"""The tools called in one turn."""

SITUATION_CHARS: Final = 600
_LISTED: Final = 4  # tools, and steps of either end


class Move(NamedTuple):
    """One tool-bearing turn of the agent.

    Attributes:
        place: Index of the turn among all turns of the run.
        turn: Number among the agent's turns, from 1.
        calls: In listed order, without the agent's own summary.
        before: Tools of the move before; empty at the first.
    """

    place: int
    turn: int
    calls: Sequence[ToolCall]
    before: Tools

    @property
    def tools(self) -> Tools:
        """Names of the called tools."""
        return Tools(call.name for call in self.calls)


def moves_of(run: Trajectory) -> Iterator[Move]:
    """The moves of a run, in order."""
    before = Tools()
    turns = 0
    for place, turn in enumerate(run.turns):
        turns += turn.is_step
        calls = [call for call in turn.ran if call.name != SUMMARY_TOOL]
        if calls and turn.role != "user":
            move = Move(place, max(turns, 1), calls, before)
            before = move.tools
            yield move


def plain(text: str, limit: int) -> str:
    """A text on one line, without control characters, cut to a length."""
    # Cut before and after: escapes are longer than what they stand for, and a text may have megabytes.
    line = on_one_line(" ".join(text[: 8 * limit].split()))
    if len(text) <= 8 * limit and len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + CUT


def within(parts: Sequence[str], marks: Collection[int], room: int) -> str:
    """Parts of a record in so many characters: those nearest to a mark first, then those nearest to either end."""

    def distance(number: int) -> tuple[int, int]:
        from_end = min(number, len(parts) - 1 - number) + 1
        return min([from_end, *(abs(number - mark) for mark in marks)]), from_end

    kept: set[int] = set()
    for number in sorted(range(len(parts)), key=distance):
        room -= len(parts[number]) + 1
        if room < 0:
            break
        kept.add(number)
    texts: list[str] = []
    for stays, numbers in groupby(range(len(parts)), key=kept.__contains__):
        group = [parts[number] for number in numbers]
        texts += group if stays else [f"{CUT} ({len(group)} left out)"]
    return "\n".join(texts)


def listed(tools: Iterable[ToolName]) -> str:
    """Tools by name: "a, b and c"; of more than four the first ones."""
    names = [plain(tool, 64) for tool in tools]  # OpenAI's limit for names of tools
    if len(names) > _LISTED:
        names = [*names[:_LISTED], "others"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def place_in_words(after: Collection[ToolName]) -> str:
    """Where in a run: "after a and b", by name, or "at the start"."""
    if not after:
        return "at the start"
    return f"after {listed(sorted(set(after)))}"


def sequence(steps: Iterable[Tools]) -> str:
    """Steps in words, without repeats in a row: "a, then b and c, then a"; of many both ends."""
    texts = [text for text, _ in groupby(listed(sorted(tools)) for tools in steps)]
    if len(texts) > 2 * _LISTED:
        texts = [*texts[:_LISTED], CUT, *texts[-_LISTED:]]
    return ", then ".join(texts)


def situation_text(environment: str, known: StateSummary) -> str:
    """The environment, the user's words or the agent's own summary, and the tools called by then; one bounded line.

    Such as 'In retail. User "cancel my order / the blue one" Before: get_order.'.
    """
    where = ""
    if environment:
        where = f"In {plain(environment, 48)}. "
    before = ""
    if known.tools:
        before = f" Before: {listed(dict.fromkeys(known.tools))}."
        if known.failed:
            before += " The last result was an error."
    speaker = "User"
    texts = known.said
    if known.own:
        speaker = "Known"
        texts = (known.own,)
    # Cut, so that the next ones, where users name themselves, have room.
    messages = dict.fromkeys(plain(text, 300).replace('"', "'") for text in texts)
    room = SITUATION_CHARS - len(where) - len(before) - 8  # for the speaker and the quotes
    words = plain(" / ".join(filter(None, messages)), room)
    quotation = f'{speaker} "{words}"' if words else "No user spoke."
    return f"{where}{quotation}{before}"
