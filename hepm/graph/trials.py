"""Sessions of an experiment: which arm each drew, and what is kept of it to compare the arms.

A session under a holdout draws its arm before its first hint: `CONTROL` gets nothing from memory, `MEMORY` gets what it
has to say. The arm is a tag of the run, as JSON, and two columns of the store derive from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from hepm.types import SUMMARY_TOOL, TRIAL, Object, ToolName, Trajectory, Turn, followed

CONTROL: Final = "control"  # the arm without memory
MEMORY: Final = "memory"  # the arm with it


class Withheld(NamedTuple):
    """A hint of a shadow session: after how many calls, the tools that it would have named, the chance of the first."""

    calls: int
    tools: tuple[ToolName, ...]
    chance: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A session's part in an experiment, as its tag holds it.

    Attributes:
        arm: `CONTROL` or `MEMORY`.
        holdout: The chance that it had to be a control, in (0, 1]. At 1 hints are computed and not shown.
        tokens: Of what memory said to it, or of a shadow session would have said; an estimate.
        shown: Ids of the lessons that were in its hints.
        withheld: What hints of a shadow session would have named.
    """

    arm: str
    holdout: float
    tokens: int = 0
    shown: tuple[str, ...] = ()
    withheld: tuple[Withheld, ...] = ()

    @property
    def shadow(self) -> bool:
        """Whether what memory would say is computed and recorded, and not shown."""
        return self.holdout >= 1

    def to_tag(self) -> str:
        """As JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if value}, separators=(",", ":"))

    @classmethod
    def of(cls, run: Trajectory) -> Trial | None:
        """Of a run's tag; None if it is of no experiment, or its tag is no such JSON."""
        return cls.from_tag(run.tags.get(TRIAL, ""))

    @classmethod
    def from_tag(cls, tag: str) -> Trial | None:
        """Read `to_tag`; None if it is none."""
        if not tag:
            return None
        try:
            read: Object = json.loads(tag)
            withheld = [
                Withheld(int(calls), tuple(map(str, tools)), float(chance))
                for calls, tools, chance in read.get("withheld", ())
            ]
            trial = cls(
                arm=read["arm"],
                holdout=float(read["holdout"]),
                tokens=int(read.get("tokens", 0)),
                shown=tuple(map(str, read.get("shown", ()))),
                withheld=tuple(withheld),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        # A client may write any tag: one that is no arm of ours is of no experiment.
        if trial.arm not in (CONTROL, MEMORY) or not 0 < trial.holdout <= 1:
            return None
        return trial

    def with_hint(self, tokens: int, lessons: Sequence[str] = ()) -> Trial:
        """The same after one more hint, or one that was withheld."""
        shown = tuple(dict.fromkeys((*self.shown, *lessons)))
        return replace(self, tokens=self.tokens + tokens, shown=shown)

    def with_withheld(self, hint: Withheld) -> Trial:
        """The same after a hint that would have named tools; of several after the same calls the last one counts."""
        others = [other for other in self.withheld if other.calls != hint.calls]
        return replace(self, withheld=tuple(sorted([*others, hint])))


def trial_columns(run: Trajectory) -> dict[str, str]:
    """The columns `arm` and `trial` of a run; both "" for one of no experiment."""
    trial = Trial.of(run)
    if trial is None:
        return {"arm": "", "trial": ""}
    if trial.shadow:
        hints = _withheld_hints(run.turns, trial)
    else:
        hints = [(0.0, turn.followed) for turn in run.turns if turn.followed is not None]
    requests = (" ".join(turn.text.split()) for turn in run.turns if turn.role == "user")
    kept: Object = {
        "holdout": trial.holdout,
        "tokens": trial.tokens,
        "shown": trial.shown,
        "errors": sum(call.error is True for call in run.calls()),
        "hints": hints,
        "request": next(filter(None, requests), "")[:300],  # enough to find its kind
    }
    return {"arm": trial.arm, "trial": json.dumps(kept, separators=(",", ":"))}


def _withheld_hints(turns: Sequence[Turn], trial: Trial) -> list[tuple[float, bool]]:
    """Of each turn of which a hint would have named tools: its chance, and whether the agent called one of them."""
    hints: list[tuple[float, bool]] = []
    made = since = 0  # calls before this turn; and after how many the earliest hint is about it
    for turn in turns:
        if turn.role == "user":
            continue
        calls = [call.name for call in turn.calls if call.name != SUMMARY_TOOL]
        if not calls:
            continue
        about_turn = [hint for hint in trial.withheld if since <= hint.calls <= made]
        if about_turn:
            latest = about_turn[-1]
            hints.append((latest.chance, followed(latest.tools, calls) is True))
        since = made + 1
        made += len(calls)
    return hints


class TrialSession(NamedTuple):
    """One stored session of an experiment.

    Attributes:
        success: None without an outcome.
        turns: Of the agent.
        ended_at: Unix time in seconds; None if unknown.
        level: What the guard drew; "" where it drew nothing.
        errors: Failed calls.
        hints: Of each turn of which a hint named tools: the chance it said (of a shadow session: would have said;
            else 0), and whether the turn called one of them.
        request: What the user asked for first, cut.
    """

    seq: int
    run: str
    arm: str
    success: bool | None
    turns: int
    ended_at: float | None
    environment: str
    task: str
    level: str
    holdout: float
    tokens: int
    shown: tuple[str, ...]
    errors: int
    hints: tuple[tuple[float, bool], ...]
    request: str

    @property
    def shadow(self) -> bool:
        """Whether nothing of what memory would have said was shown."""
        return self.holdout >= 1


_KEPT: Final = TrialSession._fields[TrialSession._fields.index("holdout") :]


def trial_session(row: Sequence[Any]) -> TrialSession:
    """A row of the statement `trial_sessions`."""
    seq, run, arm, turns, ended_at, environment, task, success, level, trial = row
    # What `trial_columns` wrote.
    stored: Object = json.loads(trial)
    kept = {name: stored[name] for name in _KEPT}
    kept["shown"] = tuple(kept["shown"])
    kept["hints"] = tuple([(chance, bool(called)) for chance, called in kept["hints"]])
    return TrialSession(seq, run, arm, success, turns, ended_at, environment, task, level or "", **kept)
