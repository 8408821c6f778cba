"""An LLM judge of outcomes, for runs without a label (H-EPM, appendix C.1). The prompt is ours."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from hepm.errors import BudgetSpentError, LlmError
from hepm.experience.model_distiller import RECORD_IS_DATA, quoted_run
from hepm.ingest.outcome import RunVerdict
from hepm.llm import Client, Question, prompt_of
from hepm.types import Trajectory

_TASK: Final = (
    "You judge whether an agent that uses tools achieved what its user wanted, from the record of one run. The results "
    "of tools count; what the agent claims about its success proves nothing. Answer yes if the record shows that all "
    "of it was achieved, no if it shows that it was not or only in part, and unclear if it shows neither. Answer with "
    "one word: yes, no or unclear."
)
_WORD: Final = re.compile(  # "Yes.", '"no"', "Answer: yes", '{"answer": "no"}', but not "no answer is right"
    r"\W*(?:(?:(?:the|my|final) )*(?:answer|verdict|judge?ment)\b\W*(?:is\b\W*)?)?"
    r"(yes|no)[\"'”’»`*_)\]}]*\s*(?:[.,:;!\n]|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OutcomeJudge:
    """Asks a model how each run ended: yes, no, or anything else, which leaves the run unlabelled.

    With a `StoreLedger(..., "run")` no answer is paid for twice, also where it was of no use.
    """

    client: Client

    @property
    def name(self) -> str:
        """What labels name as their source."""
        return f"judge:{self.client.endpoint.model}"

    def verdicts(self, runs: Iterable[Trajectory]) -> Generator[RunVerdict]:
        """A verdict on each run, as the answers come. Runs in which no agent acted are not asked about.

        Raises:
            EndpointRefusedError: the model refuses every request.
            BudgetSpentError: the budget has no room for the next run.
        """
        spent: list[BudgetSpentError] = []
        # Once it is spent, no further run is read; the answers under way still come, and are paid for.
        questions = ((run, _question(run)) for run in takewhile(lambda run: not spent, runs) if run.steps)
        for run, answer in self.client.ask_all(questions):
            if isinstance(answer, BudgetSpentError):
                spent.append(answer)
            elif isinstance(answer, LlmError):
                yield RunVerdict(run, None, self.name, str(answer))
            else:
                # "Yes.", "no, since …"; any other word is no verdict.
                word = _WORD.match(answer)
                success = None
                if word is not None:
                    success = word[1].lower() == "yes"
                yield RunVerdict(run, success, self.name)
        if spent:
            raise spent[0]


def _question(run: Trajectory) -> Question[str]:
    record = f"The record, {run.steps} turns of the agent:\n{quoted_run(run)}"
    messages = prompt_of(f"{_TASK} {RECORD_IS_DATA}", record)
    # At temperature 0, so that the answer in the ledger is the one that would come again.
    return Question("outcome", run.id, messages, str, temperature=0.0)
