"""What all kinds of `hepm bench` share: the folder, play, and what is printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click

from hepm.cli.bench.options import AgentOptions, LearningOptions
from hepm.cli.bench.outcome import PlayOutcome, Shared
from hepm.cli.options import Bar, refuse, remark
from hepm.errors import BudgetSpentError, EndpointRefusedError
from hepm.lab.bench.arms import Arm, KnownMemory, open_known, scratch_memory
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import open_model
from hepm.lab.bench.play import Bench, BenchOptions
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.llm import Endpoint
from hepm.text import count_of
from hepm.types import Object

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

    def outcome(self, made: Bench) -> PlayOutcome:
        """Play a bench; in a dry run, say how many runs are not there yet."""
        if self.dry_run:
            number = len(made.waiting())
            line = f"{count_of(number, made.what)} would be played, in {self.place}: --budget limits what that takes"
            return PlayOutcome({"dry_run": True, f"{made.what}s": number}, [line])
        budget, _ = self.shared.limits
        before = budget.paid_before
        ending = self._play(made)
        # Also after an early end: the runs that were played can be ingested.
        made.folder.export()
        names = self.endpoint.model
        if isinstance(self.environment, PlayedUser):
            names += f" and {self.environment.user.model}"
        remark(f"asked {names}: {budget.line()}; what it answered is in {made.folder.path}")
        document, parts = made.outcome()
        # Runs that broke off leave their round unfinished: repeating the command tries them again.
        if isinstance(made, Exploration) and len(made.rounds) < made.number:
            ending = ending or click.exceptions.Exit(1)
        # Answers that were in the folder when the command began.
        return PlayOutcome(document | {"paid_before": budget.paid_before - before}, parts, ending)

    def _play(self, made: Bench) -> Exception | None:
        """Open the models and play; the error that ended it early, to be raised after the report."""
        budget, prices = self.shared.limits
        judge = None
        if self.shared.judge:
            judge = replace(self.endpoint, model=self.shared.judge)
        bar = Bar(f"{made.what}s")
        model = self.stack.enter_context(
            open_model(
                self.endpoint,
                made.folder,
                budget=budget,
                prices=prices,
                environment=self.environment,
                judge=judge,
                on_run=bar.show,
            )
        )
        with bar:
            try:
                made.play(model)
            except (BudgetSpentError, EndpointRefusedError) as error:
                return error  # what was answered is reported first
        return None

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
        settings |= {f"--{name.replace('_', '-')}": value for name, value in asdict(self.learning).items()}
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

    def open_memory(self) -> KnownMemory:
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

    def refuse_unused(self, what: str, *used: str) -> None:
        """Refuse the options on memory that were given and are none of the used ones."""
        given = asdict(self.learning) | {"rounds": self.rounds or None}
        for name, value in given.items():
            unused = name not in used and value not in (None, "")
            refuse(unused, f"--{name.replace('_', '-')}", f"{what} have no use for it: leave it out")


def chosen_tasks(tasks: Sequence[Task], wanted: str) -> list[Task]:
    """The first tasks, or those whose ids match: see `--tasks`."""
    # The first so many, not a sample: a later call with more goes on with the same ones.
    if wanted.isdecimal():
        return list(tasks[: int(wanted)])
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    chosen = [task for task in tasks if any(fnmatchcase(task.id, pattern) for pattern in patterns)]
    some = ", ".join(task.id for task in tasks[:3])
    refuse(not chosen, "--tasks", f"no task is called {wanted}; there are {some}, …")
    return chosen
