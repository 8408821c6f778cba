"""Options of the commands that may ask a language model, and what they say of its cost."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import click

from hepm.cli.commands import Option
from hepm.cli.options import print_json
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import Subject
    from hepm.llm import Budget, Client, Estimate, Prices
    from hepm.memory import Memory

ModelOption = Annotated[
    str | None,
    Option(
        "--model",
        envvar="HEPM_LLM_MODEL",
        help="Model to use, at OPENAI_BASE_URL with OPENAI_API_KEY (pip install 'hepm[llm]'). Default: none.",
    ),
]
AtOnceOption = Annotated[int, Option("--at-once", min=1, help="Number of concurrent requests.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Print what would be done and asked; change nothing.")]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The options that choose a model and limit its cost."""

    model: ModelOption = None
    max_calls: Annotated[int | None, Option(min=0, help="Maximum number of requests.")] = None
    max_tokens: Annotated[int | None, Option(min=0, help="Maximum number of tokens, input and output.")] = None
    max_cost: Annotated[float | None, Option(min=0, help="Maximum cost in dollars; needs --prices.")] = None
    prices: Annotated[str | None, Option(help="Dollars per million tokens in and out, such as 0.15,0.6.")] = None

    def client(self, memory: Memory, namespace: str, about: Subject, *, budget: Budget | None = None) -> Client | None:
        """A client whose answers the store keeps, with a `budget` of its own or a shared one; None without a model."""
        if not self.model:
            return None
        from hepm.llm import Client, Endpoint

        own_budget, prices = self.limits()
        return Client(
            Endpoint.from_environment(model=self.model),
            ledger=memory.lessons.ledger(about, namespace=namespace),
            budget=own_budget if budget is None else budget,
            prices=prices,
        )

    def limits(self) -> tuple[Budget, Prices | None]:
        """The budget, and what tokens cost."""
        if self.max_cost is not None and self.prices is None:
            raise click.BadParameter("--max-cost needs --prices: what a million tokens cost", param_hint="--max-cost")
        from hepm.llm import Budget, Prices

        try:
            prices = None if self.prices is None else Prices(*(float(part) for part in self.prices.split(",")))
        except (TypeError, ValueError) as error:
            wrong = f"{self.prices!r} is not two or three numbers, such as 0.15,0.6"
            raise click.BadParameter(wrong, param_hint="--prices") from error
        return Budget(calls=self.max_calls, tokens=self.max_tokens, cost_usd=self.max_cost), prices


def tell_cost(client: Client | None) -> None:
    """Print the usage of the model in one line on stderr."""
    if client is not None:
        print(f"asked {client.endpoint.model}: {client.budget.line()}", file=sys.stderr)


def cost_of(client: Client | None) -> dict[str, object] | None:
    """The usage as JSON; None if no model was used."""
    if client is None:
        return None
    used, names = client.budget.used, ("calls", "input_tokens", "output_tokens", "cost_usd")
    counts = {name: getattr(used, name) for name in names}
    return {"model": client.endpoint.model, **counts, "paid_before": client.budget.paid_before}


def tell_estimate(runs: int, *estimates: Estimate | None, as_json: bool) -> None:
    """Print the result of a dry run: how many runs wait, and what a model would be asked."""
    known = [estimate for estimate in estimates if estimate is not None]
    if as_json:
        return print_json({"dry_run": True, "runs": runs, "asked": [asdict(estimate) for estimate in known]})
    print(f"{count_of(runs, 'run')} would be looked at", *(f"asking would take {one}" for one in known), sep="\n")
