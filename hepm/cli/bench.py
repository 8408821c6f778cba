"""`hepm bench`: whether an agent does better with memory."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from hepm.cli.bench_options import AgentOptions, LearningOptions, agent_options, learning_options
from hepm.cli.commands import PATH, argument, command, option
from hepm.cli.model import ModelChoice, dry_run_option, model_options
from hepm.cli.options import (
    NAMESPACE,
    Bar,
    check_store,
    json_option,
    known_namespace,
    refuse,
    remark,
    unusable,
)
from hepm.cli.playing import (
    PlayOutcome,
    Shared,
    chosen_tasks,
    default_folder,
    distiller_of,
    estimated,
    made_folder,
    memory_of_rounds,
    opened_environment,
    opened_memory,
    pilot_of,
    played,
    tell_outcome,
    user_of,
)
from hepm.errors import InputError
from hepm.types import SUCCESS_FROM, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hepm.lab.bench.arms import Arm, KnownMemory
    from hepm.lab.bench.explore import Exploration, RoundReport
    from hepm.lab.bench.folder import Folder, Key
    from hepm.lab.bench.models import Model
    from hepm.lab.bench.play import Bench, BenchOptions
    from hepm.lab.bench.replay import HintedPoint, ReplayBench
    from hepm.lab.collaboration.environment import UsersEnvironment
    from hepm.lab.collaboration.play import UserBench
    from hepm.lab.environments import Environment, Task
    from hepm.lab.environments.recorded import Point, RecordedRuns
    from hepm.llm import Budget, Client, Endpoint, Prices, Usage

MAX_TURNS: Final = 30
ROUND_TURNS: Final = 16  # of a run in a round (PRIME, table 2)
ROUND_RUNS: Final = 100  # in each environment, over all rounds (PRIME, table 2)
ROUND_TEMPERATURE: Final = 1.0  # runs of a task differ, so that they can be compared
USERS: Final = "20"
POINTS: Final = "100"  # of each environment that runs were recorded in
POINT_TEMPERATURE: Final = 0.0  # so that a changed call is the hint's doing
USER_TURNS: Final = 10  # replies in a session (MultiSessionCollab 5)
USER_SESSIONS: Final = 5


@command("bench")
@argument("env", "An environment's name, or module:function of your own.")
@option(
    "--arms",
    "Ways to run the agent, separated by commas. Default: off,hybrid; in rounds lessons; with users "
    "off,history,notes; with recorded runs off,hybrid,weight,lessons.",
)
@option("--trials", "Runs of each task in each arm; sessions of each user. Default: 1; of users 5.", least=1)
@option("--rounds", "Explore in so many rounds, each with the lessons of those before, in one arm.", least=0, default=0)
@option(
    "--seed", "Of the first trial, the next ones count up; in rounds also of the order of tasks.", least=0, default=0
)
@option("--folder", "Where answers and runs are kept. Default: hepm-bench/ENV-MODEL, -rounds-ARM.", type=PATH)
@dry_run_option
@json_option
@model_options
@agent_options
@learning_options
def bench(
    env: str,
    choice: ModelChoice,
    agent: AgentOptions,
    learning: LearningOptions,
    arms: str | None,
    trials: int | None,
    rounds: int,
    seed: int,
    folder: Path | None,
    dry_run: bool,
    as_json: bool,
) -> PlayOutcome:
    """Run an agent on the tasks of an environment, with memory and without, and say whether memory helped.

    A repeated command goes on where it was stopped; no recorded answer is asked for again. The models "gold", "none"
    and "scripted" replay the authors' actions, do nothing, or are an agent that the environment brings. With --rounds,
    the agent learns from its runs, round after round.
    Example: `hepm bench bfcl --model gpt-5-mini --tasks 50 --dry-run`
    """
    endpoint = agent.endpoint(choice)
    # The model that plays a user is at the same address, unless it has one, or a key, of its own: no other address may
    # see that key.
    if "HEPM_USER_API_KEY" not in os.environ:
        os.environ.setdefault("HEPM_USER_BASE_URL", endpoint.base_url)
    # `hepm papers` makes several benches within one budget, and prints their outcomes itself.
    shared = click.get_current_context().find_object(Shared)
    limits = shared.limits if shared else choice.limits(agent.prices)
    options = (arms, trials, rounds, seed, folder, dry_run, shared)
    # It closes what the command opens: the environment's process, folders, clients, the memory.
    with ExitStack() as stack:
        environment = opened_environment(env, stack, agent.source)
        made = BenchCommand(environment, endpoint, stack, limits, agent, learning, *options)
        outcome = made.outcome()
        if shared is None:
            tell_outcome(outcome, as_json=as_json)
        return outcome


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What a bench compares.

    Attributes:
        what: What is played: a run, a session or a point.
        trials: How often each arm plays each task.
    """

    what: str
    arms: Sequence[str]
    tasks: Sequence[str]
    trials: int


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """`hepm bench` with its options: it compares arms, explores in rounds, or lets an agent serve users."""

    environment: Environment
    endpoint: Endpoint
    stack: ExitStack
    limits: tuple[Budget, Prices | None]
    agent: AgentOptions
    learning: LearningOptions
    arms: str | None
    trials: int | None
    rounds: int
    seed: int
    folder: Path | None
    dry_run: bool
    shared: Shared | None = None

    def outcome(self) -> PlayOutcome:
        """Play what the kind of environment says: users, points of recorded runs, or tasks, in rounds or not."""
        from hepm.lab.collaboration.environment import UsersEnvironment
        from hepm.lab.environments.recorded import RecordedRuns

        if isinstance(self.environment, UsersEnvironment):
            return self._serve_users(self.environment)
        if isinstance(self.environment, RecordedRuns):
            return self._replay(self.environment)
        if self.rounds:
            return self._explore()
        return self._compare()

    def _compare(self) -> PlayOutcome:
        """Run each arm on each task, and report."""
        from hepm.lab.bench.pilot import SmallBench
        from hepm.lab.bench.play import Bench

        arms = self._known_arms("off,hybrid")
        self._check_learning(arms)
        given = self._given_memory()
        options = self._options(arms, given)
        tasks = self._tested_tasks(options, given)
        place = self._place()
        settings = self._settings(options.max_turns, options.options)
        if self._piloting:
            return self._piloted(tasks, options, given, place, settings)
        settings |= self._settings_of_memory(options, given, tasks)
        # A folder with other settings is refused: its answers would be mixed with these.
        kept = self._opened_folder(place, settings)
        bar = Bar("runs")
        made = Bench(self.environment, tasks, kept, self.endpoint, options, given=given, on_run=bar.show)
        self._adopt(made, lambda pilot: SmallBench(made, pilot).kept())
        plan = BenchPlan("run", [arm.name for arm in arms], [task.id for task in tasks], options.trials)
        return self._played(made, bar, place, plan, lambda _: {"success_from": options.success_from})

    @property
    def _piloting(self) -> bool:
        return self.shared is not None and self.shared.piloting

    def _piloted(
        self, tasks: Sequence[Task], options: BenchOptions, given: KnownMemory | None, place: Path, settings: Object
    ) -> PlayOutcome:
        """Make a few tasks in each arm, and say what the rest takes."""
        from hepm.lab.bench.pilot import SmallBench, rest_of
        from hepm.lab.bench.play import Bench

        whole = Bench(self.environment, tasks, self._opened_folder(place, {}), self.endpoint, options, given=given)
        small = SmallBench(whole, self._opened_folder(pilot_of(place), settings))
        _, ending = self._play(small, Bar("runs of the pilot"), small.play)
        known = {*whole.ended, *small.kept()}
        return self._rest(lambda: rest_of(whole, small, known), place, ending)

    def _rest(self, rest: Callable[[], Usage], place: Path, ending: Exception | None) -> PlayOutcome:
        """What the rest takes, unless the pilot ended early."""
        if ending is not None:
            return PlayOutcome({}, [], ending)
        return self._estimated(0, rest(), "run", place)

    def _adopt(self, made: Bench, keys: Callable[[Folder], Sequence[Key]]) -> None:
        """Take over the runs of a pilot, those that the bench would make alike."""
        from hepm.lab.bench.folder import Folder

        place = pilot_of(made.folder.path)
        if self.dry_run or self.shared is None or not place.exists():
            return
        with Folder(place, {}) as pilot:
            alike = keys(pilot)
        made.folder.adopt(place, alike)
        made.ended = made.folder.runs()

    def _serve_users(self, environment: UsersEnvironment) -> PlayOutcome:
        """Let each user work with the agent in several sessions, in each arm, and report."""
        from hepm.lab.bench.models import SCRIPTED
        from hepm.lab.bench.pilot import pilot_users, rest_alike
        from hepm.lab.collaboration.play import NO_PREFERENCES, UserBench, check_user_arms

        self._refuse_learning("users are remembered by the arms")
        arms = check_user_arms(_names(self.arms or "off,history,notes"))
        tasks = chosen_tasks(environment.tasks(), self.agent.tasks or USERS)
        max_turns = self.agent.max_turns or USER_TURNS
        arguments = self.agent.request_arguments()
        sessions = self.trials or USER_SESSIONS
        place = self._place()
        settings = self._settings(max_turns, arguments)
        # Only names: the same problems may lie elsewhere at the next call.
        settings["problems"] = [file.name for file in environment.files]
        if self.endpoint.model == SCRIPTED:
            # Refused before a model is asked or a folder is made.
            environment.scripted(tasks[0])
        kept = self._opened_folder(place, settings)
        users = environment.users([task.id for task in tasks], seed=self.seed, client=self._user_client(kept))
        bar = Bar("sessions")
        made = UserBench(
            environment,
            users,
            kept,
            self.endpoint,
            arms=arms,
            sessions=sessions,
            max_turns=max_turns,
            concurrency=self.agent.concurrency,
            options=arguments,
            on_session=bar.show,
        )

        if self._piloting:
            made.users = users[: pilot_users(len(users))]
            _, ending = self._play(made, Bar("sessions of the pilot"), made.play)
            made.users = users
            waiting = len(users) * len(arms) * sessions - len(made.ended)
            return self._rest(lambda: rest_alike(kept, waiting, len(made.ended)), place, ending)

        def about(model: Model) -> Object:
            # The budget counts the answers of the model that plays the users.
            budget, _ = self.limits
            return {
                "paid_before": model.paid_before + budget.paid_before,
                "seed": self.seed,
                "sessions": True,
                # A user works through each file of problems: "math/user-1".
                "families": {user.name: user.name.rpartition("/")[2] for user in users},
                "without_memory": NO_PREFERENCES,
                "unreflected": made.unreflected,
            }

        plan = BenchPlan("session", arms, [user.name for user in users], sessions)
        return self._played(made, bar, place, plan, about)

    def _replay(self, environment: RecordedRuns) -> PlayOutcome:
        """Ask for the next call at points of recorded runs, in each arm, and report."""
        from hepm.lab.bench.replay import ReplayBench, hinted_points, point_arms

        self._refuse_learning("memory is made of the recorded runs of other task families")
        arms = point_arms(_names(self.arms or "off,hybrid,weight,lessons"))
        names = [arm.name for arm in arms]
        arguments = {"temperature": POINT_TEMPERATURE} | self.agent.request_arguments()
        chosen = self._chosen_points(environment)
        points: list[HintedPoint] = []
        # Memory is made of one domain at a time.
        for domain in environment.domains:
            here = [point for point in chosen if point.event.run.domain == domain.name]
            points += hinted_points(domain, here, arms)
        place = self._place()
        kept = self._opened_folder(place, self._settings(1, arguments))
        bar = Bar("points")
        made = ReplayBench(
            environment,
            points,
            kept,
            self.endpoint,
            arms=names,
            concurrency=self.agent.concurrency,
            options=arguments,
            on_point=bar.show,
        )

        def about(_model: Model) -> Object:
            return {"seed": self.seed, "families": made.families}

        plan = BenchPlan("point", names, [hinted.point.key for hinted in points], trials=1)
        return self._played(made, bar, place, plan, about)

    def _chosen_points(self, environment: RecordedRuns) -> Sequence[Point]:
        """So many points of each domain, drawn with the seed, or those whose names match."""
        if not environment.points:
            raise InputError("no failed run diverges from a successful one of its task.")
        if environment.rejected:
            remark(f"hepm: {unusable(environment.rejected)}")
        # "50" is a number of points, "refund*" a pattern of their names.
        wanted = self.agent.tasks or POINTS
        if wanted.isdecimal():
            return environment.drawn(int(wanted), seed=self.seed)
        names = {task.id for task in chosen_tasks(environment.tasks(), wanted)}
        return [point for point in environment.points if point.key in names]

    def _explore(self) -> PlayOutcome:
        """Make rounds of runs, each with the lessons of the rounds before, and report on each round."""
        from hepm.lab.bench.explore import Exploration, explore_tables
        from hepm.lab.bench.pilot import first_of, small_exploration
        from hepm.lab.bench.play import Bench

        arms = self._known_arms("lessons")
        store = self._store_of_rounds(arms)
        distiller = self.learning.distiller
        options = self._options(arms, None)
        tasks = self._explored_tasks()
        place = self._place(f"-rounds-{arms[0].name}")
        settings = self._settings(options.max_turns, options.options)
        settings |= self._settings_of_rounds(options, tasks)
        kept = self._opened_folder(place, {} if self._piloting else settings)
        bar = Bar("runs")
        made = Bench(self.environment, tasks, kept, self.endpoint, options, on_run=bar.show)
        exploration = Exploration(
            made,
            episodes=options.rollouts,
            rounds=self.rounds,
            prune_below=self.learning.prune_below,
        )
        if self.dry_run:
            scratch = self.stack.enter_context(TemporaryDirectory(prefix="hepm-bench-"))
            shared = self.shared or Shared(self.limits, Path(scratch), "")
            memory = memory_of_rounds(shared.stand_in(store), self.learning.namespace, self.stack)
            return self._estimated(*exploration.estimate(memory, distiller=bool(distiller)), "run", place)
        if self._piloting:
            return self._piloted_rounds(exploration, store, place)
        self._adopt(made, lambda pilot: first_of(exploration, small_exploration(exploration, pilot)))
        memory = memory_of_rounds(store, self.learning.namespace, self.stack)
        ledger = memory.lessons.ledger("run", namespace=memory.namespace)
        writer = distiller_of(distiller, self.endpoint, ledger, self.limits, self.stack)
        play = partial(exploration.play, memory=memory, distiller=writer, on_round=_tell_round)
        model, ending = self._play(made, bar, play)
        # Runs that broke off leave their round unfinished: repeating the command tries them again.
        if ending is None and len(exploration.rounds) < self.rounds:
            ending = click.exceptions.Exit(1)
        document = {**exploration.to_json(), "paid_before": model.paid_before}
        return PlayOutcome(document, explore_tables(exploration), ending)

    def _piloted_rounds(self, exploration: Exploration, store: str, place: Path) -> PlayOutcome:
        """Make as many rounds of a few runs each, into a store of their own, and say what the rest takes."""
        from hepm.lab.bench.pilot import explored_rest, first_of, small_exploration

        assert self.shared
        folder = self._opened_folder(pilot_of(place), {})
        small = small_exploration(exploration, folder)
        # It stands in for the store in what is tested with it; kept, as a repeated pilot goes on from it.
        stand_in = self.shared.stand_ins[store] = str(pilot_of(place) / "memory.hepm")
        memory = memory_of_rounds(stand_in, self.learning.namespace, self.stack)
        writer = distiller_of(self.learning.distiller, self.endpoint, folder, self.limits, self.stack)
        play = partial(small.play, memory=memory, distiller=writer)
        _, ending = self._play(small.bench, Bar("runs of the pilot"), play)
        known = {*exploration.bench.ended, *first_of(exploration, small)}
        return self._rest(lambda: explored_rest(exploration, small, known), place, ending)

    def _place(self, suffix: str = "") -> Path:
        """Where answers are kept."""
        return self.folder or default_folder("hepm-bench", f"{self.environment.name}-{self.endpoint.model}{suffix}")

    def _opened_folder(self, place: Path, settings: Mapping[str, Any]) -> Folder:
        from hepm.lab.bench.folder import Folder

        return self.stack.enter_context(Folder(made_folder(place, self.dry_run, self.stack), settings))

    def _play(
        self, bench: Bench | UserBench | ReplayBench, bar: Bar, play: Callable[[Model], object]
    ) -> tuple[Model, Exception | None]:
        judge = None
        if self.shared and self.shared.judge:
            judge = replace(self.endpoint, model=self.shared.judge)
        return played(bench, self.limits, self.stack, bar, play, judge)

    def _played(
        self,
        made: Bench | UserBench | ReplayBench,
        bar: Bar,
        place: Path,
        plan: BenchPlan,
        about: Callable[[Model], Object] = lambda _: {},
    ) -> PlayOutcome:
        """Play a bench that compares arms, and report; in a dry run, say what that would take.

        `about` gives more arguments of `report_on`, of what is known once the bench was played.
        """
        from hepm.lab.bench.report import report_on, tables

        if self.dry_run:
            return self._estimated(*made.estimate(), plan.what, place)
        model, ending = self._play(made, bar, made.play)
        details: Object = {"failed": made.failed, "paid_before": model.paid_before} | about(model)
        report = report_on(
            made.ended,
            environment=self.environment.name,
            model=self.endpoint.model,
            arms=plan.arms,
            tasks=plan.tasks,
            trials=plan.trials,
            **details,
        )
        return PlayOutcome(report.to_json(), tables(report), ending)

    def _estimated(self, number: int, usage: Usage, what: str, place: Path) -> PlayOutcome:
        return estimated(number, usage, what, place, prices=self.limits[1])

    def _user_client(self, kept: Folder) -> Client | None:
        """What asks the model that plays the users, with answers that the folder keeps; None for rules."""
        from hepm.llm import Client

        endpoint = user_of(self.environment)
        if endpoint is None:
            return None
        budget, prices = self.limits
        return self.stack.enter_context(Client(endpoint, ledger=kept, budget=budget, prices=prices))

    def _refuse_learning(self, reason: str) -> None:
        """Refuse the options on memory where it is made in one way alone."""
        learning = self.learning
        for given, named in (
            (learning.memory, "--memory"),
            (learning.learn_from, "--learn-from"),
            (learning.rollouts, "--rollouts"),
            (learning.embedder, "--embedder"),
            (learning.prune_below is not None, "--prune-below"),
            (self.rounds, "--rounds"),
        ):
            refuse(given, named, f"{reason}: leave it out")

    def _known_arms(self, default: str) -> list[Arm]:
        from hepm.lab.bench.arms import find_arms

        return find_arms(_names(self.arms or default), trials=self.trials or 1)

    def _check_learning(self, arms: Sequence[Arm]) -> None:
        """Refuse options that exclude each other."""
        refuse(self.learning.prune_below is not None, "--prune-below", "principles are pruned in rounds: give --rounds")
        if not self.learning.memory:
            return
        learned = self.learning.learn_from or self.learning.embedder
        refuse(learned, "--memory", "--memory excludes --learn-from and --embedder: it is used as it is")
        # These put a digest of the runs to learn from into the system prompt.
        digesting = [arm.name for arm in arms if arm.digests]
        if digesting:
            message = f"{', '.join(digesting)} digest the runs of this bench: leave --memory out"
            raise click.BadParameter(message, param_hint="--memory")

    def _store_of_rounds(self, arms: Sequence[Arm]) -> str:
        """The store that rounds are learned into, after checking that the options suit rounds."""
        from hepm.lab.bench.arms import ROUND_ARMS

        if len(arms) != 1 or arms[0].name not in ROUND_ARMS:
            message = f"rounds are made in one arm: {', '.join(ROUND_ARMS)}"
            raise click.BadParameter(message, param_hint="--arms")
        learned = self.learning.learn_from or self.learning.embedder
        refuse(learned, "--rounds", "rounds have no use for --learn-from and --embedder: leave them out")
        if not self.learning.memory:
            message = "name the store that rounds are learned into; it is made if it is missing"
            raise click.BadParameter(message, param_hint="--memory")
        return self.learning.memory

    def _options(self, arms: Sequence[Arm], given: KnownMemory | None) -> BenchOptions:
        from hepm.lab.bench.arms import open_ready
        from hepm.lab.bench.play import BenchOptions

        embedder = None
        if self.learning.embedder is not None:
            embedder = self.stack.enter_context(open_ready(self.learning.embedder, self.endpoint))
        arguments = self.agent.request_arguments()
        learn_from = self.learning.learn_from or "train"
        rollouts = self.learning.rollouts or 0
        max_turns = MAX_TURNS
        if self.rounds:
            # What `-o temperature=X` says holds.
            arguments = {"temperature": ROUND_TEMPERATURE} | arguments
            rollouts = rollouts or -(-ROUND_RUNS // self.rounds)
            max_turns = ROUND_TURNS
        return BenchOptions(
            arms=arms,
            learn="online" if learn_from.startswith("online") else "train",
            judge=learn_from.endswith("judged"),
            embedder=embedder,
            trials=self.trials or 1,
            rollouts=rollouts,
            concurrency=self.agent.concurrency,
            seed=self.seed,
            max_turns=self.agent.max_turns or max_turns,
            options=arguments,
            turn_rewards=bool(self.rounds),
            # A given memory has judged its runs by its own limit already.
            success_from=SUCCESS_FROM if given is None else given.header.success_from,
        )

    def _tested_tasks(self, options: BenchOptions, given: KnownMemory | None) -> Sequence[Task]:
        """The tasks to report on: never those of a train split that memory learns from.

        A given memory may have been made of that split: then its tasks are played when they are named.
        """
        published = self.environment.tasks()
        held_out = [task for task in published if task.split != "train"]
        named = given is not None and self.agent.tasks
        if held_out and options.learn == "train" and not named:
            published = held_out
        return chosen_tasks(published, self.agent.tasks or "*")

    def _explored_tasks(self) -> Sequence[Task]:
        """The tasks of rounds: of the train split, where one is published."""
        # The other tasks are for a bench with the memory that the rounds made.
        published = [task for task in self.environment.tasks() if task.split == "train"]
        return chosen_tasks(published or self.environment.tasks(), self.agent.tasks or "*")

    def _settings(self, max_turns: int, arguments: Mapping[str, Any]) -> Object:
        """What shapes the answers of any bench; a folder holds those of one."""
        settings: Object = {
            "environment": self.environment.name,
            "model": self.endpoint.model,
            "seed": self.seed,
            "max_turns": max_turns,
            "options": dict(arguments),
        }
        # Another model as the user makes other conversations.
        user = user_of(self.environment)
        if user is not None:
            settings["user"] = user.model
        return settings

    def _settings_of_memory(self, options: BenchOptions, given: KnownMemory | None, tasks: Sequence[Task]) -> Object:
        """What shapes memory. Arms can be added later, and with a given memory also tasks and trials."""
        if given is not None:
            return {"memory": f"{self.learning.memory} {given.namespace}, revision {given.header.revision}"}
        settings: Object = {
            "memory": f"learned from {options.learn}",
            "embedder": self.learning.embedder or "hash-512",
            "judge": (self.shared and self.shared.judge) or options.judge,
            "trials": options.trials,
            "tasks": sorted(task.id for task in tasks),
        }
        if options.rollouts:
            settings["rollouts"] = options.rollouts
        return settings

    def _settings_of_rounds(self, options: BenchOptions, tasks: Sequence[Task]) -> Object:
        settings: Object = {
            "arm": options.arms[0].name,
            "distiller": self.learning.distiller,
            "rounds": self.rounds,
            "rollouts": options.rollouts,
            "namespace": self.learning.namespace or NAMESPACE,
            "tasks": sorted(task.id for task in tasks),
        }
        if self.learning.prune_below is not None:
            settings["prune_below"] = self.learning.prune_below
        return settings

    def _given_memory(self) -> KnownMemory | None:
        """The memory of --memory, opened so that nothing is written to it."""
        store = self.learning.memory
        if store is None:
            return None
        if self.shared and store in self.shared.stand_ins:
            store = self.shared.stand_ins[store]
        check_store(store, "--memory")
        memory = opened_memory(store, self.stack)
        memory.namespace = known_namespace(memory, self.learning.namespace, store, "--memory")
        return memory


def _names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",")]


def _tell_round(report: RoundReport) -> None:
    lessons = sum(report.zones.values()) + report.principles
    remark(f"round {report.number}: success {report.success:.3f}, {lessons:,} lessons")
