from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hepm
from hepm import Memory
from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.ingest.prepare import IngestOptions
from tests.runs import called, trajectory


def test_the_public_names_are_those_that_are_there() -> None:
    assert hepm.__all__ == sorted(hepm.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(hepm, name) for name in hepm.__all__)


def test_importing_hepm_loads_nothing_heavy() -> None:
    heavy = {"numpy", "networkx", "torch", "openai", "httpx", "httpx2", "pydantic", "sqlite3", "click"}
    code = f"import hepm, hepm.llm, sys; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_a_suggestion_names_the_tool_that_worked_next_with_its_support_and_its_runs(memory: Memory) -> None:
    memory.ingest([trajectory("r1", "look", "buy"), trajectory("r2", "look", "buy"), trajectory("r3", "look", "leave")])
    found = memory.suggest("look", policy="procedural")
    assert [(s.tool, s.support) for s in found] == [("buy", 2), ("leave", 1)]
    assert found.prompt() == "Suggested next tools: buy, leave"
    assert found[0].runs == ("r2", "r1")
    assert found[0].summaries[0].startswith("U: please help")


def test_a_state_decides_where_weights_alone_would_not(memory: Memory) -> None:
    runs = [trajectory(f"buy{i}", "look", "buy", goal="purchase the red shoes") for i in range(3)]
    runs += [trajectory(f"back{i}", "look", "refund", goal="money back for a broken lamp") for i in range(2)]
    memory.ingest(runs)
    for policy in ("episodic", "adaptive", "hybrid"):
        assert memory.suggest("look", state="money back, the lamp is broken", policy=policy)[0].tool == "refund"
    assert memory.suggest("look", policy="adaptive")[0].tool == "buy"


def test_a_conversation_in_chat_messages_can_be_asked_about_as_it_is(memory: Memory) -> None:
    memory.ingest([trajectory("r", "look", "buy")])
    messages = [{"role": "user", "content": "please help"}, *called("look", "look done")]
    found = memory.suggest(messages=messages)
    assert found[0].tool == "buy"
    assert found[0].similarity == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"k": 0}, "k is 0"),
        ({"policy": "clever"}, "no policy is called"),
        ({"after": [{"role": "user"}]}, "as `messages=`"),
    ],
)
def test_an_impossible_question_is_refused(memory: Memory, options: dict[str, object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        memory.suggest(**options)  # type: ignore[arg-type]


def test_a_memory_follows_another_process_to_its_new_embedder_and_never_drops_its_vectors(tmp_path: Path) -> None:
    with Memory.open(tmp_path, speak="weighed") as first, Memory.open(tmp_path, speak="weighed") as second:
        first.ingest([trajectory("r1", "look", "buy")])
        assert second.reembed("hash-64") > 0
        assert first.ingest([trajectory("r2", "look", "buy")]).stored == 1
        first.refresh()
        assert first.suggest("look", state="please help", policy="episodic")[0].tool == "buy"
        assert first.header.dimensions == 64
        assert first.examine() == []


def test_reembedding_lets_the_states_be_compared_again(tmp_path: Path) -> None:
    with Memory.open(tmp_path, speak="weighed") as memory:
        memory.ingest([trajectory("r", "look", "buy")], options=IngestOptions(vectors=False))
        assert {finding.repair for finding in memory.examine()} == {"reembed"}
        assert memory.reembed(HashingEmbedder(64)) == 3
        assert memory.examine() == []
    with Memory.open(tmp_path, speak="weighed") as memory:
        assert memory.header.dimensions == 64
        assert memory.suggest("look", state="please help", policy="episodic")[0].tool == "buy"


def test_the_weight_of_an_edge_is_the_papers() -> None:
    """H-EPM 4.2, worked by hand: a->b in runs of 2 and 4 assistant turns, a->c in one of 2; c = 1.

    w'(a,b) = 2 + 1/2 + 1/4 = 2.75, w'(a,c) = 1 + 1/2 = 1.5, w(a,b) = 2.75 / 4.25.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder, Memory.open(folder, speak="weighed") as memory:
        memory.ingest([trajectory("r1", "a", "b"), trajectory("r2", "a", "b", "d", "e"), trajectory("r3", "a", "c")])
        weights = {s.tool: s.score for s in memory.suggest("a", policy="procedural")}
    assert weights["b"] == pytest.approx(2.75 / 4.25)
    assert weights["c"] == pytest.approx(1.5 / 4.25)


def test_a_suggestion_loads_nothing_of_what_runs_teach(tmp_path: Path) -> None:
    code = (
        "import sys; from hepm import Memory; memory = Memory.open(sys.argv[1]); memory.suggest('a'); memory.close();"
        "print([name for name in sys.modules if name.startswith(('hepm.experience', 'hepm.llm'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.hepm")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
