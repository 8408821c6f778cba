"""A client for any OpenAI-compatible chat endpoint. Extra: hepm[llm]. Importing it loads neither openai nor pydantic.

with Client(Endpoint.from_environment()) as client:
    lesson = client.ask(Question("distil", "run-7", (Message("user", "What did this run teach? ..."),), Lesson))
    print(lesson.text, client.budget.line())
"""

from hepm.llm.client import Answered, Client, Failed, Result
from hepm.llm.endpoint import Endpoint
from hepm.llm.question import Ledger, MemoryLedger, Message, OfferedTool, PaidAnswer, Question, ToolsCalled
from hepm.llm.usage import Budget, Estimate, Prices, Usage

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
    "OfferedTool",
    "PaidAnswer",
    "Prices",
    "Question",
    "Result",
    "ToolsCalled",
    "Usage",
]
