"""A rollout as one stream of tokens, in spans by who wrote them; and the row that a trainer gets of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

SpanKind: TypeAlias = Literal["model", "summary", "hint", "tool", "user"]
"""Who wrote the tokens. "summary" is a call of the summary tool with what came back; "user" includes the system."""
Added: TypeAlias = Literal["mask", "discard"]
"""What becomes of hints and summaries in training (H-EPM, C.5): kept as context without loss, or left out."""


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens of one kind in a row.

    Attributes:
        logprobs: Of the model when it sampled them, one for each token; empty if unknown.
        part: Of a message in tags "think", or what it does: "search_experience", "search_knowledge", "answer".
    """

    kind: SpanKind
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What a trainer gets of one rollout.

    Attributes:
        prompt: The tokens before the first one of the model.
        mask: For each token of the completion 1 if it counts in the loss, else 0.
        logprobs: For each token of the completion, 0 where the model did not sample it; None if unknown.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None


def row_of(spans: Sequence[TokenSpan], *, added: Added = "mask", absorb: bool = False) -> Row:
    """The one row of a rollout. Only the model's own tokens count in the loss.

    Args:
        added: "discard" leaves hints and summaries out. What follows them stays as it was sampled.
        absorb: Hints count in the loss too (EvolveR 5.3, "exp-absorb"), where they are not left out.
    """
    # Kinds of spans that count in the loss.
    trained = {"model"}
    if absorb:
        trained.add("hint")
    prompt: list[int] = []
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    begun = False  # the completion starts at the first span of the model, also where that is a summary left out of loss
    known = True  # one message without log-probabilities spoils the row: a trainer takes all or none
    for span in spans:
        if added != "mask" and span.kind in ("hint", "summary"):
            continue
        begun = begun or span.kind in trained or span.kind == "summary"
        if not begun:
            prompt += span.ids
            continue
        completion += span.ids
        mask += [int(span.kind in trained)] * len(span.ids)
        logprobs += span.logprobs or [0.0] * len(span.ids)
        if span.kind == "model" and len(span.logprobs) != len(span.ids):
            known = False
    known = known and any(span.logprobs for span in spans)
    return Row(tuple(prompt), tuple(completion), tuple(mask), tuple(logprobs) if known else None)
