"""`hepm papers`: the tables as data, and small versions of them with a model played by a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm.cli.bench import bench
from hepm.lab.bench.arms import find_arms
from hepm.lab.collaboration.play import check_user_arms
from hepm.lab.papers import PAPERS, find_paper
from tests.faults.command import quick
from tests.loopback import Loopback, completion, loopback  # noqa: F401

PRINTED = {
    "h-epm": (range(1, 11), ["1", "2", "3", "4"]),
    "prime": (range(1, 4), ["1", "2", "3", "4a", "4b", *map(str, range(5, 12))]),
    "evolver": (range(1, 15), ["1", "2", "3", "4", "5"]),
    "multisessioncollab": (range(1, 9), [*map(str, range(1, 11))]),
}
"""The tables and figures that the papers print."""


@pytest.mark.parametrize("name", PAPERS)
def test_each_printed_table_and_figure_is_listed_once_with_a_state(name: str) -> None:
    tables, figures = PRINTED[name]
    listed = [table.name for table in find_paper(name).tables if table.name != "ours"]
    assert listed == [*map(str, tables), *(f"fig-{figure}" for figure in figures)]
    for table in find_paper(name).tables:
        assert table.parts if table.state == "model" else table.by


@pytest.mark.parametrize("name", PAPERS)
def test_each_table_is_made_of_benches_arms_and_options_that_exist(name: str) -> None:
    paper = find_paper(name)
    options = {parameter.name for parameter in bench.params}
    for small in (False, True):
        for known in paper.benches:
            assert {*paper.options(known, small=small)} <= options
    for table in paper.tables:
        for part in table.parts:
            about = paper.benches[part.bench]
            if about["env"].startswith("users"):
                check_user_arms([*part.rows])
            elif "rounds" not in about:
                find_arms(part.rows, trials=2)
            for model in part.published:
                assert len(part.published[model]) == len(part.rows)
                for row in part.rows:
                    assert len(part.figures(model, row, len(table.metrics))) == len(table.metrics)


def test_a_table_stands_beside_the_published_one_and_is_paid_for_once(loopback: Loopback, tmp_path: Path) -> None:  # noqa: F811
    loopback.script = lambda request: completion("<think>I know it.</think><answer>Canberra</answer>")
    known = ("papers", "evolver", "--table", "ours", "--small", "--trials", "2", "--model", "small")
    known += ("--base-url", loopback.url, "--folder", tmp_path / "f")
    first = quick(*known, "--json")
    assert first.code == 0, first.err
    [table] = first.json["tables"]
    assert [row["row"] for row in table["rows"]] == ["off", "tagged-alone", "tagged"]
    assert all(row["ours"] == [0, 0] for row in table["rows"])
    asked = len(loopback.requests)
    again = quick(*known)
    assert again.code == 0, again.err
    assert len(loopback.requests) == asked
    assert "Direct inference  0.000 / 0.000" in again.out


def test_all_tables_are_listed_with_their_state_and_one_that_cannot_be_run_says_why() -> None:
    listed = quick("papers")
    assert listed.code == 0
    assert "h-epm: H-EPM" in listed.out
    refused = quick("papers", "h-epm", "--table", "3", "--model", "small")
    assert refused.code == 1
    assert "table 3 of H-EPM cannot be run here: it trains" in refused.err
    assert "there are 1, 2, 3" in quick("papers", "prime", "--table", "99", "--model", "small").err
    unnamed = quick("papers", "msc", "--table", "1", "--model", "small")
    assert "nothing can be played without --source math-500" in unnamed.err
