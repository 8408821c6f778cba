"""Run the arms of a bench on the tasks of an environment, paired by task and seed.

What memory may know of a task is never the task itself: it holds runs of the published train split, of other families,
or, online, of earlier tasks (H-EPM, C.1).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, partial
from itertools import chain, product
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from hepm.agents.loop import Agent, Done
from hepm.agents.tagged import TaggedAgent
from hepm.agents.wire import Object
from hepm.embed import Embedder
from hepm.errors import AnswerError, BudgetSpentError, EndpointRefusedError, HepmError
from hepm.evals.domains import folds_of
from hepm.evals.metrics import entropy_of
from hepm.evals.report import rounded
from hepm.experience.judge import OutcomeJudge
from hepm.lab.bench.arms import ARMS, Arm, KnownMemory, advice, reflection_on, scratch_memory
from hepm.lab.bench.folder import Ended, Facts, Folder, Key
from hepm.lab.bench.models import Model, StoppedError
from hepm.lab.bench.planned import plan_of, steps_in
from hepm.lab.bench.report import report_on, tables
from hepm.lab.environments import Environment, Episode, PlayedUser, Task, place_of
from hepm.llm import Endpoint, Question
from hepm.types import SUCCESS_FROM, SUMMARY_TOOL, Outcome, Trajectory

if TYPE_CHECKING:
    from rich.table import Table

_log = logging.getLogger("hepm")
Learning: TypeAlias = Literal["train", "online"]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """How to run.

    Attributes:
        learn: Where memory comes from, if none is given. "train": from runs without memory on the published train
            split, or else on the task families of other folds. "online": from the arm's own earlier runs.
        judge: Whether the model labels the runs that memory learns from (online: H-EPM, C.1); the environment's reward
            does otherwise.
        embedder: Of the memory that is learned; None for the default of a new store.
        rollouts: Runs of each task that memory learns from, on the train split (H-EPM, D: 3); 0 for as many as trials.
        options: Further arguments of each request.
        turn_rewards: Whether each turn is stored with what it added to the reward.
        success_from: The reward from which on a run is a success.
    """

    arms: Sequence[Arm]
    learn: Learning = "train"
    judge: bool = False
    embedder: Embedder | None = None
    trials: int = 1
    rollouts: int = 0
    concurrency: int = 4
    folds: int = 5
    seed: int = 0
    max_turns: int = 30
    options: Mapping[str, Any] = field(default_factory=Object)
    turn_rewards: bool = False
    success_from: float = SUCCESS_FROM


@dataclass
class Stream:
    """Runs made one after another, with what they share: trials that reflect, or the tasks of an online memory."""

    keys: Sequence[Key]
    memory: KnownMemory
    reflections: list[str] = field(default_factory=list[str])


@dataclass(eq=False)
class Bench:
    """Runs that are made or known.

    Attributes:
        tested: The tasks to report on.
        given: A memory to use as it is, instead of learning one.
        training: Tasks to learn from: those of the train split; where none is published, the tested ones, whose
            families are held apart.
        ended: All finished runs, those on tasks of the train split included.
        failed: Why a run could not be finished. Repeating the command tries it again.
        unreflected: Sessions after which a model's notes could not be read, so that the old ones stayed.
        families: The family of each tested task, where families are resampled in place of tasks.
    """

    environment: Environment
    tested: Sequence[Task]
    folder: Folder
    endpoint: Endpoint
    options: BenchOptions
    _: KW_ONLY
    given: KnownMemory | None = None
    training: Sequence[Task] = ()
    what: ClassVar = "run"
    at_once: ClassVar = False
    """Whether all arms are made task by task: no arm learns from the runs of another."""
    has_sessions: ClassVar = False
    """Whether the trials of a task are sessions of one user: reported one by one, with the user's effort."""
    not_compared: ClassVar[Sequence[str]] = ()
    """Arms that no sentence compares."""
    unreflected: int = 0

    def __post_init__(self) -> None:
        self.tasks = {task.id: task for task in self.environment.tasks()}
        if not self.training:
            self.training = [task for task in self.tasks.values() if task.split == "train"] or self.tested
        self._arms = ARMS | {arm.name: arm for arm in self.options.arms}
        self.ended: dict[Key, Ended] = self.folder.runs()
        self.failed: dict[Key, str] = {}
        self.families: Mapping[str, str] = {}
        self._lock = Lock()

    @property
    def learns_online(self) -> bool:
        """Whether each arm learns from its own runs, one after another."""
        return self.given is None and self.options.learn == "online"

    @property
    def _learns_before(self) -> bool:
        return self.given is None and self.options.learn == "train"

    @property
    def arms(self) -> list[str]:
        """The names of the arms."""
        return [arm.name for arm in self.options.arms]

    def arm_of(self, key: Key) -> Arm:
        """The arm of a run, which may be one that only memory learns from."""
        return self._arms[key.arm]

    def plan(self) -> tuple[list[Key], list[Key]]:
        """The runs without memory, and those with it, in the order they are begun."""
        if self.at_once:
            return self._keys(self.arms, self.tested), []
        remembering = [arm for arm in self.options.arms if arm.remembers]
        plain = [arm.name for arm in self.options.arms if not arm.remembers]
        first: list[Key] = []
        if self._learns_before:
            # Arms whose runs are learned from, each once, in order.
            sources = dict.fromkeys(arm.learns_from for arm in remembering)
            first = self._keys([*sources], self.training, self.options.rollouts)
        first += self._keys(plain, self.tested)
        # Where no train split is published, runs without memory are both: learned from, and reported on.
        return list(dict.fromkeys(first)), self._keys([arm.name for arm in remembering], self.tested)

    def _keys(self, arms: Sequence[str], tasks: Sequence[Task], times: int = 0) -> list[Key]:
        """Task by task, so that a bench that is stopped has finished the first tasks in all arms."""
        trials = range(times or self.options.trials)
        return [Key(arm, task.id, trial) for task, trial, arm in product(tasks, trials, arms)]

    def waiting(self) -> list[Key]:
        """The runs that are not there yet."""
        return [key for key in chain(*self.plan()) if key not in self.ended]

    def outcome(self) -> tuple[Object, Sequence[Table | str]]:
        """What it came to: as `hepm bench --json` prints it, and for people."""
        report = report_on(self)
        return rounded(report), tables(report)

    def play(self, model: Model) -> None:
        """Make the runs that are not there yet.

        Raises:
            EndpointRefusedError: the endpoint answers no request.
            BudgetSpentError: the budget has no room for the next request.
        """
        self._model = model
        first, second = self.plan()
        total = len(first) + len(second)
        with ExitStack() as stack:
            nothing = stack.enter_context(scratch_memory(self.options.success_from))
            self._play(first, lambda key: nothing, total)
            if self.failed and self._learns_before:
                return  # memory would lack runs that it has when the command is repeated
            if second:
                self._play(second, self._memories(stack), total)

    def _chain_of(self, key: Key) -> object:
        """Each run by itself, but trials of a task in order where an arm reflects on the one before.

        Online, all tasks of an arm follow one another, each trial with a memory of its own.
        """
        arm = self.arm_of(key)
        if self.learns_online and arm.remembers:
            return key.arm, key.trial
        return (key.arm, key.task) if arm.reflects else key

    def _memories(self, stack: ExitStack) -> Callable[[Key], KnownMemory]:
        """The memory for each chain of runs: the given one, an empty one that learns online, or one of the train split,
        or of the other folds of families."""
        options, given = self.options, self.given
        if given is not None:
            return lambda key: given

        def empty(source: str) -> KnownMemory:
            return stack.enter_context(
                scratch_memory(options.success_from, learns_from=source, embedder=options.embedder)
            )

        if self.learns_online:
            return lambda key: empty(self.arm_of(key).learns_from)
        # A task without a family is one of its own.
        family_of = {task.id: task.family or task.id for task in self.tested}
        fold_of_family = folds_of({*family_of.values()}, options.folds if self.training is self.tested else 1)
        fold_of = {task: fold_of_family[family] for task, family in family_of.items()}

        @cache
        def learned(source: str, fold: int) -> KnownMemory:
            memory = empty(source)
            known = [
                self.ended[key].run
                for key in self._keys([source], self.training, options.rollouts)
                # Of a fold's own families nothing is learned: a sister task would tell the answer.
                if key in self.ended and fold_of.get(key.task) != fold
            ]
            self._teach(memory, known, [arm for arm in options.arms if arm.remembers and arm.learns_from == source])
            return memory

        return lambda key: learned(self.arm_of(key).learns_from, fold_of[key.task])

    def _teach(self, memory: KnownMemory, runs: Sequence[Trajectory], arms: Sequence[Arm]) -> None:
        """Store runs, with what the arms need of them."""
        memory.learn(runs, distill=any(arm.lessons for arm in arms))
        labelled = [replace(run, outcome=run.outcome.graded(self.options.success_from)) for run in runs]
        for arm in arms:
            if arm.digests:
                memory.digested(arm.digests).learn(labelled, self._model.client)

    def _labelled(self, run: Trajectory) -> Trajectory:
        """The run with the label that memory learns from."""
        client = self._model.client
        if not self.options.judge or client is None:
            return run
        # Without the reward of the environment, which the judge must not see.
        unlabelled = replace(run, outcome=Outcome())
        for verdict in OutcomeJudge(self._model.judge or client).verdicts([unlabelled]):
            if verdict.success is not None:
                return verdict.labelled
        return unlabelled

    def _play(self, keys: Sequence[Key], memory: Callable[[Key], KnownMemory], total: int) -> None:
        """Runs of one chain follow each other; chains are made side by side."""
        chains: defaultdict[object, list[Key]] = defaultdict(list)
        for key in keys:
            chains[self._chain_of(key)].append(key)
        jobs = [partial(self._play_stream, Stream(chain, memory(chain[0])), total) for chain in chains.values()]
        self._model.run_all(jobs, concurrency=self.options.concurrency)

    def _play_stream(self, stream: Stream, total: int) -> None:
        for key in stream.keys:
            try:
                ended = self._learned(stream, self._found(key) or self._run(key, stream))
            except (EndpointRefusedError, BudgetSpentError):
                raise
            except StoppedError:
                return
            except Exception as error:  # the other runs go on; an environment may raise anything
                _log.debug("the run %s broke off", key, exc_info=True)
                self.failed[key] = str(error)
                if not isinstance(error, HepmError):
                    self.failed[key] = f"{type(error).__name__}: {error}"
                return  # what follows in this stream depends on it
            with self._lock:
                if key not in self.ended:
                    self.folder.add_run(ended)
                    self.ended[key] = ended
                self._model.on_run(len(self.ended), total)

    def _found(self, key: Key) -> Ended | None:
        """A run that need not be made again."""
        return self.ended.get(key)

    def _learned(self, stream: Stream, ended: Ended) -> Ended:
        """The run, once the next ones of its stream know what they are to know of it."""
        arm = self.arm_of(ended.key)
        if self.learns_online and arm.remembers:
            self._teach(stream.memory, [self._labelled(ended.run)], [arm])
        if arm.reflects and not ended.facts.success and ended.key != stream.keys[-1]:
            stream.reflections += filter(None, [self._asked(reflection_on(ended.run))])
        return ended

    def _asked(self, question: Question[str]) -> str:
        """What the model says to a question; "" without a model, or an answer of it."""
        client = self._model.client
        if client is None:
            return ""
        try:
            return client.ask(question)
        except AnswerError:
            return ""

    def _run(self, key: Key, stream: Stream) -> Ended:
        """Make one run."""
        task = self.tasks[key.task]
        episode = self._start(key, task, stream)
        try:
            # Where a model plays the user, it begins: an empty answer asks for its first message.
            request = task.request or episode.answer("") or ""
            id = f"{self.environment.name}/{self.endpoint.model}/{key}"
            done = self._agent(key, task, request, id, stream, episode).run(
                request,
                answer=episode.answer,
                outcome=lambda done: float(episode.reward()),
                id=id,
                environment=place_of(self.environment, task),
                namespace=stream.memory.namespace,
                **self._about(key),
            )
            scores = dict(episode.scores())
        finally:
            episode.close()
        run, shown_lessons = stream.memory.take(done.id)
        if stream.memory.problem is not None:
            raise stream.memory.problem  # what an agent does without hints is no run of this arm
        run = replace(run, tags={**run.tags, "arm": key.arm, "trial": str(key.trial)})
        return Ended(key, self._facts(key, run, done, shown_lessons, scores), run)

    def _about(self, key: Key) -> Mapping[str, str]:
        """The task of a run, as it is stored, and its user."""
        return {"task": key.task}

    def _start(self, key: Key, task: Task, stream: Stream) -> Episode:
        del stream
        # The same seed in each arm: arms are compared on the same draws.
        seed = self.options.seed + key.trial
        if isinstance(self.environment, PlayedUser):
            return self.environment.start(task, seed=seed, ask=self._model.recorded_user(key))
        return self.environment.start(task, seed=seed)

    def _agent(self, key: Key, task: Task, request: str, id: str, stream: Stream, episode: Episode) -> Agent:
        """The agent of an arm, with what its system prompt says of earlier runs."""
        arm = self.arm_of(key)
        memory = stream.memory
        prompt = arm.prompt
        if arm.plans:
            steps = steps_in(self._asked(plan_of(key.task, request, task.system)))
            prompt = replace(prompt, policy=memory.plan(id, steps))
        if arm.chooses:
            prompt = replace(prompt, model=self._model.client)
        system = [part for part in (task.system, arm.instruction, self._shown(key, request, stream)) if part]
        kind: Callable[..., Agent] = Agent
        if arm.tagged:
            kind = partial(TaggedAgent, searches=arm.searches, knowledge=arm.knowledge)
        return kind(
            endpoint=self.endpoint,
            memory=memory,
            tools=lambda: list(episode.tools),  # asked each turn: some environments offer more as a task goes on
            execute=episode.call,
            system="\n\n".join(system),
            strategy=arm.strategy,
            placement=arm.placement,
            prompt_options=prompt,
            max_turns=self.options.max_turns,
            options=self.options.options,
            complete=self._model.recorded(key, task),
            reward=episode.reward if self.options.turn_rewards else None,
        )

    def _shown(self, key: Key, request: str, stream: Stream) -> str:
        """What the system prompt says of earlier runs."""
        arm = self.arm_of(key)
        # No arm has more than one of the three.
        if arm.similar:
            return stream.memory.similar(request, arm.similar)
        if arm.digests:
            return stream.memory.digested(arm.digests).about(request)
        return advice(stream.reflections)

    def _facts(
        self, key: Key, run: Trajectory, done: Done, lessons: tuple[str, ...], scores: Mapping[str, float]
    ) -> Facts:
        # Not its notes to itself, which are no actions.
        calls = [call for call in run.calls() if call.name != SUMMARY_TOOL]
        moves = [move_of(message) for message in done.messages if message["role"] == "assistant"]
        # Endpoints without log-probabilities give no first token.
        entropies = [entropy_of(step.first_token) if step.first_token else None for step in done.steps]
        return Facts(
            reward=run.outcome.reward or 0.0,
            success=run.outcome.graded(self.options.success_from).success is True,
            turns=done.turns,
            calls=len(calls),
            errors=sum(call.error is True for call in calls) + done.malformed,
            moves=tuple(moves),
            hints=tuple(step.hint for step in done.steps),
            memory_s=tuple(step.memory_s for step in done.steps),
            usage=self.folder.usage(key),
            lessons=lessons,
            scores=scores,
            entropies=tuple(entropies),
        )


def move_of(message: Object) -> str:
    """What a message did: `search({"q": "tea"})` for each call, one a line, else its text."""
    calls: list[str] = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        calls.append(f"{function['name']}({function['arguments']})")
    return "\n".join(calls) or str(message.get("content") or "")
