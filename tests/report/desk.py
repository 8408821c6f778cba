"""Runs of a made-up desk whose mistakes are known: what to call depends on the status of an order."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hepm import Outcome, ToolCall, Trajectory, Turn

RIGHT = {"delivered": "return_items", "pending": "cancel_order"}
THINGS = ("lamp", "chair", "table", "phone", "radio", "plate", "glass", "carpet", "shelf", "clock")
AT = 1_760_000_000.0
DAY_S = 86_400


def desk_run(number: int, status: str, tool: str, *, environment: str = "desk", task: str = "") -> Trajectory:
    """A run that looks an order up and calls one tool, which is right for one status."""
    thing = THINGS[number % len(THINGS)]
    looked_up = ToolCall("get_order", {"id": number}, json.dumps({"status": status, "item": thing}))
    turns = (
        Turn("user", f"I want no {thing} any more, order {number}"),
        Turn("assistant", calls=(looked_up,)),
        Turn("assistant", calls=(ToolCall(tool, {"id": number}, "done"),)),
    )
    won = RIGHT.get(status) == tool
    return Trajectory(
        f"{environment}-{number}",
        turns,
        Outcome(float(won), won),
        environment=environment,
        task=task or f"task {number}",
        model="small" if number % 5 else "large",
        ended_at=AT + number * DAY_S / 4,
    )


def desk_runs(count: int = 120) -> Iterator[Trajectory]:
    """Half of all orders are delivered; a third of the calls at either status is the other one's."""
    for number in range(count):
        status = ("delivered", "pending")[number % 2]
        other = ("pending", "delivered")[number % 2]
        yield desk_run(number, status, RIGHT[other if number % 6 >= 4 else status])
