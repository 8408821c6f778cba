from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from hepm.errors import EpisodeError, MissingExtraError, NotFoundError
from hepm.lab.environments import Environment, Episode, Task, ToolFailed, environment_names, find_environment
from hepm.lab.environments.packages import Package
from hepm.lab.environments.worker import WorkerEpisode


@pytest.fixture(scope="module")
def bfcl() -> Iterator[Environment]:
    environment = find_environment("bfcl")
    yield environment
    environment.close()


def play(environment: Environment, task: Task, *, gold: bool) -> tuple[float, dict[str, float], list[str]]:
    """Reward, further scores and every text that the environment gave."""
    episode, texts = environment.start(task), []
    for turn in task.gold:
        for call in turn.calls if gold else ():
            texts.append(tried(episode, call.name, call.arguments))
        said = episode.answer((turn.text if gold else "") or "Done.")
        texts.append(str(said))
        if said is None:
            break
    ended = episode.reward(), dict(episode.scores()), texts
    episode.close()
    return ended


def tried(episode: Episode, tool: str, arguments: object) -> str:
    try:
        return episode.call(tool, arguments)  # type: ignore[arg-type]
    except ToolFailed as error:
        return f"failed: {error}"


def test_right_calls_win_a_bfcl_task_and_idleness_does_not(bfcl: Environment) -> None:
    for task in bfcl.tasks()[::20]:
        assert play(bfcl, task, gold=True)[0] == 1, task.id
        assert play(bfcl, task, gold=False)[0] == 0, task.id


def test_a_run_that_ends_before_the_user_does_wins_nothing(bfcl: Environment) -> None:
    task = bfcl.tasks()[0]
    episode = bfcl.start(task)
    for call in task.gold[0].calls:
        episode.call(call.name, call.arguments)
    assert episode.reward() == 0
    episode.close()


def test_episodes_at_the_same_time_have_states_of_their_own(bfcl: Environment) -> None:
    task = bfcl.tasks()[0]
    one, other = bfcl.start(task), bfcl.start(task)
    one.call("mkdir", {"dir_name": "mine"})
    assert "mine" in one.call("ls", {})
    assert "mine" not in other.call("ls", {})
    one.close()
    other.close()


def test_a_call_that_is_no_call_is_refused_and_never_evaluated(bfcl: Environment) -> None:
    episode = bfcl.start(bfcl.tasks()[0])
    for tool, arguments in [
        ("__import__", {"name": "os"}),
        ("nothing", {}),
        ("ls", {"a=__import__('os').getpid(), b": 1}),
        ("ls", {"no": 1}),
        ("cat", {"file_name": "absent"}),
        ("echo", {"content": float("nan")}),
    ]:
        with pytest.raises(ToolFailed):
            episode.call(tool, arguments)
    episode.close()


def test_a_process_that_dies_ends_its_run_with_a_sentence_and_no_other(bfcl: Environment) -> None:
    task = bfcl.tasks()[1]
    episode = bfcl.start(task)
    assert isinstance(episode, WorkerEpisode)
    os.kill(episode.worker.process.pid, signal.SIGKILL)
    with pytest.raises(EpisodeError, match=r"^the process of bfcl-eval==\S+ ended during tools \(exit status -9\)$"):
        episode.call("ls", {})
    episode.close()
    assert play(bfcl, task, gold=True)[0] == 1


def test_tools_of_miss_func_come_when_the_user_says_so() -> None:
    environment = find_environment("bfcl-miss_func")
    task = environment.tasks()[0]
    episode = environment.start(task)
    names = [len(episode.tools)]
    while episode.answer("I cannot.") is not None:
        names.append(len(episode.tools))
    assert len(set(names)) == 2
    assert sorted(names) == names
    environment.close()


def test_an_unknown_environment_names_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match=r"^no environment 'chess': known are bfcl, bfcl-miss_func, "):
        find_environment("chess")


def test_a_package_that_cannot_be_installed_says_why(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"^hepm-no-such==1 could not be installed \(.+\): check the network"):
        Package(("hepm-no-such==1",)).interpreter()


def test_a_hidden_function_gives_neither_its_test_value_nor_a_second_chance() -> None:
    environment = find_environment("functions")
    task = environment.tasks()[0]
    episode = environment.start(task)
    point = {
        name: int(value) for name, value in (p.split(" = ") for p in episode.call("show_test_input", {}).split(", "))
    }
    assert tried(episode, "evaluate", point) == "failed: f is not evaluated at the test input"
    assert tried(episode, "evaluate", {"a": 1}) == "failed: evaluate takes a, b, c, d, all integers"
    assert (
        tried(episode, "guess", {}) == "failed: no action is called guess; there are evaluate, show_test_input, submit"
    )
    assert tried(episode, "submit", {"value": 10**9}) == "submitted"
    assert tried(episode, *[(call.name, call.arguments) for call in task.gold[0].calls][-1]).startswith("failed")
    assert episode.reward() == 0


NEEDS_MORE = "-user$|-files$|-played$|^recorded$|_full-|^acebench|^toolsandbox|^userrl|^tau-bench"
"""What needs a model, much time, files, or a checkout."""


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in environment_names() if not re.search(NEEDS_MORE, name)])
def test_right_calls_win_every_task_and_idleness_none(name: str) -> None:
    environment = find_environment(name)
    for task in environment.tasks():
        ended = play(environment, task, gold=True)
        assert ended == play(environment, task, gold=True), task.id
        assert ended[0] == 1, task.id
        assert play(environment, task, gold=False)[0] < 1, task.id
    environment.close()
