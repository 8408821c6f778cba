"""Rollouts of an agent that acts by tags: spans, rewards, what memory learns, and the fields that trainers get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.agents.tagged import spans_of
from hepm.errors import InputError
from hepm.lab.environments import Task, find_environment
from hepm.lab.rl.dialect import ChatDialect, ModelReply
from hepm.lab.rl.formats import Sampled, Tags
from hepm.lab.rl.learning import PrincipleLearner
from hepm.lab.rl.rewards import tagged_reward
from hepm.lab.rl.rollout import Attempt, Player, Rollout
from hepm.lab.rl.sft import cold_start, example_spans
from hepm.lab.rl.spans import row_of
from hepm.lab.rl.trl import MemoryRollouts
from notebooks.desk_training import TagDialect, good_messages
from tests.lab.rl.test_trl import trainer_that

WORDS = TagDialect()
ENVIRONMENT = find_environment("questions")
TASKS = [task for task in ENVIRONMENT.tasks() if task.split == "train"]
TASK = TASKS[0]
RECALL = "<think> What helped before ? </think> <search_experience> Eagle Bridge </search_experience>"
SEARCH = "<think> I look it up . </think> <search_knowledge> Eagle Bridge </search_knowledge>"
ANSWER = "<think> That is it . </think> <answer> Eagle </answer>"


def message(text: str, *, whole: bool = True) -> Sampled:
    ids = WORDS.write(ModelReply(text))
    return Sampled(ids if whole else ids[:-1], [-0.5] * (len(ids) if whole else len(ids) - 1))


def play(*texts: str | Sampled, memory: Memory | None = None, task: Task = TASK, **limits: Any) -> Rollout:
    """A rollout in which the model says these texts."""
    said = iter([text if isinstance(text, Sampled) else message(text) for text in texts])
    player = Player(environment=ENVIRONMENT, dialect=WORDS, format=Tags(memory=memory), **limits)
    (rollout,) = player.play([Attempt(task)], lambda streams: [next(said)])
    return rollout


def written(ids: Sequence[int]) -> str:
    return " ".join(WORDS.words[id] for id in ids if id != WORDS.end)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """With a principle: a run succeeds by the tool Bridge, whose name is a word that the dialect has."""
    with Memory.open(tmp_path / "m.hepm", speak="weighed", approve="auto") as opened:
        for number in range(12):
            last = ("Bridge", "guess")[number % 2]
            with opened.session(task="known", environment="questions") as session:
                session.say("user", "In which town is the Eagle Bridge?")
                for call in ("search", last):
                    session.record(call, {"query": "Eagle Bridge"}, "a paragraph")
                session.finish(reward=float(last == "Bridge"))
        opened.sessions.wait_distilled()
        opened.principles.distill()
        opened.refresh()
        yield opened


def test_thoughts_and_actions_are_spans_of_their_own_and_what_came_back_is_out_of_the_loss(memory: Memory):
    rollout = play(RECALL, SEARCH, ANSWER, memory=memory)
    parts = [(span.kind, span.part) for span in rollout.spans if span.ids and span.kind != "user"]
    think, said = ("model", "think"), ["hint", "tool"]
    assert parts[:3] == [think, ("model", "search_experience"), (said[0], "")]
    assert [part for part in parts if part[0] == "model"] == [
        think, ("model", "search_experience"), think, ("model", "search_knowledge"), think, ("model", "answer"),
    ]  # fmt: skip
    assert {kind for kind, _ in parts} == {"model", *said}
    for absorb in (False, True):
        row = row_of(rollout.spans, absorb=absorb)
        trained = written([id for id, on in zip(row.completion, row.mask, strict=True) if on])
        assert ("<experience>" in trained) is absorb
        assert "<information>" not in trained
        if not absorb:
            assert trained == f"{RECALL} {SEARCH} {ANSWER}"
            assert row.logprobs is not None
        # Neither what frames a principle nor the mark behind which the model goes on.
        assert "<user>" not in trained
        assert "<agent>" not in trained


def test_the_record_of_a_rollout_is_that_of_a_tagged_agent_with_the_principles_it_read(memory: Memory):
    rollout = play(RECALL, SEARCH, ANSWER, memory=memory)
    run = PrincipleLearner(memory=memory, name="t", environment="questions").run_of(rollout, 0)
    assert [span.by for span in spans_of(run)] == ["prompt", "agent", "memory", "agent", "tool", "agent"]
    (recalled,) = [turn.recalled for turn in run.turns if turn.recalled]
    assert recalled
    assert [call.name for call in run.calls()] == ["search"]


INVENTED = " <information> invented </information> <answer> Eagle </answer>"


@pytest.mark.parametrize("whole", [True, False], ids=["ended", "cut by the limit of tokens"])
def test_what_stands_behind_the_first_action_is_cut_from_the_stream_and_never_trained(whole: bool):
    rollout = play(message(SEARCH + INVENTED, whole=whole), ANSWER)
    row = row_of(rollout.spans)
    stream = written(row.completion)
    assert stream.count("<answer>") == 1  # the second message's
    assert stream.startswith(f"{SEARCH} <user>")
    at = len(WORDS.write(ModelReply(SEARCH))) - 1
    assert (row.completion[at], row.mask[at]) == (WORDS.end, 0)  # set there, as the model did not end here
    assert [call.name for turn in rollout.turns for call in turn.calls] == ["search"]


def test_a_half_written_action_ends_the_rollout_and_a_whole_one_without_an_end_does_not():
    half = message("<think> I look it up . </think> <search_knowledge> Eagle", whole=False)
    cut = play(half)
    assert (cut.ended, tagged_reward(cut)) == ("cut", 0)
    assert not [call for turn in cut.turns for call in turn.calls]
    assert play(message(SEARCH, whole=False), ANSWER).ended == "answered"
    assert play(Sampled(())).ended == "cut"


def test_without_a_memory_a_search_of_principles_is_answered_by_the_form_and_is_no_action():
    rollout = play(RECALL, "Eagle", SEARCH, ANSWER)
    assert [bool(turn.read) for turn in rollout.turns if turn.is_step] == [True, True, False, False]
    assert "<experience>" not in str(rollout.turns)
    # Of the two valid texts: 2 thoughts .36, one kind of search .2.
    assert tagged_reward(rollout) == pytest.approx(0.1 * (0.36 + 0.2) / 2)


def test_the_reward_of_a_rollout_is_the_exact_match_and_a_tenth_of_its_form(memory: Memory):
    good = play(*good_messages(TASK), memory=memory)
    searches = len(TASK.gold[0].calls)
    think = (0.2, 0.36, 0.52, 0.68, 0.84, 1.0)[searches + 1]
    assert good.reward == 1
    assert tagged_reward(good) == pytest.approx(1 + 0.1 * (think + 0.5 + 0.1 * searches) / 2)
    assert tagged_reward(play(ANSWER, memory=memory)) == 0  # no search: no form, and it is wrong


def test_after_a_batch_memory_has_successes_and_failures_and_principles_are_credited_and_pruned(memory: Memory):
    learner = PrincipleLearner(memory=memory, name="t", environment="questions", prune_below=0.9)
    before = len(list(memory.runs()))
    batch = [play(RECALL, SEARCH, ANSWER, memory=memory), play(*good_messages(TASKS[1]), memory=memory, task=TASKS[1])]
    runs = [learner.run_of(rollout, 0) for rollout in batch]
    read = {id for run in runs for turn in run.turns for id in turn.recalled}
    assert learner.learn(runs) == 2
    assert len(list(memory.runs())) == before + 2
    assert read
    for id in read:
        assert memory.lessons.shown_in(id)
    # By score alone, as in the paper: all are below .9.
    live = memory.lessons.list("principle")
    assert not any(one.uses.score < 0.9 for one in live)
    assert learner.learn(runs) == 0


def test_a_trainer_gets_the_reward_of_the_rollout_and_absorbed_principles_count_in_its_mask(memory: Memory):
    player = Player(environment=ENVIRONMENT, dialect=WORDS, format=Tags(memory=memory), max_turns=2)
    about: Any = {"absorb": True, "reward": tagged_reward}
    said = message(RECALL)
    trl = MemoryRollouts(player, TASKS, **about)(
        [TASK.id], trainer_that(said, use_vllm=True, logprobs=[[-0.5] * len(said.ids)])
    )
    [rollout] = player.play([Attempt(TASK)], lambda streams: [said] * len(streams))
    assert trl["reward"] == [tagged_reward(rollout)]
    masked = MemoryRollouts(player, TASKS, reward=tagged_reward)([TASK.id], trainer_that(said))
    assert sum(masked["env_mask"][0]) < sum(trl["env_mask"][0])


def test_cold_start_examples_of_rollouts_are_the_rows_of_these_rollouts(memory: Memory):
    rollout = play(*good_messages(TASK), memory=memory)
    learner = PrincipleLearner(memory=memory, name="cold", environment="questions")
    learner.learn([learner.run_of(rollout, 0)])
    (example,) = cold_start(memory)
    row = row_of(example_spans(example, WORDS))
    trained = written([id for id, on in zip(row.completion, row.mask, strict=True) if on])
    assert trained == written(WORDS.encode(" ".join(good_messages(TASK))))


def bytes_dialect() -> ChatDialect:
    """A chat template over byte pairs, with which a token may end inside a letter or span two words."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    pairs: Any = Tokenizer(models.BPE())
    pairs.pre_tokenizer, pairs.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], initial_alphabet=alphabet)  # pyright: ignore
    pairs.train_from_iterator([f"{RECALL}\n{SEARCH}"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token="<end>")
    tokenizer.chat_template = "{% for m in messages %}{{m['role']}}: {{m['content']}}<end>\n{% endfor %}"
    return ChatDialect(tokenizer)


def test_messages_of_byte_pairs_part_at_the_same_letters_and_lose_no_token():
    dialect = bytes_dialect()
    think, action = "<think>Größe 日本 🙂</think>", "\n<search_knowledge>Eagle Bridge 🙂</search_knowledge>"
    texts = [f"{think}{action} <information>日本</information>", f"  {think} \n{action}\n", ANSWER]
    written_messages = [Sampled(dialect.write(ModelReply(text))) for text in texts]
    said = iter(written_messages)
    player = Player(environment=ENVIRONMENT, dialect=dialect, format=Tags())
    (rollout,) = player.play([Attempt(TASK)], lambda _: [next(said)])
    spans = [span for span in rollout.spans if span.kind == "model"]
    assert [dialect.read(span.ids).text for span in spans[:4]] == [think, action.strip(), think, action.strip()]
    cut, *whole = written_messages
    assert (*spans[0].ids, *spans[1].ids) == (*cut.ids,)[: len(spans[0].ids) + len(spans[1].ids)]
    assert [(*spans[at].ids, *spans[at + 1].ids) for at in (2, 4)] == [(*message.ids,) for message in whole]
    assert [call.arguments["query"] for turn in rollout.turns for call in turn.calls] == ["Eagle Bridge 🙂"] * 2


def test_a_chat_template_that_shows_no_tools_is_refused_where_tools_are_called():
    environment = find_environment("functions")
    player = Player(environment=environment, dialect=bytes_dialect())
    with pytest.raises(InputError, match="leaves tools out"):
        player.play([Attempt(environment.tasks()[0])], lambda streams: [Sampled(())] * len(streams))
