"""Results and messages taken apart into facts."""

import json
import re
import time
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest.facts import (
    KEPT_CHARS,
    MOST_FACTS,
    facts_of_instructions,
    facts_of_message,
    facts_of_result,
    shorter_result,
    time_of_message,
)
from hepm.ingest.transitions import agent_state
from hepm.types import NOW, SAID, SAID_LAST, TIME, ToolCall, Turn


def called(tool: str, result: str) -> Turn:
    return Turn("assistant", calls=(ToolCall(tool, result=result),))


def test_values_numbers_lengths_and_truths_of_a_json_result_are_facts_of_their_own():
    order = {"status": "Shipped", "total": 89.5, "paid": True, "note": None, "items": [{"size": "XL"}, {"size": "S"}]}
    assert facts_of_result(json.dumps(order)) == {
        "status=shipped": 1, "total": 89.5, "paid=true": 1, "note=null": 1,
        "status=*": 1, "items[]": 2, "items[].size=xl": 1, "items[].size=s": 1, "items[last].size=s": 1,
    }  # fmt: skip


def test_of_values_with_digits_only_that_they_are_there_is_told_and_keys_with_digits_are_one_key():
    result = {"id": "W8291", "span": "2026-11-24/30", "variants": {"10477": {"available": False}}}
    assert facts_of_result(json.dumps(result)) == {"id=*": 1, "span=*": 1, "variants.*.available=false": 1}


def test_a_date_is_a_number_of_days_and_one_that_no_calendar_has_only_is_there():
    found = facts_of_result(json.dumps({"due": "2020-03-01", "paid": "2026-02-30", "lines": [{"due": "2019-12-31"}]}))
    assert found == {"due@": 60, "due=*": 1, "paid=*": 1, "lines[]": 1, "lines[].due@": -1}


@pytest.mark.parametrize(
    "time", ["2020-01-03T06:00:00Z", "2020-01-03 06:00", "2020-01-03T07:00:00.000+01:00", "2020-01-03 06:00:00Z"]
)
def test_a_time_is_days_with_a_fraction_in_utc_however_it_is_written(time: str):
    assert facts_of_result(json.dumps({"at": time})) == {"at@@": 2.25, "at=*": 1}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("the voucher is valid until 2020-01-03, no longer", {"until@@": 2}),
        ("delivered: 2020-01-03 06:00Z, invoice of 2020-01-09", {"delivered@@": 2.25}),
        ("the part 2020-01-031 is of series 12020-01-03", {}),
    ],
)
def test_a_date_in_a_text_is_a_time_by_the_word_before_it(text: str, facts: dict[str, float]):
    assert {name: number for name, number in facts_of_result(text).items() if "~" not in name} == facts


@pytest.mark.parametrize(
    ("prompt", "facts"),
    [
        ("You help. The current time is 2020-01-02 12:00:00 EST.", {TIME: 1.5}),
        ("Today is 2020-01-03. The tariff of 2026-01-01 holds.", {TIME: 2}),
        ("The tariff of 2026-01-01 holds, today as tomorrow.", {}),
        ("Today is 2020-13-03.", {}),
    ],
)
def test_of_a_system_prompt_the_time_that_it_says_it_is_is_a_fact(prompt: str, facts: dict[str, float]):
    assert facts_of_instructions(prompt) == facts


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        ("Net EUR 31.481,21\nTOTAL: EUR 37.462,64", {"net": 31_481.21, "total": 37_462.64}),
        ("you may spend up to $2,500 on it, never more", {"sum": 2_500}),
        ("once it was £1,299.5, and it is €899, still", {"was": 1_299.5, "sum": 899}),
        ("the part is EUR 12345678901 of the list, HEUR 12 at most", {}),
    ],
)
def test_sums_of_money_in_a_text_are_numbers_by_the_word_before_them(text: str, sums: dict[str, float]):
    assert {name: number for name, number in facts_of_result(text).items() if "~" not in name} == sums


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("I need 250 boxes of screws for $1,200.50.", {"#": 1200.5}),
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
        ('{"item": "FRZ-12345", "zip": "94107"}', {"item=frz-…"}),
    ],
)
def test_results_in_other_forms_than_json_have_the_same_facts(result: str, facts: set[str]):
    assert facts <= facts_of_result(result).keys()


