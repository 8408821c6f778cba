"""When a request that failed is worth another, and how long to wait for it.

The openai package does the same, but cannot be interrupted while it waits, and lets other threads run into one wall.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any, Final

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 8.0
LONGEST_ASKED_S: Final = 120.0


class StoppedError(Exception):
    """Nobody wants the answer any more; never leaves `hepm.llm`."""


class Gate:
    """Holds all requests back for as long as the endpoint asked."""

    def __init__(self) -> None:
        self._open_at = 0.0
        self._lock = Lock()

    def close_for(self, seconds: float) -> None:
        """No request may pass for so long."""
        with self._lock:
            self._open_at = max(self._open_at, time.monotonic() + seconds)

    def pass_through(self, stop: Event) -> None:
        """Wait until it is open.

        Raises:
            StoppedError: `stop` is set.
        """
        while (left_s := self._open_at - time.monotonic()) > 0:
            if stop.wait(left_s):
                break
        if stop.is_set():
            raise StoppedError


def asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """How long the endpoint asks to wait, None where it does not say."""
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / per_second
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    try:
        seconds = parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time()
        return seconds if seconds > 0 else None
    except (KeyError, ValueError):
        return None


def backoff_s(attempt: int) -> float:
    """The wait after the attempt of that number, from 0: twice the one before, less up to a quarter by chance."""
    return min(FIRST_WAIT_S * 2.0 ** min(attempt, 10), LONGEST_WAIT_S) * (1 - 0.25 * random.random())


def worth_another(error: Any) -> bool:
    """Whether an error of the openai package may pass by itself."""
    response = getattr(error, "response", None)
    if response is None:  # no connection, one that broke, or a time-out
        return True
    told = response.headers.get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    if getattr(error, "code", None) == "insufficient_quota":  # told as 429, but no waiting helps
        return False
    if (asked_wait_s(response.headers) or 0.0) > LONGEST_ASKED_S:
        return False
    return response.status_code in (408, 409, 429) or response.status_code >= 500
