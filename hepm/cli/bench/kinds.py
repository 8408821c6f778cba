"""What a call of `hepm bench` plays: whole tasks, rounds, sessions of users or points of recorded runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from click.exceptions import Exit

from hepm.cli.bench import AgentOptions, LearningOptions, PlayOutcome, Shared
from hepm.cli.options import (
    Bar,
    check_store,
    json_or_text,
    known_namespace,
    names_in,
    pairs,
    refuse,
    remark,
    remark_unusable,
    sole_namespace,
)
from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError
from hepm.lab.bench.arms import ROUND_ARMS, Arm, KnownMemory, find_arms, open_known, open_ready, scratch_memory
from hepm.lab.bench.explore import Exploration, RoundReport
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import open_model
from hepm.lab.bench.play import Bench, BenchOptions
from hepm.lab.bench.replay import ReplayBench, hints_at, point_arms
from hepm.lab.collaboration.environment import UsersEnvironment
from hepm.lab.collaboration.play import USER_ARMS, UserBench
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.lab.environments.recorded import Point, RecordedRuns
from hepm.llm import Endpoint
from hepm.text import count_of
from hepm.types import SUCCESS_FROM, Object

Made = TypeVar("Made", bound=Bench)


@dataclass
class BenchCommand:
    """One call of `hepm bench`, with its options."""

    environment: Environment
    endpoint: Endpoint
    stack: ExitStack
    agent: AgentOptions
    learning: LearningOptions
    shared: Shared
    arms: str | None
    trials: int | None
    rounds: int
    seed: int
    folder: Path | None
    dry_run: bool

    def outcome(self) -> PlayOutcome:
        """Play the bench; in a dry run, say how many runs are not there yet."""
        made = self._bench()
        if self.dry_run:
            number = len(made.waiting())
            line = f"{count_of(number, made.what)} would be played, in {self.place}: --budget limits what that takes"
            return PlayOutcome({"dry_run": True, f"{made.what}s": number}, [line])
        budget, prices = self.shared.limits
        before = budget.paid_before
        asked = self.endpoint.model
        judge = None
        ending = None
        if isinstance(self.environment, PlayedUser):
            asked += f" and {self.environment.user.model}"
        if self.learning.distiller or self.shared.judge:
            judge = replace(self.endpoint, model=self.learning.distiller or self.shared.judge)
        with Bar(f"{made.what}s") as bar:
            opened = open_model(
                self.endpoint,
                made.folder,
                budget=budget,
                prices=prices,
                environment=self.environment,
                judge=judge,
                on_run=bar.show,
            )
            model = self.stack.enter_context(opened)
            try:
                made.play(model)
            except (BudgetSpentError, EndpointRefusedError) as error:
                ending = error  # what was answered is reported first
        # Also after an early end: the runs that were played can be ingested.
        made.folder.export()
        remark(f"asked {asked}: {budget.line()}; what it answered is in {made.folder.path}")
        document, parts = made.outcome()
        # Runs that broke off leave their round unfinished: repeating the command tries them again.
        if isinstance(made, Exploration) and len(made.rounds) < made.number:
            ending = ending or Exit(1)
        # Answers that were in the folder when the command began.
        return PlayOutcome(document | {"paid_before": budget.paid_before - before}, parts, ending)

    def _bench(self) -> Bench:
        if isinstance(self.environment, UsersEnvironment):
            return self._users(self.environment)
        if isinstance(self.environment, RecordedRuns):
            return self._points(self.environment)
        return self._rounds() if self.rounds else self._tasks()

    def _tasks(self) -> Bench:
        """Each arm on each task."""
        learning = self.learning
        if learning.memory:
            self._refuse_unused("benches with --memory", "memory", "namespace", "rollouts")
        else:
            self._refuse_unused("benches without --rounds", "memory", "namespace", "rollouts", "learn_from", "embedder")
        trials = self.trials or 1
        arms = find_arms(names_in(self.arms or "off,hybrid"), trials=trials)
        given = self._given(arms)
        learn_from = learning.learn_from or "train"
        embedder = None
        if learning.embedder is not None:
            embedder = self.stack.enter_context(open_ready(learning.embedder, self.endpoint))
        # A given memory has judged its runs by its own limit already.
        success_from = given.header.success_from if given else SUCCESS_FROM
        options = self._options(
            arms,
            turns=30,
            learn="online" if learn_from.startswith("online") else "train",
            judge=learn_from == "online-judged",
            embedder=embedder,
            trials=trials,
            rollouts=learning.rollouts or 0,
            success_from=success_from,
        )
        tasks = self.environment.tasks()
        held_out = [task for task in tasks if task.split != "train"]
        # Never those of a train split that memory learns from. A given memory may have been made of that split: then
        # its tasks are played when they are named.
        if held_out and options.learn == "train" and not (given and self.agent.tasks):
            tasks = held_out
        tasks = chosen_tasks(tasks, self.agent.tasks or "*")
        # What shapes the answers. Arms can be added later, and with a given memory also tasks and trials.
        if given:
            settings = {"memory": f"{learning.memory} {given.namespace}, revision {given.header.revision}"}
        else:
            settings: Object = {
                "memory": f"learned from {options.learn}",
                "judge": self.shared.judge or options.judge,
                "trials": trials,
                "tasks": sorted(task.id for task in tasks),
            }
        return self._made(Bench, tasks, options, settings, given=given)

    def _given(self, arms: Sequence[Arm]) -> KnownMemory | None:
        """The memory of --memory, opened so that nothing is written to it."""
        store = self.learning.memory
        if not store:
            return None
        # These put a digest of the runs to learn from into the system prompt.
        digesting = [arm.name for arm in arms if arm.digests]
        refuse(digesting, "--memory", f"{', '.join(digesting)} digest the runs of this bench: leave --memory out")
        if self.dry_run:
            return self._open_memory()  # rounds may still have to fill it
        check_store(store)
        memory = self._open_memory()
        memory.namespace = known_namespace(memory, self.learning.namespace, store)
        return memory

    def _rounds(self) -> Exploration:
        """Rounds of runs, each with the lessons of those before."""
        learning = self.learning
        names = names_in(self.arms or "lessons")
        fits = len(names) == 1 and names[0] in ROUND_ARMS
        refuse(not fits, "--arms", f"rounds are made in one arm: {', '.join(ROUND_ARMS)}")
        self._refuse_unused("rounds", "memory", "namespace", "rollouts", "distiller", "prune_below", "rounds")
        missing = "name the store that rounds are learned into; it is made if it is missing"
        refuse(not learning.memory, "--memory", missing)
        # Of a train split, where one is published: the other tasks are for a bench with what was learned.
        tasks = self.environment.tasks()
        tasks = chosen_tasks([task for task in tasks if task.split == "train"] or tasks, self.agent.tasks or "*")
        options = self._options(
            find_arms(names, trials=1),
            turns=16,  # PRIME, table 2; and 100 runs in each environment, over all rounds
            temperature=1.0,  # runs of a task differ, so that they can be compared
            rollouts=learning.rollouts or -(-100 // self.rounds),
            turn_rewards=True,
        )
        settings: Object = {"arm": names[0], "rounds": self.rounds, "tasks": sorted(task.id for task in tasks)}
        made = self._made(
            Exploration,
            tasks,
            options,
            settings,
            number=self.rounds,
            distiller=bool(learning.distiller),
            prune_below=learning.prune_below,
            on_round=_print_round,
        )
        # Once the folder is made, in which it may lie.
        made.given = memory = self._open_memory()
        memory.namespace = learning.namespace or sole_namespace(memory.namespaces())
        return made

    def _users(self, environment: UsersEnvironment) -> UserBench:
        """Sessions of simulated users."""
        self._refuse_unused("users")
        trials = self.trials or 5
        arms = find_arms(names_in(self.arms or "off,history,notes"), trials=trials, known=USER_ARMS)
        tasks = chosen_tasks(environment.tasks(), self.agent.tasks or "20")
        # Only the name: the same problems may lie elsewhere at the next call.
        problems = [Path(environment.file).name] if environment.file else []
        options = self._options(arms, turns=10, trials=trials)  # replies in a session (MultiSessionCollab 5)
        return self._made(UserBench, tasks, options, {"problems": problems})

    def _points(self, environment: RecordedRuns) -> ReplayBench:
        """The next call at points of recorded runs."""
        self._refuse_unused("recorded runs")
        arms = point_arms(names_in(self.arms or "off,hybrid,weight,lessons"))
        if not environment.points:
            raise InputError("no failed run diverges from a successful one of its task.")
        remark_unusable(environment.rejected)
        wanted = self.agent.tasks or "100"  # of each environment that runs were recorded in
        # "50" is a number of points of each domain, "refund*" a pattern of their names.
        if wanted.isdecimal():
            chosen: Sequence[Point] = environment.drawn(int(wanted), seed=self.seed)
        else:
            names = {task.id for task in chosen_tasks(environment.tasks(), wanted)}
            chosen = [point for point in environment.points if point.key in names]
        hints = hints_at(environment.domains, chosen, arms)
        # At 0 a changed call is the hint's doing.
        options = self._options(arms, turns=1, temperature=0.0)
        return self._made(ReplayBench, [point.task for point in chosen], options, {}, points=chosen, hints=hints)

    # What benches are made of

    def _options(
        self, arms: Sequence[Arm], *, turns: int, temperature: float | None = None, **about: Any
    ) -> BenchOptions:
        """How to run; turns and temperature unless the user names others."""
        requests: Object = {} if temperature is None else {"temperature": temperature}
        # A value is read as JSON where it is some, else as text.
        for name, text in pairs(self.agent.option, "--option", "NAME=VALUE, such as temperature=0").items():
            requests[name] = json_or_text(text)
        about |= {"concurrency": self.agent.concurrency, "seed": self.seed, "options": requests}
        return BenchOptions(arms=arms, max_turns=self.agent.max_turns or turns, **about)

    def _made(
        self, kind: type[Made], tasks: Sequence[Task], options: BenchOptions, settings: Object, **about: Any
    ) -> Made:
        """A bench in its folder, which holds those of these settings alone: they shape its answers."""
        settings |= {
            "environment": self.environment.name,
            "model": self.endpoint.model,
            "seed": self.seed,
            "max_turns": options.max_turns,
            "options": dict(options.options),
        }
        settings |= {_named(name): value for name, value in asdict(self.learning).items()}
        # Another model as the user makes other conversations.
        if isinstance(self.environment, PlayedUser):
            settings["user"] = self.environment.user.model
        place = self.place
        if self.dry_run:
            settings = {}
            if not place.exists():
                place = Path(self.stack.enter_context(TemporaryDirectory(prefix="hepm-bench-")))
        folder = self.stack.enter_context(Folder(place, settings))
        return kind(self.environment, tasks, folder, self.endpoint, options, **about)

    def _open_memory(self) -> KnownMemory:
        """The store of --memory, which sessions do not change; in a dry run one that is missing is empty."""
        store = self.learning.memory or ""
        if self.dry_run and not Path(store).exists():
            return self.stack.enter_context(scratch_memory())
        return self.stack.enter_context(open_known(store))

    @property
    def place(self) -> Path:
        """Where answers are kept."""
        suffix = f"-rounds-{self.arms or 'lessons'}" if self.rounds else ""
        # "openai/gpt-5:free" in a file name: "openai-gpt-5-free".
        name = re.sub(r"[^\w.-]+", "-", f"{self.environment.name}-{self.endpoint.model}{suffix}")
        return self.folder or Path("hepm-bench") / name

    def _refuse_unused(self, what: str, *used: str) -> None:
        """Refuse the options on memory that were given and are none of the used ones."""
        given = asdict(self.learning) | {"rounds": self.rounds or None}
        for name, value in given.items():
            unused = name not in used and value not in (None, "")
            refuse(unused, _named(name), f"{what} have no use for it: leave it out")


def _named(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _print_round(report: RoundReport) -> None:
    lessons = sum(report["zones"].values()) + report["principles"]
    remark(f"round {report['number']}: success {report['success']:.3f}, {lessons:,} lessons")


def chosen_tasks(tasks: Sequence[Task], wanted: str) -> list[Task]:
    """The first tasks, or those whose ids match: see `--tasks`."""
    # The first so many, not a sample: a later call with more goes on with the same ones.
    if wanted.isdecimal():
        return list(tasks[: int(wanted)])
    patterns = names_in(wanted)
    chosen = [task for task in tasks if any(fnmatchcase(task.id, pattern) for pattern in patterns)]
    some = ", ".join(task.id for task in tasks[:3])
    refuse(not chosen, "--tasks", f"no task is called {wanted}; there are {some}, …")
    return chosen
