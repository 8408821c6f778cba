"""A tiny language model for the service desks, and for questions in tags, and a training of it: seconds on a CPU.

It reads and writes words. It is pretrained on logs of agents that follow hints of any quality in most cases, as a model
of today does with what stands in its prompt.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final

from hepm.agents.wire import appended, tagged
from hepm.lab.desks import service_desk
from hepm.lab.desks.service_desk import CHECKS, CLOSINGS, LOOKUPS, Desk
from hepm.lab.desks.service_desk import DeskRun as Trouble
from hepm.lab.environments import Task, ToolFailed, tool_schema
from hepm.lab.environments.question_files import read_files
from hepm.lab.environments.questions import ISLAND
from hepm.lab.rl.dialect import Framed, ModelReply
from hepm.lab.rl.formats import Sampled, ToolCalls
from hepm.lab.rl.rollout import Attempt, Generate, Player, Rollout
from hepm.lab.rl.sft import example_of, example_spans
from hepm.lab.rl.spans import Row, row_of
from hepm.lab.rl.trl import MemoryRollouts, environment_reward
from hepm.types import (
    BLOCK_END,
    BLOCK_START,
    FAILED_HINT,
    HINT,
    SUMMARY_TOOL,
    Outcome,
    ToolCall,
    ToolName,
    Trajectory,
    Turn,
)  # fmt: skip

_SPECIAL: Final = ("<pad>", "<unk>", "<end>", "<user>", "<tool>", "<agent>", BLOCK_START, BLOCK_END)
_TOOLS: Final = sorted(
    {*service_desk.LOOKUPS, *service_desk.CHECKS, *service_desk.CLOSINGS, *service_desk.ACTS, SUMMARY_TOOL}
)
_TELLING: Final = {*service_desk.WORDS["nouns"], *service_desk.WORDS["adjectives"]}
_WORD: Final = re.compile(rf"{BLOCK_START}|{BLOCK_END}|\w+")

TAGS: Final = ("think", "search_experience", "search_knowledge", "answer", "experience", "information")
_TAG_OR_WORD: Final = re.compile(r"</?\w+>|[\w'-]+|[^\w\s]")
_THOUGHTS: Final = ("What helped before ?", "I look it up .", "That is it .")


class WordDialect:
    """Messages as the words of desks and agents; others and warnings are left out. A call is the name of a tool."""

    def __init__(self) -> None:
        self.words = (*_SPECIAL, *_TOOLS, "done", "kept", *sorted({*_TELLING, *service_desk.WORDS["items"]}))
        self.ids = {word: at for at, word in enumerate(self.words)}
        self.pad, self.end = self.ids["<pad>"], self.ids["<end>"]

    def opening(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Framed:
        del tools  # they are the same in all tasks
        return self.following(messages[-1:])

    def following(self, messages: Sequence[Mapping[str, Any]]) -> Framed:
        before: list[int] = []
        for message in messages:
            before += [self.ids[f"<{message['role']}>"], *self.encode(message["content"])]
        return Framed(before, [self.end, self.ids["<agent>"]])

    def encode(self, text: str) -> list[int]:
        text, opened, hint = text.partition(BLOCK_START)
        named = "" if FAILED_HINT in hint else hint.partition(";")[0]
        text += f" {opened} {named.removesuffix(BLOCK_END)} {BLOCK_END}" if opened and named else ""
        return [self.ids[word] for word in _WORD.findall(text) if word in self.ids]

    def read(self, ids: Sequence[int]) -> ModelReply:
        whole = bool(ids) and ids[-1] == self.end
        first, *rest = [self.words[id] for id in ids if id not in (self.end, self.pad)] or [""]
        if first not in _TOOLS:
            return ModelReply(" ".join([first, *rest]), (), whole)
        arguments = f'{{"summary": "{" ".join(rest)}"}}' if first == SUMMARY_TOOL else "{}"
        return ModelReply("", [(first, arguments)], whole)

    def write(self, reply: ModelReply) -> list[int]:
        return [*self.encode(" ".join(name for name, _ in reply.calls) or reply.text), self.end]

    def tokenizer(self) -> Any:
        """The same words as a tokenizer of `transformers`, which trainers want."""
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from tokenizers.pre_tokenizers import WhitespaceSplit
        from transformers import PreTrainedTokenizerFast

        made: Any = Tokenizer(WordLevel(self.ids, unk_token="<unk>"))
        made.pre_tokenizer = WhitespaceSplit()
        named = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>"}
        return PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **named)


class TagDialect(WordDialect):
    """Messages as the tags and the words of the island's questions and paragraphs; other words are left out."""

    def __init__(self) -> None:
        super().__init__()
        asked, paragraphs = read_files(ISLAND)
        texts = [f"{one.title} {one.text}" for one in paragraphs]
        texts += [" ".join((one.text, *one.answers, *one.searches)) for one in asked]
        texts += _THOUGHTS
        known = {word for text in texts for word in _TAG_OR_WORD.findall(text)}
        tags = [mark for tag in TAGS for mark in (f"<{tag}>", f"</{tag}>")]
        # Behind the words of desks, so that the end of a message has the same number.
        self.words = (*self.words, *tags, *sorted(known.difference(self.words)))
        self.ids = {word: at for at, word in enumerate(self.words)}

    def opening(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Framed:
        del tools
        return self.following(messages[-1:])  # without the instructions: this model learns them from examples

    def encode(self, text: str) -> list[int]:
        return [self.ids[word] for word in _TAG_OR_WORD.findall(text) if word in self.ids]

    def read(self, ids: Sequence[int]) -> ModelReply:
        whole = bool(ids) and ids[-1] == self.end
        return ModelReply(" ".join(self.words[id] for id in ids if id not in (self.end, self.pad)), (), whole)

    def write(self, reply: ModelReply) -> list[int]:
        return [*self.encode(reply.text), self.end]


class SummarisingPlayer(Player):
    """A player whose agent summarises in a fixed share of the turns of training, as its model cannot learn to.

    The words of a summary are those that name troubles in the conversation.
    """

    SHARE: Final = 0.15

    def play(self, attempts: Sequence[Attempt], generate: Generate) -> list[Rollout]:
        words: Any = self.dialect
        telling = {words.ids[word] for word in _TELLING}

        def or_summary(streams: list[list[int]]) -> list[Sampled]:
            summaries: dict[int, Sampled] = {}
            for at, stream in enumerate(streams):
                if words.ids[SUMMARY_TOOL] not in stream and Random(str(stream)).random() < self.SHARE:
                    said = [id for id in stream if id in telling][-3:]
                    summaries[at] = Sampled([words.ids[SUMMARY_TOOL], *said, words.end])
            rest = [stream for at, stream in enumerate(streams) if at not in summaries]
            sampled = iter(generate(rest) if rest else ())
            return [summaries.get(at) or next(sampled) for at in range(len(streams))]

        return super().play(attempts, or_summary if attempts and attempts[0].training else generate)


# Logs


def good_messages(task: Task) -> list[str]:
    """What an agent writes that searches principles, then for what the question needs, and answers."""
    queries = [str(call.arguments["query"]) for call in task.gold[0].calls]
    actions = [f"<search_experience> {task.request} </search_experience>"]
    actions += [f"<search_knowledge> {query} </search_knowledge>" for query in queries]
    actions.append(f"<answer> {task.gold[0].text} </answer>")
    thoughts = [_THOUGHTS[0], *[_THOUGHTS[1]] * len(queries), _THOUGHTS[2]]
    return [f"<think> {thought} </think> {action}" for thought, action in zip(thoughts, actions, strict=True)]


class DeskEpisode:
    """A run. Each trouble ends with its closing call, or after as many calls as a desk allows."""

    def __init__(self, desk: Desk, troubles: Sequence[Trouble], most_calls: int) -> None:
        self.tools = [tool_schema(tool, _ABOUT.get(tool, "act"), {}) for tool in desk.tools]
        self._troubles = troubles
        self._most = most_calls
        self._calls: tuple[str, ...] = ()
        self._solved: list[bool] = []

    @property
    def _finished(self) -> bool:
        return len(self._calls) >= self._most or self._now.kind.outcome(self._calls) is not None

    @property
    def _now(self) -> Trouble:
        return self._troubles[len(self._solved)]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the tool returns; ToolFailed for one that is not there, and once the trouble is closed."""
        if arguments or tool not in {schema["function"]["name"] for schema in self.tools}:
            raise ToolFailed(f"there is no tool {tool} with these arguments")
        # The agent has to answer before the next trouble begins.
        if self._finished:
            raise ToolFailed("this trouble is closed: answer the user")
        self._calls += (tool,)
        return str(self._now.messages(self._calls)[-1]["content"])

    def answer(self, text: str) -> str | None:
        """The next trouble, whether this one was solved or not; None after the last one."""
        del text
        self._solved.append(self._now.kind.outcome(self._calls) is True)
        self._calls = ()
        if len(self._solved) == len(self._troubles):
            return None
        return self._now.user

    def reward(self) -> float:
        """1 if all troubles were solved."""
        return float(sum(self._solved) == len(self._troubles))

    def scores(self) -> Mapping[str, float]:
        """The share of troubles that were solved, if there are several."""
        if len(self._troubles) == 1:
            return {}  # the reward says it
        return {"solved": sum(self._solved) / len(self._troubles)}

    def close(self) -> None:
        """Nothing is held."""


class DeskEnvironment:
    """Tasks of `troubles` troubles each, of kinds drawn by weight; test tasks in wordings that no log and no train task
    holds."""

    def __init__(self, desk: Desk, *, troubles: int = 1, train: int = 400, test: int = 96, most_calls: int = 6) -> None:
        self.desk = desk
        self.troubles = troubles
        self.most_calls = most_calls
        self.name = f"service-desk-{desk.seed}"
        self._tasks = {"train": train, "test": test}

    def tasks(self) -> Sequence[Task]:
        """Those to learn from, then those to test."""
        tasks: list[Task] = []
        for split, many in self._tasks.items():
            for number in range(many):
                id = f"{split}-{number}"
                tasks.append(Task(id, self._troubles(id)[0].user, family=id, split=split))
        return tasks

    def troubles_of(self, task: Task) -> Sequence[Trouble]:
        """The troubles of a task, in order."""
        return self._troubles(task.id)

    def start(self, task: Task, *, seed: int = 0) -> DeskEpisode:
        """A run; the troubles depend on the task alone."""
        del seed
        return DeskEpisode(self.desk, self.troubles_of(task), self.most_calls)

    def close(self) -> None:
        """Nothing is held."""

    def _troubles(self, id: str) -> list[Trouble]:
        """The troubles of the task "train-3"; the names of the episodes seed their wording."""
        split, _, number = id.partition("-")
        kinds = self.desk.kinds
        random = Random(f"{self.desk.seed} {split} {number}")
        drawn = random.choices(kinds, [kind.weight for kind in kinds], k=self.troubles)
        troubles: list[Trouble] = []
        for place, kind in enumerate(drawn):
            troubles.append(self.desk.episode(f"{split} {number} {place}", kind, seen=split == "train"))
        return troubles


# What a tool is for. Tools say no more: which act helps has to be learned.
_ABOUT: Final = {
    **dict.fromkeys(LOOKUPS, "look something up"),
    **dict.fromkeys(CHECKS, "check"),
    **dict.fromkeys(CLOSINGS, "close the case"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskAgents:
    """How the agents of a log behave.

    Attributes:
        skill: Share of the steps at which one does what works; else it follows its habits (`Desk.behaviour`).
        kept: Share of the solved troubles that stay in the log, of agents without hints.
        hinted: Share of the runs with hints, of which `right` name what works, and the others any tools.
        followed: Share of the hints that are followed.
    """

    skill: float = 0.0
    kept: float = 1.0
    hinted: float = 0.0
    right: float = 0.4
    followed: float = 0.7


def desk_log(environment: DeskEnvironment, agents: DeskAgents, *, runs: int, seed: int = 0) -> Iterator[Trajectory]:
    """Runs on the tasks of the train split: all troubles of each, also after one that was not solved."""
    random = Random(f"log {seed}")
    tasks = [task for task in environment.tasks() if task.split == "train"]
    for number in range(runs):
        task = tasks[number % len(tasks)]
        hinted, turns, all_solved = random.random() < agents.hinted, list[Turn](), True
        for trouble in environment.troubles_of(task):
            made, solved = _work(environment, trouble, agents, random, hinted=hinted)
            while solved and not hinted and random.random() >= agents.kept:
                made, solved = _work(environment, trouble, agents, random, hinted=hinted)
            turns, all_solved = [*turns, *made], all_solved and solved
        outcome = Outcome(float(all_solved), all_solved)
        yield Trajectory(f"log-{seed}-{number}", tuple(turns), outcome, environment=environment.name, task=task.id)


def _work(
    environment: DeskEnvironment, trouble: Trouble, agents: DeskAgents, random: Random, *, hinted: bool
) -> tuple[list[Turn], bool]:
    """One trouble: its turns, and whether it was solved."""
    turns, calls = [Turn("user", trouble.user)], tuple[ToolName, ...]()
    while trouble.kind.outcome(calls) is None and len(calls) < environment.most_calls:
        ahead = [way.next_tool(calls) for way in trouble.kind.ways if way.works]
        right = [tool for tool in ahead if tool is not None]
        weights = environment.desk.behaviour(trouble.kind, calls, ())
        tool = random.choices(list(weights), list(weights.values()))[0]
        if right and random.random() < agents.skill:
            tool = right[0]
        named: list[ToolName] = []
        if hinted:
            named = random.sample(environment.desk.tools, random.choice((1, 2)))
            named = right[:1] if right and random.random() < agents.right else named
            tool = random.choices(named, (3, 1)[: len(named)])[0] if random.random() < agents.followed else tool
        calls += (tool,)
        result = str(trouble.messages(calls)[-1]["content"])
        turns.append(Turn("assistant", "", (ToolCall(tool, {}, result, False),), hinted=tuple(named)))
    ignored = tuple(random.sample(environment.desk.tools, 1)) if hinted else ()  # a closed trouble needs no more calls
    return [*turns, Turn("assistant", "done", hinted=ignored)], trouble.kind.outcome(calls) is True


def rows_of(runs: Iterable[Trajectory]) -> list[Row]:
    """Runs as rows in words, with the hints that their agents read."""
    return [row_of(example_spans(example_of(with_hints(run)), WordDialect())) for run in runs]


def with_hints(run: Trajectory) -> Trajectory:
    """The run with each hint where its agent read it: behind the turn before the one that notes it as `hinted`."""
    turns: list[Turn] = []
    for turn in run.turns:
        if turn.hinted and turns:
            line = tagged(HINT + ", ".join(turn.hinted))
            before = turns[-1]
            if before.calls:
                last = replace(before.calls[-1], result=appended(before.calls[-1].result, line))
                turns[-1] = replace(before, calls=(*before.calls[:-1], last))
            else:
                turns[-1] = replace(before, text=appended(before.text, line))
        turns.append(turn)
    return replace(run, turns=tuple(turns))


# The model


def new_model(words: WordDialect | None = None, *, seed: int = 0) -> Any:
    """A transformer of 2 layers, untrained; with the words of desks it has 0.12 million weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = words or WordDialect()
    torch.manual_seed(seed)
    sizes = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokens = {"bos_token_id": None, "eos_token_id": words.end, "pad_token_id": words.pad}
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words.words), max_position_embeddings=1_024, tie_word_embeddings=True, **sizes, **tokens
        )
    )


