"""Rows for a training of reflections, from sessions that a real server played, and their reward in TRL."""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hepm.lab.rl.reflections import REFLECTION_GRPO, REFLECTION_SFT, reflection_judge
from hepm.llm import Client, Endpoint
from tests.lab.collaboration.test_collaboration_simulator import collaborate, everyone, step_of
from tests.loopback import Loopback, Request, completion


@pytest.fixture
def rows(loopback: Loopback, tmp_path: Path) -> list[dict[str, Any]]:
    loopback.script = everyone
    assert collaborate(loopback, tmp_path / "f", "--arms", "off,notes").code == 0
    return [json.loads(line) for line in (tmp_path / "f" / "reflections.jsonl").read_text().splitlines()]


def test_each_session_that_enforced_a_preference_is_a_row_that_asks_what_the_agent_was_asked(
    loopback: Loopback, rows: list[dict[str, Any]]
) -> None:
    asked = [request.body["messages"] for request in loopback.requests if step_of(request) == "reflect"]
    # By hand: with notes each of the two users enforces in the first of three sessions.
    assert len(rows) == 2
    assert len(asked) == 6
    for row in rows:
        system, user = row["prompt"]
        [same] = [messages for messages in asked if user["content"].startswith(messages[1]["content"])]
        assert same[0] == system
        assert "Answer with one JSON object and nothing else" in user["content"]
        [wish] = row["enforced"]
        assert wish.startswith("I want: ")
        assert wish in user["content"]
        assert row["completion"] == [{"role": "assistant", "content": row["gold"]}]
        assert [note["text"] for note in json.loads(row["gold"])["notes"]] == wish.removeprefix("I want: ").split(" / ")


def test_a_reflection_that_notes_nothing_or_cannot_be_read_is_no_row(loopback: Loopback, tmp_path: Path) -> None:
    for place, text in {"nothing": '{"reasoning": "", "notes": [], "taken_back": []}', "unread": "perhaps"}.items():
        answer = completion(text)
        loopback.script = lambda request, answer=answer: answer if step_of(request) == "reflect" else everyone(request)
        assert collaborate(loopback, tmp_path / place, "--arms", "notes", "--tasks", "1").code == 0
        assert not (tmp_path / place / "reflections.jsonl").exists()


def judging(request: Request) -> Any:
    """3 for notes that hold a full stop, 0 for others; no grade for "silence"."""
    notes = request.body["messages"][1]["content"].partition("The notes:\n")[2].partition("\n")[0]
    if "silence" in notes:
        return completion("perhaps")
    return completion(json.dumps({"reasoning": "", "reflection_score": 3 * ("." in notes)}))


def test_a_group_of_rollouts_is_rewarded_by_the_judge_as_trl_asks_for_it(
    loopback: Loopback, rows: list[dict[str, Any]]
) -> None:
    loopback.script = judging
    row = rows[0]
    reasoned = json.dumps(json.loads(row["gold"]) | {"reasoning": "They said so."})
    said = [reasoned, "Be brief.", "be brief", "silence", ""]
    completions = [[{"role": "assistant", "content": text}] for text in said]
    columns = {name: [row[name]] * len(said) for name in ("enforced", "gold")}
    with Client(Endpoint("llama-3.3-70b", loopback.url)) as judge:
        reward = reflection_judge(judge)
        assert reward.__name__ == "reflection"
        assert reward(completions, **columns, trainer_state=None) == [4, 3, 0, None, 0]


pytestmark = [
    pytest.mark.xdist_group("torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_the_settings_of_table_5_are_arguments_of_trl(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    made = trl.GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **REFLECTION_GRPO)
    assert (made.max_steps, made.num_generations, made.beta, made.learning_rate) == (200, 8, 0.003, 1e-6)
    assert made.per_device_train_batch_size * made.gradient_accumulation_steps // made.num_generations == 64
    made = trl.SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **REFLECTION_SFT)
    assert (made.num_train_epochs, made.max_length) == (4, 32_768)
