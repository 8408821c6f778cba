"""What memory says between the messages of a conversation: before a question to the user, at a second wish, at thanks.

usage: python benchmarks/conversations.py [--runs 60 200 600] [--asked 60] [--markdown]

A made-up bank's agents look a customer up and serve one or two wishes of three kinds, in many words. Before a limit is
raised, all ask the user; three in ten say no, and then agents, out of habit, mostly raise it all the same, which is
wrong. Of the runs in memory 3 in 10 have a second wish, and half end with the user's thanks; each call is a wrong one
in 8 of 100, and then the run fails. Asked are right runs with two wishes and thanks. Right is the next call, and
silence, or that nothing is left to call, where the next turn is a question, an answer or a good-bye.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

from parts.measured import about, options

from hepm import Memory, from_messages

WISHES = {
    "card": ["I lost my card", "my card was stolen", "card is gone since yesterday", "can't find my bank card"],
    "limit": [
        "raise my limit please",
        "I need a higher limit",
        "can my limit be increased?",
        "limit too low, I travel",
    ],
    "address": ["I moved, new address", "please change my address", "my address is wrong", "update where I live"],
}
CALLS = {"card": ["block_card", "order_card"], "limit": ["check_score", ""], "address": ["update_address"]}
TOOLS = ["find_customer", "block_card", "order_card", "check_score", "set_limit", "keep_limit", "update_address"]
YES, NO = ["yes please", "go ahead", "ok do it"], ["no, leave it", "not yet, forget it", "no - keep it as it is"]
THANKS = ["no thanks, bye", "that's all, thank you", "thanks!"]
NO_CALL = ""

Message = dict[str, Any]


class Conversation:
    """One run; `turns` has how many messages came before each turn of the agent, what is right, and what turn it is."""

    def __init__(self, name: str, *, right: bool) -> None:
        self.messages: list[Message] = []
        self.turns: list[tuple[int, str, str]] = []
        self.success = True
        self._random, self._right = Random(name), right
        kinds = self._random.sample([*WISHES], 1 + (right or self._random.random() < 0.3))
        for number, kind in enumerate(kinds):
            opening = self._random.choice(["one more thing: ", "also ", "and "] if number else ["Hi, ", "hello ", ""])
            self._hear(opening + self._random.choice(WISHES[kind]))
            self._serve(kind, first=number == 0)
            self._say("Done, anything else?", "ended" if number + 1 == len(kinds) else "wish served")
        if right or self._random.random() < 0.5:
            self._hear(self._random.choice(THANKS))
            self._say("Bye!", "thanked")

    def _serve(self, kind: str, *, first: bool) -> None:
        turn = "first wish" if first else "second wish"
        for tool in [*["find_customer"] * first, *CALLS[kind]]:
            if tool:
                self._call(tool, turn)
                turn = "later call"
                continue
            self._say("Your score allows it. Shall I raise it?", "before a question")
            agrees = self._random.random() < 0.7
            self._hear(self._random.choice(YES if agrees else NO))
            habit = not agrees and not self._right and self._random.random() < 0.7
            self.success &= not habit
            self._call("set_limit" if agrees or habit else "keep_limit", "after yes" if agrees else "after no")

    def _hear(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def _say(self, text: str, turn: str) -> None:
        self.turns.append((len(self.messages), NO_CALL, turn))
        self.messages.append({"role": "assistant", "content": text})

    def _call(self, tool: str, turn: str) -> None:
        if not self._right and self._random.random() < 0.08:
            tool, self.success = self._random.choice(TOOLS), False
        self.turns.append((len(self.messages), tool, turn))
        call = {"id": f"c{len(self.messages)}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})


def main() -> None:
    arguments = options(__doc__, recorded=False)
    arguments.add_argument("--runs", type=int, nargs="+", default=[60, 200, 600])
    arguments.add_argument("--asked", type=int, default=60)
    arguments.add_argument("--markdown", action="store_true")
    parsed = arguments.parse_args()
    heard = {runs: heard_by(runs, parsed.asked) for runs in parsed.runs}
    if parsed.markdown:
        print("\n".join(markdown(heard)))
        return
    for runs, counts in heard.items():
        print(json.dumps(about("conversations") | {"runs": runs} | counts))


def heard_by(runs: int, asked: int) -> dict[str, Counter[str]]:
    """What is right, wrong and silent at each kind of turn."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        known = [Conversation(f"known {number}", right=False) for number in range(runs)]
        memory.ingest(
            from_messages(one.messages, id=f"run {number}", success=one.success) for number, one in enumerate(known)
        )
        for number in range(asked):
            conversation = Conversation(f"asked {number}", right=True)
            for at, right, turn in conversation.turns:
                found = memory.suggest(messages=conversation.messages[:at], tools=TOOLS)
                named = found[0].tool if found else NO_CALL
                said = "silent" if not named else "right" if named == right else "wrong"
                counts[turn]["right" if named == right == NO_CALL else said] += 1
                counts[turn]["warned of it"] += any(warning.tool == (right or "<END>") for warning in found.warnings)
    return dict(counts)


def markdown(heard: dict[int, dict[str, Counter[str]]]) -> Iterator[str]:
    yield f"| turn | {' | '.join(f'{runs} runs: right / wrong / silent' for runs in heard)} |"
    yield f"|---|{'---|' * len(heard)}"
    for turn in next(iter(heard.values())):
        cells = [f"{of[turn]['right']} / {of[turn]['wrong']} / {of[turn]['silent']}" for of in heard.values()]
        yield f"| {turn} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
