"""Compare trained rankers with the default policy and plain ones, alone and as one more voice in the default policy.

usage: python benchmarks/rank.py [RUNS] [--domain NAME]... [--model NAME]... [--seen] [--seeds 1]
       python benchmarks/rank.py --plot docs/tables/rankers.md docs/images/ranker.png

Per domain with the task's family out of memory (five folds); --seen adds hints with the run alone left out
(ten folds). Prints Markdown: hit@1, hit@2, hit@3 and MRR, the differences from the default policy with paired 95 %
intervals, and what hints of two tools are worth at divergences; of each seed of training a row.
--plot draws the table of a page.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from parts.gnn4plan import Gnn4Plan
from parts.measured import options, read_records, recorded_domains, spanned

from hepm.evals.baselines import Hint, Method, Ranking, Training
from hepm.evals.domains import Domain, Event
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import FilledMemory, PolicyPredictor
from hepm.evals.metrics import METRICS
from hepm.evals.report import EvalOptions
from hepm.evidence.upkeep import live_evidence
from hepm.lab.bench.planned import smoothed
from hepm.lab.rank.data import NEXT, graph_data
from hepm.lab.rank.train import TrainOptions, export, train
from hepm.policy import Hybrid
from hepm.rank.calls import read_calls
from hepm.rank.ranker import Ranker
from hepm.rank.situations import Situations, situations_now
from notebooks.ranker_alone import RankerAlone

BASELINES = ("sgc", "gnn4plan")
TRAINED = ("sage", "gatv2", "hetero")
NUMBER = r"([+−-]?\.\d+)"
SPAN = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")


class Plain:
    """A baseline on the memory of a training set, which ranks the tools that successful runs called."""

    def __init__(self, model: str, seed: int, training: Training) -> None:
        self._filled = filled = FilledMemory.of(training)
        self._calls = read_calls(filled.mirror.store, filled.mirror.name)
        data = graph_data(filled.mirror, filled.embedder)
        self._names: list[str] = list(data["tool"].name)
        self._score = scorer(model, seed, data)
        self._known = live_evidence(filled.mirror).latest().support.keys()

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        """Every such tool."""
        rankings: list[Ranking] = []
        for query in self._filled.queries(events):
            scores = self._score(situations_now(query, self._calls)).tolist()
            found = [(name, score) for name, score in zip(self._names, scores, strict=True) if name in self._known]
            rankings.append(sorted(found, key=lambda one: (-one[1], one[0])))
        return rankings

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        """The first tools, however unlikely."""
        return [Hint(tuple(name for name, _ in ranking[:k])) for ranking in self.rank(events)]


def scorer(model: str, seed: int, data) -> Callable[[Situations], np.ndarray]:
    """Scores of all tools by a baseline."""
    nothing = np.zeros(0, dtype=np.intp)
    ends = data[NEXT].edge_index
    follows = [ends[1][ends[0] == at].numpy() for at in range(len(data["tool"].name))]
    follows.append(nothing)  # after no known tool
    if model == "sgc":
        tools_TD = smoothed(data["tool"].x.numpy(), ends.numpy())

        def plain(now: Situations) -> np.ndarray:
            found = tools_TD @ now.state_QD[0]
            found[follows[now.before_Q2[0, 0]]] += 2.0  # before all others: cosines are at most 2 apart
            return found

        return plain
    call, success_R = data["call"], data["run"].success
    rows = ((call["position"] > 0) & (call["state"] >= 0) & success_R[call["run"]]).nonzero()[:, 0].numpy()
    trained = Gnn4Plan.trained(data, rows, seed=seed)
    with torch.no_grad():
        tools_TH = trained.tools(data).numpy()
        weight, bias = (value.numpy() for value in (trained.state.weight, trained.state.bias))

    def greedy(now: Situations) -> np.ndarray:
        found = tools_TH @ (weight @ now.state_QD[0] + bias)
        found[follows[now.before_Q2[0, 0]]] += 20.0
        return found

    return greedy


def methods(models: Sequence[str], seeds: int) -> Iterator[Method]:
    """The default policy, the baselines, and each trained ranker in the default policy and alone."""
    yield Method("hybrid", "", plainly)
    for model in models:
        for seed in range(seeds):
            name = f"{model} {seed}" if seeds > 1 else model
            if model in BASELINES:
                yield Method(name, "", partial(Plain, model, seed))
                continue
            trained = cache(partial(ranker_of, TrainOptions(model, seed)))
            yield Method(f"hybrid + {name}", "", partial(voiced, trained))
            yield Method(name, "", partial(alone, trained))


def plainly(training: Training) -> PolicyPredictor:
    return PolicyPredictor(lambda floors: Hybrid(floors=floors), training)


def voiced(ranker: Callable[[Training], Ranker], training: Training) -> PolicyPredictor:
    found = ranker(training)
    return PolicyPredictor(lambda floors: Hybrid(floors=floors, ranker=found), training)


def alone(ranker: Callable[[Training], Ranker], training: Training) -> PolicyPredictor:
    found = ranker(training)
    return PolicyPredictor(lambda floors: RankerAlone(found, floors), training)


def ranker_of(asked: TrainOptions, training: Training) -> Ranker:
    """A ranker that was trained on the runs of a memory."""
    filled = FilledMemory.of(training)
    data = graph_data(filled.mirror, filled.embedder)
    return Ranker(export(train(data, asked), data), data["tool"].name)


def compare(domains: Sequence[Domain], models: Sequence[str], seeds: int, *, seen: bool) -> Iterator[str]:
    """Markdown of the comparison."""
    report = evaluate(domains, [*methods(models, seeds)], EvalOptions(reference="hybrid", seen=seen))
    gains = {title: by for title, by in (("unseen", report.rescue), ("seen", report.rescue_seen)) if by}
    head = [f"gain, {title}" for title in gains]
    yield f"| {' | '.join(['', 'hit@1 / hit@2 / hit@3 / MRR', 'hit@2 against hybrid', 'MRR against hybrid', *head])} |"
    yield "|---" * (4 + len(head)) + "|"
    for name, scores in report.macro.items():
        cells = [" / ".join(f"{scores.values[metric]:.3f}" for metric in METRICS)]
        for metric in ("hit@2", "mrr"):
            ahead = scores.difference.get(metric)
            cells.append(spanned(ahead.value, ahead.interval.low, ahead.interval.high) if ahead else "")
        for helped in (by.get(name) for by in gains.values()):
            cells.append(spanned(helped.gain, *helped.interval["gain"]) if helped and helped.divergences else "")
        yield f"| {name} | {' | '.join(cells)} |"


def plot(page: Path, target: Path) -> None:
    """Draw MRR and gain of the table's rows with their intervals."""
    from parts.drawing import drawing

    rows: list[tuple[str, list[tuple[float, float, float]]]] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" *`") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and SPAN.search(cells[4]):
            spans = [SPAN.search(cell) for cell in cells[3:]]
            found = [tuple(float(v.replace("−", "-")) for v in s.groups()) if s else (0.0, 0.0, 0.0) for s in spans]
            rows.append((re.sub(r"[`*]", "", cells[0]), found))
    rows.reverse()
    titles = ("MRR against the hybrid policy", "gain where failed runs diverged")
    with drawing(target, "", size=(10, 0.34 * len(rows) + 1), panels=2) as axes:
        for at, (axis, title) in enumerate(zip(axes, titles, strict=True)):
            for y, (_, spans) in enumerate(rows):
                mean, low, high = spans[at]
                axis.plot([low, high], [y, y], color="#4477aa", linewidth=2)
                axis.plot(mean, y, "o", color="#4477aa", markersize=5)
            axis.axvline(rows[-1][1][at][0], color="#999999", linewidth=1, linestyle=":")
            axis.set_title(title, fontsize=10)
            axis.set_yticks(range(len(rows)), [name if not at else "" for name, _ in rows], fontsize=9)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--model", action="append", default=[], choices=(*BASELINES, *TRAINED))
    parser.add_argument("--seen", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, help="rankers of each model")
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("PAGE", "PICTURE"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plot:
        plot(*arguments.plot)
        return
    domains = recorded_domains(read_records(arguments.runs))
    chosen = [domain for domain in domains if not arguments.domain or domain.name in arguments.domain]
    models = arguments.model or [*BASELINES, *TRAINED]
    for line in compare(chosen, models, arguments.seeds, seen=arguments.seen):
        print(line, flush=True)


if __name__ == "__main__":
    main()
