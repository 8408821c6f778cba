"""Which of an agent's many tools a request needs: the order in which they are found, and stable lists over sessions.

usage: python benchmarks/shortlist.py [RUNS] [--livemcpbench FOLDER] [--mcptoolbench FOLDER] [--bfcl FOLDER]
           [--embedder all-MiniLM-L6-v2] [--folds 5] [--seed 0]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data); "none" leaves them out. The other folders
are checkouts of icip-cas/LiveMCPBench, mcp-tool-bench/MCPToolBenchPP and ShishirPatil/gorilla. Prints JSON lines.

*order*: recall@k of the tools that a request needs and NDCG@10, in the mean over requests, of all tools of the set.
Baselines: BM25 over names and descriptions, words between blanks; over words of \\w+; any order. *hepm* is
`Shortlists.find` with an empty memory (cold), and with the runs of all other folds (used): a run is a request and its
tools, and folds are by families, tasks of equal wording. BFCL: half of its requests, as the other half and
MCPToolBench++ decided on the weights; what was chosen on is marked.

*lists*: sessions come one after the other; each gets the namespace's list, and its run is stored. Recall of needed
tools, sessions that lack one, also where all are sent as too many sessions lack one, tokens saved, and how often the
list grew. Recorded runs: one successful run a family, of agents that are pooled into one with all tools. `sure` is the
exact 95 % upper bound on the share of sessions that lack a tool, of the second half: 0 of 299 shows 1 %.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from parts.bm25 import BM25
from parts.measured import about, options, read_records

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.evals.domains import domains_of

DEPTHS = (5, 10, 20, 50)
LIST_K = 20
MOST_REQUESTS = 600
BFCL_FILES = ("multiple", "parallel_multiple", "live_multiple", "live_parallel_multiple", "simple_python")
Order: TypeAlias = Callable[[str], list[str]]


class Request(NamedTuple):
    """A request, and the tools it needs; of each needed one, equally good ones count as well."""

    text: str
    needs: Sequence[frozenset[str]]
    family: str

    @property
    def fold(self) -> int:
        return int(md5(self.family.encode()).hexdigest(), 16)


class DataSet(NamedTuple):
    name: str
    tools: list[dict[str, Any]]
    requests: list[Request]


def main() -> None:
    parser = options(__doc__)
    for name in ("livemcpbench", "mcptoolbench", "bfcl"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--embedder")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sets: list[DataSet] = []
    if arguments.livemcpbench:
        sets.append(livemcpbench(arguments.livemcpbench))
    if arguments.mcptoolbench:
        sets.append(mcptoolbench(arguments.mcptoolbench))
    if arguments.bfcl:
        sets.append(bfcl(arguments.bfcl))
    if arguments.runs != Path("none"):
        sets.append(recorded(arguments.runs))
    for data in sets:
        said = about("shortlist") | {"data": data.name, "tools": len(data.tools), "requests": len(data.requests)}
        print(json.dumps(said | {"order": orders(data, arguments)}))
        print(json.dumps(said | {"lists": lists(data, arguments)}), flush=True)
    print(json.dumps(about("shortlist") | {"speed": speed(sets[0].tools)}))


# Data sets


def livemcpbench(folder: Path) -> DataSet:
    tools: list[dict[str, Any]] = []
    for server in json.loads((folder / "tools/LiveMCPTool/tools.json").read_text()):
        for part in server["tools"].values():
            tools += [function(tool, "inputSchema") for tool in part["tools"]]
    names = {name_of(tool) for tool in tools}
    requests: list[Request] = []
    for task in json.loads((folder / "annotated_data/all_annotations.json").read_text()):
        lines = task["Annotator Metadata"]["Tools"].splitlines()
        needed = dict.fromkeys(re.sub(r"^\s*\d+[.)]\s*", "", line).strip() for line in lines)
        known = [frozenset({name}) for name in needed if name in names]  # five names are misspelt
        if known:
            requests.append(Request(task["Question"], known, task["Question"]))
    return DataSet("LiveMCPBench", tools, requests)


def mcptoolbench(folder: Path) -> DataSet:
    """Its queries in English that can be had, with the tools of their servers."""
    tools: dict[str, dict[str, Any]] = {}
    requests: list[Request] = []
    for file in ("browser/browser_0724_single_v3", "file_system/filesystem_0723_single",
                 "finance/finance_0724_single_v3", "search/search_0725_single_v2"):  # fmt: skip
        for query in json.loads((folder / f"data/{file}.json").read_text()):
            tools |= {tool["name"]: function(tool, "input_schema") for tool in query["tools"]}
            needs = [
                frozenset([call["name"], *[same["name"] for same in call.get("similar_tools", ())]])
                for call in query["function_call_label"]
            ]
            requests.append(Request(query["query"], needs, query["query"]))
    return DataSet("MCPToolBench++ (weights chosen on it)", [*tools.values()], requests)


def bfcl(folder: Path) -> DataSet:
    """The functions of all single-turn requests as one agent's; half of the requests, which nothing was chosen on."""
    data = folder / "berkeley-function-call-leaderboard/bfcl_eval/data"
    tools: dict[str, dict[str, Any]] = {}
    requests: list[Request] = []
    for part in BFCL_FILES:
        lines = (data / f"possible_answer/BFCL_v4_{part}.json").read_text().splitlines()
        answers = {answer["id"]: answer["ground_truth"] for answer in map(json.loads, lines)}
        for query in map(json.loads, (data / f"BFCL_v4_{part}.json").read_text().splitlines()):
            for one in query["function"]:
                tools.setdefault(one["name"], function(one, "parameters"))
            said = [message["content"] for turn in query["question"] for message in turn if message["role"] == "user"]
            needs = [frozenset({name}) for name in sorted({name for call in answers[query["id"]] for name in call})]
            if int(md5(query["id"].encode()).hexdigest(), 16) % 2:
                requests.append(Request("\n".join(said), needs, "\n".join(said)))
    requests.sort(key=lambda request: request.fold)
    return DataSet("BFCL single-turn, pooled", [*tools.values()], requests[:MOST_REQUESTS])


