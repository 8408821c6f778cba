"""Which hints a rollout gets: draws, shares and policies (H-EPM 4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.lab.rl.guidance import Guidance, Guided
from hepm.lab.rl.rollout import Attempt, Player, Rollout
from hepm.types import SUMMARY_TOOL, ToolCall, Turn
from tests.lab.rl.playing import WORDS, desk, guessing, remembering


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory.open(tmp_path_factory.mktemp("guidance") / "m.hepm") as opened:
        yield remembering(opened, desk())


def test_of_ten_thousand_procedural_hints_p_skip_leaves_a_share(memory: Memory):
    guidance = Guidance(memory=memory, p_skip=0.8)
    shown = sum(not guidance.skips(f"task {number % 100}", number % 8, number // 100) for number in range(10_000))
    assert 1_920 <= shown <= 2_080


REQUEST = Turn("user", desk().tasks()[0].request)
LOOKED = Turn("assistant", "", (ToolCall(desk().desk.kinds[0].ways[0].tools[0], {}, "kept elsewhere"),))
SUMMARISED = Turn("assistant", "", (ToolCall(SUMMARY_TOOL, {"summary": REQUEST.text}, "Noted."),))


def test_an_episodic_hint_is_never_skipped_and_a_procedural_one_is_skipped_whole(memory: Memory):
    guidance = Guidance(memory=memory, p_skip=1.0)
    tools = desk().desk.tools
    assert guidance.hint([REQUEST, LOOKED], tools, "task", 0) == Guided()
    hinted = guidance.hint([REQUEST, LOOKED, SUMMARISED], tools, "task", 0)
    assert hinted.tools
    assert hinted.text.startswith("<hepm-memory>\nSuggested next tools: ")


def test_a_probability_beyond_one_is_refused(memory: Memory):
    with pytest.raises(InputError, match=r"p_skip is 1\.5"):
        Guidance(memory=memory, p_skip=1.5)


@pytest.mark.parametrize("policy", ["adaptive", "hybrid"])
def test_one_worker_and_eight_give_every_rollout_the_same_hints(memory: Memory, policy: str):
    environment = desk(2)
    guidance = Guidance(memory=memory, policy=policy, p_skip=0.5, share="half", seed=7)
    player = Player(environment=environment, dialect=WORDS, guidance=guidance, max_turns=8)
    attempts = [Attempt(task, index) for task in environment.tasks()[:4] for index in range(8)]
    together = player.play(attempts, guessing())
    with ThreadPoolExecutor(8) as pool:
        apart = [one for (one,) in pool.map(lambda attempt: player.play([attempt], guessing()), reversed(attempts))]
    assert [one.spans for one in together] == [one.spans for one in reversed(apart)]
    assert any(_hints(one) for one in together)
    assert not any(_hints(one) for one in together if one.attempt.index % 2)


def _hints(rollout: Rollout) -> list[tuple[int, ...]]:
    return [span.ids for span in rollout.spans if span.kind == "hint"]


def test_evaluation_has_no_hints(memory: Memory, tmp_path: Path):
    guidance = Guidance(memory=memory, policy="adaptive", p_skip=0.0)
    player = Player(environment=desk(), dialect=WORDS, guidance=guidance, max_turns=4)
    task = desk().tasks()[0]
    trained, tested = player.play([Attempt(task), Attempt(task, training=False)], guessing())
    assert trained.guided
    assert _hints(trained)
    assert not tested.guided
    assert not _hints(tested)
