"""What `hepm demo` shows of its desk."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.command import quick


def test_it_shows_a_hint_a_warning_a_silence_and_an_agent_before_and_after(tmp_path: Path) -> None:
    """Everything that is shown is true of the desk: its agent solves more cases with hints, and the hint is right."""
    answer = quick("demo", "--page", tmp_path / "demo.html")
    assert answer.code == 0, answer.err
    remembered = re.search(r"Remembered 300 runs .*: (\d+) succeeded, (\d+) failed", answer.out)
    assert remembered is not None
    assert sum(map(int, remembered.groups())) == 300
    assert re.search(r"about \d+ of the \d+ lost runs went wrong at \d+ places", answer.out)
    assert "tell the agent: After find_case, when the user says" in answer.out
    hint, warning, silence = (answer.out.partition(f"A {kind}\n")[2] for kind in ("right hint", "warning", "silence"))
    suggested, right = re.search(r"Suggested next tools: (\w+)", hint), re.search(r"what works here: ([\w, ]+)", hint)
    assert suggested is not None
    assert right is not None
    assert suggested[1] in right[1].split(", ")
    assert "Ways that failed from here: " in warning.partition("A silence")[0]
    assert "No suggestion: " in silence
    solved = re.search(r"on (\d+) new cases: it solves (\d+) without memory, (\d+) with hints", answer.out)
    assert solved is not None
    assert int(solved[2]) < int(solved[3]) <= int(solved[1])
    assert (tmp_path / "demo.html").stat().st_size > 10_000
