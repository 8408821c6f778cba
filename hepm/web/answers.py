"""What the routes of the page are asked for, and what those answer that others than the page read."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import TypedDict

from hepm.ingest.records import MAX_LABEL
from hepm.types import Objects


def _day(text: str) -> date:
    # Else "0" is a day, too: the first of Unix time.
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        raise ValueError("write a day as 2026-11-23")
    return date.fromisoformat(text)


Label = Annotated[str, Field(max_length=MAX_LABEL)]  # which also refuses half of a surrogate pair


class GraphQuery(BaseModel):
    """Which part of the graph."""

    tool: str = Field(default="", description="Only this tool and its neighbours", examples=["refund"])


class EdgeQuery(BaseModel):
    """Which edge."""

    source: str = Field(examples=["get_order"])
    target: str = Field(examples=["refund"])


class RunsQuery(BaseModel):
    """Which stored runs; what is empty leaves none out."""

    words: str = Field(default="", description="Words of the request")
    outcome: Literal["", "succeeded", "failed", "unknown"] = ""
    tool: str = ""
    user: str = ""
    model: str = ""
    week: Annotated[date, BeforeValidator(_day)] | None = Field(
        default=None, description="A day of the week in which they ended"
    )
    before: Annotated[str, Field(pattern="^[0-9]{0,19}$", description="`seq` of the last run that was listed")] = ""


class RunQuery(BaseModel):
    """Which run."""

    id: str = Field(examples=["run-0"])


class LessonsQuery(BaseModel):
    """Which lessons."""

    kind: Literal["principle", "experience", "notes"]
    q: str = Field(default="", description="Words that each must have")
    retired: Literal["true", "false"] = "false"


class Retirement(BaseModel):
    """A lesson to keep from hints, or to let be found again."""

    kind: Literal["principle", "experience"]
    id: Label
    retired: bool


class ReportGiven(TypedDict):
    """Where agents go wrong, what worked instead, and what memory did."""

    sentence: str
    namespace: str
    runs: int
    succeeded: int
    failed: int
    before: float | None
    lately: float | None
    saved: int
    twice: int
    forks: Objects
    sections: Objects
    advice: list[str]


class FoundRuns(TypedDict):
    """Stored runs, the latest first, whether there are more, and what a filter can be set to."""

    runs: Objects
    more: bool
    tools: list[str]
    models: list[str]
    weeks: list[str]


class TurnShown(TypedDict):
    """A turn of a run; `hinted` are the tools that memory had named before it."""

    role: str
    text: str
    calls: Objects
    hinted: list[str]


class Transcript(TypedDict):
    """A run with its first turns."""

    id: str
    at: float | None
    request: str
    task: str
    success: bool | None
    environment: str
    stored: bool
    turns: list[TurnShown]
    all_turns: int


class Health(TypedDict):
    """Whether the store answers and sessions can be kept; at a server without tokens also what runs do.

    `shortlists_off` are the namespaces whose agents get all tools, as too many sessions missed one, with how many.
    """

    status: Literal["ok", "degraded"]
    store: str
    sessions: str
    uptime_s: int
    open_runs: NotRequired[int]
    shortlists_off: NotRequired[dict[str, str]]
