"""Texts that a model or a stranger wrote never take long to be searched for calls."""

from __future__ import annotations

import time

import pytest

from hepm.ingest.formats.text_calls import calls_in, results_in


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 20_000,
        "<function=a>" * 20_000,
        "<function=a>" + "<parameter=b>" * 20_000,
        "<tool_response>" * 20_000,
    ],
    ids=["calls", "functions", "parameters", "results"],
)
def test_beginnings_without_ends_are_searched_in_linear_time(text: str):
    started = time.perf_counter()
    calls_in(text)
    results_in(text)
    assert time.perf_counter() - started < 5  # a quadratic search took two minutes
