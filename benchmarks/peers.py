"""hepm beside mem0 and Graphiti: recorded runs stored one by one, read, killed and forgotten, with a loopback model.

usage: nice python benchmarks/peers.py [RUNS] [--sizes 100 1000 10000] [--delays 0 1] [--sides ...] [--seconds 240]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). Each peer is its release on PyPI, in an
environment of its own in the user's cache (XDG_CACHE_HOME), with its telemetry off; one that cannot be installed is
left out, and said so. All get the same runs, cut as hepm cuts them, and the same questions: what the users of other
runs first said. mem0 keeps its defaults (Qdrant in a folder, one memory of one user), Graphiti is on Kuzu.
`hepm-embedder` asks the embedder that the peers ask, hepm's default asks nobody.

Model and embedder answer after each of `--delays` seconds (parts/peers/model.py); tokens are characters / 4.
`model_ms` is the processor time they take for a run, which is part of the write; `write_cpu_ms` is that of the memory's
own process, which a busy machine changes least. A size that takes longer than `--seconds` is cut short: `measured` says
how many runs were stored, larger sizes are not tried, and `whole_h`, the hours to store all, is reckoned from the mean.
`start_s` is from the start of a process to its first answer, `start_again_s` that of a second process: hepm's first one
also fits what it keeps in files. A memory that asks nobody is measured at one delay only.

A kill is a SIGKILL at a random moment while runs are being stored: `lost` are runs that were acknowledged and are gone
when the memory is opened again; `unusable` are stores that then cannot be opened or written, the next kill gets a new
one; `torn` is what hepm's own examination finds, memories without a history (mem0), and entities without an episode or
facts without an end (Graphiti), at most after one kill. Forgetting looks for a word of one run: in rows by reading
them, and in the bytes of all files. Prints a JSON line a measurement, then tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.measured import about, options, read_records
from hepm import Trajectory
from hepm.errors import MissingExtraError
from hepm.ingest import shorten
from hepm.ingest.formats.hepm import write_run
from hepm.lab.environments.packages import Package

PARTS: Final = Path(__file__).parent / "parts" / "peers"
PACKAGES: Final = {
    "hepm": None,
    "hepm-embedder": None,
    "mem0": Package(("mem0ai==2.2.1",)),
    # httpx is imported and not required by this release.
    "graphiti": Package(("graphiti-core==0.31.2", "kuzu==0.11.3", "httpx")),
}
MARKER: Final = "kestrelnest"
ASKED: Final = 200
FORGOTTEN_OF: Final = 40

Found = dict[str, Any]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 1])
    parser.add_argument("--sides", nargs="+", choices=PACKAGES, default=[*PACKAGES])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--kills", type=int, default=10)
    arguments = parser.parse_args()
    sizes = sorted(arguments.sizes)
    with tempfile.TemporaryDirectory(prefix="hepm-peers-") as folder, loopback_model() as model:
        runs = Path(folder) / "runs.jsonl"
        stored = write_runs(runs, arguments.runs, max(sizes[-1], FORGOTTEN_OF) + ASKED)
        if stored < FORGOTTEN_OF + ASKED:
            parser.error(f"{arguments.runs} holds {stored} runs, and {FORGOTTEN_OF + ASKED} are needed")
        print(json.dumps(about("peers") | {"runs": stored}), flush=True)
        measured: list[Found] = []
        accidents: list[Found] = []
        for name in arguments.sides:
            try:
                bench = Bench(name, Path(folder), runs, model)
            except MissingExtraError as error:
                print(json.dumps({"side": name, "left out": str(error)}), flush=True)
                continue
            for delay in arguments.delays:
                if delay and bench.asks_nobody:
                    continue
                for found in bench.growth([min(size, stored - ASKED) for size in sizes], delay, arguments.seconds):
                    measured.append(found)
                    print(json.dumps(found), flush=True)
            accidents.append({**bench.kills(arguments.kills), **bench.forgetting()})
            print(json.dumps(accidents[-1]), flush=True)
        print_table(measured)
        print_table(accidents)


class Bench:
    """The measurements of one memory; its environment is made first."""

    def __init__(self, name: str, folder: Path, runs: Path, model: str) -> None:
        package = PACKAGES[name]
        self.name = name
        self._python = str(package.interpreter()) if package else sys.executable
        self._folder, self._runs, self._model = folder, runs, model
        self.asks_nobody = False  # so far: then it makes no difference how long an answer takes

    def growth(self, sizes: Sequence[int], delay: float, seconds: float) -> Iterator[Found]:
        """What a run costs, by size, until one does not end in time."""
        for size in sizes:
            store = self._new_folder()
            self._counts()
            written = self._driven("write", store, "--most", size, "--seconds", seconds, delay=delay)
            counts, times = self._counts(), written["write_ms"]
            skip = ("--skip", size, "--most", ASKED, "--seconds", max(20, seconds / 4))
            read = self._driven("read", store, *skip, delay=delay)
            asked = self._counts()
            self.asks_nobody = not any((*counts.values(), *asked.values()))
            again = self._driven("read", store, "--skip", size, "--most", 1, delay=delay)
            reads = len(read["read_ms"]) + 1
            yield {
                "side": self.name,
                "delay_s": delay,
                "size": size,
                "measured": len(times),
                "model_calls": round(counts.get("model_calls", 0) / len(times), 2),
                "embedding_calls": round(counts.get("embedding_calls", 0) / len(times), 2),
                "prompt_tokens": round(counts.get("prompt_tokens", 0) / len(times)),
                "answer_tokens": round(counts.get("completion_tokens", 0) / len(times)),
                "model_ms": rounded(counts.get("busy_us", 0) / 1e3 / len(times)),
                **spread("write", times),
                "write_cpu_ms": rounded(1e3 * written["cpu_s"] / len(times)),
                "write_last_tenth_ms": rounded(statistics.median(times[-max(1, len(times) // 10) :])),
                "whole_h": rounded(size * statistics.mean(times) / 3.6e6),
                **spread("read", read["read_ms"]),
                "calls_a_read": round((asked.get("model_calls", 0) + asked.get("embedding_calls", 0)) / reads, 2),
                "start_s": rounded(read["start_s"]),
                "start_again_s": rounded(again["start_s"]),
                "disk_open_mb": rounded(written["disk"] / 1e6),
                "disk_mb": rounded(size_of(store) / 1e6),
                "by_kind": {kind.partition(":")[2]: n for kind, n in counts.items() if ":" in kind},
            }
            shutil.rmtree(store)
            if len(times) < size:
                return

    def kills(self, number: int) -> Found:
        """Kill it while it stores runs, each time on what the last kill left."""
        store, chance = self._new_folder(), random.Random(7)
        acknowledged: set[str] = set()
        found = {"acknowledged": 0, "lost": 0, "torn": 0, "unusable": 0}
        for kill in range(number):
            command = self._command("write", store, "--skip", kill * 20, "--most", 20, "--seconds", 600)
            known, crashed = self._killed(command, after=chance.randrange(3, 15), fraction=chance.random())
            acknowledged |= known
            found["acknowledged"] += len(known)
            try:
                held = self._driven("held", store)
            except subprocess.CalledProcessError:
                held, crashed = {"held": [], "torn": 0}, True
            gone = acknowledged - set(held["held"])
            acknowledged -= gone
            found["lost"] += len(gone)
            found["torn"] = max(found["torn"], held["torn"])
            if crashed:  # what the last kill left cannot be written or opened: the next one gets a new store
                found["unusable"] += 1
                store, acknowledged = self._new_folder(), set()
        return {"side": self.name, "kills": number, **found}

    def forgetting(self) -> Found:
        """Store some runs, one of them with a word of its own, and look for the word when that run is forgotten."""
        store = self._new_folder()
        lines = self._runs.read_text(encoding="utf-8").splitlines()[:FORGOTTEN_OF]
        marked = json.loads(lines[FORGOTTEN_OF // 2].replace(MARKED_PLACE, MARKER))
        lines[FORGOTTEN_OF // 2] = json.dumps(marked)
        self._runs.with_name("marked.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._driven("write", store, "--most", FORGOTTEN_OF, "--seconds", 600, runs="marked.jsonl")
        found = self._driven("forget", store, "--forgotten", marked["id"], "--marker", MARKER)
        bytes_left = sum(file.read_bytes().count(MARKER.encode()) for file in files_of(store))
        shutil.rmtree(store)
        return {
            "forget_ms": rounded(found["forget_ms"]),
            "rows_before": sum(found["rows_before"].values()),
            "rows_left": sum(found["rows_left"].values()),
            "rows_left_in": found["rows_left"],
            "times_left_in_files": bytes_left,
        }

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))

    def _command(self, command: str, store: Path, *options: object, delay: float = 0, runs: str = "") -> list[str]:
        endpoint = f"{self._model}/{delay:g}/v1"
        path = self._runs.with_name(runs or self._runs.name)
        spawned = ("--spawned", time.monotonic())
        words = (self._python, PARTS / "drive.py", self.name, command, store, endpoint, path, *spawned, *options)
        return [str(word) for word in words]

    def _driven(self, command: str, store: Path, *options: object, delay: float = 0, runs: str = "") -> Found:
        words = self._command(command, store, *options, delay=delay, runs=runs)
        done = subprocess.run(words, env=self._environment(), check=False, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr[-3000:], file=sys.stderr)
            done.check_returncode()
        return json.loads(done.stdout.splitlines()[-1])

    def _killed(self, command: Sequence[str], *, after: int, fraction: float) -> tuple[set[str], bool]:
        """Kill a writer some time after so many acknowledgements: a fraction of what one took.

        What it acknowledged, and whether it crashed before.
        """
        with subprocess.Popen(
            command, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            assert child.stdout
            begun = time.perf_counter()
            known = [child.stdout.readline()]
            first = time.perf_counter()
            known += [child.stdout.readline() for _ in range(after - 1)]
            a_run = (time.perf_counter() - first) / max(1, after - 1) if after > 1 else first - begun
            time.sleep(fraction * a_run)
            child.send_signal(signal.SIGKILL)
            known += child.stdout.readlines()
        # A line cut short by the kill acknowledges nothing, and the last line of a writer that ended is no id.
        names = {line.strip() for line in known if line.endswith("\n") and not line.startswith("{")}
        return names, child.returncode not in (0, -signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        silent = {"MEM0_TELEMETRY": "False", "GRAPHITI_TELEMETRY_ENABLED": "false", "PYTHONWARNINGS": "ignore"}
        return {**kept, **silent, "HOME": str(home), "MEM0_DIR": str(home / "mem0"), "OPENAI_API_KEY": "none"}

    def _counts(self) -> Found:
        with urllib.request.urlopen(f"{self._model}/counts") as answer:
            return json.load(answer)


@contextlib.contextmanager
def loopback_model() -> Iterator[str]:
    """The address of a model in a process of its own."""
    command = (sys.executable, str(PARTS / "model.py"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin
        assert child.stdout
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
        child.stdin.close()


MARKED_PLACE: Final = "the-word-of-this-run"


def write_runs(path: Path, recorded: Path, most: int) -> int:
    """Write so many of the recorded runs, from all over them, as drive.py reads them; how many there are."""
    runs = [run for _, run in read_records(recorded) if request_of(run)]
    every = max(1, len(runs) // most)
    random.Random(7).shuffle(runs)
    with path.open("w", encoding="utf-8") as file:
        for number, run in enumerate(chosen := runs[::every][:most]):
            file.write(json.dumps(line_of(run, number)) + "\n")
    return len(chosen)


def line_of(run: Trajectory, number: int) -> Found:
    """A run as the memories get it, with a word in what its user first says that `forgetting` replaces."""
    named = f"Case {MARKED_PLACE} {number}. "
    turns = list(shorten(run).turns)
    first = next(at for at, turn in enumerate(turns) if turn.role == "user" and turn.text)
    turns[first] = replace(turns[first], text=named + turns[first].text)
    run = replace(run, turns=tuple(turns))
    return {
        "id": run.id,
        "request": request_of(run).removeprefix(named),
        "messages": list(messages_of(run)),
        "record": write_run(run),
    }


def request_of(run: Trajectory) -> str:
    return next((turn.text for turn in run.turns if turn.role == "user" and turn.text), "")


def messages_of(run: Trajectory) -> Iterable[Found]:
    """The run as texts, which is what the peers take. Without the system prompt, the same in all runs of an agent."""
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            yield {"role": "user", "content": turn.text}
        if turn.role == "assistant":
            calls = [f"calls {call.name}({json.dumps(dict(call.arguments))}): {call.result}" for call in turn.calls]
            if text := "\n".join([*([turn.text] if turn.text else []), *calls]):
                yield {"role": "assistant", "content": text}


def files_of(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in files_of(folder))


def spread(name: str, times: Sequence[float]) -> Found:
    ordered = sorted(times)
    return {
        f"{name}_ms": rounded(statistics.median(ordered)),
        f"{name}_p95_ms": rounded(ordered[int(0.95 * (len(ordered) - 1))]),
    }


def rounded(value: float) -> float:
    """To three significant digits."""
    return float(f"{value:.3g}")


def print_table(found: Sequence[Found]) -> None:
    if not found:
        return
    columns = [name for name, value in found[0].items() if not isinstance(value, dict)]
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for one in found:
        cells = [f"{one[name]:,}" if isinstance(one[name], int) else str(one[name]) for name in columns]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
