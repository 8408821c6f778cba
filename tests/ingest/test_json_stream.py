from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.formats.document import KeyPath, TextWindow, outline, walk, walk_decoded
from hepm.ingest.records import Broken

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def in_pieces(text: str, size: int) -> Callable[[], str]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return lambda: pieces.pop(0) if pieces else ""


def window(text: str, size: int = 3, limit: int = 10_000) -> TextWindow:
    return TextWindow(in_pieces(text, size), limit)


def walked(text: str, *targets: KeyPath, size: int = 3, limit: int = 10_000) -> list[Any]:
    return list(walk(window(text, size, limit), targets))


@given(values, st.integers(1, 20), st.sampled_from([None, 2]))
def test_any_value_comes_out_as_json_loads_has_it(value: Any, size: int, indent: int | None):
    assert window(json.dumps(value, indent=indent), size).value() == value


@given(st.lists(values, max_size=5), st.integers(1, 9))
def test_a_list_is_handed_out_element_by_element(elements: list[Any], size: int):
    assert [value for _, _, value in walked(json.dumps(elements), (), size=size)] == elements


@given(st.dictionaries(texts, values, max_size=3), st.lists(values, max_size=3), st.integers(1, 9))
def test_a_list_inside_an_object_is_found_among_the_rest(rest: dict[str, Any], runs: list[Any], size: int):
    document = {**rest, "runs": runs}
    pieces = walked(json.dumps(document), ("runs",), size=size)
    assert [(n, value) for path, n, value in pieces if path == ("runs",)] == list(enumerate(runs, 1))
    assert {path[0]: value for path, n, value in pieces if n is None} == {k: v for k, v in rest.items() if k != "runs"}


def test_a_star_stands_for_any_key():
    document = {"splits": {"a": [1, 2], "b": [3]}, "x": [4]}
    pieces = [(("splits", "a"), 1, 1), (("splits", "a"), 2, 2), (("splits", "b"), 1, 3), (("x",), None, [4])]
    assert walked(json.dumps(document), ("splits", "*")) == pieces
    assert sorted(walk_decoded(document, (("splits", "*"),)), key=str) == sorted(pieces, key=str)


def test_a_decoded_header_comes_before_the_lists_wherever_it_stood():
    pieces = walk_decoded({"runs": [1], "info": {"a": 1}}, (("runs",),))
    assert list(pieces) == [(("info",), None, {"a": 1}), (("runs",), 1, 1)]


@pytest.mark.parametrize(
    ("text", "read", "reason"),
    [
        ('[{"a": 1}, {"a": 2}, {"a', 2, "cut off"),
        ('[{"a": 1}, {"a": 2}', 2, "cut off"),
        ("[1, 2", 2, "cut off"),
        ('[1, "abc', 1, "cut off"),
        ("[1, 2 3]", 2, "',' was expected"),
        ("[1, x, 3]", 1, "the JSON is broken"),
        ('["' + "y" * 300 + '"]', 0, "longer than 200 characters"),
        ("[" * 100_000, 0, "longer than 200 characters"),
    ],
)
def test_what_comes_before_a_break_is_handed_out(text: str, read: int, reason: str):
    pieces: list[Any] = []
    with pytest.raises(Broken, match=reason):
        pieces.extend(piece for piece in iter_into(pieces, text))
    assert len(pieces) == read


def iter_into(pieces: list[Any], text: str) -> list[Any]:
    for piece in walk(window(text, limit=200), ((),)):
        pieces.append(piece)
    return []


def test_deep_nesting_is_an_error_and_no_crash():
    with pytest.raises(Broken, match="nested too deeply"):
        window("[" * 5_000 + "]" * 5_000, 1000, 100_000).value()


def test_a_long_value_is_not_decoded_again_and_again():
    text = json.dumps("x" * 1_000_000)
    calls = 0

    def more() -> str:
        nonlocal calls
        calls += 1
        return text[(calls - 1) * 1000 : calls * 1000]

    assert TextWindow(more, 10_000_000).value() == "x" * 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "b": [1, 2], "c": {"d": 1}}', ("{", {"a", "b", "c"})),
        ('  [ {"a": 1, "b": "tw', ("[", {"a", "b"})),
        ('{"a": {"x": "y"}, "b', ("{", {"a"})),
        ("[]", ("[", set[str]())),
        ("", ("", set[str]())),
        ("<html>", ("<", set[str]())),
    ],
)
def test_an_outline_tells_the_keys_as_far_as_it_goes(text: str, expected: tuple[str, set[str]]):
    opening, keys = outline(text)
    assert (opening, set(keys)) == expected