def test_a_sentence_with_signs_in_it_is_words():
    for text in ("one <b>bold</b> word among many others", "| a line of text", "Note: a single line"):
        assert all("~" in name or name.startswith("=") for name in facts_of_result(text))


def test_the_largest_number_of_a_list_counts_and_what_stands_behind_a_long_list_is_read():
    readings = [{"value": value, "at": "a"} for value in (3, 95, 7, 1, 2)]
    found = facts_of_result(json.dumps({"readings": readings, "unit": "bar"}))
    assert found["readings[].value"] == 95
    assert found["unit=bar"] == 1


def test_a_number_with_its_unit_in_a_text_is_a_number_unless_it_is_an_id_or_none():
    for text, number in (("$1,250.50", 1250.5), ("31.5 kg", 31.5), ("EUR 12", 12), ("-4%", -4)):
        assert facts_of_result(json.dumps({"size": text})) == {"size": number}
    for number in (10**12, 10**400, float("nan")):
        assert facts_of_result(json.dumps({"number": number})) == {}


def test_a_short_text_of_three_words_is_a_value_and_its_words_and_one_of_two_a_value_alone():
    march, april = (
        facts_of_result(json.dumps({"note": f"under recall since {month}"})) for month in ("march", "april")
    )
    assert march.keys() & april.keys() >= {"note~recall"}
    assert "note=under recall since march" in march
    assert facts_of_result(json.dumps({"by": "Ravi Jensen"})) == {"by=ravi jensen": 1, "by=*": 1}


def test_a_long_text_is_its_words_and_a_short_one_a_value():
    assert facts_of_result("connection refused") == {"=connection refused": 1}
    found = facts_of_result("connection to the database at db:5432 was refused by the server")
    assert {"~refused", "~database"} <= found.keys()
    assert "~the" not in found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("PING gateway, 4 % lost, rtt min/avg/max 2/10/70 ms, signal -44 dBm", {"lost": 4, "signal": -44, "dbm": -44}),
        ("the process has ended with exit code: 1", {"code": 1}),
        ("the order goes to 694 Highland Drive, Springfield, and 3 FAILED", {"failed": 3}),
        ("see you on 2024-05-03 at 10:30, call +49 170 123456, version 1.2.3, id: 5f3a", {}),
    ],
)
def test_a_text_says_how_many_of_what_but_no_date_and_no_id(text: str, numbers: dict[str, float]):
    found = facts_of_result(text)
    assert {name: number for name, number in found.items() if "~" not in name} == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (
            "TICKET of the bridge\nGROSS 42480 kg  TARE 14680 kg\nH2O   13.8 %   (max 15.0)\nkg/hl 72.5\nall in order",
            {"gross": 42480, "tare": 14680, "h2o": 13.8, "max": 15, "kg/hl": 72.5},
        ),
        (
            "line test: optical rx -22.5 dBm, loss 0.5%; wifi clients 11",
            {"optical rx": -22.5, "dbm": -22.5, "loss": 0.5, "wifi clients": 11},
        ),
        ("Quote for the stairs\nLabour     £66.92\nTOTAL      £1,160.60", {"labour": 66.92, "total": 1160.6}),
        ("the server on port 5432 refused it, see line 12 above", {}),
    ],
)
def test_a_number_that_stands_alone_behind_its_name_is_known_by_it(text: str, numbers: dict[str, float]) -> None:
    found = facts_of_result(text)
    assert {name: number for name, number in found.items() if "~" not in name} == numbers


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The gateway answered HTTP 503 to this request of yours.", "~503"),
        ("src/form.ts(3,1): error TS2304: Cannot find name x.", "~ts2304"),
        ("Process finished with exit code 137 after 3 minutes.", "~137"),
        ("violates a constraint (SQLSTATE[23505]: duplicate key)", "~23505"),
        ("HTTP 404", "=http 404"),
        ('{"error": {"code": "PAY-203"}}', "error.code=pay-203"),
        ('{"error_code": "E77"}', "error_code=e77"),
    ],
)
def test_the_code_of_a_failure_is_a_fact(text: str, code: str) -> None:
    assert code in facts_of_result(text)
    assert code[0] != "~" or code in facts_of_message(text)


