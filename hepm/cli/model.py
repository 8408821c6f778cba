"""Options of the commands that may ask a language model, and what they say of its cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hepm.cli.commands import flag, option, options_as
from hepm.cli.config import read_config
from hepm.cli.options import names_in, refuse, remark
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import Subject
    from hepm.llm import Budget, Client, Prices
    from hepm.memory import Memory

model_option = option(
    "--model",
    "Model to use, at OPENAI_BASE_URL with OPENAI_API_KEY (pip install 'hepm[llm]'). Default: none.",
    envvar="HEPM_LLM_MODEL",
    show_envvar=True,
)
budget_option = option(
    "--budget", "Most to spend: calls, tokens or usd (needs prices), such as '100 calls' or '2 usd, 500 calls'."
)
dry_run_option = flag("--dry-run", "Print what would be done and asked; change nothing.")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The options that choose a model and limit its cost."""

    model: str | None = None
    budget: str | None = None

    def client(self, memory: Memory, namespace: str, about: Subject, *, budget: Budget | None = None) -> Client | None:
        """A client whose answers the store keeps, with a `budget` of its own or a shared one; None without a model."""
        # `--model ""` turns off the model of HEPM_LLM_MODEL.
        if not self.model:
            return None
        from hepm.experience.lesson_bank import StoreLedger
        from hepm.llm import Client, Endpoint

        config = read_config().model
        own_budget, prices = self.limits(config.prices)
        client = Client(
            Endpoint.from_environment(model=self.model),
            ledger=StoreLedger(memory.store.lessons, namespace, about),
            budget=budget or own_budget,
            prices=prices,
            concurrency=config.concurrency,
        )
        # When the command has ended, it says what it spent, and closes its connections.
        context = click.get_current_context()
        if budget is None:
            context.call_on_close(lambda: remark(f"asked {self.model}: {own_budget.line()}"))
        return context.with_resource(client)

    def limits(self, prices: str | None) -> tuple[Budget, Prices | None]:
        """The budget, and what tokens cost."""
        limits = _parse_budget(self.budget or "")
        # Without prices nothing would ever reach the limit.
        refuse(
            "usd" in limits and prices is None,
            "--budget",
            "a budget in usd needs the prices of a million tokens: set prices under [model] in hepm.toml",
        )
        from hepm.llm import Budget, Prices

        whole = {f"{unit}s": int(limit) for unit, limit in limits.items() if unit != "usd"}
        budget = Budget(**whole, cost_usd=limits.get("usd"))
        if prices is None:
            return budget, None
        try:
            # Input, output and, if it is cheaper, cached input: dollars for a million tokens.
            return budget, Prices(*(float(part) for part in prices.split(",")))
        except (TypeError, ValueError) as error:
            wrong = f"the prices {prices!r} are not two or three numbers, such as 0.15,0.6"
            raise click.UsageError(f"{wrong}.") from error


model_options = options_as("choice", ModelChoice, model_option, budget_option)


def _parse_budget(text: str) -> dict[str, float]:
    """The limits of `--budget` by their unit."""
    limits: dict[str, float] = {}
    for part in filter(None, names_in(text.lower())):
        # "2 usd", "50000tokens"
        limit = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(calls?|tokens?|usd)", part)
        if limit is None:
            raise click.BadParameter(
                f"{part!r} is no limit: write '100 calls', '50000 tokens' or '2 usd'", param_hint="--budget"
            )
        number, unit = limit.groups()
        limits[unit.rstrip("s")] = float(number)
    return limits


def cost_of(client: Client | None) -> Object | None:
    """The usage as JSON; None if no model was used."""
    if client is None:
        return None
    # Of this command; `paid_before` counts the answers that were read from the ledger.
    used = client.budget.used
    return {
        "model": client.endpoint.model,
        "calls": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cost_usd": used.cost_usd,
        "paid_before": client.budget.paid_before,
    }
