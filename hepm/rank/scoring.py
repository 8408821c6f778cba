"""How candidates are scored: a bilinear part over tool vectors, and attention over remembered calls.

Each is one formula, for numpy at work and for torch in training: `xp` is the library of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hepm.rank.calls import FLAGS
from hepm.rank.situations import Array, Situations

STATE_SCALE: Final = 3.0  # components of a unit vector of many dimensions are small
SMOOTHING: Final = 0.1  # calls that every tool has beside its own


class AttendedCalls(NamedTuple):
    """N calls that attention reads: what came before each, and the tool that was called."""

    state_ND: Array
    before_N2: Array
    flags_N: Array
    next_N: Array


def bilinear(
    weights: Mapping[str, Array],
    tools_TH: Array,
    now: Situations,
    *,
    xp: Any,
    drop: Callable[[Array], Array] = lambda values: values,
) -> Array:
    """score(c) = q · h_c / √H + b · h_c + w · own_c, with q = W₂ ReLU(W₁ [state; h of last two; h of called; flags]).

    `own` is what the run so far says of each tool: called before, how often, how lately. Ours.

    Returns:
        Scores of all tools, shape (Q, T).
    """

    def layer(name: str, values_QN: Array) -> Array:
        return values_QN @ weights[f"{name}.weight"].T

    before_Q2H = xp.concatenate([tools_TH, weights["none"]])[now.before_Q2]
    times_QT = xp.log1p(now.times_QT)
    query_QH = STATE_SCALE * (layer("state", now.state_QD) + weights["state.bias"])
    query_QH = query_QH + layer("called", times_QT @ tools_TH) / 2
    query_QH = query_QH + layer("last", before_Q2H[:, 0]) + layer("second", before_Q2H[:, 1])
    for bit in range(FLAGS):
        query_QH = query_QH + (now.flags_Q >> bit & 1)[:, None] * weights["flags.weight"][:, bit]
    query_QH = layer("out", drop(query_QH.clip(min=0))) + weights["out.bias"]
    recency_QT = (now.distance_QT > 0) / now.distance_QT.clip(min=1)
    called, times, recency = weights["own"]
    own_QT = (now.times_QT > 0) * called + times_QT * times + recency_QT * recency
    return (query_QH / tools_TH.shape[1] ** 0.5 + weights["bias"]) @ tools_TH.T + own_QT


def attention(
    weights: Mapping[str, Array],
    state_QD: Array,
    now: Situations,
    calls: AttendedCalls,
    scale_N: Array,
    share_T: Array,
    *,
    xp: Any,
    voted: Callable[[Array], Array],
) -> Array:
    """One head of attention from situations over the states remembered in the graph, to the tools called after them.

    A state's weight is softmax(cos(w ∘ s, w ∘ s_n) · τ + b · matches), where matches are an equal last tool, equal last
    two tools, and equal flags; a tool scores g · log((1 - ε) Σ weights + ε · its share of calls). The metric w, τ, b, ε
    and g are learned. A learned form of H-EPM's episodic half (section 4.3), and of matching networks (Vinyals et al.
    2016, arXiv:1606.04080, equation 1).

    Args:
        state_QD: Those of `now`, or what dropout left of them.
        scale_N: Factors that bring the states of the calls to unit length in the learned metric.
        share_T: Share of each tool among all calls that may be read, smoothed.
        voted: Softmax of logits of calls, shape (Q, N), summed by the tool that was called, shape (Q, T).
    Returns:
        Scores of all tools, shape (Q, T).
    """
    # The metric w falls on the query alone, and on the lengths of the states: nothing of size (N, D) is made anew.
    metric_D = xp.exp(weights["log_metric"])
    query_QD = state_QD * metric_D
    # Bounded before the root, whose slope at 0 is infinite: a state that is not known is 0.
    length_Q = xp.einsum("qd,qd->q", query_QD, query_QD).clip(min=1e-24) ** 0.5
    query_QD = query_QD / length_Q[:, None] * metric_D
    # Not `@`: on busy cores the threads of a BLAS wait for each other.
    cosines_QN = xp.einsum("nd,qd->qn", calls.state_ND, query_QD) * scale_N
    last = now.before_Q2[:, :1] == calls.before_N2[:, 0]
    two = last & (now.before_Q2[:, 1:] == calls.before_N2[:, 1])
    flags = now.flags_Q[:, None] == calls.flags_N
    of_last, of_two, of_flags = weights["matches"]
    logits_QN = cosines_QN * xp.exp(weights["log_temperature"]) + last * of_last + two * of_two + flags * of_flags
    smoothing = 1 / (1 + xp.exp(-weights["smoothing"]))
    return weights["gain"] * xp.log((1 - smoothing) * voted(logits_QN) + smoothing * share_T)
