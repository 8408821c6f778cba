"""A client for any OpenAI-compatible chat endpoint. Extra: hepm[llm]. It loads openai and pydantic when used."""

from hepm.llm.client import Client
from hepm.llm.endpoint import Endpoint
from hepm.llm.question import MemoryLedger, Message, OfferedTool, PaidAnswer, Question, ToolsCalled, prompt_of
from hepm.llm.usage import Budget, Prices, Usage

__all__ = [
    "Budget",
    "Client",
    "Endpoint",
    "MemoryLedger",
    "Message",
    "OfferedTool",
    "PaidAnswer",
    "Prices",
    "Question",
    "ToolsCalled",
    "Usage",
    "prompt_of",
]
