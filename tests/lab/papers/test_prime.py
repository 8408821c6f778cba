"""PRIME's tables: who is asked what, on which tasks, and what stands in the tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.command import quick
from tests.lab.bench.parcels import RIGHT, split_counters
from tests.loopback import Loopback, Reply, Request, answer_well, completion

PAPER = """
title = "Small PRIME"

[bench.library]
env = "tests.lab.bench.parcels:split_counters"
arms = "chosen"
rounds = 3
rollouts = 8
distiller = "{judge}"
memory = "{folder}/library.hepm"

[bench.parcels]
env = "tests.lab.bench.parcels:split_counters"
after = "library"
memory = "{folder}/library.hepm"
max-turns = 16

[[table]]
name = "1"
title = "Score"
state = "model"
metrics = ["reward", "success"]

[[table.part]]
bench = "parcels"
label = "Parcels"
rows = {off = "Raw", react = "ReAct", chosen = "PRIME"}
published = {"Qwen3-4B" = [[0.17, nan], [nan, nan], [0.41, nan]]}
"""
ROLES = {
    "Give five things": "distils an experience",
    "guiding principle": "distils a principle",
    "cautionary principle": "distils a principle",
    "clearer and more specific": "mutation",
    "helps again and again": "generalisation",
    "These two are about related situations": "crossover",
    "about to take the next step": "selects",
}


def role_of(request: Request) -> str:
    """What somebody is asked for; the agent acts, and a judge compares lessons."""
    body: Any = request.body
    system = body["messages"][0]["content"]
    for words, role in ROLES.items():
        if words in system:
            return role
    return "acts" if "tools" in body else "judges"


def asked(request: Request) -> Reply:
    """The agent does what helps once it reads lessons; the writer repeats what it is shown."""
    body: Any = request.body
    if body["model"] == "writer":
        answer = answer_well(request)
        record = " ".join(re.findall(r"[A-Za-z]{4,}", body["messages"][-1]["content"])[:40])
        return completion(answer.body["choices"][0]["message"]["content"].replace("text", record))
    if role_of(request) == "selects":
        return completion("", tool_calls=[(body["tools"][0]["function"]["name"], {})])
    done = sum(message["role"] == "assistant" for message in body["messages"])
    number, kind = re.search(r"parcel (\d+) is (\w+)", body["messages"][1]["content"]).groups()  # pyright: ignore
    action = RIGHT[kind] if "hepm-memory" in str(body["messages"]) else "get_parcel"
    if done == 2:
        return completion("Done.")
    return completion("", tool_calls=[(action if done else "get_parcel", {"parcel": int(number)})])


def test_libraries_are_written_by_the_judge_and_chosen_from_by_the_agent_who_is_tested_on_held_out_tasks(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = asked
    paper = tmp_path / "small.toml"
    paper.write_text(PAPER)
    known = ("papers", paper, "--table", "1", "--trials", "1", "--model", "small", "--judge", "writer")
    known += ("--base-url", loopback.url, "--folder", tmp_path / "f")
    found = quick(*map(str, known), "--json")
    assert found.code == 0, found.err

    # Rounds: as many runs of each environment, on its train split; the library is written by the judge.
    rounds = found.json["benches"]["library"]["rounds"]
    assert [{name: one["runs"] for name, one in each["environments"].items()} for each in rounds] == [
        {"north": 8, "south": 8}
    ] * 3
    roles = Counter((request.body["model"], role_of(request)) for request in loopback.requests)
    agents = {role for model, role in roles if model == "small"}
    writers = {role for model, role in roles if model == "writer"}
    assert agents == {"acts", "selects"}
    assert writers >= {"distils an experience", "distils a principle", "judges"}
    assert not writers & agents
    records = Counter(str(r.body["messages"]) for r in loopback.requests if role_of(r).startswith("distils"))
    assert max(records.values()) == 1
    for operator in ("mutation", "generalisation", "crossover"):
        assert roles["writer", operator] >= sum(each["evolved"].get(operator, 0) for each in rounds)
    # A selection for each turn of a run that was shown something, and none before there is a lesson.
    selected = [at for at, request in enumerate(loopback.requests) if role_of(request) == "selects"]
    written = [at for at, request in enumerate(loopback.requests) if role_of(request).startswith("distils")]
    assert selected[0] > written[0]

    # Explored at temperature 1; then tested on tasks that no round saw, with the same library.
    split_of = {task.request: task.split for task in split_counters().tasks()}
    for request in loopback.requests:
        if role_of(request) == "acts":
            split = split_of[request.body["messages"][1]["content"].partition("\n")[0]]
            assert split == ("train" if request.body.get("temperature") == 1 else "test")
    [table] = found.json["tables"]
    assert [(row["part"], row["row"]) for row in table["rows"]] == [
        ("Parcels", arm) for arm in ("off", "react", "chosen")
    ]
    raw, react, chosen = (row["ours"] for row in table["rows"])
    assert raw == react == [0, 0]
    assert chosen[0] > 0
    assert table["rows"][2]["published"]["Qwen3-4B"][0] == 0.41
    shown = quick(*map(str, known))
    assert f"Parcels  PRIME  {chosen[0]:.3f} / {chosen[1]:.3f}" in shown.out
