"""What was learned follows the store, and lies in a file for the next process."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, Trajectory
from hepm.evidence import upkeep
from hepm.evidence.decisions import CallPlace
from hepm.ingest.transitions import agent_state
from tests.evidence.remembered import learned, sample_of
from tests.report.desk import desk_run, desk_runs
from tests.runs import trajectory

WORDS = ["lamp", "shoes", "refund", "order", "broken", "red", "late", "parcel", "blue", "invoice"]


def runs(count: int, first: int = 0) -> Iterator[Trajectory]:
    """Runs in which shoes are bought and lamps refunded; every fifth failed."""
    for number in range(first, first + count):
        thing, way = [("shoes", ("look", "buy", "pay")), ("lamp", ("look", "refund", "pay+thank"))][number % 2]
        goal = f"{thing} {WORDS[number % 10]} {WORDS[number // 10 % 10]}"
        yield trajectory(f"r{number:04d}", *way, success=number % 5 != 4, goal=goal, task=f"t{number % 40}")


def songs(count: int, *, task: str = "") -> list[Trajectory]:
    return [trajectory(f"song {n}", "look", "sing", goal="sing a song", task=task) for n in range(count)]


def opened(folder: Path) -> Memory:
    return Memory.open(folder / "runs.hepm", poll_s=60, speak="weighed")


def ranked(memory: Memory, request: str = "lamp parcel", after: str = "look") -> list[tuple[str, float]]:
    """The tools after the first call of a run with this request."""
    now = agent_state(trajectory("now", after, goal=request).turns)
    found = memory.suggest(now.last, history=now.history, state=now.state(), k=9, speak="all")
    return [(one.tool, round(one.score, 4)) for one in found]


def kept(folder: Path) -> list[Path]:
    return list((folder / "runs.hepm-fit").glob("*.npz"))


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a small memory goes over."""
    monkeypatch.setattr(upkeep, "KEPT_FROM", 50)
    monkeypatch.setattr(upkeep, "FEW_CALLS", 0)


