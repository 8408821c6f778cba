"""Results and messages taken apart into facts."""

import json
from collections.abc import Callable

import pytest

from hepm.ingest.facts import KEPT_CHARS, MOST_FACTS, facts_of_message, facts_of_result, shorter_result
from hepm.ingest.transitions import agent_state, transitions
from hepm.types import SAID, SAID_LAST, ToolCall, Trajectory, Turn


def called(tool: str, result: str) -> Turn:
    return Turn("assistant", calls=(ToolCall(tool, result=result),))


def test_values_numbers_lengths_and_truths_of_a_json_result_are_facts_of_their_own():
    order = {"status": "Shipped", "total": 89.5, "paid": True, "note": None, "items": [{"size": "XL"}, {"size": "S"}]}
    assert facts_of_result(json.dumps(order)) == {
        "status=shipped": 1, "total": 89.5, "paid=true": 1, "note=null": 1,
        "items[]": 2, "items[].size=xl": 1, "items[].size=s": 1,
    }  # fmt: skip


def test_values_with_digits_are_left_out_and_keys_with_digits_are_one_key():
    result = {"id": "W8291", "at": "2026-11-24T10:00:00Z", "variants": {"10477": {"available": False}}}
    assert facts_of_result(json.dumps(result)) == {"variants.*.available=false": 1}


def test_a_date_is_a_number_of_days_and_one_that_no_calendar_has_is_nothing():
    found = facts_of_result(json.dumps({"due": "1970-03-01", "paid": "2026-02-30", "lines": [{"due": "1970-01-02"}]}))
    assert found == {"due@": 59, "lines[]": 1, "lines[].due@": 1}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("I need 250 boxes of screws for $1,200.50.", {"#": 1200.5}),
        ("2 tickets with 30 % discount, please", {"#": 30}),
        ("order #W12345 and O-12345 of 2026, alarm 7 of 2024-05-03, at 10:30, +49170123456", {}),
    ],
)
def test_a_message_says_the_largest_amount_that_it_counts_but_no_id_and_no_date(text: str, numbers: dict[str, float]):
    found = facts_of_message(text)
    assert {name: number for name, number in found.items() if "~" not in name} == numbers


@pytest.mark.parametrize(
    ("result", "facts"),
    [
        (
            "The order W12345 was changed\nShipped: yes\n**Paid**: no\n- Total: 31.5 kg\n",
            {"Shipped=yes", "Paid=no", "Total", "~order"},
        ),
        (repr({"locked": True, "seen": None}), {"locked=true", "seen=null"}),
        (json.dumps({"content": [{"text": json.dumps({"tier": "gold", "at": "2026-01-02T10:00"})}]}), {"tier=gold"}),
        ("<status>open</status><lines><line><left>2</left></line></lines>", {"status=open", "lines.line.left"}),
        ("| field | value |\n|---|---|\n| warranty | expired |", {"warranty=expired"}),
        ("| name | state | left |\n|:--|--:|---|\n| a | sold | 3 |\n| b | open | 12 |", {"[].state=sold", "[].left"}),
        ('{"item": "FRZ-12345", "zip": "94107"}', {"item=frz-…"}),
    ],
)
def test_results_in_other_forms_than_json_have_the_same_facts(result: str, facts: set[str]):
    assert facts <= facts_of_result(result).keys()


@pytest.mark.parametrize("text", ["one <b>bold</b> word among many others", "| a line of text", "Note: a single line"])
def test_a_sentence_with_signs_in_it_is_words(text: str):
    assert all("~" in name or name.startswith("=") for name in facts_of_result(text))


def test_the_largest_number_of_a_list_counts_and_what_stands_behind_a_long_list_is_read():
    readings = [{"value": value, "at": "a"} for value in (3, 95, 7, 1, 2)]
    found = facts_of_result(json.dumps({"readings": readings, "unit": "bar"}))
    assert found["readings[].value"] == 95
    assert found["unit=bar"] == 1


@pytest.mark.parametrize(
    ("text", "number"), [("$1,250.50", 1250.5), ("31.5 kg", 31.5), ("EUR 12", 12), ("30 days", 30), ("-4%", -4)]
)
def test_a_number_with_its_unit_in_a_text_is_a_number(text: str, number: float):
    assert facts_of_result(json.dumps({"size": text})) == {"size": number}


@pytest.mark.parametrize("number", [10**12, 10**400, float("nan"), float("inf")], ids=["id", "huge", "nan", "inf"])
def test_numbers_that_are_ids_or_none_are_left_out(number: float):
    assert facts_of_result(json.dumps({"number": number})) == {}


def test_a_short_text_of_three_words_is_a_value_and_its_words_and_one_of_two_a_value_alone():
    march, april = (
        facts_of_result(json.dumps({"note": f"under recall since {month}"})) for month in ("march", "april")
    )
    assert march.keys() & april.keys() >= {"note~recall"}
    assert "note=under recall since march" in march
    assert facts_of_result(json.dumps({"by": "Ravi Jensen"})) == {"by=ravi jensen": 1}