def fit(model: Any, rows: Sequence[Row], *, epochs: int, seed: int = 0, rate: float = 3e-3) -> float:
    """Supervised training on the masked tokens of rows, in place; the loss of the last epoch."""
    import torch

    words, random, losses = WordDialect(), Random(seed), list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    steps = epochs * -(-len(rows) // 32)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.train()
    for _ in range(epochs):
        losses = []
        for batch in _batches(rows, random):
            length = max(len(row.prompt) + len(row.completion) for row in batch)
            ids = torch.full((len(batch), length), words.pad)
            labels = torch.full((len(batch), length), -100)
            for number, row in enumerate(batch):
                stream = torch.tensor([*row.prompt, *row.completion])
                trained = torch.tensor([*[0] * len(row.prompt), *row.mask]).bool()
                ids[number, : len(stream)] = stream
                labels[number, : len(stream)] = stream.where(trained, -100)
            ids, labels = ids.to(model.device), labels.to(model.device)
            loss = model(input_ids=ids, attention_mask=ids != words.pad, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return fmean(losses)


def _batches(rows: Sequence[Row], random: Random) -> list[Sequence[Row]]:
    """Batches of rows of about equal length, in random order, so that little of them is padding."""
    ordered = sorted(random.sample(rows, len(rows)), key=lambda row: len(row.prompt) + len(row.completion))
    batches: list[Sequence[Row]] = [ordered[at : at + 32] for at in range(0, len(ordered), 32)]
    return random.sample(batches, len(batches))


def sampler(model: Any, *, seed: int = 0, most: int = 6) -> Generate:
    """Samples messages of a model outside a trainer."""
    import torch

    words, generator = WordDialect(), torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def generate(streams: list[list[int]]) -> list[Sampled]:
        length = max(map(len, streams))
        padded = [[words.pad] * (length - len(stream)) + stream for stream in streams]
        ids = torch.tensor(padded, device=model.device)
        found: list[list[int]] = [[] for _ in streams]
        mask, cache, fresh = ids != words.pad, None, ids
        for _ in range(most):
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -fresh.shape[1] :]
            output = model(
                input_ids=fresh, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache = output.past_key_values
            chances = output.logits[:, -1].softmax(-1).cpu()  # where the generator is
            fresh = torch.multinomial(chances, 1, generator=generator).to(model.device)
            mask = torch.cat([mask, torch.ones_like(fresh, dtype=torch.bool)], 1)
            for message, token in zip(found, fresh[:, 0].tolist(), strict=True):
                if not message or message[-1] != words.end:
                    message.append(token)
            if all(message[-1] == words.end for message in found):
                break
        return [Sampled(message) for message in found]

    model.eval()
    return generate


def success_of(model: Any, environment: DeskEnvironment, *, split: str = "test", seed: int = 0) -> float:
    """Share of the tasks of a split that the model solves, without hints and without summaries."""
    player = Player(environment=environment, dialect=WordDialect(), format=ToolCalls(summaries=False), max_turns=60)
    attempts = [Attempt(task, training=False) for task in environment.tasks() if task.split == split]
    return fmean(rollout.reward for rollout in player.play(attempts, sampler(model, seed=seed)))


def grpo(
    folder: Path, rollouts: MemoryRollouts, tasks: Sequence[str], *, steps: int, seed: int = 0, **options: Any
) -> Any:
    """Train the model of a folder with GRPO, 8 rollouts of 8 tasks a step; the trainer afterwards.

    Args:
        tasks: Ids of tasks, in the order in which they are drawn from.
        options: Further settings of TRL's `GRPOConfig`.
    """
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

    settings: dict[str, Any] = {
        "per_device_train_batch_size": 64,
        "num_generations": 8,
        "max_completion_length": 6,
        "learning_rate": 5e-4,
        "beta": 0.001,  # a model made in memory has no reference: TRL loads that from the folder
        "loss_type": "grpo",
        "lr_scheduler_type": "constant",
        "max_steps": steps,
        "seed": seed,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
    }
    dialect: Any = rollouts.player.dialect
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=environment_reward,
        args=GRPOConfig(output_dir=str(folder / "trainer"), **(settings | options)),
        train_dataset=Dataset.from_dict({"prompt": [*tasks]}),
        processing_class=dialect.tokenizer(),
        rollout_func=rollouts,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer
