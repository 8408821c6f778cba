"""A rollout as one stream of tokens, in spans by who wrote them; and the row that a trainer gets of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hepm.agents.tagged import spans_of
from hepm.types import Trajectory

SpanKind: TypeAlias = Literal["model", "summary", "hint", "tool", "user"]
"""Who wrote the tokens. "summary" is a call of the summary tool with what came back; "user" includes the system."""
Added: TypeAlias = Literal["mask", "discard"]
"""What becomes of hints and summaries in training (H-EPM, C.5): kept as context without loss, or left out."""

_KINDS: dict[str, SpanKind] = {"prompt": "user", "agent": "model", "memory": "hint", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens of one kind in a row.

    Attributes:
        logprobs: Of the model when it sampled them, one for each token; empty if unknown.
    """

    kind: SpanKind
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()


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
    kept = [span for span in spans if added == "mask" or span.kind not in ("hint", "summary")]
    trained = {"model", "hint"} if absorb else {"model"}
    first = next((at for at, span in enumerate(kept) if span.kind in trained | {"summary"}), len(kept))
    prompt, completion = kept[:first], kept[first:]
    sampled = all(len(span.logprobs) == len(span.ids) for span in completion if span.kind == "model")
    logprobs: list[float] = []
    for span in completion:
        logprobs += span.logprobs or [0.0] * len(span.ids)
    return Row(
        tuple(token for span in prompt for token in span.ids),
        tuple(token for span in completion for token in span.ids),
        tuple(int(span.kind in trained) for span in completion for _ in span.ids),
        tuple(logprobs) if sampled and any(span.logprobs for span in completion) else None,
    )


def tagged_spans(run: Trajectory, encode: Callable[[str], Iterable[int]]) -> list[TokenSpan]:
    """The spans of a stored run of a `TaggedAgent` (EvolveR): `row_of` gives its masks, with `absorb` or without."""
    return [TokenSpan(_KINDS[part.by], tuple(encode(part.text))) for part in spans_of(run)]
