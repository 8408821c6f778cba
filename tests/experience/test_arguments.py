from __future__ import annotations

import json
from typing import Any

from hepm.experience.arguments import learn_arguments, replay
from hepm.experience.content import content_of
from hepm.experience.known_values import KnownValues, comparable, leaves_of
from hepm.types import JSON, Outcome, ToolCall, Trajectory, Turn


def run_of(number: int, *, success: bool = True, task: str = "") -> Trajectory:
    """A return: the order and its items are in a result, the reason in the user's words, the currency is always EUR."""
    order = f"#W{1000 + 7 * number}"
    reason = ("broken", "too small", "wrong colour")[number % 3]
    items = [{"name": "lamp", "item_id": f"{5000 + number}"}, {"name": "desk", "item_id": f"{6000 + number}"}]
    wanted = items[number % 2]
    found = {"orders": [order], "user_id": f"ann_{number}"}
    given = {
        "order_id": order,
        "item_id": wanted["item_id"],
        "reason": reason,
        "currency": "EUR",
        "note": f"n{number}x",
    }
    turns = (
        Turn("user", f"My {wanted['name']} is {reason}. I am ann{number}@example.com."),
        Turn("assistant", calls=(ToolCall("find_user", {"email": f"ann{number}@example.com"}, json.dumps(found)),)),
        Turn("assistant", calls=(ToolCall("get_order", {"order_id": order}, json.dumps({"items": items})),)),
        Turn("assistant", calls=(ToolCall("return_item", given, "done"),)),
    )
    return Trajectory(f"r{number}", turns, Outcome(success=success), "shop", task or f"t{number}")


def test_a_value_is_comparable_whatever_its_type_case_and_white_space() -> None:
    assert comparable(5) == comparable("5.0") == comparable(" 5 ")
    assert comparable("Anna  Lee") == comparable("anna lee")
    assert comparable([1, "b"]) == comparable(["1", "B"]) != comparable(["b", 1])
    assert comparable(True) != comparable(1)


def test_leaves_are_read_from_json_python_and_lines_of_text() -> None:
    def values(text: str) -> dict[str, JSON]:
        return {leaf.path: leaf.value for leaf in leaves_of(text)}

    assert values('{"a": [{"id": 3}]}')["a[].id"] == 3
    assert values("{'a': True}")["a"] is True
    assert values("- id: '7'\n  day: 2024-05-01")["id:"] == "7"
    assert values("Hotels in Rome: Alba\nRoma")["line"] == "Roma"
    assert values("My e-mail is dora@gmail.com. ")["word"] == "dora@gmail.com"
    assert values('{"cards": {"card_17": {}}}')["cards.*"] == "card_17"


def test_arguments_come_from_results_words_and_constants() -> None:
    learned = learn_arguments(run_of(number) for number in range(12))
    filled: list[tuple[dict[str, JSON], ToolCall]] = []

    def at_call(known: KnownValues, call: ToolCall) -> None:
        filled.append((learned[call.name].fill(known), call))

    for number in (20, 21, 22):
        replay(run_of(number), at_call)
    for found, call in filled:
        known: dict[str, Any] = dict(call.arguments)
        known.pop("note", None)
        found.pop("note", None)
        assert found == known


def test_a_sentence_names_what_most_calls_took_from_one_place() -> None:
    (text,) = [one.text for one in content_of([run_of(n) for n in range(12)], "shop") if "return_item" in one.text]
    assert text == (
        "return_item(order_id ← find_user.orders[], item_id ← get_order.items[].item_id, the one the user means, "
        "reason ← the user's words, currency = EUR)"
    )


def test_failed_runs_teach_no_arguments() -> None:
    assert learn_arguments(run_of(number, success=False) for number in range(12)) == {}


def test_what_held_in_one_task_alone_is_not_said() -> None:
    runs = [run_of(number, task="one") for number in range(12)]
    assert [one for one in content_of(runs, "shop") if "return_item" in one.text] == []


def test_a_secret_is_never_named_as_a_constant() -> None:
    def login(number: int) -> Trajectory:
        given = {"user": f"u{number}", "password": "correct-horse-battery", "mode": "fast", "region": "eu"}
        turns = (Turn("user", f"Log in u{number}."), Turn("assistant", calls=(ToolCall("login", given, "ok"),)))
        return Trajectory(f"l{number}", turns, Outcome(success=True), "shop", f"t{number}")

    (one,) = content_of([login(number) for number in range(8)], "shop")
    assert one.text == "login(user ← the user's words, mode = fast, region = eu)"
