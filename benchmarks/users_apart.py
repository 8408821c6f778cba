"""Whether lessons and hints tell each user what is right for them, in a made-up office.

usage: python -m benchmarks.users_apart [--runs 100,400]

Twelve users, of whom two take vouchers for what was delivered and the others their money; pending orders are cancelled.
Runs are right in .7 of the cases. Each of 150 further moments is asked with the user and, as the baseline, without.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.prompt import PromptOptions

USERS = tuple(f"user-{number}" for number in range(12))
TAKE_VOUCHERS = ("user-3", "user-7")
REQUESTS = ("please return my {}", "my {} arrived broken", "the {} never came", "you sent a {} instead")
THINGS = ["lamp", "chair", "desk", "clock", "phone", "radio", "sofa", "mirror", "table", "shelf", "bike", "tent"]
TOOLS = ("refund", "issue_voucher", "cancel_order")
ASKED = 150


def moment(rng: random.Random) -> tuple[str, str, str, str]:
    """A request, its user, the status of the order, and the right tool."""
    request, user = rng.choice(REQUESTS).format(rng.choice(THINGS)), rng.choice(USERS)
    status = rng.choice(("delivered", "pending"))
    if status == "pending":
        return request, user, status, "cancel_order"
    return request, user, status, "issue_voucher" if user in TAKE_VOUCHERS else "refund"


def recorded(count: int) -> Iterator[Trajectory]:
    """Labelled runs."""
    rng = random.Random(count)
    for number in range(count):
        request, user, status, right = moment(rng)
        tool = right if rng.random() < 0.7 else rng.choice([name for name in TOOLS if name != right])
        turns = (
            Turn("user", request),
            Turn("assistant", "", (ToolCall("get_order", {"id": number}, f'{{"status": "{status}"}}'),)),
            Turn("assistant", "", (ToolCall(tool, {"id": number}, "done"),)),
        )
        outcome = Outcome(float(tool == right), tool == right)
        yield Trajectory(f"run {number}", turns, outcome, environment="office", task=request, user=user)


def verdict(named: str | None, right: str) -> str:
    """What a hint or a lesson was worth."""
    if named is None:
        return "none"
    return "right" if named == right else "wrong"


def ask(memory: Memory, *, with_user: bool) -> dict[str, Counter[str]]:
    """How many hints and lessons were right, wrong or missing, for both kinds of users."""
    rng = random.Random(9_000)
    counts: dict[str, Counter[str]] = {}
    for _ in range(ASKED):
        request, user, status, right = moment(rng)
        known = user if with_user else ""
        function = {"name": "get_order", "arguments": "{}"}
        call = {"id": "1", "type": "function", "function": function}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": request},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": f'{{"status": "{status}"}}'},
        ]
        ranked = memory.suggest(messages=messages, user=known, k=1).ranked
        text = memory.prompt(messages, user=known, options=PromptOptions(suggestions=0)).text
        advised = re.findall(r"call (\w+)", text)
        group = "vouchers" if right == "issue_voucher" else "the others"
        counts.setdefault(f"{group}, hints", Counter())[verdict(ranked[0].tool if ranked else None, right)] += 1
        counts.setdefault(f"{group}, lessons", Counter())[verdict(advised[0] if advised else None, right)] += 1
    return counts


def main() -> None:
    """Print right / wrong / none, with the user known and unknown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="100,400")
    for count in map(int, parser.parse_args().runs.split(",")):
        with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
            memory.ingest(recorded(count))
            memory.principles.distill()
            memory.experiences.distill()
            for with_user in (True, False):
                print(f"{count} runs, user {'known' if with_user else 'unknown'} (right / wrong / none)")
                for name, found in sorted(ask(memory, with_user=with_user).items()):
                    print(f"  {name:20} {found['right']:4} / {found['wrong']:3} / {found['none']:3}")


if __name__ == "__main__":
    main()
