"""STATE-Bench's learning track: label its training runs, and try the agent of README.md with a loopback model.

usage: python benchmarks/state_bench_agent.py label CHECKOUT OUT [--domain travel]
       python benchmarks/state_bench_agent.py try CHECKOUT STORE [--domain travel] [--tasks 3]

CHECKOUT is a clone of https://github.com/microsoft/STATE-Bench; its requirements and hepm are installed in the same
Python (3.12 or later). `label` replays the calls of each training run in its environment and writes the run with the
result of the benchmark's deterministic check of the final state, in the form that `hepm ingest OUT` reads. What its
judge model looks at is not in these labels.

`try` plays training tasks with the harness's own `run_task`: agent and simulated user ask a server on this machine,
which speaks the Responses API and plays a script: the agent asks for learnings, makes the first call that it can, and
ends. Prints one JSON line: tasks played, and what the agent was given.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

Object = dict[str, Any]
BENCH = Path(__file__).parent / "README.md"
ADAPTER = re.compile(r"^```py\n(# agents/hepm_agent\.py\n.*?)^```$", re.MULTILINE | re.DOTALL)
IDS = re.compile(r"\b(?:BK|ORD)-\w+")


def adapter() -> str:
    """The agent's source, as benchmarks/README.md has it."""
    found = ADAPTER.search(BENCH.read_text("utf-8"))
    assert found is not None, f"{BENCH} has no adapter"
    return found[1]


class Script(BaseHTTPRequestHandler):
    """Plays the agent where tools are offered, and else the user, who ends the task."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[Object]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        answer = json.dumps(self.response(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def response(self, body: Object) -> Object:
        number = len(self.asked)
        return {
            "id": f"resp_{number}", "object": "response", "created_at": 0, "model": body["model"],
            "status": "completed", "error": None, "incomplete_details": None, "parallel_tool_calls": True,
            "tools": body.get("tools", []), "tool_choice": "auto", "output": [self.item(body, number)],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                      "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip

    def item(self, body: Object, number: int) -> Object:
        tools = [tool["name"] for tool in body.get("tools") or ()]
        given = [one for one in body["input"] if one.get("type") == "function_call_output"]
        if not tools:
            return message(number, "[TASK_DONE]")
        if not given:
            said = [one["content"] for one in body["input"] if one.get("role") == "user"][-1]
            return call(number, "retrieve_learnings", {"query": said, "top_k": 99})
        ids = IDS.findall(json.dumps(self.asked[number - 2]["input"]))
        look = {"BK": ("get_booking", "booking_id"), "ORD": ("get_order", "order_id")}
        if "learnings" in given[-1]["output"] and ids:
            tool, name = look[ids[0].partition("-")[0]]
            return call(number, tool, {name: ids[0]})
        return message(number, "Done.")

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


def message(number: int, text: str) -> Object:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}


def call(number: int, name: str, arguments: Object) -> Object:
    about = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return {**about, "name": name, "arguments": json.dumps(arguments)}


def training(checkout: Path, domain: str) -> Iterator[tuple[str, Path]]:
    """Task and file of each training run."""
    for path in sorted((checkout / "datasets/train_task_trajectories" / domain).glob("*.json")):
        yield path.stem, path


def label(checkout: Path, out: Path, domain: str) -> Mapping[str, Any]:
    config, schemas, scoring, environments, paths = modules("domain schemas scoring env_loader paths")
    about = config.get_domain_config(domain)
    counts = Counter[str]()
    for name, path in training(checkout, domain):
        file = paths.domain_tasks_dir(domain) / f"{name}.json"
        if not file.exists():
            counts["without a task"] += 1
            continue
        task = schemas.TaskDefinition.load(file)
        run = json.loads(path.read_text("utf-8"))
        data, _ = environments.load_task_environment(about, task)
        environment = about.environment_class(data.deep_copy(), now=task.now)
        before = environment.get_full_snapshot()
        for one in (one for turn in run["conversation"] for one in turn.get("tool_calls") or ()):
            result = environment.tool_handlers[one["name"]](one["arguments"])
            counts["results that differ"] += json.dumps(result) != json.dumps(one["result"])
        diff = schemas.StateDiff.compute(before, environment.get_full_snapshot())
        score = scoring.evaluate_state_requirements(task, diff).score
        counts["succeeded" if score else "failed"] += 1
        target = out / domain / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        scored = {"task_id": name, "user_id": task.user_id, "task_completion_pass": score, **run}
        target.write_text(json.dumps(scored, ensure_ascii=False), "utf-8")
    return {"labelled": domain, **counts}


def attempt(checkout: Path, store: Path, domain: str, tasks: int) -> Mapping[str, Any]:
    (checkout / "agents").mkdir(exist_ok=True)
    (checkout / "agents" / "hepm_agent.py").write_text(adapter(), "utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    Thread(target=server.serve_forever, daemon=True).start()
    os.environ["HEPM_STORE"] = str(store)
    os.environ["STATE_BENCH_AGENT_API_KEY"] = "none"
    client_of, config, schemas, environments, paths, loader, orchestrator = modules(
        "client domain schemas env_loader paths agents.loader orchestrator"
    )
    client = client_of.LLMClient(endpoint=f"http://127.0.0.1:{server.server_port}", deployment="script")
    agent = loader.load_root_agent_class("HepmAgent", root=checkout)
    about = config.get_domain_config(domain)
    played: list[Object] = []
    known = [
        name for name, _ in training(checkout, domain) if (paths.domain_tasks_dir(domain) / f"{name}.json").exists()
    ]
    for name in known[:tasks]:
        task = schemas.TaskDefinition.load(paths.domain_tasks_dir(domain) / f"{name}.json")
        data, _ = environments.load_task_environment(about, task)
        run = orchestrator.run_task(task, data, task.user_id, client, about, agent_class=agent)
        calls = [one for turn in run.conversation for one in turn.get("tool_calls") or ()]
        learnings = [one["result"]["learnings"] for one in calls if one["name"] == "retrieve_learnings"]
        played.append({"task": name, "calls": [one["name"] for one in calls], "learnings": learnings})
    server.shutdown()
    return {"tried": domain, "requests": len(Script.asked), "tasks": played}


def modules(names: str) -> list[Any]:
    return [importlib.import_module(f"state_bench.{name}") for name in names.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("label", "try"))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--domain", choices=("travel", "customer_support", "shopping_assistant"), default="travel")
    parser.add_argument("--tasks", type=int, default=3)
    arguments = parser.parse_args()
    checkout, to = arguments.checkout.resolve(), arguments.to.resolve()
    sys.path.insert(0, str(checkout))
    os.chdir(checkout)  # the harness looks for environments there
    if arguments.what == "label":
        print(json.dumps(label(checkout, to, arguments.domain)))
    else:
        print(json.dumps(attempt(checkout, to, arguments.domain, arguments.tasks), ensure_ascii=False))


if __name__ == "__main__":
    main()
