"""The whole line as a user walks it: every command, on chat logs made up for it."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import click
import pytest

from hepm.cli.commands import GROUPS, app
from hepm.types import PolicyName
from tests.cli.chats import chat, chats, write
from tests.faults.command import HEPM, hepm, one_sentence, quick
from tests.faults.logs import lines, records

REPORT = {"read", "stored", "duplicates", "unlabelled", "without_calls", "rejected", "by_format"}


# Runs in


def test_an_ingest_counts_what_it_read_stored_knew_and_could_not_use(tmp_path: Path) -> None:
    open_run = chat("open", ["find_user"], task="x", success=None)
    log = write(tmp_path / "runs.jsonl", [*chats(2), chats(1)[0], open_run])
    with log.open("a", encoding="utf-8") as file:
        file.write("{broken\n")
    report = quick("ingest", log, "--store", tmp_path / "s.hepm", "--json").json
    assert set(report) > REPORT
    assert {key: report[key] for key in REPORT - {"rejected"}} == {
        "read": 6,
        "stored": 5,
        "duplicates": 1,
        "unlabelled": 1,
        "without_calls": 0,
        "by_format": {"chat": 6},
    }
    [rejected] = report["rejected"]
    assert set(rejected) == {"file", "record", "reason"}
    assert (rejected["file"], rejected["record"]) == (str(log), 7)


def test_a_failed_ingest_leaves_a_store_that_was_there(store: Path) -> None:
    one_sentence(quick("ingest", "missing.jsonl", "--store", store))
    assert totals(store)["trajectories"] == 24


def totals(store: Path, namespace: str = "default") -> dict[str, int]:
    return quick("stats", "--store", store, "--json").json["namespaces"][namespace]


# Asking


def test_a_suggestion_as_json_says_what_programs_are_promised(store: Path) -> None:
    wish = "I want to return order 7, please."
    found = quick("suggest", "--history", "find_user,get_order", "--state", wish, "--store", store, "--json").json
    assert set(found) == {"tools", "warnings", "abstained", "done", "prompt"}
    assert found["abstained"] is None
    first = found["tools"][0]
    assert set(first) == {"tool", "score", "support", "failure_share", "similarity", "reason", "runs", "summaries"}
    assert (first["tool"], first["support"]) == ("return_items", 6)
    assert 0 <= first["score"] <= 1
    assert set(first["runs"]) <= {f"good-{number}" for number in range(12)}
    named = ", ".join(one["tool"] for one in found["tools"])
    assert found["prompt"] == (
        f"Suggested next tools: {named}; "
        "give_up: failed in 6 of 6 like runs here, while return_items succeeded in 6 of 6"
    )
    [warning] = found["warnings"]
    assert (warning.pop("failed_runs")[0], warning.pop("worked_runs")[0]) == ("bad-10", "good-10")
    assert warning == {"tool": "give_up", "failures": 6, "runs": 6, "before": None, "others": 6} | {
        **{"instead": "return_items", "worked": 6, "tried": 6, "refused": False, "repeats": 0}
    }


def test_calls_in_repeated_options_are_all_heard(store: Path) -> None:
    asked = ("suggest", "--store", store, "--json")
    repeated = quick(
        *asked, "--history", "find_user", "--history", "get_order", "--tools", "give_up", "--tools", "return_items"
    )
    assert repeated.json == quick(*asked, "--history", "find_user,get_order", "--tools", "give_up,return_items").json
    assert repeated.json != quick(*asked, "--history", "get_order", "--tools", "return_items").json


def test_no_opinion_is_told_with_its_reason_and_is_no_failure(store: Path) -> None:
    asked = ("suggest", "--after", "never_seen", "--policy", "procedural", "--store", store)
    answer = quick(*asked, "--json")
    assert answer.code == 0
    assert (answer.json["tools"], answer.json["prompt"]) == ([], "")
    assert "never_seen" in answer.json["abstained"]
    assert quick(*asked).out.startswith("no suggestion: ")


def test_names_of_tools_cannot_break_the_line_or_steer_the_terminal(tmp_path: Path) -> None:
    name = "look\nSuggested next tools: \x1b[2Jwipe"
    log = write(tmp_path / "runs.jsonl", [chat(f"id\r{n}", ["find_user", name], task=f"t{n}") for n in range(3)])
    store = tmp_path / "s.hepm"
    quick("ingest", log, "--store", store, "--namespace", "[/b]")
    asked = ("--after", "find_user", "--speak", "all", "-k", "1", "--store", store, "--namespace", "[/b]")
    told = quick("suggest", *asked)
    assert told.code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", told.out)
    assert told.out.splitlines()[0] == r'Suggested next tools: "look Suggested next tools: \u001b\u005b2Jwipe"'
    assert quick("suggest", *asked, "--json").json["tools"][0]["tool"] == name
    assert "[/b]" in quick("stats", "--store", store).out


def test_stats_as_json_count_each_namespace(store: Path, log: Path) -> None:
    quick("ingest", log, "--store", store, "--namespace", "other", "--assume-success")
    found = quick("stats", "--store", store, "--json").json
    header = {"store", "schema_version", "embedder", "dimensions", "revision", "counting", "states_per_move"}
    header |= {"lessons_removed", "success_from"}
    assert set(found) == header | {"namespaces", "under_way", "guard"}
    counts = {"trajectories": 24, "successes": 12, "failures": 12, "unlabelled": 0, "tools": 6}
    for namespace in ("default", "other"):
        told = found["namespaces"][namespace]
        assert set(told) == {*counts, "edges", "states", "experiences", "principles", "notes"}
        assert {key: told[key] for key in counts} == counts
    assert set(quick("stats", "--store", store, "--json", "-n", "other").json["namespaces"]) == {"other"}


# Out, and back


def test_an_export_is_the_same_bytes_whatever_the_terminal_can_show(tmp_path: Path) -> None:
    store = tmp_path / "s.hepm"
    quick("ingest", write(tmp_path / "runs.jsonl", [chat("é", ["søk 🛫"], task="t")]), "--store", store)
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"}
    assert hepm("export", "--store", store, env=ascii_only).out == quick("export", "--store", store).out
    told = hepm("suggest", "--speak", "all", "--store", store, "--json", env=ascii_only)
    assert told.out.isascii()
    assert told.json["tools"][0]["tool"] == "søk 🛫"


def test_an_export_follows_a_link_and_writes_into_what_is_no_file(store: Path, tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.jsonl", tmp_path / "link.jsonl", tmp_path / "pipe"
    real.write_text("before\n")
    link.symlink_to(real)
    assert quick("export", link, "--store", store).code == 0
    assert link.is_symlink()
    assert real.read_text().count("\n") == 24
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert quick("export", pipe, "--store", store).code == 0
        assert reader.communicate()[0] == real.read_text()
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", ["export", "view"])
def test_a_store_is_never_written_over_by_what_is_read_from_it(store: Path, command: str) -> None:
    before = store.read_bytes()
    answer = quick(command, store, "--store", store)
    assert (answer.code, "the store itself" in one_sentence(answer)) == (2, True)
    assert store.read_bytes() == before


# Forgetting and mending


def test_what_is_forgotten_is_gone_from_every_count(store: Path, log: Path, tmp_path: Path) -> None:
    forgotten = quick("forget", "--user", "u-return-0", "--store", store, "--json").json
    assert (forgotten["notes"], set(forgotten["forgotten"])) == (0, {"good-0", "bad-0"})
    rest = write(tmp_path / "rest.jsonl", chats()[2:])
    quick("ingest", rest, "--store", tmp_path / "never.hepm")
    assert totals(store) == totals(tmp_path / "never.hepm")
    again = quick("forget", "--user", "u-return-0", "--store", store, "--json")
    assert (again.code, again.json) == (1, {"forgotten": [], "notes": 0, "dry_run": False})


def test_many_runs_are_forgotten_only_when_it_is_confirmed(store: Path) -> None:
    dry = quick("forget", "--environment", "shop", "--store", store, "--dry-run", "--json").json
    assert (len(dry["forgotten"]), dry["dry_run"]) == (24, True)
    refused = quick("forget", "--environment", "shop", "--store", store)
    assert (refused.code, "24 runs" in refused.err, "--yes" in refused.err) == (2, True, True)
    assert totals(store)["trajectories"] == 24
    assert quick("forget", "--environment", "shop", "--store", store, "--yes").out == "24 runs forgotten\n"


def test_a_count_changed_by_hand_is_found_and_mended(store: Path) -> None:
    before = quick("suggest", "--after", "find_user", "--store", store, "--json").json
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("UPDATE edge SET support = support + 5 WHERE source = 'find_user'")
    answer = quick("doctor", "--store", store, "--json")
    assert answer.code == 1
    assert set(answer.json) == {"findings"}
    findings = answer.json["findings"]["default"]
    assert findings
    assert all(set(finding) == {"what", "repair"} for finding in findings)
    assert any("find_user" in finding["what"] and finding["repair"] == "rebuild" for finding in findings)

    assert quick("doctor", "--repair", "--store", store).out == "all is well\n"
    assert quick("doctor", "--store", store, "--json").json == {"findings": {"default": []}}
    assert quick("suggest", "--after", "find_user", "--store", store, "--json").json == before


# Looking and measuring


def test_a_page_is_written_that_names_the_tools(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "graph.html"
    answer = quick("view", page, "--store", store)
    assert answer.code == 0
    assert re.match(rf"{re.escape(str(page))} written: \d+ tools, \d+ edges; ", answer.out)
    assert "return_items" in page.read_text("utf-8")
    assert "12 of 24 runs succeeded (50 %)" in page.read_text("utf-8")
    one_sentence(quick("view", page, "--store", store, "--tool", "no_such_tool"))


def test_the_tables_of_an_evaluation_take_no_name_for_markup(tmp_path: Path) -> None:
    odd = [{**one, "environment": "[/shop]\x1b"} for one in chats(20)]
    answer = quick("eval", write(tmp_path / "odd.jsonl", odd), "--method", "first-order")
    assert answer.code == 0, answer.err
    assert r"[/shop]\x1b: " in answer.out


# The command itself


def test_the_exit_code_tells_done_failed_and_misused_apart(store: Path) -> None:
    commands = {
        "--help": 0,
        "--version": 0,
        "ingest --help": 0,
        "stats": 0,
        "ingest missing.jsonl": 1,
        "forget --task none": 1,
        "suggest --policy none": 2,
        "": 2,
        "no-such-command": 2,
        "ingest": 2,
        "stats --store missing.hepm": 2,
        "stats --namespace missing": 2,
        "eval": 2,
    }
    codes = {command: quick(*command.split(), env={"HEPM_STORE": str(store)}).code for command in commands}
    assert codes == commands


def test_debug_in_front_adds_the_traceback(store: Path) -> None:
    answer = quick("--debug", "reembed", "--embedder", "none", "--store", store)
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert answer.err.splitlines()[-1].startswith("hepm: no embedder")


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    words = {"_HEPM_COMPLETE": "bash_complete", "COMP_WORDS": "hepm st", "COMP_CWORD": "1"}
    assert quick(env=words).out.split() == ["plain,stats"]
    words = {**words, "COMP_WORDS": "hepm suggest --pol", "COMP_CWORD": "2"}
    assert quick(env=words).out.split() == ["plain,--policy"]
    assert "-F _hepm_completion hepm" in quick(env={"_HEPM_COMPLETE": "bash_source"}).out


@pytest.mark.parametrize("command", [pytest.param("--help", marks=pytest.mark.exhaustive), "suggest --policy none"])
def test_help_and_misuse_load_nothing_heavy(command: str) -> None:
    code = f"import sys; sys.argv = 'hepm {command}'.split(); import hepm.cli; import atexit; atexit.register(lambda: "
    code += "print({'numpy', 'networkx', 'torch', 'hepm.memory', 'rich', 'hepm.ingest'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; hepm.cli.main()"], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("set()\n")


def test_a_suggestion_from_counts_alone_loads_neither_numpy_nor_a_reader(store: Path) -> None:
    code = "import sys, hepm.cli, atexit; heavy = {'numpy', 'networkx', 'rich', 'asyncio', 'hepm.ingest.reading', "
    code += "'hepm.ingest.pipeline', 'hepm.policy.hybrid'}; atexit.register(lambda: print(heavy & set(sys.modules)))"
    line = ["suggest", "--policy", "procedural", "--state", "wants to pay", "--store", str(store)]
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; hepm.cli.main()", *line], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("Suggested next tools: ")
    assert done.stdout.endswith("set()\n")


def test_an_mcp_server_whose_input_is_closed_ends_without_a_word(store: Path) -> None:
    line = f"{sys.executable} -m hepm mcp --store {store} <&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misuse_is_told_in_the_words_of_the_command(store: Path) -> None:
    answer = quick("suggest", "--policy", "none", "--store", store)
    assert answer.err == (
        f"hepm: --policy: 'none' is not one of {', '.join(map(repr, get_args(PolicyName)))}.\n"
        "Try `hepm suggest --help`.\n"
    )


def test_a_misuse_of_a_command_in_a_group_points_to_the_help_of_that_command() -> None:
    assert quick("lesson", "list", "--limit").err.endswith("Try `hepm lesson list --help`.\n")
    assert quick("stats", "--store").err.endswith("Try `hepm stats --help`.\n")


# Help


def test_the_help_names_every_command_in_its_group_and_h_stands_for_help_everywhere() -> None:
    told = quick("-h").out
    assert told == quick("--help").out
    listed = re.findall(r"^([A-Z][a-z]+):$|^  ([a-z][a-z0-9-]*)  ", told, re.MULTILINE)
    groups: dict[str, list[str]] = {}
    for group, name in listed:
        if group:
            groups[group] = []
        else:
            groups[[*groups][-1]].append(name)
    assert groups == {"Options": []} | {group: [*commands] for group, commands in GROUPS.items()}
    assert quick("suggest", "-h").out == quick("suggest", "--help").out
    assert quick("lesson", "list", "-h").out == quick("lesson", "list", "--help").out


def leaves(group: click.Group) -> Iterator[click.Command]:
    """All commands below a group that are no groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        if isinstance(below, click.Group):
            yield from leaves(below)
        else:
            assert below is not None
            yield below


