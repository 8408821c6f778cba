"""One GPU in eight minutes: the ranker on all recorded runs, and guided GRPO at a service desk, each stage timed.

usage: python benchmarks/gpu.py [RUNS] [--minutes 8] [--epochs 60] [--steps 200] [--log benchmarks/LOG.md] [--toy]

torch chooses the device: a GPU if there is one. The ranker is trained there and, to compare, on the CPU, each until the
loss on held-out families rises or its share of the time is over. GRPO trains the model of guided_rl.py (2 layers,
pretrained here) with hints at half of the steps, until its steps or its time are over. Nothing is fetched.
Prints a JSON line a stage, and adds a row to the log. --toy does a little of all, to see that it runs.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from benchmarks.guided_rl import ROLLOUTS_A_STEP, desk_rollouts, pretrain  # noqa: E402
from benchmarks.parts.measured import about, options  # noqa: E402
from hepm import Memory  # noqa: E402
from hepm.lab.desks.service_desk import make_desk  # noqa: E402
from hepm.lab.rank.data import graph_data  # noqa: E402
from hepm.lab.rank.train import Epoch, TrainOptions, train  # noqa: E402
from hepm.lab.rl.trl import MemoryRollouts  # noqa: E402
from notebooks.desk_training import DeskAgents, DeskEnvironment, desk_log, grpo, success_of  # noqa: E402

SEED = 0
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHARES = {"ranker": 0.45, "ranker on the CPU": 0.6, "GRPO": 0.9}
"""When each stage ends at the latest, as a share of all time."""
COLUMNS = (
    "date, commit, device",
    "runs, calls",
    "ranker: epochs, s an epoch, least loss",
    "on the CPU",
    "GRPO: steps, s a step, reward of the first and last ten",
    "success",
    "s in all",
)
TABLE = f"""
### One GPU

`python benchmarks/gpu.py` adds a row: the ranker `hetero` on all recorded runs, its loss in nats a call on families
held out; then GRPO of 64 rollouts a step at service desk 0, hints at half of the steps, success on 96 held-out wordings
without hints.