def recorded(folder: Path) -> DataSet:
    """One successful run a family, and all tools that any run had or called as one agent's."""
    tools: dict[str, dict[str, Any]] = {}
    requests: dict[str, Request] = {}
    for domain in domains_of(read_records(folder)):
        if "bfcl" in domain.name and "base" not in domain.name:
            continue
        for run in domain.runs:
            for tool in run.trajectory.tools:
                definition = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                tools[tool.name] = function(definition, "parameters")
            for name in run.calls:
                tools.setdefault(name, function({"name": name}, "parameters"))
            said = [turn.text for turn in run.trajectory.turns if turn.role == "user" and turn.text]
            family = f"{domain.name}/{run.family}"
            if run.success is not False and run.calls and said and family not in requests:
                needs = [frozenset({name}) for name in dict.fromkeys(run.calls)]
                requests[family] = Request("\n".join(said[:1]), needs, family)
    return DataSet("recorded runs, pooled", [*tools.values()], [*requests.values()])


def function(tool: Mapping[str, Any], schema: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "parameters": tool.get(schema) or {},
        },
    }


def name_of(tool: Mapping[str, Any]) -> str:
    return tool["function"]["name"]


def run_of(request: Request, number: int) -> Trajectory:
    """A successful run that called what a request needs."""
    calls = [Turn("assistant", "", calls=(ToolCall(min(names), {}, "ok"),)) for names in request.needs]
    turns = (Turn("user", request.text), *calls)
    return Trajectory(str(number), turns, task=request.family[:200], outcome=Outcome(success=True))


# The order in which tools are found


def orders(data: DataSet, arguments: Any) -> dict[str, Any]:
    names = [name_of(tool) for tool in data.tools]
    documents = [f"{name} {tool['function']['description']}" for name, tool in zip(names, data.tools, strict=True)]
    words = BM25(documents)
    blanks = BlankBM25(documents)
    draw = random.Random(arguments.seed)
    found: dict[str, Any] = {
        "any order": scored(data.requests, lambda text: draw.sample(names, len(names))),
        "BM25, words between blanks": scored(data.requests, lambda text: by_score(names, blanks.scores(text))),
        "BM25, words": scored(data.requests, lambda text: by_score(names, words.scores(text))),
    }
    for label, embedder in [("hepm", None), *([("hepm, vectors", arguments.embedder)] if arguments.embedder else [])]:
        with TemporaryDirectory() as folder, Memory.open(Path(folder) / "m.hepm", embedder=embedder) as memory:
            found[f"{label}, cold"] = scored(data.requests, finder(memory, data))
        used: list[tuple[Request, list[str]]] = []
        for fold in range(arguments.folds):
            used += used_fold(data, fold, arguments.folds, embedder)
        ranked = {request.text: order for request, order in used}
        found[f"{label}, used"] = scored(data.requests, lambda text, ranked=ranked: ranked[text])
    return found


def finder(memory: Memory, data: DataSet) -> Order:
    def find(text: str) -> list[str]:
        return [one.name for one in memory.shortlists.find(text, data.tools, k=max(DEPTHS), namespace="default")]

    return find


def used_fold(data: DataSet, fold: int, folds: int, embedder: str | None) -> Iterator[tuple[Request, list[str]]]:
    """The requests of a fold, as found by a memory of the runs of all others."""
    with TemporaryDirectory() as folder, Memory.open(Path(folder) / "m.hepm", embedder=embedder) as memory:
        others = [(n, request) for n, request in enumerate(data.requests) if request.fold % folds != fold]
        memory.ingest([run_of(request, number) for number, request in others])
        find = finder(memory, data)
        for request in data.requests:
            if request.fold % folds == fold:
                yield request, find(request.text)


