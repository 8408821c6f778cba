"""What calls that may hang give, and leave behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import wait

import pytest

from hepm.agents.daemons import Daemons

HANGS = """
import time
from hepm.agents.daemons import Daemons

daemons = Daemons(2, "hint")
hanging = [daemons.submit(time.sleep, 600) for _ in range(5)]
daemons.shutdown()
"""


def test_calls_that_hang_keep_no_process_from_ending() -> None:
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", HANGS], timeout=60, check=False).returncode == 0
    assert time.monotonic() - began < 30


def test_a_call_gives_its_answer_or_its_error_and_one_cancelled_in_time_is_never_made() -> None:
    daemons, may_go_on, made = Daemons(1, "hint"), threading.Event(), list[int]()
    held = daemons.submit(may_go_on.wait)
    waiting = daemons.submit(made.append, 1)
    failing = daemons.submit(int, "x")
    assert waiting.cancel()
    may_go_on.set()
    daemons.shutdown()
    wait([held, failing])
    assert held.result() is True
    with pytest.raises(ValueError, match="invalid literal"):
        failing.result()
    assert made == []