def test_a_long_text_is_its_words_and_a_short_one_a_value():
    assert facts_of_result("connection refused") == {"=connection refused": 1}
    found = facts_of_result("connection to the database at db:5432 was refused by the server")
    assert {"~refused", "~database"} <= found.keys()
    assert "~the" not in found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("PING gateway, 4 % lost, rtt min/avg/max 2/10/70 ms, signal -44 dBm", {"lost": 4, "dbm": -44}),
        ("=== 3 failed, 12 passed in 0.31s ===", {"failed": 3, "passed": 12}),
        ("the process has ended with exit code: 1", {"code": 1}),
        ("the order goes to 694 Highland Drive, Springfield, and 3 FAILED", {"failed": 3}),
        ("see you on 2024-05-03 at 10:30, call +49 170 123456, version 1.2.3, id: 5f3a", {}),
    ],
)
def test_a_text_says_how_many_of_what_but_no_date_and_no_id(text: str, numbers: dict[str, float]):
    found = facts_of_result(text)
    assert {name: number for name, number in found.items() if "~" not in name} == numbers


@pytest.mark.parametrize("text", ["{broken", "[" * 5000, '{"a": ' * 200 + "1" + "}" * 200, "", "  "])
def test_any_result_has_facts_or_none_and_raises_nothing(text: str):
    assert len(facts_of_result(text)) <= MOST_FACTS


def test_no_result_has_more_facts_than_are_kept():
    many = {f"key{chr(97 + a)}{chr(97 + b)}": {"x": a, "y": b} for a in range(20) for b in range(20)}
    assert len(facts_of_result(json.dumps(many))) == 2 * 25
    assert len(facts_of_result(json.dumps([many, many]))) <= MOST_FACTS


def test_a_state_holds_the_latest_result_of_each_tool_and_all_that_the_user_wrote():
    turns = (
        Turn("user", "cancel order"),
        called("get_order", '{"status": "pending"}'),
        called("get_stock", '{"left": 3}'),
        called("get_order", '{"state": "shipped"}'),
        Turn("user", "then refund"),
    )
    facts = agent_state(turns).state().facts
    assert facts["get_order"] == {"state=shipped": 1}
    assert facts["get_stock"] == {"left": 3}
    assert facts[SAID] == facts_of_message("cancel order then refund")
    assert facts[SAID_LAST] == facts_of_message("then refund")


def test_a_transition_holds_what_was_learned_since_the_turn_before():
    turns = (Turn("user", "cancel order"), called("get_order", '{"status": "pending"}'), called("cancel_order", "done"))
    first, second = transitions(Trajectory("r", turns))
    assert first.learned == {SAID: facts_of_message("cancel order")}
    assert second.learned == {"get_order": {"status=pending": 1}}


def test_a_hint_in_a_result_is_no_fact():
    block = "<hepm-memory>\nSuggested next tools: refund\n</hepm-memory>"
    assert agent_state([called("look", f"all well\n{block}")]).facts["look"] == {"=all well": 1}


def test_what_names_a_person_is_no_fact() -> None:
    person = {"first_name": "Ines", "lastName": "Kaya", "surname": "Kaya", "email": "ines@example.com", "tier": "gold"}
    result = json.dumps({"passengers": [person], "user_name": "ines", "product_name": "lamp"})
    assert facts_of_result(result).keys() == {"passengers[]", "passengers[].tier=gold", "product_name=lamp"}


def order(lines: int) -> dict[str, object]:
    """An order whose status stands behind a list of lines."""
    left = [{"sku": f"S-{number}", "left": number} for number in range(lines)]
    return {"id": "O-12345", "lines": left, "note": "n" * 300, "status": "open"}


@pytest.mark.parametrize("write", [json.dumps, repr], ids=["JSON", "printed"])
def test_of_a_long_result_the_parts_without_parts_are_kept_and_read(write: Callable[[object], str]) -> None:
    shorter = shorter_result(write(order(200)))
    assert len(shorter) <= KEPT_CHARS
    assert shorter_result(shorter) == shorter
    found = facts_of_result(shorter)
    assert {"status=open", "lines[].left"} <= found.keys()
    assert "lines[]" not in found  # how long it was is not known any more


def test_an_object_that_is_cut_in_the_middle_is_read_up_to_there() -> None:
    wide = {f"key{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}": {"state": "open"} for number in range(90)}
    shorter = shorter_result(json.dumps({"status": "open", "codes": [1, 2], "all": wide}))
    assert {"status=open", "codes[]", "all.keyaa.state=open"} <= facts_of_result(shorter).keys()


@pytest.mark.parametrize(
    "result",
    [
        '{"a": "\\ud800", "b": "' + "x" * 900 + '"}',
        '{"a": [' + "1," * 900,
        "['" + "a" * 900,
        "[" * 700 + "]" * 700,
        '{"content": [{"type": "text", "text": "' + "z" * 900 + '"}]}',
        '{"type": "text", "text": 5, "content": 7, "all": "' + "z" * 900 + '"}',
        "word " * 300,
    ],
)
def test_a_long_result_of_any_kind_is_cut_so_that_it_can_be_stored(result: str) -> None:
    shorter = shorter_result(result)
    assert len(shorter) <= KEPT_CHARS
    assert shorter.encode()
    assert len(facts_of_result(shorter)) <= MOST_FACTS


@pytest.mark.parametrize("lines", [1, 90])
@pytest.mark.parametrize("wrapped", [lambda parts: {"content": parts, "isError": False}, lambda parts: parts])
def test_the_text_of_content_parts_is_what_a_tool_returned(wrapped: Callable[[object], object], lines: int) -> None:
    held = json.dumps(order(lines))
    result = json.dumps(wrapped([{"type": "text", "text": held}]))
    assert shorter_result(result) == shorter_result(held)
