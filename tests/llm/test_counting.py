"""Meter, prices, budget and estimate: what asking takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hepm.errors import BudgetSpentError
from hepm.llm import Budget, Client, Prices, Usage
from tests.llm.conftest import text_question
from tests.loopback import Loopback, completion, refused


def test_the_budget_counts_tokens_calls_and_cost(server: Loopback, open_client: Callable[..., Client]):
    server.replies = [completion("a", usage=(1000, 100, 400)), completion("b", usage=(10, 1)), refused()]
    client = open_client(prices=Prices(2, 10, cached_input_usd=0.5))
    client.ask(text_question("run-1"))
    client.ask(text_question("run-1"))
    client.ask(text_question("run-2", step="judge"))
    list(client.ask_all([text_question("run-3")]))
    total = client.budget.used
    # 610 fresh at $2, 400 cached at $0.50 and 101 out at $10 a million; the refusal took 10 in and 5 out.
    assert total.cost_usd == pytest.approx((610 * 2 + 400 * 0.5 + 101 * 10 + 10 * 2 + 5 * 10) / 1e6)
    assert (total.calls, total.input_tokens, total.cached_input_tokens, total.output_tokens) == (3, 1020, 400, 106)
    assert total.seconds > 0
    assert client.budget.paid_before == 1


@pytest.mark.parametrize(
    ("usage", "paid_before", "line"),
    [
        (Usage(12, 34_120, 0, 2_310, 1, 0.0312), 3,
         "12 calls, 34,120 tokens in, 2,310 out, $0.031 (3 answers were paid for before)"),
        (Usage(1, 1, 0, 0, 1, None), 1, "1 call, 1 token in, 0 out (1 answer was paid for before)"),
        (Usage(2, 50, 0, 7, 1, 0.0004), 0, "2 calls, 50 tokens in, 7 out, less than $0.001"),
        (Usage(2, 50, 0, 7, 1, 1234.5, estimated=True), 0,
         "2 calls, about 50 tokens in, about 7 out, about $1,234.500"),
    ],
)  # fmt: skip
def test_the_budget_fits_on_one_line(usage: Usage, paid_before: int, line: str):
    budget = Budget()
    budget.used, budget.paid_before = usage, paid_before
    assert budget.line() == line


def test_a_budget_of_dollars_holds_for_several_clients_with_prices_of_their_own(
    server: Loopback, open_client: Callable[..., Client]
):
    budget = Budget(cost_usd=0.01)
    server.script = lambda _: completion(usage=(0, 100))
    cheap = open_client(budget=budget, prices=Prices(0, 10))
    dear = open_client(budget=budget, prices=Prices(0, 80))
    asked = [text_question(f"run-{place}", max_output_tokens=100) for place in range(5)]
    assert cheap.ask(asked[0]) == cheap.ask(asked[1]) == "ok"  # $0.001 each
    assert dear.ask(asked[2]) == "ok"  # $0.008
    with pytest.raises(BudgetSpentError, match=r"\$0\.010 has \$0\.000 left"):
        cheap.ask(asked[3])
