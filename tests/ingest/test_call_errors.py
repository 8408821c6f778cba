"""Errors of calls, in the words that runs share."""

from __future__ import annotations

import pytest

from hepm.ingest.call_errors import errors_of, normal_error
from hepm.types import ToolCall


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
