"""Distills the runs of a store with a model, to be killed and started again: distilled.py URL STORE."""

from __future__ import annotations

import sys
from pathlib import Path

from hepm.experience.distilling import distill_into
from hepm.experience.lesson_bank import StoreLedger
from hepm.experience.model_distiller import ModelDistiller
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, open_bank


def main(url: str, store: str) -> None:
    bank = open_bank(Path(store))
    ledger = StoreLedger(bank.store.lessons, NS, "run")
    with Client(Endpoint("small", url), ledger=ledger) as client:
        report = distill_into(bank, ModelDistiller(client, "experience", concurrency=2), namespace=NS)
    print(report.runs, report.new, client.budget.used.calls, flush=True)
    bank.store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