@pytest.fixture
def memory(small_bounds: None, tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as memory:
        memory.ingest(runs(100))
        yield memory


@pytest.fixture
def learnings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs were learned from, each time that all is learned."""
    counts: list[int] = []
    real = upkeep.learn

    def counted(runs: Sequence[Any], *arguments: Any, **options: Any) -> Any:
        counts.append(len(runs))
        return real(runs, *arguments, **options)

    monkeypatch.setattr(upkeep, "learn", counted)
    return counts


def fails(*arguments: object, **options: object) -> None:
    pytest.fail("all was learned again")


def test_a_new_run_counts_at_once_without_learning_anew(memory: Memory, learnings: list[int]) -> None:
    assert "sing" not in dict(ranked(memory, "sing a song"))
    memory.ingest(songs(6))
    memory.follow_now()
    assert ranked(memory, "sing a song")[0][0] == "sing"
    assert learnings == [100]
    assert learned(memory).places[CallPlace("look")].seen == 106
    assert len(learned(memory).requests.run_ids) == len(sample_of(memory).runs) == 106


def test_what_is_kept_of_runs_is_the_same_with_more_runs_as_counted_anew(memory: Memory) -> None:
    assert ranked(memory)  # which asks for the callers of "look"
    memory.ingest([*songs(2), trajectory("twice", "look", "look", goal="look twice")])
    memory.follow_now()
    now = learned(memory)
    number = now.numbers["look"]
    assert len(now.requests.runs) == 103
    assert now.last_R.tolist() == [now.numbers[run.calls[-1]] for run in now.requests.runs]
    assert [now.callers["look"][row].tolist() for row in (0, 1)] == [
        [run for run, tool, _ in now.called_3P.T.tolist() if tool == number],
        [times for _, tool, times in now.called_3P.T.tolist() if tool == number],
    ]


def test_a_request_waits_for_no_place_where_a_run_was_added(memory: Memory) -> None:
    assert ranked(memory)
    memory.ingest(songs(1))
    memory.follow_now()
    place = learned(memory).places[CallPlace("look")]
    assert place.seen == 101
    assert {"calls", "everywhere"} <= vars(place).keys()


def test_all_is_learned_anew_after_a_quarter_more_runs(memory: Memory, learnings: list[int]) -> None:
    for count, first in ((20, 100), (5, 120), (1, 125)):
        assert ranked(memory)
        memory.ingest(runs(count, first))
        memory.follow_now()
    assert learnings == [100, 126]


@pytest.mark.parametrize("by", ["trajectory", "task"])
def test_a_forgotten_run_is_neither_suggested_nor_left_in_the_file(memory: Memory, tmp_path: Path, by: str) -> None:
    memory.ingest(songs(1, task="odd"))
    memory.refresh()
    assert "sing" in dict(ranked(memory, "sing a song"))
    (file,) = kept(tmp_path)
    assert b"song 0" in file.read_bytes()
    memory.forget(**{by: "song 0" if by == "trajectory" else "odd"})  # type: ignore[arg-type]
    assert not any(b"song 0" in one.read_bytes() for one in kept(tmp_path))
    assert "sing" not in dict(ranked(memory, "sing a song"))
    assert "sing" not in learned(memory).stems
    with opened(tmp_path) as fresh:
        assert "sing" not in dict(ranked(fresh, "sing a song"))


def test_a_second_process_reads_the_file_and_does_not_learn(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ranked(memory), ranked(memory, "shoes late")
    assert len(kept(tmp_path)) == 1
    monkeypatch.setattr(upkeep, "learn", fails)
    with opened(tmp_path) as fresh:
        assert (ranked(fresh), ranked(fresh, "shoes late")) == first
        assert learned(fresh).chance == learned(memory).chance


def test_a_small_memory_keeps_no_file(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.ingest(runs(12))
        assert ranked(memory)
    assert kept(tmp_path) == []


def test_runs_that_are_newer_than_the_file_are_added_to_what_is_read(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ranked(memory)
    memory.close()
    with opened(tmp_path) as elsewhere:
        elsewhere.ingest(songs(6))
    monkeypatch.setattr(upkeep, "learn", fails)
    with opened(tmp_path) as fresh:
        assert ranked(fresh, "sing a song")[0][0] == "sing"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numpy leaves a cut file open
@pytest.mark.parametrize("damage", [None, "flipped"])
def test_a_damaged_file_is_learned_again(memory: Memory, tmp_path: Path, damage: str | None) -> None:
    expected = ranked(memory)
    (file,) = kept(tmp_path)
    content = bytearray(file.read_bytes())
    if damage is None:
        file.write_bytes(content[:-80])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with opened(tmp_path) as fresh:
        assert ranked(fresh) == expected
    gc.collect()


def test_a_file_of_another_store_in_the_same_place_is_not_used(memory: Memory, tmp_path: Path) -> None:
    assert ranked(memory)
    memory.close()
    for file in tmp_path.glob("runs.hepm*"):
        if file.is_file():
            file.unlink()
    with opened(tmp_path) as other:
        other.ingest(trajectory(f"new {number}", "look", "sing", goal="sing a song") for number in range(100))
        assert ranked(other, "sing a song")[0][0] == "sing"
        assert "refund" not in dict(ranked(other))


def test_a_corrected_outcome_is_learned_anew(memory: Memory, tmp_path: Path) -> None:
    assert ranked(memory)[0][0] == "refund"
    for number in range(1, 99, 2):
        memory.label(f"r{number:04d}", success=False)
    memory.follow_now()
    assert "refund" not in dict(ranked(memory)[:1])
    memory.close()
    with opened(tmp_path) as fresh:
        assert learned(fresh).support["refund"] <= 1


def test_two_memories_that_are_open_on_one_store_see_each_others_runs(memory: Memory, tmp_path: Path) -> None:
    with opened(tmp_path) as other:
        assert "sing" not in dict(ranked(memory, "sing a song"))
        assert "sing" not in dict(ranked(other, "sing a song"))
        other.ingest(songs(6))
        memory.refresh()
        assert ranked(memory, "sing a song")[0][0] == "sing"
        memory.ingest([trajectory(f"hum {n}", "look", "hum", goal="a melody") for n in range(6)])
        other.refresh()
        assert ranked(other, "a melody")[0][0] == "hum"


@pytest.fixture
def in_part(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A memory that is not read whole, with a place whose runs are old and few."""
    monkeypatch.setattr(upkeep, "MOST_CALLS", 120)
    memory.ingest(trajectory(f"odd {n}", "hum", "whistle", goal="a tune", task="odd") for n in range(12))
    memory.ingest(runs(150, 100))
    return memory


def test_of_a_large_memory_the_latest_runs_and_some_earlier_ones_are_learned_from(in_part: Memory) -> None:
    sample = sample_of(in_part)
    names = [run.id for run in sample.runs]
    assert not sample.whole
    assert names[-1] == "r0249"
    assert names == sorted(names, key=lambda name: [run.seq for run in sample.runs if run.id == name])
    assert len(set(names)) == len(names)
    assert any(name < "r0100" for name in names)
    assert 60 < sample.calls <= 150
    assert ranked(in_part)[0][0] == "refund"
    assert ranked(in_part, "shoes late")[0][0] == "buy"


def test_places_of_a_large_memory_that_were_hardly_read_are_read_from_the_store(in_part: Memory) -> None:
    place = CallPlace("hum")
    live = in_part.evidence()
    seen = live.latest().places.get(place)
    assert seen is None or seen.seen < 12
    assert live.at(place).places[place].seen == 12
    assert live.at(CallPlace("look")) is live.latest()
    assert ranked(in_part, "a tune", "hum")[0][0] == "whistle"


def test_what_was_read_of_a_place_is_read_anew_after_a_run_came(in_part: Memory) -> None:
    place = CallPlace("hum")
    live = in_part.evidence()
    assert live.at(place).places[place].seen == 12
    in_part.ingest([trajectory("more", "hum", "whistle", goal="a tune")])
    in_part.follow_now()
    assert live.at(place).places[place].seen == 13


def test_a_tool_that_is_forgotten_leaves_a_large_memory(in_part: Memory) -> None:
    assert ranked(in_part, "a tune", "hum")[0][0] == "whistle"
    in_part.forget(task="odd")
    assert "whistle" not in dict(ranked(in_part, "a tune", "hum"))


def test_a_memory_that_was_read_whole_and_outgrows_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MOST_CALLS", 120)
    with opened(tmp_path) as memory:
        memory.ingest(runs(30))
        assert ranked(memory)[0][0] == "refund"
        assert learned(memory).whole
        for start in range(30, 150, 40):
            memory.ingest(runs(40, first=start))
            memory.refresh()
            assert ranked(memory)[0][0] == "refund"
        assert not learned(memory).whole


def test_rules_that_another_process_counted_are_read_until_a_run_is_stored(
    tmp_path: Path, learnings: list[int]
) -> None:
    with opened(tmp_path) as memory:
        memory.ingest(desk_runs(60))
        counted = memory.evidence().rules()
    learnings.clear()
    with opened(tmp_path) as other:
        assert other.evidence().rules(anew=False) == counted
        assert learnings == []
        other.ingest([desk_run(99, "delivered", "cancel_order")])
    with opened(tmp_path) as other:
        again = other.evidence().rules(anew=False)
    (rule,) = (rule for rule in again if "cancel_order" in rule.worse)
    assert "desk-99" in rule.runs["cancel_order"].failed


def test_rules_whose_file_is_damaged_are_counted_again(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.ingest(desk_runs(60))
        counted = memory.evidence().rules()
    (file,) = (tmp_path / "runs.hepm-fit").glob("*.rules.json")
    file.write_text(file.read_text("utf-8")[:-40], "utf-8")
    with opened(tmp_path) as other:
        assert other.evidence().rules(anew=False) == counted != []
