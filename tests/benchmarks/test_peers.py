"""benchmarks/peers.py on hepm's own part, and the loopback model that it and the peers ask."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.parts.peers import model
from benchmarks.peers import loopback_model
from hepm.ingest.formats.hepm import write_run
from tests.runs import trajectory

pytestmark = pytest.mark.xdist_group("peers")  # the script runs once
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peers.py"
RUN = "user: Cancel my order\nassistant: calls find_order({}): 7\ncalls cancel({}): done\ncalls cancel({}): done"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The lines that the script prints of 250 runs, of which it stores 5."""
    folder = tmp_path_factory.mktemp("peers")
    runs = [trajectory(f"run {n}", "find", "buy", goal=f"buy lamp {n}") for n in range(250)]
    (folder / "runs.jsonl").write_text("".join(write_run(run) + "\n" for run in runs), encoding="utf-8")
    options = ("--sizes", "5", "--delays", "0", "--sides", "hepm-embedder", "--kills", "1")
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, *options], check=True, capture_output=True, text=True, timeout=600
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.exhaustive  # some thirty processes
def test_hepm_asks_no_model_and_the_embedder_that_is_named_once_a_run(measured: list[dict[str, object]]) -> None:
    (found,) = (found for found in measured if "size" in found)
    assert (found["model_calls"], found["prompt_tokens"]) == (0, 0)
    assert found["embedding_calls"] == pytest.approx(1, abs=0.25)


@pytest.mark.exhaustive
def test_a_kill_loses_nothing_acknowledged_and_forgetting_leaves_nothing(measured: list[dict[str, object]]) -> None:
    for found in [found for found in measured if "kills" in found]:
        assert found["acknowledged"]
        assert (found["lost"], found["torn"], found["unusable"]) == (0, 0, 0)
        assert found["rows_before"]
        assert (found["rows_left"], found["times_left_in_files"]) == (0, 0)


def test_the_model_names_the_request_and_each_step_to_another_tool_once() -> None:
    assert [fact[:2] for fact in model.facts_in(RUN)] == [("Cancel my order", "find_order"), ("find_order", "cancel")]


def test_the_model_knows_an_entity_by_its_name() -> None:
    asked, known = [{"id": 0, "name": "cancel"}], [{"candidate_id": 3, "name": "Cancel"}]
    prompt = f"<ENTITIES>{json.dumps(asked)}</ENTITIES><EXISTING ENTITIES>{json.dumps(known)}</EXISTING ENTITIES>"
    assert model.resolutions(prompt)["entity_resolutions"][0]["duplicate_candidate_id"] == 3


def test_texts_that_share_words_are_nearer_than_others() -> None:
    one, near, far = (model.vector_D(text, 512) for text in ("cancel my order", "cancel the order", "weather in Oslo"))
    assert one @ near > 0.4 > one @ far


def test_the_model_counts_what_it_was_asked() -> None:
    counts = Counter[str]()
    model.chat({"messages": [{"role": "user", "content": f"## New Messages{RUN}## Observation Date"}]}, counts)
    assert (counts["model_calls"], counts["prompt_tokens"]) == (1, len(RUN + "## New Messages## Observation Date") // 4)


def test_an_answer_comes_in_one_packet() -> None:
    with (
        loopback_model() as address,
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as client,
    ):
        client.sendall(b"GET /counts HTTP/1.1\r\n\r\n")
        assert client.recv(65536).endswith(b"\r\n\r\n{}")
