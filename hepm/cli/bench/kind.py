"""What the four kinds of `hepm bench` share: the folder, play, estimates, and what is printed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, Final, Generic, TypeVar

import click

from hepm.cli.bench.options import AgentOptions, LearningOptions
from hepm.cli.bench.outcome import PlayOutcome, Shared, estimated
from hepm.cli.options import Bar, refuse, remark
from hepm.errors import BudgetSpentError, EndpointRefusedError
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model, open_model
from hepm.lab.bench.pilot import PilotedBench, rest_of, runs_alike
from hepm.lab.bench.play import Bench
from hepm.lab.bench.rehearsal import rehearsing_model
from hepm.lab.bench.replay import ReplayBench
from hepm.lab.bench.report import report_on, tables
from hepm.lab.collaboration.play import UserBench
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.llm import Endpoint, Usage
from hepm.text import count_of, on_one_line
from hepm.types import Object

PlayedEnvironment = TypeVar("PlayedEnvironment", bound=Environment)
Piloted = TypeVar("Piloted", bound=PilotedBench)
MadeBench = TypeVar("MadeBench", bound=PilotedBench | ReplayBench)
_FAILED: Final = "failed"
"""The note of a folder on runs that broke off, by name: why."""


@dataclass
class BenchKind(ABC, Generic[PlayedEnvironment, MadeBench]):
    """`hepm bench` with its options, in one of the kinds: what it plays, and how it reports on it."""

    environment: PlayedEnvironment
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
    what: ClassVar = "run"
    default_arms: ClassVar = "off,hybrid"

    @abstractmethod
    def check(self) -> None:
        """Refuse options that do not suit, before a folder is made."""

    @abstractmethod
    def settings(self) -> Object:
        """What shapes the answers of this bench; a folder holds those of one."""

    @abstractmethod
    def made(self, folder: Folder) -> MadeBench:
        """The bench to be played."""

    @abstractmethod
    def report(self, made: MadeBench) -> PlayOutcome:
        """What it came to."""

    @abstractmethod
    def estimate(self, made: MadeBench) -> Usage:
        """About what its runs take that wait."""

    def adopt(self, made: MadeBench) -> None:
        """Take over the runs of a pilot that the bench would make alike."""

    def play(self, made: MadeBench, model: Model) -> None:
        """Make the runs that are not there yet."""
        assert not isinstance(made, Exploration)
        made.play(model)

    def outcome(self) -> PlayOutcome:
        """Play it; in a dry run or a pilot, say what that would take."""
        self.check()
        only_asks = self.dry_run or self.shared.piloting
        # What a dry run or pilot of several benches puts in place of a memory is no setting.
        settings: Object = {}
        if not (only_asks and self.shared.many):
            settings = self.settings() | self._common_settings()
        made = self.made(self.opened(self.place, settings))
        if only_asks:
            try:
                usage = self.estimate(made)
            except (BudgetSpentError, EndpointRefusedError) as error:
                return PlayOutcome({}, [], error)
            waiting = made.waiting()
            again = _failed_before(made.folder, waiting)
            return estimated(len(waiting), usage, self.what, self.place, self.shared.limits[1], again=len(again))
        self.adopt(made)
        budget, _ = self.shared.limits
        before = budget.paid_before
        ending = self.played(made, f"{self.what}s")
        outcome = self.report(made)
        # Answers that were in the folder when the command began.
        document = outcome.document | {"paid_before": budget.paid_before - before}
        return replace(outcome, document=document, ending=ending or outcome.ending)

    @property
    def suffix(self) -> str:
        """Of the folder's name."""
        return ""

    @property
    def place(self) -> Path:
        """Where answers are kept."""
        # "openai/gpt-5:free" in a file name: "openai-gpt-5-free".
        name = re.sub(r"[^\w.-]+", "-", f"{self.environment.name}-{self.endpoint.model}{self.suffix}")
        return self.folder or Path("hepm-bench") / name

    def opened(self, place: Path, settings: Mapping[str, Any]) -> Folder:
        """The folder at a place; a dry run makes none."""
        if self.dry_run and not place.exists():
            place = self.scratch()
        return self.stack.enter_context(Folder(place, settings))

    def scratch(self) -> Path:
        """A new folder, which lasts as long as the command."""
        return Path(mkdtemp(dir=self.shared.scratch))

    def _common_settings(self) -> Object:
        settings: Object = {"environment": self.environment.name, "model": self.endpoint.model, "seed": self.seed}
        # Another model as the user makes other conversations.
        if isinstance(self.environment, PlayedUser):
            settings["user"] = self.environment.user.model
        return settings

    @property
    def names(self) -> list[str]:
        """The names of the arms."""
        return [name.strip() for name in (self.arms or self.default_arms).split(",")]

    def refuse_learning(self, reason: str) -> None:
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

    def played(self, made: MadeBench, what: str) -> Exception | None:
        """Open the models and play; the error that ended it early, to be raised after the report."""
        budget, prices = self.shared.limits
        judge = None
        if self.shared.judge:
            judge = replace(self.endpoint, model=self.shared.judge)
        about: Object = {"budget": budget, "prices": prices, "environment": self.environment, "judge": judge}
        again = _failed_before(made.folder, made.waiting())
        if again:
            key, reason = next(iter(again.items()))
            broken = count_of(len(again), self.what)
            remark(f"{broken} broke off before, and are made anew ({key}): {on_one_line(reason)}")
        ending: Exception | None = None
        bar = Bar(what)
        model = self.stack.enter_context(open_model(self.endpoint, made.folder, on_run=bar.show, **about))
        with bar:
            try:
                self.play(made, model)
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

    def compared(
        self, made: Bench | UserBench | ReplayBench, tasks: Sequence[str], trials: int, **about: Any
    ) -> PlayOutcome:
        """The report on arms, beside each other; `about` has more arguments of `report_on`."""
        report = report_on(
            made.ended,
            environment=self.environment.name,
            model=self.endpoint.model,
            arms=made.arms,
            tasks=tasks,
            trials=trials,
            failed=made.failed,
            **about,
        )
        return PlayOutcome(report.to_json(), tables(report))


