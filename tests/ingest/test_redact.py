from __future__ import annotations

import pytest

from hepm.errors import InputError
from hepm.ingest.redact import DEFAULT_RULES, Redactor
from hepm.types import JSON, Outcome, ToolCall, Trajectory, Turn


def run_with(text: str = "", result: str | None = None, **arguments: JSON) -> Trajectory:
    call = ToolCall("update_password", arguments, result)
    return Trajectory(
        "x", (Turn("user", text), Turn("assistant", "", (call,))), Outcome(1.0, True), tags={"note": text}
    )


def only_call(trajectory: Trajectory) -> ToolCall:
    (call,) = trajectory.calls()
    return call


def test_every_text_of_a_run_is_cleaned_and_the_names_of_tools_stay():
    secret = "password=hunter22"
    clean = Redactor()(run_with(secret, secret, note=secret, deep=[{"inner": secret}]))
    call = only_call(clean)
    expected = "password=[redacted:password]"
    assert clean.turns[0].text == clean.tags["note"] == call.result == call.arguments["note"] == expected
    assert call.arguments["deep"] == [{"inner": expected}]
    assert call.name == "update_password"


def test_arguments_are_secret_by_their_name():
    clean = Redactor()(run_with(password="hunter", apiKey="x", access_token=12345, user="ann", max_tokens=5))
    assert only_call(clean).arguments == {
        "password": "[redacted:password]",
        "apiKey": "[redacted:secret]",
        "access_token": "[redacted:token]",
        "user": "ann",
        "max_tokens": 5,
    }


def test_empty_secrets_stay_empty():
    clean = run_with(password="", token=None, secret=False)
    assert Redactor()(clean) == clean


def test_own_rules_are_added_to_the_default_ones():
    redactor = Redactor((*DEFAULT_RULES, ("ticket", r"T-\d+")))
    assert redactor.text("T-12 password=hunter22") == "[redacted:ticket] password=[redacted:password]"
    assert redactor(run_with("see T-12")).turns[0].text == "see [redacted:ticket]"


def test_an_own_rule_for_a_whole_text_is_tried_on_each_text_of_a_run():
    assert Redactor([("ticket", r"^T-\d+$")])(run_with("T-12", "done", note="n")).turns[0].text == "[redacted:ticket]"


def test_a_hook_sees_every_text_after_the_rules():
    clean = Redactor(hook=str.upper)(run_with("password=hunter22", "done", note="n"))
    assert clean.turns[0].text == "PASSWORD=[REDACTED:PASSWORD]"
    assert only_call(clean) == ToolCall("update_password", {"note": "N"}, "DONE")


def test_a_rule_that_is_no_regular_expression_is_an_input_error():
    with pytest.raises(InputError, match="the redaction rule 'mine' is no regular expression"):
        Redactor([("mine", "(")])
