"""What all kinds of `hepm bench` share: the folder, play, estimates, and what is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeVar

import click

from hepm.cli.bench.options import AgentOptions, LearningOptions
from hepm.cli.bench.outcome import PlayOutcome, Shared, estimated
from hepm.cli.options import Bar, refuse, remark
from hepm.errors import BudgetSpentError, EndpointRefusedError
from hepm.lab.bench.arms import Arm
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model, open_model
from hepm.lab.bench.pilot import rest_of
from hepm.lab.bench.play import MOST, Bench, BenchOptions
from hepm.lab.bench.rehearsal import rehearsing_model
from hepm.lab.bench.replay import ReplayBench
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.llm import Client, Endpoint, Usage
from hepm.text import count_of, on_one_line
from hepm.types import Object

Made = TypeVar("Made", bound=Bench)
_FAILED: Final = "failed"
"""The note of a folder on runs that broke off, by name: why."""


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

    def outcome(self, made: Bench) -> PlayOutcome:
        """Play a bench; in a dry run or a pilot, say what that would take."""
        if self._only_asks:
            try:
                usage = self._estimate(made)
            except (BudgetSpentError, EndpointRefusedError) as error:
                return PlayOutcome({}, [], error)
            waiting = made.waiting()
            again = _failed_before(made.folder, waiting)
            return estimated(len(waiting), usage, made.what, self.place, self.shared.limits[1], again=len(again))
        if self.shared.many and self._pilot_place.exists():
            with Folder(self._pilot_place, {}) as folder:
                alike = made.alike(made.small(folder))
            made.folder.adopt(self._pilot_place, alike)
            made.ended.update(made.folder.runs())
        budget, _ = self.shared.limits
        before = budget.paid_before
        ending = self._played(made, f"{made.what}s")
        document, parts = made.outcome()
        # Runs that broke off leave their round unfinished: repeating the command tries them again.
        if isinstance(made, Exploration) and len(made.rounds) < made.number:
            ending = ending or click.exceptions.Exit(1)
        # Answers that were in the folder when the command began.
        return PlayOutcome(document | {"paid_before": budget.paid_before - before}, parts, ending)

    @property
    def _only_asks(self) -> bool:
        return self.dry_run or self.shared.piloting

    # What benches are made of

    def names(self, default: str) -> list[str]:
        """The names of the arms."""
        return [name.strip() for name in (self.arms or default).split(",")]

    def options(self, arms: Sequence[Arm], *, turns: int, **about: Any) -> BenchOptions:
        """How to run; `turns` of a run unless the user names others."""
        requests: Object = about.pop("options", {}) | self.agent.request_arguments()
        return BenchOptions(
            arms=arms,
            concurrency=self.agent.concurrency,
            seed=self.seed,
            max_turns=self.agent.max_turns or turns,
            options=requests,
            **about,
        )

    def made(
        self, kind: type[Made], tasks: Sequence[Task], options: BenchOptions, settings: Object, **about: Any
    ) -> Made:
        """A bench in its folder, which holds those of these settings alone: they shape its answers."""
        settings |= {"environment": self.environment.name, "model": self.endpoint.model, "seed": self.seed}
        settings |= {"max_turns": options.max_turns, "options": dict(options.options)}
        # Another model as the user makes other conversations.
        if isinstance(self.environment, PlayedUser):
            settings["user"] = self.environment.user.model
        # What a dry run or pilot of several benches puts in place of a memory is no setting.
        if self._only_asks and self.shared.many:
            settings = {}
        folder = self._opened(self.place, settings)
        return kind(self.environment, tasks, folder, self.endpoint, options, **about)

    @property
    def place(self) -> Path:
        """Where answers are kept."""
        suffix = f"-rounds-{self.arms or 'lessons'}" if self.rounds else ""
        # "openai/gpt-5:free" in a file name: "openai-gpt-5-free".
        name = re.sub(r"[^\w.-]+", "-", f"{self.environment.name}-{self.endpoint.model}{suffix}")
        return self.folder or Path("hepm-bench") / name

    @property
    def _pilot_place(self) -> Path:
        return self.place.with_name(f"{self.place.name}-pilot")

    def _opened(self, place: Path, settings: Mapping[str, Any]) -> Folder:
        """The folder at a place; a dry run makes none."""
        if self.dry_run and not place.exists():
            place = self._scratch()
        return self.stack.enter_context(Folder(place, settings))

    def _scratch(self) -> Path:
        """A new folder, which lasts as long as the command."""
        return Path(mkdtemp(dir=self.shared.scratch))

    def refuse_unused(self, what: str, *used: str) -> None:
        """Refuse the options on memory that were given and are none of the used ones."""
        given = asdict(self.learning) | {"rounds": self.rounds or None}
        for name, value in given.items():
            unused = name not in used and value not in (None, "")
            refuse(unused, f"--{name.replace('_', '-')}", f"{what} have no use for it: leave it out")

    # Play

    def _play(self, made: Bench, model: Model, *, whole: bool = False) -> None:
        if isinstance(made, Exploration):
            from hepm.cli.bench.rounds import explore

            explore(self, made, model, whole=whole)
        else:
            made.play(model)

    def _estimate(self, made: Bench) -> Usage:
        """By a pilot of the model; in a dry run by one that was made before, else by a rehearsal."""
        if isinstance(made, ReplayBench):
            return made.estimate()
        small = made.small(self._opened(self._pilot_place, {}))
        if self.shared.piloting:
            ending = self._played(small, f"{made.what}s of the pilot", whole=False)
            if ending is not None:
                raise ending
        elif not small.ended:
            rehearsed = made.small(self._opened(self._scratch(), {}), most=MOST)
            self._play(rehearsed, rehearsing_model(self.endpoint, rehearsed.folder, self.environment))
            return rest_of(made, rehearsed)
        if isinstance(small, Exploration):
            self.stand_in(small)
        return rest_of(made, small, made.alike(small))

    def stand_in(self, small: Exploration) -> str:
        """The store of a small exploration, which takes the place of the whole one's in what is tested with it."""
        assert self.learning.memory
        store = str(small.folder.path / "memory.hepm")
        self.shared.stand_ins[self.learning.memory] = store
        return store

    def _played(self, made: Bench, what: str, *, whole: bool = True) -> Exception | None:
        """Open the models and play; the error that ended it early, to be raised after the report."""
        budget, prices = self.shared.limits
        judge = None
        if self.shared.judge:
            judge = replace(self.endpoint, model=self.shared.judge)
        about: Object = {"budget": budget, "prices": prices, "environment": self.environment, "judge": judge}
        again = _failed_before(made.folder, made.waiting())
        if again:
            key, reason = next(iter(again.items()))
            broken = count_of(len(again), made.what)
            remark(f"{broken} broke off before, and are made anew ({key}): {on_one_line(reason)}")
        ending: Exception | None = None
        bar = Bar(what)
        model = self.stack.enter_context(open_model(self.endpoint, made.folder, on_run=bar.show, **about))
        with bar:
            try:
                self._play(made, model, whole=whole)
            except (BudgetSpentError, EndpointRefusedError) as error:
                # What was answered is reported first.
                ending = error
        made.folder.add_note(_FAILED, {str(key): reason for key, reason in made.failed.items()})
        # Also after an early end: the runs that were played can be ingested.
        made.folder.export()
        names = self.endpoint.model
        if isinstance(self.environment, PlayedUser):
            names += f" and {self.environment.user.model}"
        remark(f"asked {names}: {budget.line()}; what it answered is in {made.folder.path}")
        return ending

    def client(self, model: str, ledger: Any) -> Client:
        """What asks another model at the same endpoint, within the budget."""
        budget, prices = self.shared.limits
        endpoint = replace(self.endpoint, model=model)
        return self.stack.enter_context(Client(endpoint, ledger=ledger, budget=budget, prices=prices))


def _failed_before(folder: Folder, waiting: Sequence[Key]) -> dict[str, str]:
    """The runs of these that broke off in an earlier command: why."""
    failed: dict[str, str] = folder.note(_FAILED) or {}
    return {str(key): failed[str(key)] for key in waiting if str(key) in failed}


def chosen_tasks(tasks: Sequence[Task], wanted: str) -> list[Task]:
    """The first tasks, or those whose ids match: see `--tasks`."""
    # The first so many, not a sample: a later call with more goes on with the same ones.
    if wanted.isdecimal():
        return list(tasks[: int(wanted)])
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    chosen = [task for task in tasks if any(fnmatchcase(task.id, pattern) for pattern in patterns)]
    if not chosen:
        some = ", ".join(task.id for task in tasks[:3])
        raise click.BadParameter(f"no task is called {wanted}; there are {some}, …", param_hint="--tasks")
    return chosen