@pytest.mark.parametrize(
    "text",
    [
        "Your booking is confirmed, code: SAVE20, status of order W12345: open.",
        '{"promo_code": "X7K2LM", "status": "LX1759", "confirmation_code": "AB123"}',
        "The status code is known, as 1042567 said in his report. Status: LX1759.",
    ],
)
def test_a_code_of_something_else_is_no_fact(text: str) -> None:
    digits = [fact for fact in facts_of_result(text) if re.search(r"\d\d", fact)]
    assert digits == []


@pytest.mark.parametrize("day", ["5 Jan 2020", "January 5th, 2020", "05 January 2020", "2020-01-05"])
def test_a_day_is_known_however_it_is_written(day: str) -> None:
    assert facts_of_result(json.dumps({"due": day}))["due@"] == 4
    assert facts_of_result(f"Warranty: parts and labour, expires {day}, and no longer")["expires@@"] == 4
    assert facts_of_instructions(f"Today is {day}.") == {TIME: 4}


def test_a_time_of_day_is_compared_with_other_times_of_day_alone() -> None:
    found = facts_of_result(
        json.dumps({"asked": "14:30", "next_arrival": "9:00", "since": "2020-01-05 12:00", "ratio": "1:3"})
    )
    times = {fact: number for fact, number in found.items() if "@" in fact}
    assert times == {"asked@@@": pytest.approx(14.5 / 24), "next_arrival@@@": 0.375, "since@@": 4.5}


def test_an_email_says_when_it_was_sent_and_another_message_with_a_date_does_not() -> None:
    assert time_of_message("From: ana\nSent: Sunday, 5 January 2020 12:00\n\nThe boiler is cold.") == {TIME: 4.5}
    for text in ("please deliver on 5 January 2020", "Sent: 45 January 2020"):
        assert time_of_message(text) == {}


def test_what_time_it_is_says_a_system_prompt_rather_than_an_email() -> None:
    email = Turn("user", "Sent: Sunday, 5 January 2020 12:00\n\nThe boiler is cold.")
    prompt = Turn("system", "The current time is 2020-01-08 12:00.")
    assert agent_state([email]).facts[NOW] == {TIME: 4.5}
    assert agent_state([prompt, email]).facts[NOW] == {TIME: 7.5}


def table(rows: list[dict[str, object]]) -> Mapping[str, float]:
    """The facts of a table are those of the same rows as JSON."""
    return facts_of_result(json.dumps(rows))


STATES = table([{"id": 1, "state": "open", "left": 3}, {"id": 2, "state": "sold out", "left": 12}])


@pytest.mark.parametrize(
    "result",
    [
        " id |  state   | left \n----+----------+------\n  1 | open     |    3\n  2 | sold out |   12",
        "+----+----------+------+\n| id | state    | left |\n+----+----------+------+\n"
        "|  1 | open     |    3 |\n|  2 | sold out |   12 |\n+----+----------+------+",
        "│ id │ state    │ left │\n╞════╪══════════╪══════╡\n│ 1  │ open     │ 3    │\n│ 2  │ sold out │ 12   │",
        "id  state     left\n--  --------  ----\n1   open      3\n2   sold out  12",
        "id   state      left\n1    open       3\n2    sold out   12",
        "id\tstate\tleft\n1\topen\t3\n2\tsold out\t12",
        'id,state,left\n1,open,3\n2,"sold out",12',
    ],
    ids=["psql", "mysql", "duckdb", "sqlite", "aligned", "tabs", "commas"],
)
def test_a_table_of_any_tool_has_the_facts_of_the_same_rows_as_json(result: str) -> None:
    assert facts_of_result(result) == STATES


