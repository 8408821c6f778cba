"""An OpenAI-compatible endpoint for tests, played by a real HTTP server on loopback.

    from tests.loopback import Loopback, completion, error, loopback

    def test_...(loopback: Loopback):
        loopback.replies = [error(429, retry_after_s=1), completion("hello")]    # then `loopback.script` answers
        ... ask at loopback.url ...
        assert loopback.requests[0].body["model"] == "small"

Tests use it by importing the fixture `loopback`. What the real endpoint takes and answers is data in openai.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback.replies import (
    Drop,
    Reply,
    Script,
    answer_well,
    completion,
    cut_off,
    dropped,
    embeddings,
    error,
    refused,
    tool_call,
)
from tests.loopback.requests import Request, Rules
from tests.loopback.server import Loopback

__all__ = [
    "Drop",
    "Loopback",
    "Reply",
    "Request",
    "Rules",
    "Script",
    "answer_well",
    "completion",
    "cut_off",
    "dropped",
    "embeddings",
    "error",
    "loopback",
    "refused",
    "tool_call",
]


@pytest.fixture
def loopback(one_certificate: None) -> Iterator[Loopback]:
    """A server of one's own."""
    running = Loopback()
    yield running
    running.stop()