class PilotedKind(BenchKind[PlayedEnvironment, Piloted]):
    """A kind whose cost is known by a few of its runs."""

    @abstractmethod
    def small(self, made: Piloted, folder: Folder) -> Piloted:
        """A few of its runs, for a pilot."""

    @abstractmethod
    def rehearsed(self, made: Piloted, folder: Folder) -> Piloted:
        """A few of its runs, to be made by `rehearsing_model`."""

    def pilot(self, made: Piloted) -> Piloted:
        """The bench of the pilot, in a folder beside the bench's own."""
        return self.small(made, self.opened(self._pilot_place, {}))

    @property
    def _pilot_place(self) -> Path:
        return self.place.with_name(f"{self.place.name}-pilot")

    def estimate(self, made: Piloted) -> Usage:
        """By a pilot of the model; in a dry run by one that was made before, else by a rehearsal."""
        small = self.pilot(made)
        if not (self.shared.piloting or small.ended):
            folder = self.opened(self.scratch(), {})
            small = self.rehearsed(made, folder)
            self.play(small, rehearsing_model(self.endpoint, folder))
            return rest_of(made, small)
        if self.shared.piloting:
            ending = self.played(small, f"{self.what}s of the pilot")
            if ending is not None:
                raise ending
        return rest_of(made, small, runs_alike(made, small))

    def adopt(self, made: Piloted) -> None:
        """See `BenchKind.adopt`."""
        if not (self.shared.many and self._pilot_place.exists()):
            return
        with Folder(self._pilot_place, {}) as folder:
            alike = runs_alike(made, self.small(made, folder))
        made.folder.adopt(self._pilot_place, alike)
        made.ended.update(made.folder.runs())


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
