"""What a dry run says a bench will ask, beside what a model at an endpoint was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hepm.lab.bench.models import tokens_of
from tests.lab.bench.parcels import clerk, customer_or_clerk
from tests.lab.bench.test_bench import bench, report
from tests.lab.papers.played import played
from tests.loopback import Loopback, Reply, Request, completion

SPLIT = "tests.lab.bench.parcels:split_parcels"
TALKING = "tests.lab.bench.parcels:TalkingParcels"


def answering(request: Request) -> Reply:
    """The clerk, who also judges, digests, plans and reflects."""
    text = str(request.body["messages"])
    if "You study the record of an agent" in text:
        return completion(json.dumps({"items": [{"title": "A", "when_to_use": "late", "content": "Be kind."}]}))
    if "tools" not in request.body:
        return completion(json.dumps({"success": "yes", "steps": []}))
    return clerk(request)


@pytest.mark.parametrize(
    ("arms", "more", "env"),
    [
        ("summary,implicit", (), SPLIT),
        ("off,hybrid", ("--learn-from", "judged"), SPLIT),
        ("off", (), TALKING),
        pytest.param("explicit", (), SPLIT, marks=pytest.mark.exhaustive),
        pytest.param("off,reflexion", ("--trials", "3"), SPLIT, marks=pytest.mark.exhaustive),
    ],
)
def test_a_dry_run_says_within_a_fifth_what_a_model_is_then_asked(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arms: str, more: tuple[str, ...], env: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.url)
    loopback.script = customer_or_clerk if env == TALKING else answering
    options = ("--arms", arms, *more, "--json")
    planned = report(bench(tmp_path / "f", loopback.url, *options, "--dry-run", env=env))
    assert not loopback.requests
    report(bench(tmp_path / "f", loopback.url, *options, env=env))
    bodies = [request.body for request in loopback.requests]
    assert planned["calls"] == pytest.approx(len(bodies), rel=0.2)
    assert planned["tokens"] == pytest.approx(sum(map(tokens_of, bodies)), rel=0.25)


@pytest.mark.parametrize("arm", [pytest.param("lessons", marks=pytest.mark.exhaustive), "tagged"])
def test_a_dry_run_of_rounds_counts_what_distilling_comparing_and_evolving_ask(
    loopback: Loopback, tmp_path: Path, arm: str
) -> None:
    loopback.script = writer_or_worker
    known = ("--rounds", "3", "--rollouts", "12", "--distiller", "writer", "--memory", str(tmp_path / "m.hepm"))
    options = (*known, "--arms", arm, "--json")
    env = "tests.lab.bench.parcels:Parcels"
    planned = report(bench(tmp_path / "f", loopback.url, *options, "--dry-run", env=env))
    assert not loopback.requests
    report(bench(tmp_path / "f", loopback.url, *options, env=env))
    assert planned["calls"] == pytest.approx(len(loopback.requests), rel=0.2)


def writer_or_worker(request: Request) -> Reply:
    """What distills, or the agent as the authors would act."""
    if request.body["model"] == "writer":
        return played(request)
    if "tools" not in request.body:
        return in_tags(request)
    return clerk(request)


def in_tags(request: Request) -> Reply:
    """Two calls and an answer."""
    said = sum(message["role"] == "assistant" for message in request.body["messages"])
    steps = ("<search_knowledge>get_parcel {}</search_knowledge>", "<search_knowledge>refund {}</search_knowledge>")
    return completion((*steps, "<answer>Done.</answer>")[said])
