"""Tool shortlists: which tools words choose, which must stay, and when a list is whole again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.memory.shortlist import Shortlist, misses_too_many
from hepm.memory.tool_index import index_of
from hepm.types import Outcome, ToolCall, Trajectory, Turn

THINGS = ("parcel", "invoice", "ticket", "mailbox", "garden", "camera", "recipe", "flight", "tenant", "museum")
VERBS = ("create", "cancel", "list", "share")


def tool(name: str, description: str = "", **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": about} for key, about in parameters.items()}
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [tool(f"{verb}_{thing}", f"{verb.title()} one {thing} of the user") for thing in THINGS for verb in VERBS]


def run(id: str, request: str, *tools: str) -> Trajectory:
    turns = [Turn("user", request), *[Turn("assistant", "", calls=(ToolCall(name, {}, "done"),)) for name in tools]]
    return Trajectory(id, tuple(turns), task=id, outcome=Outcome(success=True))


def kept(shortlist: Shortlist) -> list[str]:
    return [tool["function"]["name"] for tool in shortlist.tools]  # type: ignore[index]


def best(query: str, *tools: dict[str, Any]) -> str:
    index = index_of(tools)
    return index.names_N[int(index.scores(query).argmax())]


def test_words_find_a_tool_however_its_name_joins_them() -> None:
    others = [tool("getWeather"), tool("send_mail"), tool("files.read"), tool("bookHotelV2"), tool("搜索航班")]
    assert best("what will the weather be", *others) == "getWeather"
    assert best("read two files", *others) == "files.read"
    assert best("booking hotels", *others) == "bookHotelV2"
    assert best("请搜索去上海的航班", *others) == "搜索航班"


def test_words_of_parameters_and_their_values_find_a_tool() -> None:
    plain, with_schema = tool("run_a"), tool("run_b", iban="Number of a bank account")
    with_schema["function"]["parameters"]["properties"]["mode"] = {"enum": ["sepa", "swift"], "description": {"odd": 1}}
    assert best("which bank is it", plain, with_schema) == "run_b"
    assert best("swift please", plain, with_schema) == "run_b"


def test_a_request_for_several_tools_finds_each(memory: Memory) -> None:
    request = "Please cancel my flight, and then share the recipe with ann, and list the museum"
    found = memory.shortlists.find(request, TOOLS, k=4, namespace="default")
    assert {one.name for one in found} >= {"cancel_flight", "share_recipe", "list_museum"}
    assert all(one.tool in TOOLS for one in found)


def test_a_shortlist_holds_the_very_tools_in_their_order_and_says_why(memory: Memory) -> None:
    builtin = {"type": "web_search"}
    chosen = memory.shortlist("cancel my flight", [builtin, *TOOLS], k=3)
    places = [[builtin, *TOOLS].index(one) for one in chosen.tools]  # type: ignore[arg-type]
    assert places == sorted(places)
    assert chosen.tools[0] is builtin
    assert "cancel_flight" in chosen.reasons
    assert set(chosen.reasons).isdisjoint(chosen.left_out)
    assert len(chosen.reasons) + len(chosen.left_out) == len(TOOLS)
    assert chosen.tokens_saved > 5 * chosen.tokens > 0


def test_what_runs_called_and_their_tools_stay_for_every_request(memory: Memory) -> None:
    memory.ingest(run("1", "water it", "list_garden", "share_camera"))
    chosen = memory.shortlist("cancel my flight", TOOLS, k=2)
    assert {"list_garden", "share_camera", "cancel_flight"} <= set(kept(chosen))
    assert chosen.reasons["list_garden"] == "called in recorded runs"


def test_like_runs_find_tools_that_no_word_names(memory: Memory) -> None:
    memory.ingest([run(str(n), f"my washing machine number {n} leaks", "list_tenant", "share_camera") for n in (1, 2)])
    found = memory.shortlists.find("the washing machine leaks again", TOOLS, k=2, namespace="default")
    assert {one.name for one in found} == {"list_tenant", "share_camera"}
    assert found[0].reason == "called by runs of like requests"


def test_what_runs_call_before_a_tool_comes_with_it(memory: Memory) -> None:
    memory.ingest([run(str(n), f"gone {n}", "list_tenant", "cancel_ticket") for n in range(3)])
    found = memory.shortlists.find("cancel the ticket", TOOLS, k=6, namespace="default")
    assert found[0].name == "cancel_ticket"
    assert "runs call it before cancel_ticket" in [one.reason for one in found if one.name == "list_tenant"]


def test_one_list_serves_all_sessions_and_only_grows(memory: Memory) -> None:
    first = memory.shortlist("cancel my flight", TOOLS, k=8)
    again = memory.shortlist("cancel the flight now", TOOLS, k=8)
    assert again.tools == first.tools
    later = memory.shortlist("share this recipe", TOOLS, k=8)
    assert set(kept(first)) < set(kept(later))
    assert len(later.tools) <= len(first.tools) + 3
    assert memory.shortlist("cancel my flight", TOOLS, k=8).tools == later.tools


def test_agents_with_other_tools_do_not_change_each_others_list(memory: Memory) -> None:
    others = [tool(f"{verb}_{thing}_v2", f"{verb} {thing}") for thing in THINGS for verb in VERBS]
    first = memory.shortlist("cancel my flight", TOOLS, k=4)
    other = memory.shortlist("cancel my flight", others, k=4)
    assert len(other.tools) == len(first.tools)
    assert memory.shortlist("cancel my flight", TOOLS, k=4).tools == first.tools


def test_new_forced_called_and_named_tools_stay(memory: Memory) -> None:
    memory.shortlist("cancel my flight", TOOLS, k=2)
    new = tool("zzz", "?")
    conversation = [
        {"role": "system", "content": "Begin with create_invoice. Search well, and `share` it."},
        {"role": "user", "content": "cancel my flight"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "list_garden", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "none"},
    ]
    choice = {"type": "function", "function": {"name": "share_museum"}}
    chosen = memory.shortlist(conversation, [*TOOLS, new], k=2, tool_choice=choice)
    reasons = {name: chosen.reasons.get(name) for name in ("zzz", "create_invoice", "list_garden", "share_museum")}
    assert list(reasons.values()) == [
        "new",
        "named in this conversation",
        "called in this conversation",
        "forced by tool_choice",
    ]


def test_a_common_word_names_no_tool_unless_it_is_quoted(memory: Memory) -> None:
    tools = [*TOOLS, tool("search", "?"), tool("fetch", "?")]
    system = {"role": "system", "content": "We search for what our users need, and `fetch` helps."}
    chosen = memory.shortlist([system, {"role": "user", "content": "cancel my flight"}], tools, k=1)
    assert "fetch" in chosen.reasons
    assert "search" in chosen.left_out


def test_a_renamed_tool_stays_by_its_alias_or_its_description(memory: Memory) -> None:
    old = tool("drop_parcel", "Drop a parcel at the door")
    memory.ingest([run("1", "drop it", "drop_parcel"), run("2", "x", "old_name")], tools=[old])
    memory.tools.add_alias("new_name", "old_name")
    tools = [*TOOLS, tool("leaveParcel", "Drop a parcel at the door"), tool("new_name", "?")]
    chosen = memory.shortlist("cancel my flight", tools, k=1)
    assert chosen.reasons["leaveParcel"] == "has the description of drop_parcel, which runs called"
    assert chosen.reasons["new_name"] == "called in recorded runs"


def test_words_add_no_tool_beyond_the_budget_and_what_must_stay_stays(memory: Memory) -> None:
    memory.ingest(run("1", "water it", "list_garden", "share_camera", "list_ticket"))
    one = memory.shortlist("cancel my flight", TOOLS, k=20, budget_tokens=1)
    assert set(kept(one)) == {"list_garden", "share_camera", "list_ticket"}


def test_an_agent_with_few_tools_keeps_all(memory: Memory) -> None:
    few = TOOLS[:20]
    chosen = memory.shortlist("anything", few)
    assert list(chosen.tools) == few
    assert chosen.tokens_saved == 0


def test_lists_are_whole_while_too_many_of_the_latest_sessions_missed_a_tool(memory: Memory) -> None:
    memory.shortlist("cancel my flight", TOOLS, k=2)
    for number in range(30):
        memory.shortlists.record(missed=number % 3 == 0, namespace="default")
    chosen = memory.shortlist("cancel my flight", TOOLS, k=2)
    assert list(chosen.tools) == TOOLS
    assert chosen.off == "off: 10 of 30 sessions needed a tool that is not in the list"
    assert "cancel_flight" not in chosen.left_out
    assert chosen.tokens_saved == 0
    assert not memory.shortlist("cancel my flight", TOOLS, k=2, namespace="other").off
    for _ in range(100):
        memory.shortlists.record(missed=False, namespace="default")
    assert len(memory.shortlist("cancel my flight", TOOLS, k=2).tools) < 10


def test_the_bound_on_misses_holds_at_every_look() -> None:
    draw = random.Random(7)
    broken = 0
    for _ in range(400):
        missed = 0
        for sessions in range(1, 151):
            missed += draw.random() < 0.05
            if misses_too_many(sessions, missed):
                broken += 1
                break
    assert broken <= 0.05 * 400
    assert not misses_too_many(0, 0)
    assert not misses_too_many(20, 2)
    assert misses_too_many(40, 10)
    assert misses_too_many(3, 3)
    assert not misses_too_many(100, 10)


@pytest.mark.parametrize(
    ("tools", "said"),
    [("find, get", "give a list"), ([{"name": ""}], "neither a name nor a tool"), ([7], "tools holds 7")],
)
def test_what_is_no_tool_is_refused_with_a_sentence(memory: Memory, tools: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        memory.shortlist("cancel my flight", tools)


def test_odd_tools_and_requests_break_nothing(memory: Memory) -> None:
    nested: dict[str, Any] = {"type": "object"}
    for _ in range(40):
        nested = {"type": "object", "properties": {"a": nested, "b": None}}
    odd = [
        tool("x" * 200, "word " * 100_000),
        {"name": "same", "inputSchema": nested},
        {"name": "same", "input_schema": {"properties": []}},
        {"type": "mcp", "server_label": "s"},
        *TOOLS,
    ]
    for request in ("", "\x00\ud800", "(" * 5_000, [{"role": "user", "content": None}], []):
        chosen = memory.shortlist(request, odd, k=3)
        assert {"type": "mcp", "server_label": "s"} in chosen.tools
        assert len(chosen.tools) + len(chosen.left_out) >= len(TOOLS)
