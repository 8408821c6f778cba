from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from hepm.errors import InputError
from hepm.evals.methods import policies
from hepm.memory import Memory
from hepm.policy import POLICIES, Procedural, Query, policy_named
from hepm.types import PolicyName, Suggestions
from tests.runs import trajectory


def test_the_names_that_the_command_line_offers_are_those_of_the_policies_and_of_the_ranker() -> None:
    assert sorted(get_args(PolicyName)) == sorted(POLICIES)


def test_an_evaluation_measures_every_policy_that_has_a_name() -> None:
    assert set(POLICIES) <= {method.name for method in policies()}


def test_a_named_policy_takes_the_weight_of_efficiency() -> None:
    assert policy_named("procedural", c=0.5) == Procedural(c=0.5)


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.hepm") as memory, pytest.raises(InputError, match="episodic, hybrid, procedural"):
        memory.suggest(policy="recent")


@pytest.mark.parametrize("compares_texts", [True, False])
def test_a_policy_that_compares_no_texts_gets_no_vectors(compares_texts: bool, tmp_path: Path) -> None:
    queries: list[Query] = []

    class Noted:
        def suggest(self, mirror: Any, query: Query) -> Suggestions:
            queries.append(query)
            return Suggestions(abstained="it only notes")

    class Counting(Noted):
        compares_texts: ClassVar[bool] = False

    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest([trajectory("r1", "find", "book")])
        memory.suggest("find", state="the user wants a room", policy=Noted() if compares_texts else Counting())
    assert (queries[0].vector is not None) == compares_texts
