from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory
from hepm.rank.checkpoint import Checkpoint, Gate
from tests.faults.command import quick
from tests.lab.rank.conftest import runs

pytestmark = pytest.mark.xdist_group("torch")

WON = Gate(200, 20, hit2=(0.7, 0.75), mrr=(0.6, 0.65), interval=(0.02, 0.08), divergences=0, gain=(0.0, 0.0))
LESS = replace(WON, divergences=10, gain=(0.2, 0.1))
ASKED = {"after": "look_up", "history": ["look_up"], "state": "refund money paid back card"}


@pytest.fixture
def shop(tmp_path: Path, checkpoint: Checkpoint) -> Path:
    """A store with a ranker beside it that passed its gate."""
    file = tmp_path / "shop.hepm"
    with Memory.open(file, speak="all") as memory:
        memory.ingest(runs())
        memory.rankers.save(replace(checkpoint, gate=WON))
    return file


def test_the_hybrid_policy_uses_a_ranker_only_if_it_passed_its_gate(shop: Path, checkpoint: Checkpoint) -> None:
    with Memory.open(shop, speak="all") as memory:
        heard = memory.suggest(**ASKED)[0].score
        for gate in (None, replace(WON, interval=(-0.01, 0.08)), replace(WON, hit2=(0.7, 0.69))):
            memory.rankers.save(replace(checkpoint, gate=gate))
            assert memory.suggest(**ASKED)[0].score < heard
        fewer = replace(WON, divergences=10, gain=(0.2, 0.1))
        assert not fewer.passed
        assert replace(fewer, gain=(0.1, 0.2)).passed


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (WON, "uses it. On 200 calls of 20 held-out families"),
        (replace(WON, interval=(-0.01, 0.08)), "does not use it: it did not predict better beyond chance. "),
        (LESS, "does not use it: it predicts better, but its hints gained less where failed runs diverged. "),
    ],
)
def test_the_gate_names_the_measure_that_decided(gate: Gate, said: str) -> None:
    assert gate.sentence().startswith(f"The hybrid policy {said}")
    assert ("gain at 10 divergences +0.200 → +0.100." in gate.sentence()) == (gate is LESS)


def test_a_ranker_that_does_not_fit_is_refused_and_the_hybrid_policy_goes_on(
    shop: Path, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory.open(shop, speak="all") as memory:
        memory.rankers.save(replace(checkpoint, embedder="other/model", gate=WON))
        assert memory.suggest(**ASKED)
        memory.suggest(**ASKED)
        (said,) = caplog.messages  # once
        assert re.search("goes on without its trained ranker: .*reads vectors of 'other/model'", said)


def test_a_damaged_file_is_refused_in_a_sentence(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Memory.open(shop, speak="all") as memory:
        file = memory.rankers.file("default")
        file.write_bytes(file.read_bytes()[:100])
        assert memory.suggest(**ASKED)
        assert "is no ranker of hepm, or it is damaged" in caplog.text


def test_suggesting_by_a_trained_ranker_loads_no_torch(shop: Path) -> None:
    code = (
        "import sys; from hepm import Memory; memory = Memory.open(sys.argv[1])\n"
        "found = memory.suggest('look_up', state='refund money')\n"
        "print('hepm.rank.ranker' in sys.modules, {'torch', 'torch_geometric'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(shop)], capture_output=True, text=True, check=True)
    assert done.stdout == "True set()\n"


def test_the_command_trains_measures_and_says_whether_the_ranker_is_used(of: object, tmp_path: Path) -> None:
    store = tmp_path / "shop.hepm"
    with Memory.open(store, speak="all") as memory:
        memory.ingest(runs())
    trained = quick("rank", "train", "--store", store, "--model", "sage")
    assert trained.code == 0, trained.err
    assert "A sage ranker of 4 tools, trained on 72 runs of 'default'. The hybrid policy" in trained.out
    assert "held-out families, without → with it: MRR" in trained.out
    assert "epoch 1: loss" in trained.err
    with Memory.open(store) as memory:
        kept = Checkpoint.load(memory.rankers.file("default"))
    assert kept.sentence() in trained.out