@pytest.mark.parametrize(
    ("result", "facts", "words"),
    [
        (
            "metrics for checkout at 10:00\nmetric         now  1h ago  limit\ncpu_percent   95.5      40     80\n"
            "p99_ms         900     850   1000\n\nerror rate is rising",
            {"[]": 2, "[cpu_percent].now": 95.5, "[cpu_percent].1h ago": 40, "[p99_ms].limit": 1000},
            {"~metrics", "~rising"},
        ),
        (
            "## Open orders\n\n| order | state |\n|---|---|\n| lamp | shipped |\n\nThese are all of them.",
            {"lamp=shipped": 1},
            {"~orders", "~them"},
        ),
        (
            " a | b\n---+---\n x |\n y | late\n(2 rows)",
            {"[]": 2, "[].b=": 1, "[].b=late": 1, "[last].b=late": 1, "=(2 rows)": 1},
            set(),
        ),
    ],
    ids=["metrics", "Markdown with a title", "psql with a value left out"],
)
def test_lines_around_a_table_stay_words_or_values(result: str, facts: Mapping[str, float], words: set[str]) -> None:
    found = facts_of_result(result)
    assert facts.items() <= found.items()
    assert words <= found.keys()


@pytest.mark.parametrize(
    "text",
    [
        "INFO  the server has started\nERROR  connection refused\nWARN  retry in a moment",
        "2026-01-02 10:00  INFO  started\n2026-01-02 10:01  ERROR  refused\n2026-01-02 10:02  INFO  ended",
        "The order was shipped.  It is late.\nA refund was asked for.  It is due.\nNobody called.  That is all.",
        "total 16\n-rw-r--r-- 1 root root  644 Nov 30 a.md\n-rw-r--r-- 1 root root  165 Nov 30 b.md\n"
        "-rw-r--r-- 1 root root  165 Nov 30 c.md",
        "func f() {\n\tif empty(items) {\n\t\treturn nil\n\t}\n\tcall(items)\n\tcall(others)\n}",
        "name  state\nlamp  open",
        "| name | state |",
        "a long text of one line, which has a bar | in it",
    ],
)
def test_a_log_a_sentence_a_listing_and_code_are_no_table(text: str) -> None:
    assert not any("[" in name or "." in name for name in facts_of_result(text))


def test_keys_and_values_that_stand_in_columns_are_no_table() -> None:
    found = facts_of_result("Status:    open\nOwner:     the desk\nTotal:     31.5 kg")
    assert found == {"Status=open": 1, "Status=*": 1, "Owner=the desk": 1, "Owner=*": 1, "Total": 31.5}


def test_what_a_change_of_files_counts_is_known() -> None:
    stat = " src/a.py   | 10 +++++-----\n src/b.py   |  4 ++--\n docs/c.md  |  1 +\n 3 files changed, 8 insertions(+)"
    found = facts_of_result(stat)
    assert (found["files"], found["insertions"]) == (3, 8)
    assert not any("[" in name for name in found)


def test_of_a_table_that_was_cut_the_length_and_the_last_row_are_not_known() -> None:
    rows = "".join(f"| lamp | {state} | 3 |\n" for state in ["open", "sold"] * 90)
    shorter = shorter_result(f"| name | state | left |\n|---|---|---|\n{rows}")
    assert shorter.endswith("…")
    assert facts_of_result(shorter).keys() == {"[].name=lamp", "[].state=open", "[].state=sold", "[].left"}


def test_of_a_list_cut_in_the_middle_the_last_item_is_known() -> None:
    events = [{"state": "moving", "note": "n" * 90} for _ in range(40)] + [{"state": "delivered", "note": ""}]
    found = facts_of_result(shorter_result(json.dumps({"parcel": "P", "events": events})))
    assert found["events[last].state=delivered"] == 1
    assert "events[last].state=moving" not in found
    assert "events[]" not in found


