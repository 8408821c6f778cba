from __future__ import annotations

import pytest

from hepm.errors import InputError
from hepm.ingest import DEFAULT_RULES, Redactor
from hepm.types import JSON, Outcome, ToolCall, Trajectory, Turn


def run_with(text: str = "", result: str | None = None, **arguments: JSON) -> Trajectory:
    call = ToolCall("update_password", arguments, result)
    return Trajectory(
        "x", (Turn("user", text), Turn("assistant", "", (call,))), Outcome(1.0, True), tags={"note": text}
    )


def only_call(trajectory: Trajectory) -> ToolCall:
    (call,) = trajectory.calls()
    return call


# Put together here, so that no scanner takes this file for a leak.
DIGITS = "0123456789abcdef"
SECRETS = {
    "openai-key": "sk-" + "proj-" + DIGITS * 2,
    "anthropic-key": "sk-" + "ant-api03-" + DIGITS * 2,
    "github-token": "gh" + "p_" + DIGITS * 2 + "0123",
    "aws-key": "AKI" + "A" + "ABCDEFGH12345678",
    "google-key": "AIz" + "a" + DIGITS * 2 + "abc",
    "slack-token": "xox" + "b-" + "123456789012-abcdefgh",
    "huggingface-token": "h" + "f_" + DIGITS * 2,
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0In0." + "c2lnbmF0dXJl",
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA " + "PRIVATE KEY-----",
}


def test_keys_are_told_by_their_shape() -> None:
    for kind, secret in SECRETS.items():
        text = Redactor().text(f"use {secret} please")
        assert text == f"use [redacted:{kind}] please"


TELLING = [
    ("password: hunter22", "password: [redacted:password]"),
    ("PASSWORD=hunter22;", "PASSWORD=[redacted:password];"),
    ('{"user": "ann", "password": "Kj8#mP9$v L2"}', '{"user": "ann", "password": "[redacted:password]"}'),
    ("{'password': 'a b c d'}", "{'password': '[redacted:password]'}"),
    ('{\\"password\\": \\"abc123\\"}', '{\\"password\\": \\"[redacted:password]\\"}'),
    ("db_password = 'x1y2z3'", "db_password = '[redacted:password]'"),
    ("client_secret=abcd1234", "client_secret=[redacted:secret]"),
    ("API key: 1234567890abc", "API key: [redacted:api-key]"),
    ("x-api-key: 1234567890abc", "x-api-key: [redacted:api-key]"),
    ("token=a1b2c3d4e5", "token=[redacted:token]"),
    ("Authorization: Bearer abc.def-123456789", "Authorization: Bearer [redacted:token]"),
    ("postgres://ann:pa55word@db/shop", "postgres://[redacted:password]@db/shop"),
]


def test_what_stands_after_a_telling_word_is_replaced() -> None:
    for text, clean in TELLING:
        assert Redactor().text(text) == clean


ORDINARY = [
    "3 tokens left",
    "the token expired",
    "max_tokens: 4096, token: 12345678",
    "Please reset your password.",
    "Your new password must be long.",
    "password: null",
    "The password: the new password to set",
    "the secret of success",
    "the key is under the mat",
    "https://example.com:8080/a@b",
    "sk-learn and task-oriented work",
    "an asia trip",
    "reset your password: https://example.com/reset",
    "token: <your token>",
    "password=${PASSWORD}",
]


def test_ordinary_words_stay() -> None:
    for text in ORDINARY:
        assert Redactor().text(text) == text


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
    assert Redactor()(clean) is clean or Redactor()(clean) == clean


def test_a_run_without_secrets_is_the_same_object():
    run = run_with("hello", "done", user="ann")
    assert Redactor()(run) is run


def test_a_key_that_was_cut_off_is_still_taken_out():
    assert Redactor().text("key sk-" + "proj-ab…") == "key [redacted:openai-key]"


def test_a_secret_is_found_again_in_the_next_run() -> None:
    for secret in SECRETS.values():
        redactor = Redactor()
        first, second = redactor(run_with(secret)), redactor(run_with(secret))
        assert first == second
        assert secret not in first.turns[0].text


def test_own_rules_are_added_to_the_default_ones():
    redactor = Redactor((*DEFAULT_RULES, ("ticket", r"T-\d+")))
    assert redactor.text("T-12 password=hunter22") == "[redacted:ticket] password=[redacted:password]"
    assert redactor(run_with("see T-12")).turns[0].text == "see [redacted:ticket]"


def test_an_own_rule_for_a_whole_text_is_tried_on_each_text_of_a_run():
    assert Redactor([("ticket", r"^T-\d+$")])(run_with("T-12", "done", note="n")).turns[0].text == "[redacted:ticket]"


def test_own_rules_alone_leave_everything_else():
    assert Redactor([("ticket", r"T-\d+")])(run_with("T-12", password="x")).turns[0].text == "[redacted:ticket]"
    assert only_call(Redactor([])(run_with("T-12", password="x"))).arguments == {"password": "x"}


def test_a_hook_sees_every_text_after_the_rules():
    clean = Redactor(hook=str.upper)(run_with("password=hunter22", "done", note="n"))
    assert clean.turns[0].text == "PASSWORD=[REDACTED:PASSWORD]"
    assert only_call(clean) == ToolCall("update_password", {"note": "N"}, "DONE")


def test_a_rule_that_is_no_regular_expression_is_an_input_error():
    with pytest.raises(InputError, match="the redaction rule 'mine' is no regular expression"):
        Redactor([("mine", "(")])