class BlankBM25(BM25):
    """The same with words between blanks, as many shortlists have them."""

    words = re.compile(r"\S+")


def by_score(names: Sequence[str], scores_N: NDArray[np.float64]) -> list[str]:
    return [names[place] for place in np.argsort(-scores_N, kind="stable")]


def scored(requests: Sequence[Request], order: Order) -> dict[str, float]:
    """Recall and NDCG in the mean over requests."""
    recall: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    gains: list[float] = []
    for request in requests:
        found = list(dict.fromkeys(order(request.text)))
        for depth in DEPTHS:
            hits = sum(not names.isdisjoint(found[:depth]) for names in request.needs)
            recall[depth].append(hits / len(request.needs))
        gains.append(ndcg(request, found[:10]))
    said = {f"R@{depth}": round(float(np.mean(values)), 3) for depth, values in recall.items()}
    return said | {"NDCG@10": round(float(np.mean(gains)), 3)}


def ndcg(request: Request, found: Sequence[str]) -> float:
    left = list(request.needs)
    gain = 0.0
    for place, name in enumerate(found):
        hit = next((names for names in left if name in names), None)
        if hit is not None:
            left.remove(hit)
            gain += 1 / math.log2(place + 2)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(request.needs), len(found) or 1)))


# Stable lists


def lists(data: DataSet, arguments: Any) -> dict[str, Any]:
    order = list(data.requests)
    random.Random(arguments.seed).shuffle(order)
    recall: list[float] = []
    saved: list[float] = []
    sizes: list[int] = []
    off: list[bool] = []
    with TemporaryDirectory() as folder, Memory.open(Path(folder) / "m.hepm", embedder=arguments.embedder) as memory:
        for number, request in enumerate(order):
            chosen = memory.shortlist(request.text, data.tools, k=LIST_K)
            hits = sum(not names.isdisjoint(chosen.reasons) for names in request.needs)
            recall.append(hits / len(request.needs))
            off.append(bool(chosen.off))
            saved.append(chosen.tokens_saved / (chosen.tokens + chosen.tokens_saved))
            sizes.append(len(data.tools) - len(chosen.left_out))
            memory.shortlists.record(missed=recall[-1] < 1, namespace="default")
            memory.ingest(run_of(request, number))
    half = len(order) // 2
    late = sum(value < 1 for value in recall[half:])
    grew = Counter(after > before for before, after in pairwise(sizes))[True]
    return {
        "recall": round(float(np.mean(recall)), 4),
        "recall, second half": round(float(np.mean(recall[half:])), 4),
        "sessions": len(order),
        "lacked one": sum(value < 1 for value in recall),
        "of the second half": f"{late} of {len(order) - half}",
        "sure": round(upper_bound(late, len(order) - half), 4),
        "sessions with whole lists, first and second half": [sum(off[:half]), sum(off[half:])],
        "tokens saved": round(float(np.mean(saved)), 3),
        "tokens saved, second half": round(float(np.mean(saved[half:])), 3),
        "tools at the end": sizes[-1],
        "grew": grew,
    }


def upper_bound(hits: int, of: int, alpha: float = 0.05) -> float:
    """The exact one-sided upper bound of a share (Clopper & Pearson), by halving."""
    low, high = hits / of, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        at_most = sum(math.comb(of, n) * middle**n * (1 - middle) ** (of - n) for n in range(hits + 1))
        if at_most > alpha:
            low = middle
        else:
            high = middle
    return high


def speed(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """5,000 tools: the first list, one with the index known, and one behind each stored run."""
    many = [
        function(tool["function"] | {"name": f"{name_of(tool)}_{n}"}, "parameters") for n in range(99) for tool in tools
    ]
    many = many[:5_000]
    took: dict[str, list[float]] = {"first": [], "next": [], "behind a stored run": []}

    def ask(what: str, request: str) -> None:
        began = time.perf_counter()
        memory.shortlist(request, many, k=LIST_K)
        took[what].append(time.perf_counter() - began)

    with TemporaryDirectory() as folder, Memory.open(Path(folder) / "m.hepm") as memory:
        names = [name_of(tool) for tool in many]
        runs = [Request(f"do {name} for me", [frozenset({name})], name) for name in names[:2_000]]
        memory.ingest([run_of(request, number) for number, request in enumerate(runs)])
        memory.prepare()
        ask("first", "make a chart of the weather")
        for number in range(20):
            ask("next", f"convert document {number}")
            memory.ingest(run_of(runs[number]._replace(text=f"again {number}"), 10_000 + number))
            ask("behind a stored run", f"send mail {number}")
    return {what: f"{np.median(values) * 1000:.0f} ms" for what, values in took.items()} | {"runs": len(runs)}


if __name__ == "__main__":
    main()