def test_of_a_text_cut_within_a_list_the_last_item_is_not_known() -> None:
    assert not any(
        "[last]" in name for name in facts_of_result('{"events": [{"state": "moving"}, {"state": "lost"}, {"st')
    )


def test_items_are_told_apart_by_names_that_no_two_of_them_have() -> None:
    apart = facts_of_result(json.dumps([{"metric": "CPU_percent", "now": 95}, {"metric": "p99_ms", "now": 900}]))
    assert (apart["[cpu_percent].now"], apart["[p99_ms].now"]) == (95, 900)
    alike = facts_of_result(json.dumps([{"metric": "cpu", "now": 95}, {"metric": "cpu", "now": 9}]))
    assert not any("[cpu]" in name for name in alike)
    ids = facts_of_result(json.dumps([{"id": "W-82915", "now": 95}, {"id": "node-4711", "now": 9}]))
    assert ids.keys() == {"[]", "[].now", "[].id=node-…", "[last].id=node-…", "[last].now"}


@pytest.mark.parametrize(("value", "there"), [("n" * 90, True), ("W-12345", True), (" ", False), ("—", False)])
def test_a_text_is_there_if_it_has_a_letter_or_a_digit(value: str, there: bool) -> None:
    assert ("note=*" in facts_of_result(json.dumps({"note": value}))) is there
    assert "=*" not in facts_of_result(value)


@pytest.mark.parametrize(
    ("age", "minutes"), [("90s ago", 1.5), ("2 hours ago", 120), ("1 day ago", 1440), ("2w ago", 20160)]
)
def test_an_age_is_a_number_of_minutes(age: str, minutes: float) -> None:
    assert facts_of_result(json.dumps({"deployed": age})) == {"deployed.ago": minutes}
    assert facts_of_result(f"the latest deploy of the service was {age} by the team")["ago"] == minutes


def test_of_several_ages_the_least_counts() -> None:
    deploys = "latest deploys, newest first:\n10:00  v9  by wei  (10m ago)\n09:58  v1  by mbali  (3d ago)"
    assert facts_of_result(deploys)["ago"] == 10
    assert facts_of_result(json.dumps([{"at": "3d ago"}, {"at": "10m ago"}]))["[].at.ago"] == 10


def test_a_part_of_a_number_is_no_age() -> None:
    for age in ("1.5h ago", "12345d ago"):
        assert "ago" not in facts_of_result(f"the deploy was {age}, by the team")


def test_a_name_that_ends_in_two_digits_is_no_id() -> None:
    for name, is_value in (("disk_full_p95", True), ("session4f3a91", False), ("P99", False)):
        assert (f"alert={name.lower()}" in facts_of_result(json.dumps({"alert": name}))) is is_value


def test_a_key_eight_levels_deep_is_a_fact_and_one_below_is_none() -> None:
    deep: object = {"state": "open", "below": {"state": "closed"}}
    for key in "gfedcba":
        deep = {key: deep}
    found = facts_of_result(json.dumps(deep))
    assert found["a.b.c.d.e.f.g.state=open"] == 1
    assert not any(name.endswith("closed") for name in found)


