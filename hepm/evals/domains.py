"""What is measured apart: the environments of a log, or the ten domains of the benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hepm.evals.events import Run
from hepm.evals.splits import Record, families_of, task_of
from hepm.experience.distilling.likeness import group_by_request
from hepm.ingest.digest import content_digest
from hepm.types import Trajectory

TEN_DOMAINS = (
    "airline",
    "retail",
    "telecom",
    "telecom+user",
    "telecom-solo",
    "agentdojo-banking",
    "agentdojo-slack",
    "agentdojo-travel",
    "agentdojo-workspace",
    "bfcl-multi_turn_base",
)
"""Those of design.md, section 8, in its order."""

NO_ENVIRONMENT = "default"
_WITH_USER = "+user"
_FEW_REPEAT: Final = 0.9  # at least so many runs are alone under their task
_FEWEST_GROUPS: Final = 5


@dataclass(frozen=True)
class Domain:
    """Runs that share their tools.

    Attributes:
        tested: Runs to predict from `runs`; None where the runs are to be divided among themselves.
        derived: Holds runs of another domain seen otherwise, so that no count over domains may add both; see `counted`.
        grouped: Tasks and families are groups of like requests (see `by_request`).
    """

    name: str
    runs: Sequence[Run]
    tested: Sequence[Run] | None = None
    derived: bool = False
    grouped: bool = False


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Each run once, where it first came; the last label that is known stands, as in a store.

    A run is another one's repeat where both have one id and hold the same. Equal ids alone tell too little here: logs
    number their runs from 1, and an evaluation of several would lose all but the first.
    """
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        run = record[1]
        key = run.id, content_digest(run)
        if key not in found or run.outcome.success is not None:
            found[key] = record  # a key that is there keeps its place
    return [*found.values()]


def domains_of(
    records: Iterable[Record], *, tested: Iterable[Record] | None = None, families_by_task: bool = False
) -> list[Domain]:
    """One domain per environment, by name; one more, NAME+user, where a simulated user called tools too.

    Runs under attack and attackers' goals run as tasks are no example of good work and stay out.

    Args:
        tested: Records to predict from the others, where these are given apart.
        families_by_task: See `families_of`.
    """
    runs = _by_domain([*records], [] if tested is None else [*tested], families_by_task)
    found: list[Domain] = []
    for name, members in sorted(runs.items()):
        remembered = [run for run, is_tested in members if not is_tested]
        others = None if tested is None else [run for run, is_tested in members if is_tested]
        found.append(Domain(name, remembered, others, derived=any(run.user_side for run, _ in members)))
    return found


def _by_domain(
    records: list[Record], tested: list[Record], families_by_task: bool
) -> dict[str, list[tuple[Run, bool]]]:
    kept = [(record, False) for record in records] + [(record, True) for record in tested]
    kept = [(record, is_tested) for record, is_tested in kept if not _is_attack(record[1])]
    # Files that show the agent's view alone hold no call of a user in any run; their chains would be of another kind.
    both_sides = {_place(trajectory) for (_, trajectory), _ in kept if _user_called(trajectory)}
    families = families_of([record for record, _ in kept], by_task=families_by_task)
    found: defaultdict[str, list[tuple[Run, bool]]] = defaultdict(list)
    for (record, is_tested), family in zip(kept, families, strict=True):
        name = record[1].environment or NO_ENVIRONMENT
        task = task_of(record)
        found[name].append((Run(record[1], name, family, task), is_tested))
        if _place(record[1]) in both_sides:
            name += _WITH_USER
            found[name].append((Run(record[1], name, family, task, user_side=True), is_tested))
    return found


def by_request(domain: Domain) -> Domain:
    """The domain with groups of like requests as tasks and families, where hardly any task was run twice.

    It stays as it is where tasks repeat, where no run failed or none succeeded, where requests do not tell runs apart,
    and where it is derived, since no divergences are looked for there. Runs of the few tasks that repeat keep them (see
    `hepm.experience.distilling.likeness`).
    """
    runs = [*domain.runs, *(domain.tested or ())]
    times = Counter(run.task for run in runs)
    alone = [run for run in runs if times[run.task] == 1]
    if domain.derived or {True, False} - {run.success for run in runs} or len(alone) < _FEW_REPEAT * len(runs):
        return domain
    groups = group_by_request(run.trajectory for run in alone)
    if len(set(groups.values())) < _FEWEST_GROUPS:
        return domain

    def grouped(run: Run) -> Run:
        group = groups.get(run.id)
        return run if group is None else replace(run, task=f"like {group}", family=f"like {group}")

    tested = None if domain.tested is None else [grouped(run) for run in domain.tested]
    return replace(domain, runs=[grouped(run) for run in domain.runs], tested=tested, grouped=True)


def _place(trajectory: Trajectory) -> tuple[str, str]:
    return trajectory.source, trajectory.environment


def counted(domains: Iterable[Domain]) -> list[Domain]:
    """The domains that a count may add: none that shows the runs of another one of them otherwise."""
    found = [*domains]
    names = {domain.name for domain in found}
    return [domain for domain in found if not domain.derived or domain.name.removesuffix(_WITH_USER) not in names]


def ten_domains(records: Iterable[Record], *, families_by_task: bool = True) -> list[Domain]:
    """The domains of the benchmark that the records hold, with families as its reference numbers have them."""
    found = {domain.name: domain for domain in domains_of(records, families_by_task=families_by_task)}
    return [found[name] for name in TEN_DOMAINS if name in found]


def _is_attack(trajectory: Trajectory) -> bool:
    return trajectory.tags.get("attack", "none") not in ("", "none") or trajectory.task.startswith("injection")


def _user_called(trajectory: Trajectory) -> bool:
    return any(turn.calls for turn in trajectory.turns if turn.role == "user")
