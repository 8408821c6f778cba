"""What hints say about tools that got another name, were retired, or began to fail."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from hepm import Memory, Outcome, StateSummary, Tool, ToolCall, Trajectory, Turn
from hepm.errors import InputError
from hepm.experience.lessons import Principle
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.rows import FOLLOWED_BY, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.sqlite.store import SQLiteStore
from hepm.ingest.records import ReadOptions
from hepm.policy import POLICIES
from tests.faults.command import quick
from tests.runs import to_version, trajectory

DECOMPOSED, COMPOSED = "cafe\u0301_search", "caf\u00e9_search"


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory.open(tmp_path / "m.hepm", speak="weighed")
    memory.ingest([trajectory(f"r{n}", "login", "find" if n % 2 else "search", "book") for n in range(10)])
    return memory


def tools_of(memory: Memory, **query: object) -> list[str]:
    return [one.tool for one in memory.suggest(**query)]  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_agent_is_told_the_name_under_which_it_has_a_tool(memory: Memory, policy: str) -> None:
    memory.tools.add_alias("find", "search")
    about = {"after": "login", "state": "please help", "policy": policy, "k": 1}
    assert tools_of(memory, **about) == ["search"]
    assert tools_of(memory, tools=["find", "book"], **about) == ["find"]
    assert tools_of(memory, tools=["find", "search"], **about) == ["search"]
    later = {**about, "state": StateSummary(said=("please help",), earlier=2)}
    assert tools_of(memory, history=["find", "login"], **later) == ["find"]
    assert tools_of(memory, after="find", policy=policy, state="please help", k=1) == ["book"]
    assert "after find" in memory.suggest(after="find", policy="procedural")[0].reason


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_suggests_a_retired_tool(memory: Memory, policy: str) -> None:
    memory.tools.retire("search")
    for tools in (None, ["search", "find"], ["search"]):
        found = memory.suggest(after="login", state="please help", policy=policy, tools=tools)
        assert "search" not in found.prompt()
    memory.tools.retire("search", retired=False)
    assert tools_of(memory, after="login", tools=["search"], state="please help", policy=policy) == ["search"]


def test_lessons_follow_aliases_and_never_recommend_a_retired_tool(memory: Memory) -> None:
    written = PromptOptions(suggestions=0, as_written=True)
    sources = tuple(Source(run, words=False) for run in ("r0", "r2"))
    lesson = Principle(
        "guiding", "Search after the login.", triples=(Triple("login", FOLLOWED_BY, "search"),), sources=sources
    )
    memory.lessons.change(LessonChange(put=[lesson.row()]))

    def told(after: str) -> str:
        return memory.prompt(state="please help", after=after, tools=["search", "book"], options=written).text

    assert "Search after" in told("login")
    memory.tools.rename("login", "sign_in")
    assert "Search after" in told("sign_in")
    assert "Search after" in told("login")
    memory.tools.retire("search")
    assert "search" not in told("sign_in").lower()


def test_another_process_sees_aliases_and_retired_tools(memory: Memory, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as other:
        assert tools_of(other, after="login", policy="procedural", k=3) == ["find", "search"]
        memory.tools.add_alias("find", "search")
        other.refresh()
        assert tools_of(other, after="login", policy="procedural", k=3) == ["search"]
        memory.tools.retire("find")  # an alias names the tool
        other.refresh()
        assert tools_of(other, after="login", policy="procedural", k=3) == []


def test_names_that_look_the_same_are_one_tool_on_every_way_in(memory: Memory) -> None:
    memory.ingest(trajectory("n", "login", DECOMPOSED, "book"), tools=[{"name": DECOMPOSED, "description": "Finds."}])
    memory.ingest(trajectory("o", "login", COMPOSED, "book"))
    (row,) = (row for row in memory.tools.list() if row.name == COMPOSED)
    assert (row.calls, row.description) == (2, "Finds.")
    spec = {"type": "function", "function": {"name": DECOMPOSED}}
    for tools in ([DECOMPOSED], [spec], [Tool(DECOMPOSED)], [{"name": DECOMPOSED, "inputSchema": {}}]):
        assert tools_of(memory, after="login", tools=tools, policy="procedural") == [COMPOSED]
    assert tools_of(memory, history=["login", DECOMPOSED], policy="procedural") == ["book"]
    memory.tools.retire(DECOMPOSED)
    assert "caf" not in memory.suggest(after="login", tools=[DECOMPOSED]).prompt()
    memory.tools.add_alias("kaffee", DECOMPOSED)
    memory.tools.remove_alias("kaffee")
    with pytest.raises(InputError):
        memory.tools.add_alias(COMPOSED, DECOMPOSED)


def flight(number: int, *, broken: bool) -> Trajectory:
    search = ToolCall("search_api", result="503" if broken else "3 flights", error=broken)
    turns = [Turn("user", "find me a flight"), *(Turn("assistant", "", (one,)) for one in (ToolCall("login"), search))]
    return Trajectory(f"f{number}", tuple(turns), Outcome(1.0, True), model=f"m{number % 2}", ended_at=1e9 + number)


def test_a_tool_that_begins_to_fail_is_warned_of_and_is_suggested_again_when_it_works(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        hints: dict[int, str] = {}
        for stop in (200, 205, 300, 404):
            start = max(hints, default=0)
            memory.ingest([flight(n, broken=n % 25 == 0 or 200 <= n < 400) for n in range(start, stop)])
            memory.follow_now()
            hints[stop] = memory.suggest(after="login", state="find me a flight").prompt()
        assert hints[200] == hints[404] == "Suggested next tools: search_api (19 of 20 such successful runs did so)"
        assert hints[205].endswith("search_api (fails now, in 5 of its last 5 runs)")
        assert "fails now" in hints[300]
        assert memory.examine() == []


def test_tools_keep_their_names_and_marks_through_export_copy_and_an_import(memory: Memory, tmp_path: Path) -> None:
    memory.tools.add_alias("find", "search")
    memory.tools.retire("book")
    before = [(row.name, row.calls, row.aliases, row.retired) for row in memory.tools.list()]
    (tmp_path / "x.jsonl").write_text("\n".join(memory.export()), "utf-8")
    with (
        Memory.open(tmp_path / "imported.hepm", speak="weighed") as other,
        Memory.open(tmp_path / "copied.hepm", speak="weighed") as copied,
    ):
        other.ingest(tmp_path / "x.jsonl", reading=ReadOptions("hepm"))
        (done,) = memory.copy_to(copied)
        assert done.differences == ()
        for one in (other, copied):
            assert [(row.name, row.calls, row.aliases, row.retired) for row in one.tools.list()] == before
            assert one.examine() == []


def test_runs_that_an_older_hepm_counted_by_other_rules_are_counted_again_on_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        memory.ingest([flight(n, broken=n % 2 == 0) for n in range(4)])
        states = list(memory.lessons.store.iter_states(namespace="default"))
    with sqlite3.connect(tmp_path / "m.hepm") as database:
        stale = "UPDATE state SET key = key / 2; UPDATE trajectory SET sequence = replace(sequence, '1', '2');"
        database.executescript(to_version(15) + stale)
        revision = int(database.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()[0])
    for times in (1, 1):
        with Memory.open(tmp_path / "m.hepm") as memory:
            assert memory.header.revision == revision + 1  # counted in one write
            assert memory.examine() == []
            found = [(row.key, row.count, row.summary) for row in memory.lessons.store.iter_states(namespace="default")]
            assert found == [(row.key, row.count, row.summary) for row in states]
        assert caplog.text.count("upgraded from schema version 15 to") == times
        assert caplog.text.count("the runs of default were counted again by today's rules") == times


@pytest.mark.parametrize("version", [15, 16, 17, 18, 21])
def test_facts_and_ends_that_an_older_hepm_did_not_read_are_read_on_opening_and_all_else_stays(
    tmp_path: Path, version: int
) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest([flight(n, broken=n % 2 == 0) for n in range(4)])
        states = list(memory.lessons.store.iter_states(namespace="default"))
    with sqlite3.connect(tmp_path / "m.hepm") as database:
        for seq, sequence in database.execute("SELECT seq, sequence FROM trajectory").fetchall():
            steps = [(targets, flags, [], key) for targets, flags, _, key in json.loads(sequence) if targets]
            database.execute("UPDATE trajectory SET sequence = ? WHERE seq = ?", (json.dumps(steps), seq))
        database.executescript(to_version(version))
    # An upgrade that ended when the tables were changed goes on where the memory is opened next.
    SQLiteStore(tmp_path / "m.hepm").close()
    with Memory.open(tmp_path / "m.hepm") as memory:
        assert memory.examine() == []
        assert list(memory.lessons.store.iter_states(namespace="default")) == states


def test_an_upgrade_that_a_damaged_run_stops_says_so_and_the_run_can_be_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory:
        memory.ingest([flight(n, broken=False) for n in range(4)])
    with sqlite3.connect(tmp_path / "m.hepm") as database:
        stale = "UPDATE trajectory SET sequence = '[]'; UPDATE trajectory SET record = '{' WHERE seq = 2;"
        database.executescript(to_version(15) + stale)
    with Memory.open(tmp_path / "m.hepm") as memory:
        assert "the runs of default could not be counted again: `hepm doctor` names why" in caplog.text
        assert any("cannot be read" in one.what for one in memory.examine())
        memory.forget(trajectory=memory.store.read("records", namespace="default")[1][0])
        memory.rebuild()
        assert memory.examine() == []


def test_the_command_line_names_marks_and_changes_of_tools(tmp_path: Path) -> None:
    store = tmp_path / "m.hepm"
    with Memory.open(store, speak="weighed") as memory:
        runs = [flight(n, broken=n % 25 == 0 or n >= 200) for n in range(206)]
        memory.ingest(runs[:100], tools=[Tool("search_api", "Finds.", {"properties": {"q": {}}})])
        memory.ingest(
            runs[100:], tools=[Tool("search_api", "Finds.", {"properties": {"day": {}}, "required": ["day"]})]
        )
    said = quick("tool", "list", "--store", store).out
    assert "fails now, in 6 of its last 6 runs (4 % before)" in said
    assert "now required: day; removed: q" in said
    renamed = quick("tool", "alias", "login", "sign_in", "--rename", "--store", store)
    assert renamed.out == "login is called sign_in now\n"
    assert quick("tool", "retire", "search_api", "--store", store).code == 0
    tools = json.loads(quick("tool", "list", "--store", store, "--json").out)["tools"]
    assert [(one["name"], one["aliases"], one["retired"]) for one in tools] == [
        ("search_api", [], True),
        ("sign_in", ["login"], False),
    ]
    assert quick("tool", "alias", "login", "--undo", "--store", store).code == 0
    refused = quick("tool", "alias", "a", "serch_api", "--store", store)
    assert (refused.code, "Did you mean search_api" in refused.err) == (1, True)


def test_errors_of_which_no_record_tells_are_listed_as_not_recorded(tmp_path: Path) -> None:
    store = tmp_path / "m.hepm"
    with Memory.open(store, speak="weighed") as memory:
        memory.ingest([flight(1, broken=False), trajectory("words", "get_order")])
    listed = {row.split()[0]: row.split()[1:] for row in quick("tool", "list", "--store", store).out.splitlines()}
    assert listed["get_order"] == ["1", "not", "recorded"]
    assert listed["search_api"] == ["1", "0"]
    tools = json.loads(quick("tool", "list", "--store", store, "--json").out)["tools"]
    assert {one["name"]: one["errors"] for one in tools} == {"get_order": None, "login": None, "search_api": 0}
