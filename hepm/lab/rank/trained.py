"""What a trained ranker (`hepm.rank`) adds to the hybrid policy, on families of its memory that it did not see."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from hepm.evals.baselines import Method, Training
from hepm.evals.domains import Domain, by_request, domain_of
from hepm.evals.evaluate import evaluate
from hepm.evals.methods import FilledMemory, PolicyPredictor
from hepm.evals.report import EvalOptions, EvalReport
from hepm.lab.rank.train import TrainOptions, build
from hepm.memory import Memory
from hepm.policy import Hybrid
from hepm.rank.checkpoint import Gate
from hepm.rank.ranker import Ranker

HYBRID, BOTH = "hybrid", "hybrid + gnn"


def measure(
    memory: Memory,
    namespace: str,
    options: TrainOptions = TrainOptions(),
    *,
    on_fold: Callable[[int], None] = lambda _: None,
) -> EvalReport:
    """The hybrid policy without and with a ranker, of which each fold trains one of its own.

    Raises:
        InputError: too few families, or none of the runs has an outcome.
    """
    domain = _domain(memory, namespace)
    number = count(1)

    def fit(training: Training) -> PolicyPredictor:
        on_fold(next(number))
        filled = FilledMemory.of(training)
        built = build(filled.mirror, filled.embedder, options)
        ranker = Ranker(built.weights, built.tools)
        return PolicyPredictor(lambda floors: Hybrid(floors=floors, ranker=ranker), training)

    methods = [
        Method(HYBRID, "the default policy", partial(PolicyPredictor, lambda floors: Hybrid(floors=floors))),
        Method(BOTH, "the same with the ranker as one more feature", fit),
    ]
    # Few folds: each trains a ranker of its own, which takes minutes.
    return evaluate([domain], methods, EvalOptions(folds=3, seed=options.seed, reference=HYBRID, seen=False))


def gate_of(report: EvalReport) -> Gate:
    """Whether the hybrid policy gains by the ranker, from `measure`."""
    without, with_ranker = report.macro[HYBRID], report.macro[BOTH]
    hints_without, hints_with = report.rescue[HYBRID], report.rescue[BOTH]
    return Gate(
        calls=report.events,
        families=report.families,
        hit2=(without.values["hit@2"], with_ranker.values["hit@2"]),
        mrr=(without.values["mrr"], with_ranker.values["mrr"]),
        interval=with_ranker.difference["mrr"].interval,
        divergences=hints_without.divergences,
        gain=(hints_without.gain, hints_with.gain),
    )


def _domain(memory: Memory, namespace: str) -> Domain:
    """The runs of a namespace as one domain: of a larger memory the latest 2,000, as every fold is stored anew."""
    success_from = memory.header.success_from
    # Untrusted runs teach nothing, here as elsewhere.
    trusted = [run.graded(success_from) for run in memory.runs(namespace=namespace) if run.trusted]
    return by_request(domain_of(namespace, [("hepm", run) for run in trusted[-2_000:]]))
