"""Question answering over a corpus: scores by hand, the published formats, the island, and agents on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.errors import InputError
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.environments import ToolFailed, find_environment
from hepm.lab.environments.answers import exact_match, f1
from hepm.lab.environments.question_files import read_corpus, read_files, read_questions
from hepm.lab.environments.questions import ISLAND, Corpus
from hepm.lab.rl.sft import COLD_START, cold_start
from tests.faults.command import Answer, quick
from tests.loopback import Loopback, Reply, Request, completion

QUESTIONS, PARAGRAPHS = read_files(ISLAND)


def test_an_answer_matches_without_case_articles_and_punctuation():
    assert exact_match("The Eiffel Tower!", ["eiffel tower"]) == 1
    assert exact_match("Eiffel", ["eiffel tower"]) == 0


def test_f1_weighs_the_words_that_are_shared():
    # Precision 2/3, recall 1: 2 * 2/3 / (5/3) = .8.
    assert f1("Kate Warne detective", ["Kate Warne"]) == pytest.approx(0.8)
    assert f1("Kate Warne detective", ["Allan Pinkerton", "Kate Warne"]) == pytest.approx(0.8)
    assert f1("Warne Warne", ["Kate Warne"]) == pytest.approx(0.5)  # a word counts as often as the other has it
    assert f1("", ["Kate Warne"]) == f1("Pinkerton", ["Kate Warne"]) == 0
    assert f1("no, Kate", ["no"]) == 0
    assert f1("No.", ["no"]) == 1


def test_the_island_has_120_paragraphs_and_40_questions_whose_searches_end_at_the_answer():
    environment = find_environment("questions")
    tasks = environment.tasks()
    assert (len(PARAGRAPHS), len({one.title for one in PARAGRAPHS}), len(tasks)) == (120, 120, 40)
    assert sorted({(task.split) for task in tasks}) == ["test", "train"]
    asked = QUESTIONS
    assert len({one.id for one in asked}) == 40
    corpus = Corpus(PARAGRAPHS)
    for one in asked:
        titles = [corpus.search(query)[0].title for query in one.searches]
        assert titles == list(one.searches)
        read = " ".join(corpus.search(query)[0].text for query in one.searches)
        assert one.answers[0] in read
        assert one.answers[0] not in one.text or one.kind == "first-bridge"


def test_gold_searches_win_every_question_and_nothing_wins_none():
    environment = find_environment("questions")
    for task in environment.tasks():
        episode, idle = environment.start(task), environment.start(task)
        for call in task.gold[0].calls:
            episode.call(call.name, call.arguments)
        assert episode.answer(f"The {task.gold[0].text}.") is None
        idle.answer("Done.")
        assert (episode.reward(), dict(episode.scores())) == (1, {"f1": 1})
        assert idle.reward() == 0


def test_a_search_gives_three_paragraphs_and_none_without_a_common_word():
    episode = find_environment("questions").start(find_environment("questions").tasks()[0])
    assert len(episode.call("search", {"query": "bridge"}).splitlines()) == 3
    assert episode.call("search", {"query": "zzz"}) == "Nothing in the corpus has a word of this query."
    for arguments in ({}, {"query": 1}, {"query": "a", "k": 9}):
        with pytest.raises(ToolFailed):
            episode.call("search", arguments)


SHORT = [["Ada", ["Ada was ", "born in Aldmoor."]], ["Aldmoor", ["A town."]]]
FILES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "nq-test.jsonl": (json.dumps({"id": "t1", "question": "q", "golden_answers": ["a", "b"]}), ("a", "b"), 0),
    "NQ-open.dev.jsonl": (json.dumps({"question": "q", "answer": ["a"]}), ("a",), 0),
    "nq-test.csv": ("q\t['a', 'b']\n", ("a", "b"), 0),
    "topics.dpr.nq.test.txt": ("q\t\"['a\x85z', \"\"b's\"\"]\"\n", ("a\x85z", "b's"), 0),
    "hotpot_dev_distractor_v1.json": (
        json.dumps([{"_id": "x", "question": "q", "answer": "a", "type": "bridge", "context": SHORT}]), ("a",), 2,
    ),
    "2wikimultihopqa.json": (json.dumps([{"_id": "x", "question": "q", "answer": "a", "context": SHORT}]), ("a",), 2),
    "hotpot-hub.jsonl": (
        json.dumps({"question": "q", "answer": "a", "context": {"title": ["T"], "sentences": [["One.", "Two."]]}}),
        ("a",), 1,
    ),
    "triviaqa.json": (
        json.dumps({"Data": [{"QuestionId": "x", "Question": "q", "Answer": {"Value": "a", "Aliases": ["b", "a"]}}]}),
        ("a", "b"), 0,
    ),
    "triviaqa-hub.jsonl": (json.dumps({"question": "q", "answer": {"value": "a", "aliases": ["b"]}}), ("a", "b"), 0),
    "popQA.tsv": ('id\tquestion\tpossible_answers\n7\tq\t"[""a"", ""b""]"\n', ("a", "b"), 0),
    "musique_ans_v1.0_dev.jsonl": (
        json.dumps({
            "id": "x", "question": "q", "answer": "a", "answer_aliases": ["b"],
            "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "text", "is_supporting": True}],
        }),
        ("a", "b"), 1,
    ),
    "bamboogle.csv": ("Question,Answer\nq,a\n", ("a",), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_each_published_format_gives_its_questions_answers_and_paragraphs(name: str, tmp_path: Path):
    text, answers, given = FILES[name]
    (tmp_path / name).write_text(text, "utf-8")
    (asked,), beside = read_questions(tmp_path / name)
    assert (asked.text, asked.answers, asked.split, len(beside)) == ("q", answers, "test", given)


def test_a_corpus_comes_as_titles_and_texts_or_as_contents(tmp_path: Path):
    (tmp_path / "wiki.jsonl").write_text('{"id": "0", "contents": "\\"Ada\\"\\nBorn in Aldmoor."}\n', "utf-8")
    (tmp_path / "psgs.tsv").write_text("id\ttext\ttitle\n1\tBorn in Aldmoor.\tAda\n", "utf-8")
    (tmp_path / "abstracts.jsonl").write_text('{"title": "Ada", "text": ["Born ", "in Aldmoor."]}\n', "utf-8")
    for name in ("wiki.jsonl", "psgs.tsv", "abstracts.jsonl"):
        (found,) = read_corpus(tmp_path / name)
        assert (found.title, found.text) == ("Ada", "Born in Aldmoor.")


def test_files_are_named_by_source_and_a_name_with_train_is_the_train_split(tmp_path: Path):
    environment = find_environment("questions-files")
    with pytest.raises(InputError, match="name them by --source"):
        environment.tasks()
    record = {"_id": "1", "question": "Where was Ada born?", "answer": "Aldmoor", "context": SHORT}
    for name in ("hotpot_train.json", "hotpot_dev.json"):
        (tmp_path / name).write_text(json.dumps([record]), "utf-8")
    files = ",".join(str(tmp_path / name) for name in ("hotpot_train.json", "hotpot_dev.json"))
    environment = find_environment("questions-files", files)
    tasks = environment.tasks()
    assert [(task.id, task.split) for task in tasks] == [("hotpot_train-1", "train"), ("hotpot_dev-1", "test")]
    assert environment.start(tasks[0]).call("search", {"query": "Ada"}) == "[1] Ada: Ada was born in Aldmoor."
    (tmp_path / "no.json").write_text('[{"question": "q"}]', "utf-8")
    with pytest.raises(InputError, match=r"record 1 of .* has no question or no answer"):
        find_environment("questions-files", str(tmp_path / "no.json")).tasks()


# Agents: with tags and with tool calls, each with search of principles and without (EvolveR, table 3).

_KNOWN = {one.text: one for one in QUESTIONS}


def solver(request: Request) -> Reply:
    """Searches principles once where it can, then takes the gold searches and answers; in tags without tools."""
    body: Any = request.body
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    asked = next(one for text, one in _KNOWN.items() if text in str(body["messages"]))
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    can_recall = "search_experience" in (tools or body["messages"][0]["content"])
    recalled = can_recall and len(said) > 0
    if can_recall and not said:
        return act(tools, "search_experience", "calling search, then open_page")
    at = len(said) - recalled
    searches = asked.searches if int(asked.id[-1]) % 2 else asked.searches[:1]
    if at < len(searches):
        return act(tools, "search", searches[at])
    answer = asked.answers[0] if searches == asked.searches else "unknown"
    return completion(answer if tools else f"<think>x</think><answer>{answer}</answer>")


def act(tools: list[str], name: str, query: str) -> Reply:
    if tools:
        return completion("", tool_calls=[(name, {"query": query})])
    tag = "search_experience" if name == "search_experience" else "search_knowledge"
    return completion(f"<think>I look.</think><{tag}>{query}</{tag}>")


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Answer, list[Request]]]:
    place, played = tmp_path_factory.mktemp("questions"), Loopback()
    played.script = solver
    with Memory.open(place / "known.hepm") as memory:
        for number in range(12):
            last = ("open_page", "guess")[number % 2]
            with memory.session(task="known", environment="questions") as session:
                session.say("user", "In which town was the designer of the Eagle Bridge born?")
                for call in ("search", last):
                    session.record(call, {"query": "Eagle Bridge"}, "a paragraph")
                session.finish(reward=float(last == "open_page"))
        memory.sessions.wait_distilled()
        memory.principles.distill()
    arms = "off,tagged-alone,tagged,react"
    known = ("--model", "small", "--base-url", played.url, "--folder", str(place / "folder"), "--arms", arms, "--json")
    chosen = ("--memory", str(place / "known.hepm"), "--tasks", "*-5,*-6")
    yield place, quick("bench", "questions", *known, *chosen), played.requests
    played.stop()


BASELINES = ("direct", "cot", "rag", "ircot", "search-o1")


def baseline(request: Request) -> Reply:
    """Answers at once where it cannot search; else thinks or searches twice, and answers what the last result says."""
    body: Any = request.body
    said = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    asked = next(one for text, one in _KNOWN.items() if text in str(body["messages"]))
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "write what helps" in last:
        return completion(f"It helps that {asked.searches[len(said) - 1]} is there.")
    if "you cannot search" in system or len(said) == len(asked.searches):
        return completion(f"<think>So.</think><answer>{asked.answers[0]}</answer>")
    if "next sentence of your reasoning" in system:
        return completion(f"<think>{asked.searches[len(said)]} may tell.</think>")
    return completion(f"<search_knowledge>{asked.searches[len(said)]}</search_knowledge>")


def test_baselines_that_need_no_training_differ_in_how_they_come_to_knowledge(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script = baseline
    known = ("--model", "small", "--base-url", loopback.url, "--folder", str(tmp_path / "folder"), "--json")
    answer = quick("bench", "questions", *known, "--arms", ",".join(BASELINES), "--tasks", "island-designer-town-5")
    assert answer.code == 0, answer.err
    assert {name: arm["measures"]["success"]["value"] for name, arm in answer.json["arms"].items()} == dict.fromkeys(
        BASELINES, 1
    )
    ended: dict[str, Any] = {}
    with Folder(tmp_path / "folder", {}) as folder:
        runs = folder.runs()
        for name in BASELINES:
            ended[name] = runs[Key(name, "island-designer-town-5", 0)]
    requests: dict[str, list[Any]] = {name: [] for name in BASELINES}
    for request in loopback.requests:
        body: Any = request.body
        assert "tools" not in body
        system = body["messages"][0]["content"]
        given = "<information>" in body["messages"][1]["content"]
        if "Think step by step" in system:
            requests["cot"].append(body)
        elif "you cannot search" in system:
            requests["rag" if given else "direct"].append(body)
        else:
            requests["ircot" if given else "search-o1"].append(body)
    # Of the two searches that the question needs, Search-o1 asks the model also what helps of each result.
    assert {name: len(bodies) for name, bodies in requests.items()} == {
        "direct": 1, "cot": 1, "rag": 1, "ircot": 3, "search-o1": 5,
    }  # fmt: skip
    searches = {name: [call.arguments["query"] for call in one.run.calls()] for name, one in ended.items()}
    asked = next(one for one in QUESTIONS if one.id == "island-designer-town-5")
    assert searches["direct"] == searches["cot"] == []
    assert searches["rag"] == [asked.text]
    assert searches["ircot"] == [asked.text, *(f"{query} may tell." for query in asked.searches)]
    assert searches["search-o1"] == list(asked.searches)
    read = [message["content"] for message in requests["search-o1"][-1]["messages"] if message["role"] == "user"][1:]
    assert read == [f"<information>\nIt helps that {query} is there.\n</information>" for query in asked.searches]
    assert not any(one.facts.errors for one in ended.values())


def test_a_baseline_that_is_given_knowledge_says_what_it_needs_where_there_is_no_search(
    loopback: Loopback, tmp_path: Path
) -> None:
    known = ("--model", "small", "--base-url", loopback.url, "--folder", str(tmp_path))
    answer = quick("bench", "tests.lab.bench.parcels:Parcels", *known, "--arms", "rag", "--tasks", "late-Ada")
    assert "whose one tool is a search" in " ".join((answer.out + answer.err).split())
    assert not loopback.requests


def of_arm(requests: list[Request], *, recall: bool) -> list[Any]:
    bodies: list[Any] = [request.body for request in requests]
    return [
        body["messages"]
        for body in bodies
        if "tools" not in body and ("search_experience" in str(body.get("tools", body["messages"][0]))) is recall
    ]


def test_the_agents_differ_in_search_of_principles_and_in_the_format_of_actions_alone(benched: Any):
    _, answer, requests = benched
    assert answer.code == 0, answer.err
    arms = answer.json["arms"]
    assert {arm["measures"]["success"]["value"] for arm in arms.values()} == {0.5}
    assert "f1" in arms["off"]["measures"]
    assert [arms[name]["measures"]["hinted"]["value"] > 0 for name in ("off", "tagged-alone", "tagged")] == [
        False,
        False,
        True,
    ]
    for messages in of_arm(requests, recall=False):
        assert "<experience>" not in str(messages)


def test_principles_come_with_type_score_sentence_triples_and_the_runs_they_came_from(benched: Any):
    _, _, requests = benched
    read = [str(messages[-1]["content"]) for messages in of_arm(requests, recall=True)]
    lines = [line for text in read for line in text.splitlines() if line.startswith("- [p-")]
    assert lines
    form = (
        r'- \[p-\w+\] (guiding|cautionary), score \d\.\d\d: ".+"( as statements: "\(.+, .+, .+\)")?'
        r' from runs: ".+ \(reward [01]\).*"'
    )
    assert all(re.fullmatch(form, line) for line in lines), lines[:3]
    assert any("as statements" in line for line in lines)


def test_react_is_told_to_think_before_each_call_and_has_no_memory(benched: Any):
    _, _, requests = benched
    thinking = [request.body for request in requests if "write a thought" in str(request.body["messages"][0])]
    assert thinking
    assert not any("hepm-memory" in str(body) for body in thinking)


def test_a_search_of_memory_is_no_call_of_the_run_and_is_credited(benched: Any):
    place, _, _ = benched
    with Folder(place / "folder", {}) as folder:
        ended = folder.runs()[Key("tagged", "island-designer-town-5", 0)]
    assert [call.name for call in ended.run.calls()] == ["search", "search"]
    assert ended.facts.lessons


def test_cold_start_data_are_successful_tagged_runs_with_their_masks_and_the_papers_settings(benched: Any):
    place, _, _ = benched
    quick("ingest", str(place / "folder"), "--store", str(place / "c.hepm"))
    target = place / "cold.jsonl"
    answer = quick("export", str(target), "--sft", "tagged", "--store", str(place / "c.hepm"))
    assert answer.code == 0, answer.err
    examples = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    with Memory.open(place / "c.hepm") as memory:
        assert examples == list(cold_start(memory))
    assert len({str(one) for one in examples}) == len(examples) > 0
    for one in examples:
        roles = [message["role"] for message in one["messages"]]
        assert roles[:3] == ["system", "user", "assistant"]
        assert "<search_knowledge>" in one["messages"][0]["content"]
        assert one["messages"][-1]["content"].endswith("</answer>")
        assert not any("<information>" in m["content"] for m in one["messages"] if m["role"] == "assistant")
    settings = json.loads((place / "cold.jsonl.settings.json").read_text("utf-8"))
    assert settings == COLD_START
    asked = ("num_train_epochs", "learning_rate", "warmup_steps", "per_device_train_batch_size")
    assert [settings[name] for name in asked] == [3, 1e-4, 0.1, 16]
