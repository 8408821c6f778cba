"""What is measured apart: the environments of a log, or the ten domains of the benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hepm.evals.events import Run
from hepm.evals.families import Record, families_of, task_key
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


@dataclass(frozen=True)
class Domain:
    """Runs that share their tools.

    Attributes:
        derived: Holds runs of another domain seen otherwise, so that no count over domains may add it.
    """

    name: str
    runs: Sequence[Run]
    derived: bool = False


def domains_of(records: Iterable[Record]) -> list[Domain]:
    """One domain per environment, by name; one more, NAME+user, where a simulated user called tools too.

    Runs under attack and attackers' goals run as tasks are no example of good work and stay out.
    """
    kept = [record for record in records if not _is_attack(record[1])]
    families = families_of(kept)
    by_name: defaultdict[str, list[tuple[Record, str]]] = defaultdict(list)
    for record, family in zip(kept, families, strict=True):
        by_name[record[1].environment or NO_ENVIRONMENT].append((record, family))
    found: list[Domain] = []
    for name, members in sorted(by_name.items()):
        found.append(Domain(name, [_run(record, name, family) for record, family in members]))
        seen = {record[1].source for record, _ in members if _user_called(record[1])}
        if seen:
            # Files that show the agent's view alone have no such calls in any run; their chains would be another kind.
            both = [(record, family) for record, family in members if record[1].source in seen]
            runs = [_run(record, name + _WITH_USER, family, user_side=True) for record, family in both]
            found.append(Domain(name + _WITH_USER, runs, derived=True))
    return found


def ten_domains(records: Iterable[Record]) -> list[Domain]:
    """The domains of the benchmark that the records hold."""
    found = {domain.name: domain for domain in domains_of(records)}
    return [found[name] for name in TEN_DOMAINS if name in found]


def _run(record: Record, domain: str, family: str, *, user_side: bool = False) -> Run:
    return Run(record[1], domain, family, task_key(record), user_side)


def _is_attack(trajectory: Trajectory) -> bool:
    return trajectory.tags.get("attack", "none") not in ("", "none") or trajectory.task.startswith("injection")


def _user_called(trajectory: Trajectory) -> bool:
    return any(turn.calls for turn in trajectory.turns if turn.role == "user")