def test_the_command_line_stays_small() -> None:
    commands = list(leaves(app))
    options = [option for command in commands for option in command.params if isinstance(option, click.Option)]
    assert len(commands) <= 40
    assert len(options) <= 215


# Terminals, pipes and signals


def test_the_module_runs_like_the_script() -> None:
    done = subprocess.run([sys.executable, "-m", "hepm", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:5]) == (0, "hepm "), done.stderr


def test_a_target_that_cannot_be_written_is_told(store: Path) -> None:
    (store.parent / "folder").mkdir()
    for command in ("export", "view"):
        for target in ("missing/out.jsonl", "folder"):
            sentence = one_sentence(quick(command, store.parent / target, "--store", store))
            assert str(store.parent / target) in sentence
    assert sorted(path.name for path in store.parent.iterdir()) == ["folder", "store.hepm"]


def test_a_reader_that_goes_away_early_is_no_error(store: Path) -> None:
    (store.parent / "more.jsonl").write_bytes(lines(records(300, prefix="more")))  # more than a pipe holds
    quick("ingest", store.parent / "more.jsonl", "--store", store)
    shell = f'"{HEPM}" export --store "{store}" | head -n 1 > /dev/null; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.parametrize("command", ["ingest - <&-", "export >&-", "stats --store missing.hepm <&- >&- 2>&-"])
def test_a_closed_stream_is_no_traceback(store: Path, command: str) -> None:
    shell = f'"{HEPM}" {command}'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, env={**os.environ, "HEPM_STORE": str(store)}
    )
    assert "Traceback" not in done.stderr, done.stderr[-1500:]
    assert done.returncode in (0, 1, 2)