| {" | ".join(COLUMNS)} |
{"|---" * len(COLUMNS)}|
"""


class OutOfTime(BaseException):
    """The share of a stage is over. No `Exception`, which libraries catch."""


@contextmanager
def until(end: float) -> Iterator[None]:
    """Leave the block when the clock says so, wherever it is."""

    def ring(*_: object) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, end - time.perf_counter()))
    try:
        with suppress(OutOfTime):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def between(times: Sequence[float]) -> list[float]:
    return [later - sooner for sooner, later in pairwise(times)]


def trained(data: Any, device: str, epochs: int, end: float) -> dict[str, Any]:
    """The epochs of a training: how long each took, and its loss on families held out."""
    ends, losses = [time.perf_counter()], list[float]()

    def seen(epoch: Epoch) -> None:
        ends.append(time.perf_counter())
        losses.append(epoch.held_out_loss)

    with until(end):
        train(data, TrainOptions("hetero", SEED, epochs=epochs, device=device), on_epoch=seen)
    took = between(ends)
    return {
        "device": device,
        "epochs": len(losses),
        "epochs_s": [round(seconds, 2) for seconds in took],
        "losses": [round(loss, 3) for loss in losses],
    }


class TimedRollouts:
    """Rollouts that end a training when its time is over; `began` says when each step did."""

    def __init__(self, rollouts: MemoryRollouts, end: float) -> None:
        self.rollouts, self.player, self.end = rollouts, rollouts.player, end
        self.began: list[float] = []

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        self.began.append(time.perf_counter())
        if self.began[-1] + 2 * max(between(self.began), default=0.0) > self.end:
            trainer.control.should_training_stop = True  # after this step
        return self.rollouts(prompts, trainer)


def guided(folder: Path, steps: int, epochs: int, end: float) -> dict[str, Any]:
    """Guided GRPO at a desk."""
    environment = DeskEnvironment(make_desk(SEED), troubles=2)
    started = time.perf_counter()
    pretrain(environment, folder, DeskAgents(kept=0.5, hinted=0.5, right=0.7, followed=0.9), seed=SEED, epochs=epochs)
    ready = time.perf_counter()
    with Memory.open(folder / "logs.hepm", counting="shortest") as memory:
        memory.ingest(desk_log(environment, DeskAgents(skill=0.7), runs=300, seed=9))
        rollouts = TimedRollouts(desk_rollouts("discard", environment, memory, SEED), end)
        tasks = [task.id for task in environment.tasks() if task.split == "train"]
        on_cpu = DEVICE == "cpu"
        trainer = grpo(folder, rollouts, tasks, steps=steps, seed=SEED, use_cpu=on_cpu)  # type: ignore[arg-type]
    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    took = between([*rollouts.began, time.perf_counter()])
    return {
        "device": str(trainer.model.device),
        "pretraining_s": round(ready - started, 1),
        "steps": len(rewards),
        "step_s": round(statistics.median(took), 2),
        "rollouts": ROLLOUTS_A_STEP * len(rewards),
        "rewards": [round(statistics.fmean(part), 2) for part in (rewards[:10], rewards[-10:])],
        "success": round(success_of(trainer.model, environment, seed=SEED), 3),
    }


def ranked(one: dict[str, Any]) -> str:
    if not one["losses"]:
        return "no epoch in its time"
    return f"{one['epochs']}, {statistics.median(one['epochs_s']):.2f}, {min(one['losses'])}"


def row_of(found: dict[str, dict[str, Any]], seconds: float) -> str:
    """A line of the log's table."""
    ranker, cpu, rl = found["ranker"], found.get("ranker on the CPU"), found["GRPO"]
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else about("gpu")["machine"]
    on_cpu = "the same"
    if cpu is not None:
        alike = ranker["losses"][: len(cpu["losses"])]
        on_cpu = f"{ranked(cpu)}; on the GPU after as many epochs {min(alike, default='none')}"
    cells = [
        f"{date.today()}, {about('gpu')['commit']}, {device}",
        f"{found['read']['runs']:,}, {found['read']['calls']:,}",
        ranked(ranker),
        on_cpu,
        f"{rl['steps']}, {rl['step_s']}, {rl['rewards'][0]} and {rl['rewards'][1]}",
        str(rl["success"]),
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--log", type=Path, default=Path(__file__).with_name("LOG.md"))
    parser.add_argument("--toy", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    started = time.perf_counter()
    ends = {stage: started + 60 * asked.minutes * share for stage, share in SHARES.items()}
    found: dict[str, dict[str, Any]] = {}

    def done(stage: str, measured: dict[str, Any], began: float) -> float:
        found[stage] = measured
        now = time.perf_counter()
        print(json.dumps(about("gpu") | {"stage": stage, "seconds": round(now - began, 1), **measured}), flush=True)
        return now

    with tempfile.TemporaryDirectory(prefix="hepm-gpu-") as folder:
        with Memory.open(f"{folder}/recorded.hepm") as memory:
            memory.ingest(asked.runs)
            data = graph_data(memory.mirror(), memory.embedder)
        now = done("read", {"runs": len(data["run"].id), "calls": data["call"].num_nodes}, started)
        epochs, steps, pretraining = (1, 2, 1) if asked.toy else (asked.epochs, asked.steps, 8)
        now = done("ranker", trained(data, DEVICE, epochs, ends["ranker"]), now)
        if DEVICE != "cpu":
            on_cpu = trained(data, "cpu", found["ranker"]["epochs"], ends["ranker on the CPU"])
            now = done("ranker on the CPU", on_cpu, now)
        now = done("GRPO", guided(Path(folder) / "desk", steps, pretraining, ends["GRPO"]), now)
    row = row_of(found, now - started)
    print(row, end="", flush=True)
    log = asked.log.read_text("utf-8") if asked.log.exists() else ""
    if TABLE not in log:
        log = f"{log.rstrip()}\n{TABLE}"
    asked.log.write_text(log.replace(TABLE, TABLE + row), "utf-8")


if __name__ == "__main__":
    main()
