"""The arms of a bench: what an agent is shown beside its task, and the memory that knows it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

from hepm.agents.loop import Strategy
from hepm.agents.tagged import Knowledge
from hepm.agents.wire import Placement
from hepm.embed import Embedder
from hepm.embed.models import EndpointEmbedder, open_embedder
from hepm.errors import InputError
from hepm.evals.ablated import EpisodicElseProcedural, StatesOnly
from hepm.evals.baselines import Training
from hepm.evals.domains import DomainRun
from hepm.experience.model_distiller import RECORD_IS_DATA, quoted_run
from hepm.experience.prompt import Prompt, PromptOptions
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.ingest.pipeline import IngestReport
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.redact import Redactor
from hepm.lab.bench.digests import DigestedRuns, Digests, TextVectors, request_of
from hepm.lab.bench.planned import PlanGraph
from hepm.llm import Endpoint, Question, prompt_of
from hepm.memory import Memory
from hepm.memory.journal import Journal
from hepm.memory.sessions import Sessions
from hepm.policy import Adaptive, Floors, Policy, Procedural, Query
from hepm.types import DEFAULT_NAMESPACE, Suggestion, Suggestions, Trajectory

_NOTHING: Final = PromptOptions(suggestions=0, experiences=0, principles=0, recalled=0, notes=False)
_NO_FLOOR: Final = Floors(similarity=-1.0)
"""The paper compares states, and asks for no least similarity."""
_PUBLISHED: Final[Mapping[str, Policy]] = {
    "states": StatesOnly(_NO_FLOOR),
    "states-first": EpisodicElseProcedural(_NO_FLOOR),
    "weights": Procedural(floors=_NO_FLOOR),
    "weights-c0": Procedural(c=0, floors=_NO_FLOOR),
} | {f"adaptive-c{c}": Adaptive(c=c, floors=_NO_FLOOR) for c in (0, 1, 5, 10)}
"""H-EPM and its ablations as published, as policies of a bench: tables 4, 7 and 9."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the agent.

    Attributes:
        prompt: What memory says at each step.
        similar: Whole successful runs of similar tasks in the system prompt.
        reflects: Whether a failed trial leaves a reflection to the next trial of its task.
        tagged: Whether the agent acts by tags.
        searches: Whether the agent searches principles when it likes.
        knowledge: How an agent that acts by tags comes to knowledge.
        instruction: What is said in the system prompt, behind that of the task.
        learns_from: The arm whose runs on the train split its memory is made of, unless it learns online. From
            `SUMMARY`, it is H-EPM's: states are the agents' own summaries alone, and of each task the shortest
            successful run counts (4.1, D, E.1).
        placement: Where a hint goes: see `hepm.agents.wire.with_hint`. H-EPM's stand in the system prompt (E.1).
        plans: Whether the model writes a plan before each run, which GNN4Plan walks on the graph.
        chooses: Whether the agent's model chooses among the experiences found, each turn (PRIME, equation 9).
        digests: How a model digests the runs to learn from, for the system prompt; "" for not at all.
    """

    name: str
    about: str
    strategy: Strategy = "off"
    prompt: PromptOptions = _NOTHING
    similar: int = 0
    reflects: bool = False
    tagged: bool = False
    searches: bool = False
    knowledge: Knowledge = "searched"
    instruction: str = ""
    learns_from: str = "off"
    placement: Placement = "auto"
    plans: bool = False
    digests: Digests = ""
    chooses: bool = False

    @property
    def remembers(self) -> bool:
        """Whether it needs a memory."""
        return self.prompt != _NOTHING or self.similar > 0 or self.searches or bool(self.digests)

    @property
    def lessons(self) -> bool:
        """Whether the memory has to be distilled."""
        return self.prompt.experiences + self.prompt.principles > 0 or self.searches


OFF: Final = "off"
SUMMARY: Final = "summary"


ARMS: Final = {
    # arms.json has what differs from an arm without memory.
    record["name"]: Arm(**record | {"prompt": replace(_NOTHING, **record.get("prompt", {}))})
    for record in json.loads(Path(__file__).with_name("arms.json").read_text("utf-8"))
}
"""The arms by name. What stays out of "off" comes from memory, but for "reflexion"."""
ROUND_ARMS: Final = ("lessons", "chosen", "tagged")
"""The arms that an environment can be explored in, round by round."""


def find_arms(names: Iterable[str], *, trials: int, known: Mapping[str, Arm] = ARMS) -> list[Arm]:
    """Arms by name, each once; InputError for an unknown one, and for "reflexion" without a second trial."""
    once = list(dict.fromkeys(names))
    unknown = [name for name in once if name not in known]
    if unknown:
        raise InputError(f"no arm is called {', '.join(unknown)}. There are: {', '.join(known)}.")
    arms = [known[name] for name in once]
    if trials < 2 and any(arm.reflects for arm in arms):
        raise InputError("reflexion reflects on an earlier trial of the task: give --trials 2 or more.")
    return arms


class _UnstoredSessions(Sessions):
    """Sessions whose runs are handed out instead of stored.

    Attributes:
        taken: The ended runs, without secrets, by id, with the lessons that they were shown.
    """

    def __init__(self, memory: Memory, journal: Journal) -> None:
        super().__init__(memory, journal=journal, guard=False)
        self.taken: dict[str, tuple[Trajectory, tuple[str, ...]]] = {}

    def store(self, run: Trajectory, shown: Sequence[str] = (), **about: Any) -> IngestReport:
        """Keep a session's run, without secrets."""
        del about
        self.taken[run.id] = Redactor()(run), tuple(shown)
        return IngestReport()

    def distill_soon(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Nothing: no run is stored."""


class KnownMemory(Memory):
    """A memory that its sessions do not change: their runs are handed out, and learned from only by `learn`."""

    namespace = DEFAULT_NAMESPACE
    problem: Exception | None = None
    """What a session went on without a hint for."""
    own_states: bool = False
    """Whether states are the agents' own summaries alone."""
    says: Callable[[], str] | None = None
    """What another memory says in the place of this one."""

    def __init__(self, *args: Any, **about: Any) -> None:
        # For "weighed" hints the floor is lower than for "sure" ones.
        about["speak"] = "weighed"  # a model weighs what it reads
        about["approve"] = "auto"  # nobody is there to review what the experiment writes
        super().__init__(*args, **about)
        self._reading = Lock()
        self._planned: dict[str, Policy] = {}
        self._digested: dict[Digests, DigestedRuns] = {}
        self.sessions = self._unstored = _UnstoredSessions(self, self.sessions.journal)

    def take(self, id: str) -> tuple[Trajectory, tuple[str, ...]]:
        """The run of a finished session, and the ids of the lessons that it was shown."""
        return self._unstored.taken.pop(id)

    @cached_property
    def _training(self) -> Training:
        """All runs, by the labels that the store counts by."""
        graded = [run.graded(self.header.success_from) for run in self.runs(namespace=self.namespace)]
        return Training([DomainRun(run, run.environment, run.task, run.task) for run in graded])

    @cached_property
    def _solved(self) -> tuple[list[Trajectory], TextVectors]:
        """The successful runs, by id, to be found by their requests."""
        solved = [run.trajectory for run in self._training.successes]
        return solved, TextVectors(self.embedder, [request_of(run) for run in solved])

    def learn(self, runs: Sequence[Trajectory], *, distill: bool) -> None:
        """Store runs, so that the next hint knows them; with lessons, if they are to be distilled."""
        undated = [replace(run, ended_at=None) for run in runs]  # equal when it is resumed
        self.ingest(undated, namespace=self.namespace, options=IngestOptions(own_states=self.own_states))
        if distill:  # here, as what a background thread distills together depends on the time
            for lessons in (self.experiences, self.principles):
                lessons.distill(namespace=self.namespace)
        self.refresh()
        self.follow_now()
        # Read before these runs: read anew when they are next asked for.
        for read in ("_training", "_solved", "_graph"):
            self.__dict__.pop(read, None)

    @cached_property
    def _graph(self) -> PlanGraph:
        return PlanGraph(self.mirror(self.namespace), self.embedder)

    def plan(self, run: str, steps: Sequence[str]) -> str:
        """Walk the steps of a run's plan on the graph; returns the name of the policy that follows them."""
        with self._reading:
            self._planned[run] = self._graph.path(steps)
        return run

    def _policy(self, name: str, c: float, floors: Floors, mirror: NamespaceMirror) -> Policy:
        policy = self._planned.get(name) or _PUBLISHED.get(name)
        if policy is not None:
            return policy
        # Counted from whole runs, which the graph does not hold.
        if name == "toolnet":
            with self._reading:
                return _ToolNet(self._training)
        return super()._policy(name, c, floors, mirror)

    def suggest(self, after: Any = None, *, policy: Any = "hybrid", **about: Any) -> Suggestions:
        """As `Memory.suggest`; nothing at the start of a run where the paper says nothing."""
        # H-EPM suggests "after each tool invocation" (4.3).
        if policy in _PUBLISHED and not after:
            return Suggestions(abstained="no tool was called yet")
        return super().suggest(after, policy=policy, **about)

    def prompt(self, *args: Any, **about: Any) -> Prompt:
        """As `Memory.prompt`, with a note of what went wrong."""
        try:
            if self.says is not None:
                return Prompt(hint=self.says())
            return super().prompt(*args, **about)
        except Exception as error:
            self.problem = error
            raise

    def digested(self, digests: Digests) -> DigestedRuns:
        """What a model drew from runs; nothing before it learned some."""
        return self._digested.setdefault(digests, DigestedRuns(self.embedder, digests))

    def similar(self, request: str, k: int) -> str:
        """The k successful runs of other requests whose request is most similar, as text for a system prompt."""
        # Agents run in several threads: one reads the training runs, the others wait.
        with self._reading:
            solved, vectors = self._solved
        found = vectors.nearest(request, k)
        if not found:
            return ""
        runs = [f"Run {number}:\n{quoted_run(solved[index])}" for number, index in enumerate(found, 1)]
        return "\n\n".join([f"Similar tasks that were solved before. {RECORD_IS_DATA}", *runs])


@dataclass(frozen=True)
class _ToolNet:
    training: Training

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        del mirror  # scores are counted from whole runs, not taken from the graph
        # By the last call alone: ToolNet's graph is of first order.
        scores = self.training.toolnet.get(query.after[-1], {})
        ranked = sorted(filter(query.allows, scores), key=lambda tool: (-scores[tool], tool))
        suggestions = [Suggestion(tool, scores[tool], 0, 0.0, None, "counts") for tool in ranked[: query.k]]
        return Suggestions(tuple(suggestions))


@contextmanager
def scratch_memory(
    success_from: float | None = None, *, learns_from: str = OFF, embedder: Embedder | None = None
) -> Generator[KnownMemory]:
    """A memory in a temporary folder, which learns from runs of an arm: see `Arm.learns_from`."""
    # A memory of runs with summaries is H-EPM's own.
    own_states = learns_from == SUMMARY
    counting = "shortest" if own_states else "all"
    with (
        tempfile.TemporaryDirectory(prefix="hepm-bench-") as folder,
        KnownMemory.open(
            Path(folder) / "memory.hepm", embedder=embedder, counting=counting, success_from=success_from
        ) as memory,
    ):
        memory.own_states = own_states
        yield memory


@contextmanager
def open_known(store: str) -> Generator[KnownMemory]:
    """A store, opened so that its sessions change nothing in it."""
    # Sessions are kept elsewhere: a later process would take those beside the store for lost runs of its own.
    with (
        tempfile.TemporaryDirectory(prefix="hepm-bench-") as folder,
        KnownMemory.open(store, sessions=folder) as memory,
    ):
        yield memory


@contextmanager
def open_ready(name: str, endpoint: Endpoint) -> Generator[Embedder]:
    """The embedder of a name, which has embedded a text: what it lacks is said before a run is paid for."""
    embedder = open_embedder(name, base_url=endpoint.base_url, api_key=endpoint.api_key)
    with closing(embedder) if isinstance(embedder, EndpointEmbedder) else nullcontext():
        embedder.embed(["ready"])
        yield embedder


def reflection_on(run: Trajectory) -> Question[str]:
    """What a model is asked after a failed trial (after Reflexion, Shinn et al. 2023, in our own words)."""
    task = (
        "An agent that uses tools failed at a task, and will try again from the beginning. From the record of its run, "
        "say in at most five sentences what went wrong, and what it should do differently, as advice to the agent. "
    )
    return Question("reflexion", run.id, prompt_of(task + RECORD_IS_DATA, quoted_run(run)), str)


def advice(reflections: Sequence[str]) -> str:
    """Reflections on earlier trials, as text for a system prompt; "" without any."""
    if not reflections:
        return ""
    lines = [f"- {text}" for text in reflections]
    return "\n".join(("You tried this task before and failed. Your own advice:", *lines))
