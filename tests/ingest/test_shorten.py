from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.prepare import shorten
from hepm.types import ToolCall, Trajectory, Turn

texts = st.text(max_size=30)
long_texts = texts.map(lambda text: text * 100)


def values(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    )


def run_with(text: str, result: str | None, arguments: dict[str, Any]) -> Trajectory:
    return Trajectory("x", (Turn("system", text), Turn("assistant", text, (ToolCall("f", arguments, result),) * 2)))


def all_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for member in value.values() for text in all_texts(member)]
    return [text for element in value for text in all_texts(element)] if isinstance(value, list) else []


def test_long_texts_end_in_the_mark_at_their_limit():
    run = shorten(run_with("a" * 2000, "b" * 3000, {"c": "c" * 2000}))
    assert [turn.text for turn in run.turns] == ["a" * 299 + "…", "a" * 999 + "…"]
    assert [call.result for call in run.calls()] == ["b" * 1999 + "…"] * 2
    assert [call.arguments for call in run.calls()] == [{"c": "c" * 499 + "…"}] * 2


@given(long_texts, st.none() | long_texts, st.dictionaries(texts, values(long_texts), max_size=3))
def test_no_text_stays_too_long_and_no_call_is_lost(text: str, result: str | None, arguments: dict[str, Any]):
    run = run_with(text, result, arguments)
    short = shorten(run)
    assert [len(turn.text) <= limit for turn, limit in zip(short.turns, (300, 1000), strict=True)] == [True, True]
    for call in short.calls():
        assert call.name == "f"
        assert len(call.result or "") <= 2_000
        assert all(len(text) <= 500 for text in all_texts(dict(call.arguments)))
    assert len(list(short.calls())) == 2
    assert shorten(short) == short
