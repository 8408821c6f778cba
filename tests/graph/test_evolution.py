"""An evolution on every store."""

from __future__ import annotations

from hepm.experience.experiences import Experiences
from hepm.experience.lesson_bank import StoreLedger
from hepm.graph.store import Store
from hepm.lab.evolution import Evolution, EvolutionSettings
from hepm.llm import Client, Endpoint
from tests.experience.shelves import NS, bank_in, remember
from tests.lab.test_evolution import rewording
from tests.loopback import Loopback
from tests.runs import trajectory

SETTINGS = EvolutionSettings(mutation=1, generalisation=0, crossover=1)
THINGS = ("lamp", "desk", "chair", "shelf")


def test_an_evolution_is_stored_whole_as_its_dry_run_told(store: Store, loopback: Loopback) -> None:
    loopback.script = rewording
    bank = bank_in(store)
    remember(
        bank,
        *(
            trajectory(f"w{i}", "look", f"buy{i}", task=f"t{i}", goal=f"refund the broken {THINGS[i]} in my parcel")
            for i in range(4)
        ),
        *(
            trajectory(
                f"l{i}", "look", "drop", task=f"t{i}", goal=f"refund the broken {THINGS[i]} in my parcel", success=False
            )
            for i in range(4)
        ),
    )
    Experiences(bank).distill(namespace=NS)
    for place, one in enumerate(store.lessons.list(namespace=NS)):
        for run in ("w0", "w1", "w2", "w3", "l0", "l1")[: 4 + 2 * (place % 2)]:
            store.lessons.show(run, [one.row.id], namespace=NS)
    before = [(one.seq, one.row, one.uses) for one in store.lessons.list(namespace=NS)]
    with Client(Endpoint("small", loopback.url), ledger=StoreLedger(store.lessons, NS, "run")) as model:
        dry = Evolution(bank, namespace=NS, settings=SETTINGS, seed=7, model=model).run(dry_run=True)
        assert [(one.seq, one.row, one.uses) for one in store.lessons.list(namespace=NS)] == before
        report = Evolution(bank, namespace=NS, settings=SETTINGS, seed=7, model=model).run()
    assert (report.id, report.plan) == (dry.id, dry.plan)
    assert set(report.kept) == {"mutation", "crossover"}
    after = {one.row.id: one.row for one in store.lessons.list(namespace=NS)}
    assert all(parent.id in after for row in after.values() for parent in row.parents)
    assert sum(row.made_by == report.id for row in after.values()) == sum(report.kept.values())
