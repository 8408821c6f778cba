"""A local model behind its server, asked by the openai package: a random one in each test run, a real one in few."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import openai
import pytest

from benchmarks.local_model.__main__ import main
from benchmarks.local_model.model import LocalModel, serve
from tests.faults.command import quick

pytestmark = [
    pytest.mark.skipif(find_spec("transformers") is None, reason="no transformers here: make .venv/dev"),
    pytest.mark.xdist_group("torch"),  # loaded once, by the tests and not by every worker that collects
]

ASKED = [{"role": "user", "content": "Order 7?"}]
NEEDED = {
    "count": {"type": "integer"},
    "share": {"type": "number"},
    "text": {"type": "string"},
    "sure": {"type": "boolean"},
    "kind": {"enum": ["a", 3, None]},
    "list": {"type": "array", "items": {"$ref": "#/$defs/part"}, "maxItems": 2},
    "maybe": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
}
PARAMETERS = {
    "type": "object",
    "properties": {**NEEDED, "left_out": {"type": "string"}},
    "required": [*NEEDED],
    "$defs": {"part": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
}


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "It. More.", "parameters": parameters or {}}}


TOOLS = [tool("get"), tool("get_order", PARAMETERS), tool("get_order_2"), tool("a-long-name-of-many-tokens")]
REQUIRED: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.benchmarks.tiny_model import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=2_048)


@pytest.fixture
def tiny(folder: Path, tmp_path: Path) -> LocalModel:
    return LocalModel.load(str(folder), cache=tmp_path)


@pytest.fixture(scope="module")
def url(folder: Path) -> str:
    """The base URL of the tiny model, served by a thread: a process would load torch once more."""
    urls: Queue[str] = Queue()
    model = LocalModel.load(str(folder), cache=folder, force=True)
    Thread(target=serve, args=(model,), kwargs={"port": 0, "on_start": urls.put}, daemon=True).start()
    return urls.get(timeout=60)


def test_a_name_has_the_probability_that_the_model_gives_to_all_its_tokens(tiny: LocalModel) -> None:
    import torch

    prompt = tiny._prompt(ASKED, {one["function"]["name"]: one["function"] for one in TOOLS})[0]
    paths = [f'<tool_call>\n{{"name": "{one["function"]["name"]}"' for one in TOOLS]
    scores = []
    with torch.inference_mode():
        tiny._start(prompt)
        chances = tiny._chances(paths)
        for path in (tiny._encode(f"{path},") for path in paths):
            logits = tiny._model(torch.tensor([prompt + path])).logits[0, len(prompt) - 1 : -1]
            scores.append(logits.double().log_softmax(-1)[range(len(path)), path].sum())
    assert chances.tolist() == pytest.approx(torch.stack(scores).softmax(0).tolist(), rel=1e-3)


def test_arguments_have_the_types_of_the_schema_and_the_required_ones_alone(tiny: LocalModel) -> None:
    named = {"type": "function", "function": {"name": "get_order"}}
    reply = tiny.complete({"messages": ASKED, "tools": TOOLS, "tool_choice": named})
    choice = reply["choices"][0]
    [call] = choice["message"]["tool_calls"]
    found = json.loads(call["function"]["arguments"])
    assert (call["function"]["name"], choice["finish_reason"]) == ("get_order", "tool_calls")
    assert list(found) == [*NEEDED]
    assert [type(found[name]) for name in ("count", "text", "sure", "maybe")] == [int, str, bool, int]
    assert isinstance(found["share"], int | float)
    assert found["kind"] in ("a", 3, None)
    assert 1 <= len(found["list"]) <= 2
    assert all(set(part) == {"id"} and type(part["id"]) is int for part in found["list"])
    assert reply["usage"]["completion_tokens"] > 0


def test_a_conversation_that_is_too_long_keeps_its_beginning_and_its_end(tiny: LocalModel) -> None:
    long = [{"role": "system", "content": f"HEAD {'s' * 9_000}"}, {"role": "user", "content": f"{'w' * 9_000} HINT"}]
    ids, cut = tiny._prompt(long, {})
    text = tiny._decode(ids)
    assert len(ids) == 1_536
    assert cut > 10_000
    assert all(word in text for word in ("HEAD", "HINT"))


def test_the_server_answers_the_openai_client_in_each_way_of_asking(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        ask: Any = lambda **options: client.chat.completions.create(**{"model": "tiny", "messages": ASKED, **options})  # noqa: E731

        drawn = [ask(temperature=1, seed=seed, max_tokens=9).choices[0].message.content for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        text = ask(tools=TOOLS, tool_choice="none", max_tokens=5)
        assert (text.choices[0].message.tool_calls, text.usage.completion_tokens) == (None, 5)
        assert text.choices[0].finish_reason == "length"
        call = ask(**REQUIRED).choices[0].message.tool_calls[0].function
        assert call.name in {one["function"]["name"] for one in TOOLS}
        form = {"type": "json_schema", "json_schema": {"name": "form", "schema": PARAMETERS}}
        assert set(json.loads(ask(response_format=form).choices[0].message.content)) == {*NEEDED}

        picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        unknown = {"type": "function", "function": {"name": "unknown"}}
        for wrong in (
            {"messages": []},
            {"messages": picture},
            {"tool_choice": "required"},
            {**REQUIRED, "tool_choice": unknown},
            {"temperature": -1},
            {"tools": [{"name": "flat"}]},
        ):
            with pytest.raises(openai.BadRequestError):
                ask(**wrong)
        with pytest.raises(openai.NotFoundError, match="this server has 'tiny'"):
            ask(model="other")
        assert client.chat.completions.create(model="tiny", messages=ASKED, max_tokens=1).choices


def test_a_bench_runs_on_the_local_model_unchanged(url: str, tmp_path: Path) -> None:
    asked = ["--model", "tiny", "--base-url", url, "--folder", tmp_path / "bench", "--json"]
    limits = ["--tasks", "2", "--max-turns", "2", "--learn-from", "online"]
    report = quick("bench", "functions", *asked, *limits)
    assert report.code == 0, report.err
    assert set(report.json["arms"]) == {"off", "hybrid"}


@pytest.mark.parametrize("place", ["missing-folder", "missing.gguf", "."])
def test_a_model_that_cannot_be_opened_is_one_sentence(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", str(tmp_path / place)]) == 1
    assert f"no model can be opened at {tmp_path / place}" in capsys.readouterr().err.splitlines()[-1]


def test_without_its_packages_the_sentence_that_names_them_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main([]) == 1
    assert capsys.readouterr().err == "local_model: a local model needs torch: pip install --group local.\n"
