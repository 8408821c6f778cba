"""What operations cost in memories of 1,000 to 1,000,000 synthetic runs, each in a process of its own.

usage: python benchmarks/growth.py [--runs 1000 10000 100000] [--folder FOLDER] [--part NAME]... [--docs docs]

Archives (parts/archive.py) and stores in FOLDER are made if they are missing, and used again. Results are kept there
too: a repeated call measures what is missing, or what `--part` names. Prints one JSON line a size. `--docs` writes the
table into tables/growth.md, between its marks, and growth.svg. A part that takes longer than `--limit-s`, or more
memory than `--memory-gib`, is ended and reported as such.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parts.archive import Archive, Shape

if TYPE_CHECKING:  # what a process measures includes what it imports
    from hepm import Memory

Found = dict[str, Any]

QUESTIONS, LEARNED, FORGOTTEN = 300, 30, 20
POLICIES = ("procedural", "episodic", "adaptive", "hybrid")
UNSEEN = 1_000_000_000  # runs of an archive from here on are in no store
USER_WINDOW = 600  # runs of an archive among which all those of one user are

QUESTION = ("--after", "{tool}", "--state", "the customer asks for the order of last week")
SHELL = {
    "shell-version": (3, ("--version",)),
    "shell-procedural": (3, ("suggest", *QUESTION, "--policy", "procedural", "--store", "{store}")),
    "shell-hybrid": (3, ("suggest", *QUESTION, "--policy", "hybrid", "--store", "{store}")),
    "stats": (3, ("stats", "--store", "{store}")),
    "view": (1, ("view", "{folder}/page.html", "--store", "{store}")),
    "doctor": (1, ("doctor", "--store", "{store}")),
}
"""Commands by part, and how often they are run; the median counts."""


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        part, runs, tools, *files = sys.argv[2:]
        archive, store = map(Path, files)
        print(json.dumps(PROCESSES[part](Place(int(runs), int(tools), archive, store))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "hepm-growth")
    parser.add_argument("--part", action="append", choices=[part for part in PARTS if part != "ingest"])
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--memory-gib", type=float, default=8)
    parser.add_argument("--docs", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found: list[Found] = []
    for runs in sorted(arguments.runs):
        found.append(measure(runs, arguments))
        print(json.dumps(found[-1]), flush=True)
    if arguments.docs:
        write_page(found, arguments.docs)


def measure(runs: int, arguments: argparse.Namespace) -> Found:
    """All results of a size; they are written down after each part."""
    archive, store, results = (arguments.folder / f"{runs}.{end}" for end in ("jsonl", "hepm", "json"))
    found: Found = json.loads(results.read_text()) if results.exists() else {"runs": runs, "tools": arguments.tools}
    limits = (arguments.limit_s, arguments.memory_gib)
    for part in arguments.part or [part for part in PARTS if part not in found]:
        own = (sys.executable, __file__, "--measure", part, str(runs), str(arguments.tools), str(archive))
        if part == "ingest":
            if store.exists():
                continue
            if not archive.exists():
                unfinished = archive.with_suffix(".unfinished")
                with unfinished.open("w", encoding="utf-8") as file:
                    file.writelines(Archive(arguments.tools).lines(runs))
                unfinished.rename(archive)
            unfinished = store.with_suffix(".unfinished")
            for old in arguments.folder.glob(f"{unfinished.name}*"):
                old.unlink()
            found[part] = limited((*own, str(unfinished)))
            found[part]["cpu_us_a_run"] = 1e6 * found[part]["cpu_s"] / runs
            unfinished.rename(store)
        elif part in SHELL:
            times, command = SHELL[part]
            tool = Archive(arguments.tools).tools[Shape().common_tools]  # the first one of an environment
            filled = [text.format(store=store, folder=arguments.folder, tool=tool) for text in command]
            tries = [limited((sys.executable, "-m", "hepm", *filled), *limits) for _ in range(times)]
            found[part] = sorted(tries, key=lambda one: one.get("s", 0))[len(tries) // 2]
        else:
            found[part] = limited((*own, str(store)), *limits)
        results.write_text(json.dumps(found, indent=1))
    return found


def limited(command: tuple[str, ...], limit_s: float | None = None, memory_gib: float | None = None) -> Found:
    """Run a command: its seconds, its processor seconds, its peak MiB, and what it found; else why it "failed"."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        if memory_gib is not None:
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (int(memory_gib * 2**30), resource.RLIM_INFINITY))
        timer = threading.Timer(limit_s or threading.TIMEOUT_MAX, os.killpg, (child.pid, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        late = timer.finished.is_set()
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        found: Found = {"s": time.perf_counter() - started, "cpu_s": usage.ru_utime + usage.ru_stime}
        found["peak_mib"] = usage.ru_maxrss / 2**10
        output.seek(0)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
        if late:
            return {"failed": f"not ended in {limit_s:g} s", **found}
        if child.returncode:
            return {"failed": lines[-1] if lines else f"exit {child.returncode}", **found}
        if "--measure" in command:
            found |= json.loads(output.read())
        return found


# What is measured in a process of its own


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

    def questions(self) -> Iterable[Found]:
        """Situations of new runs."""
        from hepm.ingest.formats.hepm import parse_run
        from hepm.ingest.transitions import transitions
        from hepm.types import START

        asked = 0
        for line in self.organisation.lines(QUESTIONS, first=UNSEEN):
            history: list[str] = []
            for passed in transitions(parse_run(line)):
                after = None if passed.sources == (START,) else passed.sources
                history.extend(after or ())
                yield {"after": after, "history": tuple(history), "state": passed.state}
                asked += 1
                if asked == QUESTIONS:
                    return


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
        "ms_a_run": 1e3 * (end - at[0][1]) / runs,
        "last_tenth_us_a_run": 1e6 * (end - then) / (runs - before),
        "file_mib": place.store.stat().st_size / 2**20,
    }


def part_open(place: Place) -> Found:
    started = time.perf_counter()
    from hepm import Memory

    with Memory.open(place.store):
        return {"opening_s": time.perf_counter() - started}


def part_suggest(place: Place, policy: str) -> Found:
    questions = list(place.questions())
    started = time.perf_counter()
    from hepm import Memory

    with Memory.open(place.store) as memory:
        memory.suggest(**questions[0], policy=policy)
        first = time.perf_counter() - started
        times = [milliseconds(partial(memory.suggest, **one, policy=policy)) for one in questions[1:]]
    return {"first_s": first, **_spread("further", times)}


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


def part_learn(place: Place, policy: str | None = None) -> Found:
    """Learn runs one by one, and forget them; with a policy, a suggestion is asked for before each and after it."""
    from hepm import Memory
    from hepm.ingest.formats.hepm import parse_run

    questions = list(place.questions())
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
        for run in runs:
            memory.forget(trajectory=run.id)
    found = _spread("learned", learned)
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


PROCESSES: dict[str, Callable[[Place], Found]] = {
    "ingest": part_ingest,
    "build-hybrid": partial(part_suggest, policy="hybrid"),  # what it keeps beside the store is made here
    "open": part_open,
    **{f"suggest-{policy}": partial(part_suggest, policy=policy) for policy in POLICIES},
    "learn-fresh": part_learn_fresh,
    "learn": part_learn,
    "learn-with-hybrid": partial(part_learn, policy="hybrid"),
    "forget": part_forget,
}
PARTS = (*PROCESSES, *SHELL)

# The page of the docs

ROWS = [
    ("ingest, µs a run", "ingest", "us_a_run"),
    ("ingest, its last tenth, µs a run", "ingest", "last_tenth_us_a_run"),
    ("ingest, µs of processor time a run", "ingest", "cpu_us_a_run"),
    ("ingest, peak MiB", "ingest", "peak_mib"),
    ("file, MiB", "ingest", "file_mib"),
    ("opening, s", "open", "opening_s"),
    *((f"{policy}: first suggestion, s", f"suggest-{policy}", "first_s") for policy in POLICIES),
    ("hybrid: the same before it was ever asked, s", "build-hybrid", "first_s"),
    *((f"{policy}: further ones, ms", f"suggest-{policy}", "further_ms") for policy in POLICIES),
    *((f"{policy}: further ones at p99, ms", f"suggest-{policy}", "further_p99_ms") for policy in POLICIES),
    *((f"{policy}: peak MiB", f"suggest-{policy}", "peak_mib") for policy in POLICIES),
    ("`hepm --version`, s", "shell-version", "s"),
    ("`hepm suggest --policy procedural`, s", "shell-procedural", "s"),
    ("`hepm suggest`, s", "shell-hybrid", "s"),
    ("`hepm suggest`, peak MiB", "shell-hybrid", "peak_mib"),
    ("learn one more run, ms", "learn", "learned_ms"),
    ("the same, hybrid suggestions in between, ms", "learn-with-hybrid", "learned_ms"),
    ("hybrid suggestion after it, ms", "learn-with-hybrid", "asked_then_ms"),
    ("learn one run in a fresh process, s", "learn-fresh", "fresh_s"),
    ("forget a run, ms", "forget", "forgotten_ms"),
    ("forget a run at p99, ms", "forget", "forgotten_p99_ms"),
    ("forget a user of some 12 runs, ms", "forget", "user_ms"),
    ("`hepm stats`, s", "stats", "s"),
    ("`hepm view`, s", "view", "s"),
    ("`hepm view`, peak MiB", "view", "peak_mib"),
    ("`hepm doctor`, s", "doctor", "s"),
    ("`hepm doctor`, peak MiB", "doctor", "peak_mib"),
]
PANELS = {
    "first suggestion in a fresh process, s": [(policy, f"suggest-{policy}", "first_s") for policy in POLICIES],
    "further suggestions, median ms": [(policy, f"suggest-{policy}", "further_ms") for policy in POLICIES],
    "memory of a process, peak MiB": [
        (name.partition("-")[2] or name, name, "peak_mib")
        for name in ("suggest-procedural", "suggest-hybrid", "ingest", "doctor")
    ],
    "one run, ms": [
        ("ingest of many", "ingest", "ms_a_run"),
        ("learn one more", "learn", "learned_ms"),
        ("with hybrid suggestions", "learn-with-hybrid", "learned_ms"),
        ("forget", "forget", "forgotten_ms"),
    ],
}
_TABLE = re.compile(r"(?<=<!-- growth: table -->\n).*?(?=<!-- growth: end -->)", re.DOTALL)


def write_page(found: Sequence[Found], folder: Path) -> None:
    """Write the table between its marks in tables/growth.md, and growth.svg beside it."""
    page = folder / "tables/growth.md"
    text, times = _TABLE.subn(lambda _: table(found), page.read_text("utf-8"))
    if not times:
        raise SystemExit(f"{page} lacks the marks of the table: <!-- growth: table --> and <!-- growth: end -->")
    page.write_text(text, "utf-8")
    plot(found, folder / "images/growth.svg")


def table(found: Sequence[Found]) -> str:
    sizes = [f"{one['runs']:,}" for one in found]
    lines = [f"| runs | {' | '.join(sizes)} |", "|---" * (len(found) + 1) + "|"]
    for name, part, key in ROWS:
        cells = [_cell(one.get(part, {}), key) for one in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(of_part: Found, key: str) -> str:
    if "failed" in of_part:
        return of_part["failed"]
    value = of_part.get(key)
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(found: Sequence[Found], file: Path) -> None:
    """A panel for each kind of cost, with logarithmic axes; what failed is left out."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "hepm", "font.size": 8, "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True)
    for axis, (title, curves) in zip(axes.flat, PANELS.items(), strict=True):
        for name, part, key in curves:
            parts = [(one["runs"], one.get(part, {})) for one in found]
            points = [(runs, of[key]) for runs, of in parts if "failed" not in of and key in of]
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axis.set(title=title, xscale="log", yscale="log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("runs")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
