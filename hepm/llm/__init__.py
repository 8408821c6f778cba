"""One small client for any OpenAI-compatible chat endpoint. Extra: hepm[llm].

    from dataclasses import dataclass
    from hepm.llm import Client, Endpoint, Message, Question

    @dataclass(frozen=True)
    class Lesson:
        text: str

    with Client(Endpoint.from_environment()) as client:
        lesson = client.ask(Question("distil", "run-7", (Message("user", "What did this run teach? ..."),), Lesson))
        print(lesson.text, client.meter.line())

Importing this loads neither the openai package nor pydantic.
"""

from __future__ import annotations

from hepm.llm.budget import Budget
from hepm.llm.client import Client, Estimate
from hepm.llm.endpoint import Endpoint
from hepm.llm.ledger import Ledger, MemoryLedger, PaidAnswer
from hepm.llm.meter import Meter
from hepm.llm.question import Message, Question
from hepm.llm.results import Answered, Failed, Result, Unasked
from hepm.llm.tools import OfferedTool, ToolsCalled
from hepm.llm.usage import Prices, Usage

__all__ = [
    "Answered",
    "Budget",
    "Client",
    "Endpoint",
    "Estimate",
    "Failed",
    "Ledger",
    "MemoryLedger",
    "Message",
    "Meter",
    "OfferedTool",
    "PaidAnswer",
    "Prices",
    "Question",
    "Result",
    "ToolsCalled",
    "Unasked",
    "Usage",
]
