"""What growth.py measures in a process of its own: python benchmarks/growth_parts.py PART RUNS TOOLS ARCHIVE STORE."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import Archive

if TYPE_CHECKING:
    from hepm import Memory

Found = dict[str, Any]

QUESTIONS, LEARNED, FORGOTTEN = 300, 30, 20
POLICIES = ("procedural", "episodic", "adaptive", "hybrid")
UNSEEN = 1_000_000_000  # runs of an archive from here on are in no store
USER_WINDOW = 600  # runs of an archive among which all those of one user are


class Place:
    """An archive, the store of its runs, and further runs of the same organisation."""

    def __init__(self, runs: int, tools: int, archive: Path, store: Path) -> None:
        self.runs, self.archive, self.store = runs, archive, store
        self.organisation = Archive(tools)

    def new_runs(self, number: int, memory: Memory) -> list[str]:
        """Runs that the store never held: a measurement that was ended may have left some of the former ones."""
        return list(self.organisation.lines(number, first=UNSEEN + 1000 * memory.header.revision))

    def stored_runs(self, number: int) -> list[str]:
        """So many of the stored runs, from all over the archive."""
        every = max(1, self.runs // number)
        return [next(self.organisation.lines(1, first=at)) for at in range(every // 2, self.runs, every)][:number]


def part_ingest(place: Place) -> Found:
    from hepm import Memory

    at = [(0, time.perf_counter())]
    with Memory.open(place.store) as memory:
        memory.ingest(place.archive, on_batch=lambda report: at.append((report.stored, time.perf_counter())))
    runs, end = at[-1]
    # The last tenth, or the last batch where one is larger.
    before, then = next(one for one in reversed(at[:-1]) if one[0] <= runs * 0.9 or one is at[0])
    return {
        "us_a_run": 1e6 * (end - at[0][1]) / runs,
        "last_tenth_us_a_run": 1e6 * (end - then) / (runs - before),
        "file_mib": place.store.stat().st_size / 2**20,
    }


def part_open(place: Place) -> Found:
    started = time.perf_counter()
    from hepm import Memory

    with Memory.open(place.store):
        return {"opening_s": time.perf_counter() - started}


def part_suggest(place: Place, policy: str) -> Found:
    questions = list(_questions(place))
    started = time.perf_counter()
    from hepm import Memory

    with Memory.open(place.store) as memory:
        memory.suggest(**questions[0], policy=policy)
        first = time.perf_counter() - started
        times = [milliseconds(partial(memory.suggest, **one, policy=policy)) for one in questions[1:]]
    return {"first_s": first, **_spread("further", times)}


def _questions(place: Place) -> Iterable[Found]:
    """Situations of new runs."""
    from hepm.ingest.formats.hepm import parse_run
    from hepm.ingest.transitions import transitions
    from hepm.types import START

    asked = 0
    for line in place.organisation.lines(QUESTIONS, first=UNSEEN):
        history: list[str] = []
        for passed in transitions(parse_run(line)):
            after = None if passed.sources == (START,) else passed.sources
            history.extend(after or ())
            yield {"after": after, "history": tuple(history), "state": passed.state}
            asked += 1
            if asked == QUESTIONS:
                return


def part_learn_fresh(place: Place) -> Found:
    from hepm.ingest.formats.hepm import parse_run

    started = time.perf_counter()
    from hepm import Memory

    with Memory.open(place.store) as memory:
        made = time.perf_counter()
        run = parse_run(place.new_runs(1, memory)[0])
        started += time.perf_counter() - made
        memory.ingest(run)
        found = time.perf_counter() - started
        memory.forget(trajectory=run.id)
    return {"fresh_s": found}


def part_learn(place: Place) -> Found:
    return _learn(place, None)


def part_learn_with_hybrid(place: Place) -> Found:
    return _learn(place, "hybrid")


def _learn(place: Place, policy: str | None) -> Found:
    """Learn runs one by one, and forget them; with a policy, a suggestion is asked for before each and after it."""
    from hepm import Memory
    from hepm.ingest.formats.hepm import parse_run

    questions = list(_questions(place))
    with Memory.open(place.store) as memory:
        runs = [parse_run(line) for line in place.new_runs(LEARNED + 1, memory)]
        memory.ingest(runs[0])
        learned: list[float] = []
        asked: list[float] = []
        for number, run in enumerate(runs[1:]):
            if policy is not None:
                memory.suggest(**questions[2 * number], policy=policy)
            learned.append(milliseconds(partial(memory.ingest, run)))
            if policy is not None:
                asked.append(milliseconds(partial(memory.suggest, **questions[2 * number + 1], policy=policy)))
    with Memory.open(place.store) as memory:  # anew: in the other one each would change what hybrid has computed
        forgotten = [milliseconds(partial(memory.forget, trajectory=run.id)) for run in runs]
    found = {**_spread("learned", learned), **_spread("forgotten_again", forgotten)}
    return {**found, **_spread("asked_then", asked)} if asked else found


def part_forget(place: Place) -> Found:
    """Forget stored runs one by one, and all of a user, and learn them again."""
    from hepm import Memory
    from hepm.ingest.formats.hepm import parse_run

    runs = [parse_run(line) for line in place.stored_runs(FORGOTTEN)]
    number = place.runs // 3 // USER_WINDOW * USER_WINDOW
    window = [parse_run(line) for line in place.organisation.lines(USER_WINDOW, first=number)]
    user = window[0].user
    with Memory.open(place.store) as memory:
        forgotten = [milliseconds(partial(memory.forget, trajectory=run.id)) for run in runs]
        memory.ingest(runs)
        started = time.perf_counter()
        gone = set(memory.forget(user=user))
        of_user = time.perf_counter() - started
        memory.ingest([run for run in window if run.id in gone])
    return {**_spread("forgotten", forgotten), "user_ms": 1e3 * of_user, "user_runs": len(gone)}


def milliseconds(function: Callable[[], object]) -> float:
    """What a call takes."""
    started = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - started)


def _spread(name: str, times: list[float]) -> Found:
    ordered = sorted(times)
    return {f"{name}_ms": statistics.median(times), f"{name}_p99_ms": ordered[int(0.99 * (len(ordered) - 1))]}


PARTS: dict[str, Callable[[Place], Found]] = {
    "ingest": part_ingest,
    "build-hybrid": partial(part_suggest, policy="hybrid"),  # what it keeps beside the store is made here
    "open": part_open,
    **{f"suggest-{policy}": partial(part_suggest, policy=policy) for policy in POLICIES},
    "learn-fresh": part_learn_fresh,
    "learn": part_learn,
    "learn-with-hybrid": part_learn_with_hybrid,
    "forget": part_forget,
}

if __name__ == "__main__":
    part, runs, tools, *files = sys.argv[1:]
    archive, store = map(Path, files)
    print(json.dumps(PARTS[part](Place(int(runs), int(tools), archive, store))))
