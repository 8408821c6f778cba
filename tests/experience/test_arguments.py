from __future__ import annotations

import json

import pytest

from hepm.experience.arguments import ValuePlace, argument_sentence, comparable, learn_arguments, leaves_of
from hepm.experience.content import content_of
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
    assert comparable(True) != comparable(1)


def test_leaves_are_read_from_json_python_and_lines_of_text() -> None:
    def values(text: str) -> dict[str, JSON]:
        return dict(leaves_of(text))

    assert values('{"a": [{"id": 3}]}')["a[].id"] == 3
    assert values("{'a': True}")["a"] is True
    assert values("- id: '7'\n  day: 2024-05-01")["id"] == "7"
    assert values("Booked as R77") == {"": "Booked as R77"}
    assert values('{"cards": {"card_17": {}}}')["cards.*"] == "card_17"


def test_a_place_holds_what_results_said_before_a_call_and_nothing_of_its_own_turn() -> None:
    calls = [ToolCall("get", {"id": "A1"}, '{"next": "A1"}') for _ in range(3)]
    turns = (Turn("assistant", calls=tuple(calls[:2])), Turn("assistant", calls=(calls[2],)))
    learned = learn_arguments([Trajectory("t", turns, Outcome(success=True))])
    assert learned["get"].arguments["id"].stood == {ValuePlace("get", "next"): 1}


def test_a_sentence_names_what_most_calls_took_from_one_place() -> None:
    (lesson,) = [one for one in content_of([run_of(n) for n in range(12)], "shop") if "return_item" in one.text]
    assert lesson.sentence == (
        "For return_item, take `order_id` (one of `orders`) from the result of find_user, and `item_id` (of one of "
        "`items`) from the result of get_order."
    )


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("frame", "Pass the `frame` that shop.get returned to shop.check as `frame`."),
        ("", "Pass the result of shop.get to shop.check as `frame`."),
        ("frames.*", "Pass a key of `frames` that shop.get returned to shop.check as `frame`."),
        ("*", "Pass a key that shop.get returned to shop.check as `frame`."),
    ],
)
def test_one_argument_is_said_with_the_tool_that_returned_it_whatever_dots_its_name_has(
    path: str, sentence: str
) -> None:
    assert argument_sentence("shop.check", {"frame": ValuePlace("shop.get", path)}) == sentence


@pytest.mark.parametrize(
    ("path", "words"),
    [("[]", "one of the items"), ("*[]", "one of the items"), ("[].id", "the `id`"), ("*.id", "the `id`")],
)
def test_no_empty_name_is_said_of_a_result_that_is_a_list_or_holds_things_by_their_ids(path: str, words: str) -> None:
    sentence = f"Pass {words} that get returned to delete as `one`."
    assert argument_sentence("delete", {"one": ValuePlace("get", path)}) == sentence


def test_only_runs_that_hold_the_places_named_stand_behind_where_an_argument_comes_from() -> None:
    runs = [run_of(number) for number in range(12)]
    elsewhere = ToolCall("get_order", {"order_id": "#W1"}, "no items")
    calls = (elsewhere, ToolCall("return_item", {"order_id": "#W1", "item_id": "77"}, "done"))
    other = Trajectory(
        "other", tuple(Turn("assistant", calls=(call,)) for call in calls), Outcome(success=True), "shop"
    )
    (lesson,) = [one for one in content_of([*runs, other], "shop") if "For return_item" in one.text]
    assert set(lesson.run_ids) == {run.id for run in runs}


def test_failed_runs_teach_no_arguments() -> None:
    assert learn_arguments(run_of(number, success=False) for number in range(12)) == {}


def test_what_held_in_one_task_alone_is_not_said() -> None:
    runs = [run_of(number, task="one") for number in range(12)]
    assert [one for one in content_of(runs, "shop") if "return_item" in one.text] == []
