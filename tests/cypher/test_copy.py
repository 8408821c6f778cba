"""The embedded engine's copy of a store: built when needed, by many at once, and never half."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory
from hepm.cypher.engines import open_projection
from hepm.cypher.model import Result
from hepm.errors import StoreError
from hepm.experience.lessons import Experience, Notes, Principle
from hepm.graph.lessons.rows import Source, Triple, to_record
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.projection import FOLDER, open_copy
from tests.cypher.engines import table
from tests.runs import trajectory

NS = "shop"
COUNT = "MATCH (t:Trajectory {namespace: 'shop'}) RETURN count(t) AS n"


def ingest(file: Path, *names: str) -> None:
    with Memory.open(file) as memory:
        memory.ingest([trajectory(name, "a", "b+c", "a") for name in names], namespace=NS)


def ask(file: Path, text: str = COUNT, **values: object) -> Result:
    store = SQLiteStore(file)
    try:
        with open_copy(store) as copy:
            return copy.ask(text, values)
    finally:
        store.close()


def folder_of(file: Path) -> Path:
    return file.with_name(file.name + FOLDER)


def copies(file: Path) -> list[str]:
    return sorted(path.name for path in folder_of(file).iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ingest(tmp_path / "memory.hepm", "r1", "r2")
    return tmp_path / "memory.hepm"


def test_the_copy_holds_the_model_as_the_page_describes_it(file: Path):
    [(tool,), (start,)] = ask(
        file, "MATCH (t:Tool) WHERE t.name IN ['a', '<START>'] RETURN t ORDER BY t.name DESC"
    ).rows
    assert tool == {
        "labels": ["Tool"],
        "properties": {"namespace": NS, "name": "a", "description": "", "parameters": "{}", "calls": 4, "errors": 0},
    }
    assert start["properties"]["calls"] == 0
    [(edge,)] = ask(file, "MATCH (:Tool {name: 'a'})-[r:NEXT]->(:Tool {name: 'b'}) RETURN r").rows
    summaries = edge["properties"].pop("summaries")
    assert edge == {
        "type": "NEXT",
        "properties": {
            "support": 2,
            "failures": 0,
            "unlabelled": 0,
            "inverse_steps": 2 * round(2**32 / 3),
            "weight": pytest.approx(0.5),
            "failure_share": 0.0,
            "states": 1,
        },
    }
    assert "please help" in summaries[0]
    ways = "MATCH (t:Trajectory {id: 'r1'})-[k:TOOK]->(b:Tool) RETURN k.after, b.name"
    assert sorted(ask(file, ways).rows) == [("<START>", "a"), ("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")]
    moves = "MATCH (a:Tool)<-[:AFTER]-(s:State)-[:BEFORE]->(b:Tool) RETURN a.name, b.name, s.count"
    assert set(ask(file, moves).rows) == {
        ("<START>", "a", 2),
        ("a", "b", 2),
        ("a", "c", 2),
        ("b", "a", 2),
        ("c", "a", 2),
    }


@pytest.fixture
def learned(file: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(file)
    rows = [ADVICE.row(), RULE.row(), WISH.row()]
    store.lessons.change(LessonChange(put=rows, imported=True), {}, namespace=NS)
    yield store
    store.close()


ADVICE = Experience(
    "in a shop", "called a", "well", "call a", "golden", "exploration", 1,
    sources=(Source("r1", 1.0), Source("never stored")), tools=("a", "never called"),
)  # fmt: skip
RULE = Principle("guiding", "Call a.", triples=(Triple("a", "followed_by", "a"), Triple("a", "followed_by", "a")))
WISH = Notes("ann", "- be brief", session="r2")


def test_the_copy_holds_lessons_as_the_page_describes_them(file: Path, learned: SQLiteStore):
    [(advice,)] = ask(file, "MATCH (l:Experience {namespace: 'shop'}) RETURN l").rows
    assert advice["properties"].pop("record") == to_record(ADVICE.row())
    assert advice == {
        "labels": ["Experience"],
        "properties": {
            "namespace": NS, "id": ADVICE.id, "seq": 1, "text": "in a shop", "user": "",
            "runs": ["r1", "never stored"], "tools": ["a", "never called"], "live": True, "retired": "", "made_by": "",
            "shown": 0, "uses": 0, "successes": 0, "score": 0.5, "situation": "in a shop", "action": "called a",
            "outcome": "well", "lesson": "call a", "zone": "golden", "stage": "exploration", "reward": 1.0,
            "environments": [], "first_turn": 0, "last_turn": 0, "preconditions": [], "after": [], "says": [],
            "facts": [], "only_user": "", "condition": "", "tried": 0, "worked": 0, "distilled_by": "extractive",
            "generation": 0,
        },
    }  # fmt: skip
    links = "MATCH (l:Experience|Principle|Notes)-[f:FROM]->(t) RETURN l.id, t.id, f.reward, f.words ORDER BY t.id"
    assert ask(file, links).rows == ((ADVICE.id, "r1", 1.0, True), (WISH.id, "r2", None, False))
    assert ask(file, "MATCH (l)-[:ABOUT]->(t) RETURN l.id, t.name").rows == ((ADVICE.id, "a"),)
    assert ask(file, "MATCH (p)-[:MENTIONS]->(c) RETURN p.id, c.name").rows == ((RULE.id, "a"),)
    said = "MATCH (c:Concept)-[r:RELATES]->(d) RETURN c.name, r.predicate, d.name, r.principle"
    assert ask(file, said).rows == (("a", "followed_by", "a", RULE.id),)
    assert ask(file, "MATCH (u:User)-[:PREFERS]->(n) RETURN u.id, n.text, n.version").rows == (
        ("ann", "- be brief", 1),
    )


def test_a_store_that_moved_on_is_copied_anew_and_the_old_copy_is_swept_away(file: Path):
    assert ask(file).rows == ((2,),)
    before = copies(file)
    assert ask(file).rows == ((2,),)
    assert copies(file) == before
    ingest(file, "r3")
    assert ask(file).rows == ((3,),)
    assert len(copies(file)) == 1
    assert copies(file) != before


def test_a_store_that_was_made_anew_in_the_same_place_is_not_mistaken_for_the_old_one(file: Path):
    assert ask(file).rows == ((2,),)
    for part in file.parent.glob("memory.hepm*"):
        if part.is_file():
            part.unlink()
    with Memory.open(file) as memory:
        memory.ingest([trajectory(name, "x", "y") for name in ("n1", "n2")], namespace=NS)
    assert ask(file, "MATCH (t:Tool {name: 'x'}) RETURN count(t)").rows == ((1,),)


def test_what_changes_while_the_copy_is_open_is_seen_by_the_next_one(file: Path):
    store = SQLiteStore(file)
    with open_copy(store) as copy:
        ingest(file, "r3")
        assert ask(file).rows == ((3,),)
        assert copy.ask(COUNT, {}).rows == ((2,),)
    store.close()


ODD = ["'", "line\nend", "\\", "\\N", " ", "[a,b]", "Ünï€𝄞", "x" * 200]


def test_names_and_texts_of_any_kind_come_back_as_they_are(tmp_path: Path):
    file = tmp_path / "odd.hepm"
    runs = [
        replace(trajectory(f"r{number}{text}", f"tool{text}", "end", goal=text, task=text), model=text)
        for number, text in enumerate(ODD)
        if "+" not in text
    ]
    with Memory.open(file) as memory:
        memory.ingest(runs, namespace=NS)
    found = ask(
        file, "MATCH (t:Trajectory {namespace: 'shop'}) RETURN t.id, t.tools, t.task, t.model, t.said ORDER BY t.seq"
    )
    for run, row in zip(runs, found.rows, strict=True):
        names = [call.name for call in run.calls()]
        said = " ".join(run.turns[0].text[:600].split())  # a message is one line
        assert row == (run.id, names, run.task, run.model, said), repr(run.id)[:40]
        state = "MATCH (s:State {namespace: 'shop'})-[:BEFORE]->(t:Tool {name: $name}) RETURN s.targets"
        assert ask(file, state, name=names[0]).rows == (([names[0]],),)


def test_the_calls_of_every_run_are_its_own_in_a_store_with_thousands_of_them(tmp_path: Path):
    file = tmp_path / "many.hepm"
    called = {f"run {n}": [f"tool {(7 * n + at) % 50}" for at in range(1 + n % 9)] for n in range(800)}
    with Memory.open(file) as memory:
        memory.ingest(trajectory(name, *tools) for name, tools in called.items())
        found = memory.cypher("MATCH (r:Trajectory) RETURN r.id AS run, r.tools AS tools")
    assert sum(map(len, called.values())) > 2_048
    assert dict(found.rows) == called


def test_a_record_that_cannot_be_read_is_left_out(file: Path):
    import sqlite3

    with sqlite3.connect(file) as database:
        database.execute("UPDATE trajectory SET record = '{broken' WHERE id = 'r1'")
    assert ask(file).rows == ((1,),)


def _ask_often(file: str, turns: int) -> None:
    for _ in range(turns):
        assert ask(Path(file)).rows[0][0] >= 2


def _ingest_often(file: str, turns: int) -> None:
    for turn in range(turns):
        ingest(Path(file), f"more-{turn}")
        time.sleep(0.05)


def test_many_processes_ask_while_another_ingests(file: Path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_ask_often, args=(str(file), 2)) for _ in range(2)]
    workers.append(context.Process(target=_ingest_often, args=(str(file), 2)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert ask(file).rows == ((4,),)
    assert len(copies(file)) == 1


BUILD = """
import sys
from pathlib import Path
from hepm.cypher.model import Table
from hepm.cypher.engines import open_projection
def tables():
    yield Table("Tool"), ((n, "shop", f"t{n}", "x" * 100, "{}", 1, 0, None, None, None) for n in range(200_000))
