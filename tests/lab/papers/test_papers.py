"""`hepm papers`: the tables as data, and small versions of them with a model played by a real server."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

from hepm.cli.bench import bench
from hepm.lab.bench.arms import find_arms
from hepm.lab.collaboration.play import USER_ARMS
from hepm.lab.papers import PAPERS, find_paper
from tests.faults.command import quick
from tests.lab.collaboration.test_collaboration_simulator import CHOICES_FILE, SUMS_FILE, everyone, step_of
from tests.loopback import Loopback, Reply, Request, completion

PRINTED = {
    "h-epm": (range(1, 11), ["1", "2", "3", "4"]),
    "prime": (range(1, 4), ["1", "2", "3", "4a", "4b", *map(str, range(5, 12))]),
    "evolver": (range(1, 15), ["1", "2", "3", "4", "5"]),
    "multisessioncollab": (range(1, 9), [*map(str, range(1, 11))]),
}
"""The tables and figures that the papers print."""
OTHERS = {"ours", "ours-2", "ours-7", "1-grpo", "1-raw", "1-trained"}
"""Tables of our own, and parts of printed ones."""


@pytest.mark.parametrize("name", PAPERS)
def test_each_printed_table_and_figure_is_listed_once_with_a_state(name: str) -> None:
    tables, figures = PRINTED[name]
    listed = [table.name for table in find_paper(name).tables if table.name not in OTHERS]
    assert listed == [*map(str, tables), *(f"fig-{figure}" for figure in figures)]
    for table in find_paper(name).tables:
        assert table.parts if table.state == "model" else table.by


@pytest.mark.parametrize("name", PAPERS)
def test_each_table_is_made_of_benches_arms_and_options_that_exist(name: str) -> None:
    paper = find_paper(name)
    options = {parameter.name for parameter in bench.params}
    for small in (False, True):
        for known in paper.benches:
            assert {*paper.options(known, small=small, sources={})} <= options
    for table in paper.tables:
        for part in table.parts:
            for known in part.benches:
                about = paper.benches[known]
                if about["env"].startswith("users"):
                    find_arms([row.partition(" ")[0] for row in part.rows], trials=2, known=USER_ARMS)
                elif "rounds" not in about:
                    find_arms(part.rows, trials=2)
            assert all(len(figures) == len(part.rows) for figures in part.published.values())
        for row in table.rows({}):
            assert row["ours"] == [None] * len(table.metrics)
            assert all(len(figures) == len(table.metrics) for figures in row["published"].values())


def test_all_tables_are_listed_with_their_state_and_one_that_cannot_be_run_says_why() -> None:
    listed = quick("papers")
    assert listed.code == 0
    assert "h-epm: H-EPM" in listed.out
    refused = quick("papers", "h-epm", "--table", "3", "--model", "small")
    assert refused.code == 1
    assert "table 3 of H-EPM cannot be run here: it trains" in refused.err
    assert "there are 1, 1-raw, 2" in quick("papers", "prime", "--table", "99", "--model", "small").err
    unnamed = quick("papers", "msc", "--table", "1", "--model", "small")
    assert "nothing can be played without --source math-500" in unnamed.err


def test_multisessioncollab_is_played_with_a_model_as_agent_and_another_as_user_and_judge(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = everyone
    sources: list[str] = []
    for name, (file, text) in {"math-500": SUMS_FILE, "mmlu": CHOICES_FILE}.items():
        (tmp_path / file).write_text(text)
        sources += ["--source", f"{name}={tmp_path / file}"]
    known = ("--model", "small", "--user-model", "player", "--base-url", loopback.url, "--folder", tmp_path / "f")
    tables = ("--table", "1", "--table", "fig-3", "--table", "6", "--small")
    made = quick("papers", "msc", *tables, *sources, *known, "--json")
    assert made.code == 0, made.err
    assert "math-hard left out: give --source math-hard=PATH" in made.err
    first, _, tokens = made.json["tables"]
    ours = {(row["part"], row["row"]): row["ours"] for row in first["rows"]}
    # By hand: sums are solved and choices are not; notes spare an effort and two messages from the second session on.
    assert ours["MATH-500", "off"] == [1, 1, 5]
    assert ours["MMLU", "notes"] == pytest.approx([0, 1 / 3, 11 / 3], abs=1e-3)
    assert ours["Overall", "off"] == [None] * 3
    assert [row["published"] for row in first["rows"] if row["part"] == "Overall"][1]["Llama-3.3-70B"][0] == 0.4638
    assert tokens["rows"][0]["ours"][0] > tokens["rows"][0]["ours"][1] > 0
    # By hand, as for both files in one bench: 12 sessions an arm, of which notes spare two turns in three.
    asked = {"open": 12, "judge": 12, "reply": 24 + 16, "simulate": 24 + 8, "reflect": 12, "recall": 8}
    assert Counter(map(step_of, loopback.requests)) == asked


PLAYED = """
title = "Users"
[bench.ours]
env = "users-played"
tasks = "1"
trials = 2
[[table]]
name = "1"
title = "Success"
state = "model"
metrics = ["success"]
[[table.part]]
bench = "ours"
label = "ours"
rows = {off = "S3", notes = "S5"}
"""


def test_runs_that_broke_off_are_told_below_the_tables_and_in_the_exit_code_and_are_made_anew(
    loopback: Loopback, tmp_path: Path
) -> None:
    turns = itertools.count()

    def weary(request: Request) -> Reply:
        if step_of(request) == "simulate" and next(turns) >= 4:
            return completion("I have no more to say.")
        return everyone(request)

    loopback.script = weary
    (tmp_path / "users.toml").write_text(PLAYED)
    known = ("papers", tmp_path / "users.toml", "--model", "small", "--user-model", "player")
    known += ("--base-url", loopback.url, "--folder", tmp_path / "f")
    made = quick(*known)
    assert made.code == 1
    assert re.search(
        r"^ours: \d runs? broke off \(\w+/user-1/\d\): no answer to step 'simulate'", made.out, re.MULTILINE
    )
    assert "Users, table 1: Success (success)" in made.out
    [row] = [line for line in made.out.splitlines() if "S3" in line]
    assert row.endswith("not published")
    loopback.script = everyone
    assert quick(*known).code == 0


def test_a_source_that_no_bench_has_is_refused_by_name(tmp_path: Path) -> None:
    refused = quick("papers", "evolver", "--source", f"nope={tmp_path}", "--model", "gold")
    assert refused.code == 2
    assert "'nope' is no source of this paper: 2wiki, bamboogle" in refused.err


MADE = """
title = "Two desks of users"
[bench.one]
env = "users-played"
tasks = "2"
trials = 3
[bench.two]
env = "users-played"
tasks = "1"
trials = 3
seed = 1
[[table]]
name = "1"
title = "Effort and length"
state = "model"
metrics = ["user_effort", "length", "memory_tokens"]
[[table.part]]
bench = "one"
label = "one"
rows = {notes = "+ memory"}
[[table.part]]
mean_of = ["one", "two"]
label = "Overall"
rows = {notes = "+ memory"}
[[table]]
name = "fig-3"
title = "Differences"
state = "model"
metrics = ["user_effort.difference.value", "length.difference.value"]
[[table.part]]
mean_of = ["one", "two"]
label = "Overall"
rows = {"notes 1" = "session 1", "notes 2" = "session 2", "notes 3" = "session 3"}
"""


def test_a_row_can_be_the_mean_of_benches_or_a_session_of_an_arm(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script = everyone
    (tmp_path / "users.toml").write_text(MADE)
    known = ("--model", "small", "--user-model", "player", "--base-url", loopback.url, "--json")
    made = quick("papers", tmp_path / "users.toml", *known, cwd=tmp_path)
    assert made.code == 0, made.err
    effort, differences = made.json["tables"]
    one, overall = (row["ours"] for row in effort["rows"])
    # By hand: with notes users enforce in the first session alone, which has two messages more than the next ones.
    assert (
        [*map(round, [100 * one[0], 100 * one[1]])] == [*map(round, [100 * overall[0], 100 * overall[1]])] == [33, 367]
    )
    two = made.json["benches"]["two"]["arms"]["notes"]["measures"]["memory_tokens"]["value"]
    assert overall[2] == (one[2] + two) / 2 > 10
    assert [row["ours"] for row in differences["rows"]] == [[0, 0], [-1, -2], [-1, -2]]


def test_a_bench_whose_rounds_lack_a_source_is_left_out_with_them(tmp_path: Path) -> None:
    (tmp_path / "nq.jsonl").write_text('{"question": "q", "answer": ["a"]}\n', "utf-8")
    source = ("--source", f"nq={tmp_path / 'nq.jsonl'}")
    given = ("--model", "gold", "--folder", str(tmp_path), "--small", "--trials", "1", *source)
    answer = quick("papers", "evolver", "--table", "3", *given, "--json")
    assert (
        "library, nq, hotpotqa, triviaqa, popqa, 2wiki, musique, bamboogle left out: give --source train=" in answer.err
    )
    rows = {(row["part"], row["row"]): row["ours"] for row in answer.json["tables"][0]["rows"]}
    assert rows["NQ", "tagged-alone"] != [None]
    assert rows["NQ", "tagged"] == [None]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ('bench = "nope"', "table 1 names the bench nope, which is none"),
        ('trials = "many"', "'many' is not a valid integer range"),
        ("title", "holds no tables as `hepm.lab.papers` describes them"),
    ],
)
def test_a_file_of_tables_that_cannot_be_played_is_one_sentence(changed: str, said: str, tmp_path: Path) -> None:
    key = changed.partition(" ")[0]
    text = re.sub(rf"^{key} = .*\n", "", MADE, count=1, flags=re.MULTILINE)
    place = "[[table.part]]\n" if key == "bench" else "[bench.one]\n"
    (tmp_path / "users.toml").write_text(text.replace(place, f"{place}{changed}\n", 1))
    answer = quick("papers", "users.toml", "--table", "1", "--model", "gold", cwd=tmp_path)
    assert answer.code in (1, 2)
    assert said in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
