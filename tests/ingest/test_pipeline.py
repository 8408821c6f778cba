"""What an ingest reports, and what becomes of it while the store is away."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm import Memory, Outcome, Tool, ToolCall, Trajectory
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.sqlite import SQLiteStore
from hepm.ingest.prepare import shorten
from hepm.types import Turn
from tests.faults.command import quick
from tests.runs import trajectory

TOLD = [Tool("look", "looks, with password=hunter22", {"type": "object"})]


class Distant(SQLiteStore):
    """A store that may be out of reach."""

    away = False

    def __getattribute__(self, name: str):
        if name in ("header", "find_known", "add", "describe") and self.away:
            raise StoreUnavailableError("no answer")
        return super().__getattribute__(name)


def test_a_run_that_comes_twice_in_one_batch_is_counted_once(memory: Memory) -> None:
    runs = [trajectory("silent"), trajectory("open", "look", success=None), trajectory("won", "look")]
    report = memory.ingest([*runs, *runs])
    assert (report.read, report.stored, report.duplicates) == (6, 3, 3)
    assert (report.without_calls, report.unlabelled) == (1, 1)


@pytest.mark.parametrize("order", [[None, True], [True, None], [None, True, None]])
def test_a_run_that_comes_again_with_its_label_is_not_reported_as_unlabelled(
    memory: Memory, order: list[bool | None]
) -> None:
    run = trajectory("r", "look")
    report = memory.ingest([replace(run, outcome=Outcome(None, success)) for success in order])
    assert (report.stored, report.unlabelled, memory.totals().unlabelled) == (1, 0, 0)


def test_descriptions_for_a_store_that_is_away_are_an_error(tmp_path: Path) -> None:
    store = Distant(tmp_path / "runs.hepm")
    with Memory(store) as memory:
        memory.ingest([trajectory("before", "look")])
        store.away = True
        with pytest.raises(StoreUnavailableError):
            memory.ingest([], tools=TOLD)
        store.away = False


# Numbers that runs from Python carry, of any size and kind


@pytest.mark.parametrize("number", [10**30, np.float32(0.5), np.int64(7), True])
def test_a_run_of_any_number_is_stored_with_those_beside_it(tmp_path: Path, number: Any) -> None:
    whole = trajectory("odd", "a", "b", "c")
    odd = Trajectory("odd", whole.turns, Outcome(number, True), ended_at=number)
    with Memory.open(tmp_path / "s.hepm") as memory:
        assert memory.ingest([trajectory("r1", "a", "b"), odd, trajectory("r2", "a", "b")]).stored == 3
    exported = map(json.loads, quick("export", "--store", tmp_path / "s.hepm").out.splitlines())
    (odd_run,) = (run for run in exported if run["id"] == "odd")
    # No run has ended later than it came.
    assert odd_run["reward"] == float(number)
    assert odd_run["ended_at"] == (float(number) if number < 1e9 else pytest.approx(time.time(), abs=60))
    assert quick("doctor", "--store", tmp_path / "s.hepm").out == "all is well\n"


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_beyond_all_floats_is_a_value_error_in_words(number: int) -> None:
    for make in (lambda: Outcome(number), lambda: ToolCall("a", latency_s=number)):
        with pytest.raises(ValueError, match="is too large a number"):
            make()
    with pytest.raises(ValueError, match="the end of the run is too large a number"):
        Trajectory("r", (), ended_at=number)


@pytest.mark.parametrize("label", ["no", 0.7, 2])
def test_a_label_that_is_neither_true_nor_false_is_refused(label: Any) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        Outcome(success=label)


# Names that cannot be stored, and names that look the same

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def test_a_run_whose_names_hold_half_a_surrogate_pair_is_rejected_alone_with_a_sentence(memory: Memory) -> None:
    bad = [
        trajectory("bad \ud800 id", "look"),
        trajectory("tool", "look \udc00"),
        trajectory("user", "look", user="\ud800"),
        trajectory("task", "look", task="\ud800"),
    ]
    report = memory.ingest([trajectory("first", "look"), *bad, trajectory("last", "look")])
    assert (report.stored, len(report.rejected)) == (2, 4)
    assert all("half of a surrogate pair" in rejection.reason for rejection in report.rejected)


@pytest.mark.parametrize(
    "ask",
    [
        lambda memory, name: memory.ingest([trajectory("good", "look")], namespace=name),
        lambda memory, name: memory.suggest("look", namespace=name),
        lambda memory, name: memory.forget(user=name),
        lambda memory, name: memory.ingest([], tools=[Tool("look " + name, "looks")]),
    ],
    ids=["ingest", "suggest", "forget", "describe"],
)
def test_half_a_surrogate_pair_in_a_name_is_refused_with_a_sentence(memory: Memory, ask) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        ask(memory, "team \ud800")


# shorten

texts = st.text(max_size=30)
long_texts = texts.map(lambda text: text * 80)


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
    assert [(call.result, call.arguments) for call in run.calls()] == [("b" * 1999 + "…", {"c": "c" * 499 + "…"})] * 2


def test_a_text_keeps_the_blanks_where_it_is_cut_as_what_is_stored_is_known_by_its_content_again():
    run = shorten(run_with("a " * 1000, "b" * 1998 + " " * 9, {"c": "c" * 498 + " " * 9}))
    assert run.turns[1].text == "a " * 499 + "a…"
    assert run.turns[0].text == "a " * 149 + "a…"
    assert [(call.result, call.arguments) for call in run.calls()] == [("b" * 1998 + " …", {"c": "c" * 498 + " …"})] * 2


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