print("building", flush=True)
open_projection(Path(sys.argv[1]), "killed", tables)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
@pytest.mark.parametrize("after_s", [0.1, pytest.param(0.6, marks=pytest.mark.exhaustive)])
def test_a_build_that_is_killed_leaves_nothing_that_is_read(tmp_path: Path, after_s: float):
    with subprocess.Popen([sys.executable, "-c", BUILD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
    tables = [(table("Tool"), [(0, NS, "t", "", "{}", 1, 0, None, None, None)])]
    whole = [path for path in tmp_path.iterdir() if not path.name.startswith("building-")]
    with open_projection(tmp_path, "after", lambda: tables) as copy:
        assert copy.ask("MATCH (t:Tool) RETURN t.name", {}).rows == (("t",),)
    assert all(not path.exists() for path in whole)


def test_what_killed_builds_left_is_removed_after_an_hour(file: Path):
    folder = folder_of(file)
    folder.mkdir()
    young, old = folder / "building-1", folder / "building-2"
    for path in (young, old):
        path.mkdir()
        (path / "torn.lbug").write_bytes(b"torn")
    os.utime(old, (time.time() - 7200,) * 2)
    ask(file)
    assert young.exists()
    assert not old.exists()


def test_where_the_folder_cannot_be_made_a_sentence_says_so(file: Path):
    folder_of(file).write_text("a file where the folder would be")
    with pytest.raises(StoreError, match="no copy for Cypher could be built in"):
        ask(file)


def test_a_damaged_copy_is_told_with_what_to_do(file: Path):
    ask(file)
    [copy] = folder_of(file).iterdir()
    copy.write_bytes(b"\x00" * 4096)
    with pytest.raises(StoreError, match="Delete its folder: it is made again"):
        ask(file)


def test_without_the_engine_the_sentence_names_the_extra_and_the_rest_works(file: Path):
    code = (
        "import sys; sys.modules['ladybug'] = None; from hepm.cli import main; "
        "sys.argv = ['hepm', *sys.argv[1:]]; main()"
    )
    for command, said, status in ((["cypher", "environments"], "pip install 'hepm[cypher]'", 1), (["stats"], "", 0)):
        done = subprocess.run(
            [sys.executable, "-c", code, *command, "--store", str(file), *(["-n", NS] if said else [])],
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert said in done.stderr


@pytest.mark.parametrize("chosen", [{"user": "ann"}, {"trajectory": "r3"}])
def test_no_copy_holds_a_run_that_was_forgotten(file: Path, chosen: dict[str, str]):
    with Memory.open(file) as memory:
        memory.ingest([trajectory("r3", "a", "b", user="ann", goal="lost in Quito")], namespace=NS)
        assert memory.cypher("MATCH (t:Trajectory {id: 'r3'}) RETURN count(t)").rows == ((1,),)
        assert any(b"Quito" in copy.read_bytes() for copy in folder_of(file).iterdir())
        assert memory.forget(**chosen, namespace=NS, dry_run=True) == ["r3"]
        assert len(copies(file)) == 1
        assert memory.forget(**chosen, namespace=NS) == ["r3"]
    assert not folder_of(file).exists()
