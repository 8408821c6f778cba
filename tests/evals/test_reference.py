"""The plain baselines on recorded runs, against numbers that another program measured with other libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hepm.evals.domains import TEN_DOMAINS, ten_domains
from hepm.evals.evaluate import EvalOptions, evaluate
from hepm.evals.methods import find_methods
from hepm.evals.metrics import METRICS
from hepm.evals.report import EvalReport
from hepm.ingest import Rejection, read_runs

pytestmark = [pytest.mark.xdist_group("reference"), pytest.mark.exhaustive]  # the runs are evaluated once

TOLERANCE = 0.003

EVENTS = dict(zip(TEN_DOMAINS, (1658, 2087, 270, 403, 467, 178, 1067, 772, 508, 942), strict=True))

# hit@1, hit@2, hit@3 and MRR of five folds by task family, a line per domain in order of TEN_DOMAINS. Second order
# and similarity were measured with scikit-learn's TfidfVectorizer.
REFERENCE = {
    "global": """
        0.402 0.557 0.669 0.570
        0.423 0.545 0.724 0.586
        0.567 0.626 0.685 0.669
        0.221 0.342 0.370 0.347
        0.242 0.368 0.415 0.380
        0.315 0.393 0.427 0.440
        0.273 0.306 0.480 0.433
        0.014 0.065 0.115 0.164
        0.187 0.207 0.252 0.310
        0.047 0.091 0.122 0.139
    """,
    "first-order": """
        0.590 0.697 0.767 0.705
        0.598 0.777 0.853 0.735
        0.619 0.670 0.785 0.722
        0.452 0.603 0.690 0.591
        0.576 0.692 0.762 0.690
        0.236 0.455 0.567 0.440
        0.482 0.639 0.701 0.638
        0.290 0.427 0.500 0.446
        0.270 0.526 0.693 0.495
        0.549 0.687 0.753 0.662
    """,
    "second-order": """
        0.606 0.698 0.756 0.710
        0.632 0.786 0.853 0.755
        0.622 0.752 0.844 0.748
        0.449 0.638 0.725 0.601
        0.619 0.715 0.777 0.718
        0.281 0.528 0.640 0.481
        0.485 0.705 0.758 0.655
        0.369 0.453 0.538 0.500
        0.331 0.492 0.669 0.514
        0.562 0.686 0.753 0.668
    """,
    "similarity": """
        0.585 0.710 0.777 0.705
        0.626 0.751 0.823 0.743
        0.715 0.856 0.915 0.820
        0.556 0.677 0.737 0.664
        0.696 0.777 0.812 0.773
        0.360 0.455 0.640 0.507
        0.575 0.675 0.746 0.694
        0.310 0.490 0.578 0.484
        0.453 0.646 0.732 0.609
        0.667 0.759 0.795 0.738
    """,
    "second-order+similarity": """
        0.615 0.750 0.806 0.731
        0.634 0.803 0.861 0.761
        0.663 0.830 0.922 0.790
        0.511 0.675 0.757 0.643
        0.670 0.754 0.803 0.755
        0.360 0.579 0.646 0.528
        0.555 0.717 0.763 0.693
        0.329 0.470 0.596 0.492
        0.407 0.638 0.736 0.586
        0.591 0.740 0.785 0.696
    """,
}
MACRO = {
    "global": (0.269, 0.350, 0.426, 0.404),
    "first-order": (0.466, 0.617, 0.707, 0.613),
    "h-epm-c1": (0.466, 0.613, 0.708, 0.612),
    "second-order": (0.496, 0.645, 0.731, 0.635),
    "similarity": (0.554, 0.680, 0.755, 0.674),
    "second-order+similarity": (0.533, 0.696, 0.767, 0.667),
}


@pytest.fixture(scope="module")
def report(recorded_runs: Path) -> EvalReport:
    records = [(name, run) for name, run in read_runs([recorded_runs]) if not isinstance(run, Rejection)]
    return evaluate(ten_domains(records), find_methods(list(MACRO)), EvalOptions(rescue=False))


def test_the_events_are_those_that_were_counted(report: EvalReport) -> None:
    assert {name: domain.events for name, domain in report.domains.items()} == EVENTS
    assert all(domain.untested == 0 for domain in report.domains.values())


@pytest.mark.parametrize("method", REFERENCE)
def test_a_baseline_agrees_in_every_domain(report: EvalReport, method: str) -> None:
    lines = [line.split() for line in REFERENCE[method].strip().splitlines()]
    for domain, line in zip(TEN_DOMAINS, lines, strict=True):
        found = report.domains[domain].methods[method].values
        expected = dict(zip(METRICS, map(float, line), strict=True))
        # Half a digit more than the tolerance: the reference is rounded.
        assert found == pytest.approx(expected, abs=TOLERANCE + 0.0005), domain


@pytest.mark.parametrize("method", MACRO)
def test_a_baseline_agrees_in_the_mean(report: EvalReport, method: str) -> None:
    expected = dict(zip(METRICS, MACRO[method], strict=True))
    assert report.macro[method].values == pytest.approx(expected, abs=TOLERANCE + 0.0005)
