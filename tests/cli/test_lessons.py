"""What runs taught, on the command line: every command, on chat logs made up for it."""

from __future__ import annotations

import gc
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chats import chat, chats, write
from tests.faults.command import Answer, hepm, one_sentence, quick
from tests.loopback import Loopback, Reply, Request, Rules, completion, loopback

__all__ = ["loopback"]

LESSON = {
    "situation": "A user wants to return an order.",
    "action": "Looked the order up before returning it.",
    "outcome": "The return went through.",
    "lesson": "Look an order up before you return it.",
    "preconditions": ["the user is known"],
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = write(tmp_path / "runs.jsonl", chats())
    made = tmp_path / "store.hepm"
    assert quick("ingest", log, "--store", made).code == 0
    return made


@pytest.fixture
def taught(store: Path) -> Path:
    for noun in ("experience", "principle"):
        assert quick(noun, "distill", "--store", store).code == 0
    return store


def found(store: Path, *arguments: str) -> Any:
    answer = quick(*arguments, "--store", store, "--json")
    assert answer.code == 0, answer.err
    return answer.json


def asked(store: Path, loopback: Loopback, *arguments: str) -> Answer:
    env = {"OPENAI_BASE_URL": loopback.url, "OPENAI_API_KEY": "k", "HEPM_LLM_MODEL": "small"}
    answer = quick(*arguments, "--store", store, env=env)
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # as the end of a process, it closes the connections of the client
    return answer


def test_runs_are_distilled_once_and_those_of_a_task_are_contrasted(store: Path) -> None:
    report = found(store, "experience", "distill")
    assert (report["runs"], report["new"] > 0, report["failed"], report["cost"]) == (24, True, {}, None)
    assert found(store, "experience", "distill")["runs"] == 0
    listed = found(store, "experience", "list", "--zone", "warning", "--limit", "99")
    assert listed["total"] == len(listed["lessons"]) > 0
    assert all("give_up" in one["lesson"] and one["zone"] == "warning" for one in listed["lessons"])


def test_a_lesson_is_shown_by_the_beginning_of_its_id_with_the_runs_it_comes_from(taught: Path) -> None:
    one = found(taught, "experience", "list", "--run", "bad-3")["lessons"][0]
    shown = found(taught, "experience", "show", one["id"][:10])
    assert shown["id"] == one["id"]
    assert "bad-3" in [source["run"] for source in shown["sources"]]
    assert "give_up" in quick("experience", "show", one["id"], "--store", taught).out
    wrong = quick("experience", "show", "e-nothing", "--store", taught)
    assert wrong.code == 2
    assert "no experience is called" in wrong.err


def test_a_search_finds_the_lesson_of_a_like_wish_and_says_when_there_is_none(taught: Path) -> None:
    wish = "I want to cancel order cancel-1, please."
    first = found(taught, "experience", "search", wish, "--environment", "shop", "--turn", "1", "--horizon", "4")
    assert "cancel" in first["found"][0]["situation"]
    assert found(taught, "experience", "search", wish, "--environment", "elsewhere")["found"] == []
    below = quick("experience", "search", "zebra", "--store", taught)
    assert "no experience reaches the similarity 0.4" in below.err
    assert float(below.out.split()[0]) < 0.4
    as_json = found(taught, "experience", "search", "zebra")
    assert (as_json["found"], len(as_json["nearest"])) == ([], 3)
    nothing = quick("experience", "search", "x", "--environment", "elsewhere", "--store", taught)
    assert (nothing.out, "no experience here" in nothing.err) == ("", True)


def lines(store: Path) -> list[str]:
    return quick("principle", "list", "--store", store).out.splitlines()


def test_an_evolution_is_foretold_made_and_undone(tmp_path: Path) -> None:
    taught = tmp_path / "many.hepm"
    quick("ingest", write(tmp_path / "many.jsonl", chats(120)), "--store", taught)
    quick("experience", "distill", "--store", taught)
    before = found(taught, "experience", "list", "--limit", "999")
    plan = found(taught, "experience", "evolve", "--iterations", "9", "--seed", "1", "--dry-run")
    assert found(taught, "experience", "list", "--limit", "999") == before
    done = found(taught, "experience", "evolve", "--iterations", "9", "--seed", "1")
    assert (done["evolution"], done["steps"]) == (plan["evolution"], plan["steps"])
    assert done["evolution"]
    assert found(taught, "experience", "undo", done["evolution"])["dropped"]
    assert found(taught, "experience", "list", "--limit", "999") == before
    one_sentence(quick("experience", "undo", done["evolution"], "--store", taught))


def test_principles_are_drawn_found_and_set_against_each_other(taught: Path) -> None:
    listed = found(taught, "principle", "list", "--kind", "cautionary")["lessons"]
    assert any("give_up" in one["text"] for one in listed)
    runs = [len(one["sources"]) for one in listed]
    assert runs == sorted(runs, reverse=True)
    assert re.match(r"p-\w+  \w+, \d+ runs?, score 0\.50 \(not shown yet\): ", listing := lines(taught)[0]), listing
    best = found(taught, "principle", "search", "give_up after get_order", "--floor", "0")["found"][0]
    assert {"id", "score", "kind", "text", "runs", "triples", "uses"} <= best.keys()
    assert found(taught, "principle", "prune", "--dry-run") == {"pruned": [], "dry_run": True}
    assert best["id"] in quick("principle", "show", best["id"], "--store", taught).out


def test_a_prompt_holds_lessons_and_tools_and_credits_what_it_told(taught: Path, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    messages = chat("now", ["find_user", "get_order"], task="return-0", wish="return")["messages"]
    talk.write_text(json.dumps(messages), "utf-8")
    told = found(taught, "prompt", "--messages", str(talk), "--environment", "shop", "--run", "now")
    assert told["lessons"]
    assert told["suggestions"]["tools"]
    assert 0 < told["tokens"] <= 1_000
    plain = quick("prompt", "--messages", talk, "--environment", "shop", "--store", taught).out
    assert plain.rstrip().endswith("</hepm-memory>")
    assert "What earlier runs taught:" in plain
    assert not any(lesson in plain for lesson in told["lessons"])
    shown = told["lessons"][0]
    noun = {"e": "experience", "p": "principle"}[shown[0]]
    assert found(taught, noun, "show", shown)["shown_in"] == {"now": None}
    done = write(tmp_path / "now.jsonl", [chat("now", ["find_user", "get_order", "return_items"], task="return-0")])
    assert quick("ingest", done, "--store", taught).code == 0
    after = found(taught, noun, "show", shown)
    assert (after["shown_in"], after["uses"]) == ({"now": True}, {"shown": 1, "uses": 1, "successes": 1})


@pytest.mark.parametrize("text", ["[]x", '{"messages": 3}', '["hello"]', '[{"content": "no role"}]'])
def test_a_file_without_chat_messages_is_refused_in_a_sentence(taught: Path, tmp_path: Path, text: str) -> None:
    talk = tmp_path / "talk.json"
    talk.write_text(text, "utf-8")
    assert "holds no chat messages" in one_sentence(quick("prompt", "--messages", talk, "--store", taught))


def test_a_library_goes_through_a_file_into_another_store_and_comes_back_the_same(taught: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "lessons.jsonl", tmp_path / "other.hepm"
    assert quick("library", "export", file, "--store", taught).code == 0
    first = found(other, "library", "import", str(file))
    assert (first["read"], first["new"], first["known"]) == (first["read"], first["read"], 0)
    again = tmp_path / "again.jsonl"
    assert quick("library", "export", again, "--store", other).code == 0
    assert again.read_text("utf-8") == file.read_text("utf-8")
    assert found(other, "library", "import", str(file))["new"] == 0
    assert quick("library", "export", "--kind", "principle", "--store", other).out.count('"kind": "experience"') == 0


def test_a_library_that_is_broken_is_refused_with_the_line_and_nothing_changes(taught: Path, tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    quick("library", "export", file, "--store", taught)
    before = quick("library", "export", "--store", taught).out
    file.write_text(file.read_text("utf-8").replace('"golden"', '"gold"', 1), "utf-8")
    assert "line" in one_sentence(quick("library", "import", file, "--store", taught))
    assert quick("library", "export", "--store", taught).out == before


# With a model


def answer(request: Request) -> Reply:
    return completion(json.dumps(LESSON))


def test_a_model_distills_within_its_budget_goes_on_and_is_paid_for_nothing_twice(
    store: Path,
    loopback: Loopback,
) -> None:
    loopback.script = answer
    dry = asked(store, loopback, "experience", "distill", "--dry-run")
    assert "24 runs would be looked at" in dry.out
    assert "24 calls" in dry.out
    assert loopback.requests == []
    first = asked(store, loopback, "experience", "distill", "--max-calls", "10", "--json")
    assert (first.json["runs"], first.json["unasked"], first.json["cost"]["calls"]) == (10, 14, 10)
    assert "10 calls" in first.err
    second = asked(store, loopback, "experience", "distill", "--prices", "1,2", "--json")
    assert (second.json["runs"], second.json["cost"]["calls"]) == (14, 14)
    assert second.json["cost"]["cost_usd"] > 0
    again = asked(store, loopback, "experience", "distill", "--again", "--json")
    assert (again.json["cost"]["calls"], again.json["cost"]["paid_before"]) == (0, 24)
    assert len(loopback.requests) == 24
    listed = found(store, "experience", "list")["lessons"]
    assert {one["distilled_by"] for one in listed} == {"small"}


def test_a_wrong_key_is_one_sentence_and_the_key_is_not_in_it(store: Path, loopback: Loopback) -> None:
    loopback.rules = Rules(key="right")
    env = {"OPENAI_BASE_URL": loopback.url, "OPENAI_API_KEY": "very-secret", "HEPM_LLM_MODEL": "small"}
    failed = hepm("experience", "distill", "--store", store, env=env)
    assert "very-secret" not in one_sentence(failed)


# What a user wants


def test_notes_are_reflected_shown_recalled_edited_restored_and_forgotten_on_the_command_line(
    store: Path, tmp_path: Path
) -> None:
    talk = tmp_path / "talk.json"
    wish = "Please always answer in one sentence. Where is my order?"
    talk.write_text(json.dumps([{"role": "user", "content": wish}, {"role": "assistant", "content": "Here."}]), "utf-8")
    done = found(store, "preference", "reflect", "--user", "ann", "--messages", str(talk))
    assert (done["outcome"], done["notes"]["version"]) == ("written", 1)
    assert found(store, "preference", "list")["users"] == ["ann"]
    assert "one sentence" in found(store, "preference", "show", "ann")["notes"][0]["text"]
    assert found(store, "preference", "search", "ann", "answer in one sentence")["lines"]
    prompt = found(store, "prompt", "--state", "order", "--user", "ann")
    assert "one sentence" in prompt["stable"]
    assert quick("preference", "edit", "ann", "short", "--store", store).code == 0
    assert quick("preference", "restore", "ann", "1", "--store", store).code == 0
    versions = found(store, "preference", "show", "ann", "--history")["notes"]
    assert [(one["version"], one["written_by"]) for one in versions] == [(1, "extractive"), (2, "hand"), (3, "hand")]
    one_sentence(quick("preference", "edit", "ann", "late", "--version", "1", "--store", store))
    assert len(found(store, "preference", "forget", "ann")["forgotten"]) == 3
    assert found(store, "preference", "show", "ann")["notes"] == []
    assert found(store, "prompt", "--state", "order", "--user", "ann")["stable"] == ""


def test_one_session_needs_its_user_and_all_runs_need_none(store: Path, tmp_path: Path) -> None:
    for wrong in (("--user", "ann"), ("--run", "good-1")):
        assert quick("preference", "reflect", *wrong, "--store", store).code == 2
    report = found(store, "preference", "reflect")
    assert (report["runs"], report["failed"]) == (24, {})
    assert found(store, "preference", "reflect")["runs"] == 0


def test_an_export_carries_the_lessons_and_what_a_step_has_seen_into_another_store(
    taught: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "out.jsonl", tmp_path / "other.hepm"
    assert quick("prompt", "--run", "r-new", "--state", "an order", "--store", taught).code == 0
    assert quick("library", "settle", "r-new", "--success", "--store", taught).code == 0
    lessons = lessons_of(taught)
    said = quick("export", out, "--store", taught).out
    assert said == f"24 runs and {len(lessons)} lessons written to {out}\n"
    assert quick("import", out, "--store", other).out == (
        f"24 runs and {len(lessons)} lessons stored, 0 known before; read: 24 hepm\n"
    )
    assert lessons_of(other) == lessons
    assert found(other, "experience", "distill")["runs"] == 0
    assert quick("export", "--store", other).out == quick("export", "--store", taught).out


def test_lessons_in_a_file_of_runs_reach_no_prompt_unless_they_are_imported(taught: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out.jsonl", tmp_path / "other.hepm"
    quick("export", out, "--store", taught)
    answer = quick("ingest", out, "--store", other)
    assert "it is no run, but a lesson of an export: see `hepm import`" in answer.err
    assert (lessons_of(other), found(other, "stats")["namespaces"]["default"]["trajectories"]) == ([], 24)
    assert "could not be used" not in quick("eval", out).err


@pytest.mark.parametrize(
    "line",
    [
        '{"hepm":1,"lesson":{}}',
        '{"hepm":1,"lesson":[]}',
        '{"hepm":2,"lesson":{}}',
        '{"hepm":1,"showing":{"run":7,"lesson":"x"}}',
        '{"hepm":1,"reported":{"run":"x"}}',
        '{"hepm":1,"answer":{"key":"k","step":"s","usage":"{"}}',
        '{"hepm":1,"tool":{"name":""}}',
        '{"hepm":1,"tool":{"name":"x","aliases":[{}]}}',
        '{"hepm":1,"tool":{"name":"x","described_at":1e999}}',
    ],
)
def test_a_damaged_line_of_an_export_is_named_and_the_others_are_read(taught: Path, tmp_path: Path, line: str) -> None:
    out, other = tmp_path / "out.jsonl", tmp_path / "other.hepm"
    quick("export", out, "--store", taught)
    out.write_text(f"{line}\n{out.read_text('utf-8')}", "utf-8")
    report = quick("import", out, "--store", other, "--json").json
    assert [(one["record"], "cannot be read" in one["reason"]) for one in report["rejected"]] == [(1, True)]
    assert report["stored"] == 24
    assert quick("export", "--store", other).out == quick("export", "--store", taught).out


def lessons_of(store: Path) -> list[Any]:
    return [
        one for noun in ("experience", "principle") for one in found(store, noun, "list", "--limit", "999")["lessons"]
    ]


def test_a_section_for_agents_is_written_edited_and_read_back(taught: Path, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("# Ours\n")
    assert quick("library", "export", file, "--all", "--store", taught).code == 0
    whole = file.read_text()
    assert whole.startswith("# Ours\n\n<!-- hepm lessons of")
    line = next(line for line in whole.splitlines() if line.startswith("- "))
    file.write_text(whole.replace(line + "\n", "", 1))
    assert "1 edit not imported" in one_sentence(quick("library", "export", file, "--store", taught))
    # The advice and the warning that say the same go together.
    assert found(taught, "library", "import", str(file))["retired"] == 2
    assert quick("library", "export", file, "--all", "--store", taught).code == 0
    assert line not in file.read_text()


def test_a_skill_is_written_into_its_folder_and_read_back_from_it(taught: Path, tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "shop-desk"
    assert quick("library", "export", folder, "--form", "skill", "--all", "--store", taught).code == 0
    assert (folder / "SKILL.md").read_text().startswith("---\nname: shop-desk\ndescription: ")
    again = found(taught, "library", "import", str(folder))
    assert (again["read"] > 0, again["new"], again["edited"], again["retired"]) == (True, 0, 0, 0)


def test_where_no_lesson_is_supported_nothing_is_written(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "CLAUDE.md"
    assert "hepm principle distill" in one_sentence(quick("library", "export", file, "--store", store))
    assert not file.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "AGENTS.md", "--retired"),
        ("export", "lessons.jsonl", "--all"),
        ("import", "AGENTS.md", "--retire-missing", "principle"),
    ],
)
def test_options_that_a_form_lacks_are_refused(taught: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / arguments[1]
    assert quick("library", "export", tmp_path / "AGENTS.md", "--all", "--store", taught).code == 0
    assert quick("library", arguments[0], file, *arguments[2:], "--store", taught).code == 2
