from __future__ import annotations

from hepm.experience.recipes import learn_recipes
from hepm.ingest.shell.actions import actions_of
from hepm.types import Outcome, ToolCall, Trajectory, Turn

DAY = 86_400.0


def trajectory(name: str, calls: list[ToolCall], *, success: bool, day: int = 0, asked: str = "Do it.") -> Trajectory:
    turns = (Turn("user", asked), *(Turn("assistant", calls=(call,)) for call in calls))
    return Trajectory(name, turns, Outcome(success=success), "desk", f"t{name}", ended_at=day * DAY)


def sh(command: str, result: str = "", error: bool = False) -> ToolCall:
    return ToolCall("Bash", {"command": command}, result, error)


def fixed(
    number: int, *, fix: str = "docker compose up -d db", success: bool = True, day: int | None = None
) -> Trajectory:
    error = f"psycopg.OperationalError: connection to 10.0.0.{number} failed: Connection refused"
    calls = [sh("pytest -q", error, True), sh(fix), sh("pytest -q", "3 passed")]
    return trajectory(f"{fix}-{number}", calls, success=success, day=number if day is None else day)


def test_a_recipe_needs_runs_that_agree_on_more_than_one_day() -> None:
    (one,) = learn_recipes(map(fixed, range(5)))
    assert one.text.startswith("pytest: OperationalError: connection to …")
    assert one.text.endswith("Connection refused → docker compose up -d db")
    assert (one.worked, one.tried) == (5, 5)
    assert not list(learn_recipes(fixed(number, day=1) for number in range(5)))
    assert not list(learn_recipes(map(fixed, range(2))))
    assert not list(learn_recipes(fixed(number, fix=f"fix{chr(97 + number)} it") for number in range(6)))


def test_the_command_that_failed_run_in_another_way_is_a_recipe() -> None:
    missing = "ModuleNotFoundError: No module named 'yaml'"
    runs = []
    for number in range(3):
        calls = [sh("pytest -q", missing, True), sh("uv run pytest -q", "3 passed")]
        runs.append(trajectory(f"r{number}", calls, success=True, day=number))
    assert [one.text for one in learn_recipes(runs)] == [f"pytest: {missing} → uv run pytest -q"]


def test_what_failed_runs_did_as_often_is_no_recipe() -> None:
    runs = [*map(fixed, range(4)), *(fixed(10 + number, success=False) for number in range(4))]
    assert not list(learn_recipes(runs))


def test_a_command_with_a_secret_is_never_told() -> None:
    fix = "export_db --token ghp_0123456789abcdefghijABCDEFGHIJ012345"
    assert all("ghp_" not in one.text for one in learn_recipes(fixed(n, fix=fix) for n in range(5)))
    assert actions_of(sh(fix)) == []
