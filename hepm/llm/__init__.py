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

from hepm.llm.client import Answered, Client, Estimate, Failed, Result, Unasked
from hepm.llm.endpoint import Endpoint
from hepm.llm.question import Ledger, MemoryLedger, Message, OfferedTool, PaidAnswer, Question, ToolsCalled
from hepm.llm.usage import Budget, Meter, Prices, Usage

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