LONG = {
    "bars": "| a | b | c |\n|---|---|---|\n" + "| x | y | 1 |\n" * 7000,
    "rows of two": "name|state\n" + "a|b\n" * 25_000,
    "few long rows": "\n".join(["\t".join(["head"] * 6000)] * 3),
    "spaces": "a" + " " * 99_990 + "b",
    "spaces and bars": "a " + " |" * 49_990,
    "lines": "\n".join(f"{'  a' * (line % 9)}  b" for line in range(6000)),
    "rules": "a\n" + "----\n" * 19_990,
    "a key": "a" + " *" * 49_990,
    "a name": json.dumps([{"name": "a" * 29 + "!", "now": 5}]),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_result_of_100_000_characters_is_read_at_once(text: str) -> None:
    begun = time.process_time()
    assert len(facts_of_result(text[:100_000])) <= MOST_FACTS
    assert time.process_time() - begun < 0.2


@given(st.text(alphabet=st.sampled_from("ab1 \n\t|-+:=…│é.{[<"), max_size=80))
def test_no_text_that_looks_like_a_table_raises(text: str) -> None:
    for result in (text, f"name  state\n{text}", f"| a | b |\n|---|---|\n{text}", shorter_result(text * 40)):
        assert len(facts_of_result(result)) <= MOST_FACTS


def test_any_result_has_facts_or_none_and_raises_nothing():
    for text in ("{broken", "[" * 5000, "[" * 900 + "]" * 900, "|\n|", '{"a": ' * 200 + "1" + "}" * 200, "  "):
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
    assert facts["get_order"] == {"state=shipped": 1, "state=*": 1}
    assert facts["get_stock"] == {"left": 3}
    assert facts[SAID] == facts_of_message("cancel order then refund")
    assert facts[SAID_LAST] == facts_of_message("then refund")


def test_a_hint_in_a_result_is_no_fact():
    block = "<hepm-memory>\nSuggested next tools: refund\n</hepm-memory>"
    assert agent_state([called("look", f"all well\n{block}")]).facts["look"] == {"=all well": 1}


def test_what_names_a_person_is_no_fact_but_that_it_is_there() -> None:
    person = {"first_name": "Ines", "lastName": "Kaya", "surname": "Kaya", "email": "ines@example.com", "tier": "gold"}
    address = "ines.kaya.of.the.first.row@example.com"
    result = json.dumps({"passengers": [person], "user_name": "ines", "email": address, "product_name": "lamp"})
    assert facts_of_result(result).keys() == {
        "passengers[]", "passengers[].tier=gold", "product_name=lamp", "product_name=*", "user_name=*", "email=*",
    }  # fmt: skip


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


CUT = (
    '{"a": "\\ud800", "b": "' + "x" * 900 + '"}',
    '{"a": [' + "1," * 900,
    "['" + "a" * 900,
    "[" * 700 + "]" * 700,
    '{"type": "text", "text": 5, "content": 7, "all": "' + "z" * 900 + '"}',
)


def test_a_long_result_of_any_kind_is_cut_so_that_it_can_be_stored() -> None:
    for shorter in map(shorter_result, CUT):
        assert len(shorter) <= KEPT_CHARS
        assert shorter.encode()
        assert len(facts_of_result(shorter)) <= MOST_FACTS


@pytest.mark.parametrize("lines", [1, 90])
@pytest.mark.parametrize("wrapped", [lambda parts: {"content": parts, "isError": False}, lambda parts: parts])
def test_the_text_of_content_parts_is_what_a_tool_returned(wrapped: Callable[[object], object], lines: int) -> None:
    held = json.dumps(order(lines))
    result = json.dumps(wrapped([{"type": "text", "text": held}]))
    assert shorter_result(result) == shorter_result(held)


def test_whole_numbers_of_many_digits_are_read_unless_their_key_says_that_they_are_ids() -> None:
    order = {"rows": "482133", "order_id": "482133", "zip": "94107", "caseNumber": "48213377", "refs": ["10477"]}
    found = facts_of_result(json.dumps(order))
    assert found.keys() == {"rows", "order_id=*", "zip=*", "caseNumber=*", "refs[]"}
    assert facts_of_result("rows | limit\n-----+-------\n12345 | 900000") == {
        "[]": 1,
        "[].rows": 12345,
        "[].limit": 900000,
    }
    assert facts_of_result("48213") == {}


def test_a_number_that_is_written_with_commas_is_read_whole() -> None:
    assert facts_of_result("The job is done: a total of 1,234,567 rows and 12,500 points were read")["rows"] == 1234567
    assert facts_of_result("limit: 900,000\nused: 12,500")["used"] == 12500
