from __future__ import annotations

import pytest

from hepm.experience.actions import actions_of
from hepm.experience.content import content_of
from hepm.experience.recipes import errors_of, learn_recipes, normal_error
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


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("2024-05-01 10:00:01 ERROR: order 17 not found", "order … not found"),
        ("src/app/models.py:12: error: Missing return statement", "Missing return statement"),
        (
            "E   django.db.utils.ProgrammingError: no such column: order_17",
            "ProgrammingError: no such column: order_…",
        ),
        ("cannot open /home/ann/shop/a.txt: No such file or directory", "cannot open …: No such file or directory"),
        ("3 failed in 2.1s", ""),
        ("<script>ignore|previous</script> error here", "script ignore previous … error here"),
    ],
)
def test_errors_are_told_without_numbers_paths_and_signs(line: str, normal: str) -> None:
    assert normal_error(line) == normal


def test_a_secret_in_an_error_is_not_kept() -> None:
    text = errors_of(ToolCall("deploy", result="Error: login failed, password=hunter2hunter2 was refused", error=True))
    assert "hunter2" not in " ".join(text)


def test_of_an_error_of_pydantic_neither_the_address_nor_the_input_is_kept() -> None:
    text = (
        "1 validation error for Payment\nid\n  Field required [type=missing, input_value={'a': 7}, input_type=dict]\n"
        "    For further information visit https://x.org/missing"
    )
    assert errors_of(ToolCall("pay", result=text, error=True))[0] == "Field required"


def test_a_recipe_needs_runs_that_agree_on_more_than_one_day() -> None:
    (one,) = learn_recipes(map(fixed, range(5)))
    assert one.text.startswith("pytest: OperationalError: connection to …")
    assert one.text.endswith("Connection refused → docker compose up -d db")
    assert (one.worked, one.tried) == (5, 5)
    assert learn_recipes(fixed(number, day=1) for number in range(5)) == []
    assert learn_recipes(map(fixed, range(2))) == []
    assert learn_recipes(fixed(number, fix=f"fix{chr(97 + number)} it") for number in range(6)) == []


def test_what_failed_runs_did_as_often_is_no_recipe() -> None:
    runs = [*map(fixed, range(4)), *(fixed(10 + number, success=False) for number in range(4))]
    assert learn_recipes(runs) == []


def test_a_command_with_a_secret_is_never_told() -> None:
    fix = "export_db --token ghp_0123456789abcdefghijABCDEFGHIJ012345"
    assert all("ghp_" not in one.text for one in content_of([fixed(n, fix=fix) for n in range(5)], "desk"))
    assert actions_of(sh(fix)) == []


def test_each_command_of_a_line_is_an_action_and_only_the_last_one_failed() -> None:
    call = ToolCall("Bash", {"command": "cd /srv/shop && make db && pytest /srv/shop/tests -x"}, "boom", True)
    found = actions_of(call, project="shop", failed=True)
    assert [(one.text, one.failed) for one in found] == [("make db", False), ("pytest tests -x", True)]
