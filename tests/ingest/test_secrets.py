"""Secrets that are redacted by default, and ordinary text that stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm.ingest import Redactor
from hepm.ingest.secret_rules import DEFAULT_RULES
from hepm.types import ToolCall, Trajectory, Turn
from tests.faults.command import quick

# Put together here, so that no scanner takes this file for a leak.
HEX = "0123456789abcdef"
MIXED = "aB3dE6gH9jK2mN5pQ8sT"
SHAPES = {
    "stripe-key": ["sk_" + "live_" + MIXED, "rk_" + "live_" + MIXED, "sk_" + "test_" + MIXED, "whsec_" + MIXED],
    "gitlab-token": ["gl" + "pat-" + MIXED, "gl" + "pat-" + "abcdefghijklmnopqrst", "gl" + "ptt-" + HEX * 2],
    "npm-token": ["np" + "m_" + MIXED + HEX],
    "sendgrid-key": ["S" + "G." + MIXED + "ab." + MIXED * 2],
    "pypi-token": ["py" + "pi-AgEIcHlwaS5vcmc" + MIXED * 3],
    "digitalocean-token": ["do" + "p_v1_" + HEX * 4, "do" + "o_v1_" + HEX * 4],
    "google-key": ["ya" + "29." + MIXED, "GOC" + "SPX-" + MIXED],
    "slack-token": ["xa" + "pp-1-A012-345-" + HEX, "xox" + "p-" + "123456789012-abcdefgh"],
    "github-token": ["github" + "_pat_" + MIXED, "gh" + "o_" + MIXED],
    "api-key": ["gs" + "k_" + MIXED, "nv" + "api-" + MIXED, "shp" + "at_" + HEX * 2],
}


@pytest.mark.parametrize(("kind", "secret"), [(kind, secret) for kind, all_of in SHAPES.items() for secret in all_of])
def test_keys_of_more_services_are_told_by_their_shape(kind: str, secret: str) -> None:
    assert Redactor().text(f"use {secret}, please") == f"use [redacted:{kind}], please"
    assert Redactor().text(json.dumps({"x": secret})) == json.dumps({"x": f"[redacted:{kind}]"})


REPLACED = [
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:password]"),
    ('{"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}', '{"Authorization": "Basic [redacted:password]"}'),
    ("-H 'Authorization: Token 9944b09199c62bcf'", "-H 'Authorization: Token [redacted:password]'"),
    ("Proxy-Authorization: Basic YTpi=", "Proxy-Authorization: Basic [redacted:password]"),
    ("Authorization: 9944b09199c62bcf9418ad84", "Authorization: [redacted:token]"),
    ("AccountKey=abc123+/def456==;EndpointSuffix=x", "AccountKey=[redacted:api-key];EndpointSuffix=x"),
    ("SharedAccessKey=abc123+/def456=", "SharedAccessKey=[redacted:api-key]"),
    ("x?sv=2022&sig=aB3dE6gH9jK2mN5pQ8sT%3D", "x?sv=2022&sig=[redacted:token]"),
    ("Cookie: session=abc123; theme=dark", "Cookie: [redacted:cookie]"),
    ("Set-Cookie: sid=38afes7a8; Path=/; HttpOnly\nDate: x", "Set-Cookie: [redacted:cookie]\nDate: x"),
    ('{"Cookie": "session=abc123"}', '{"Cookie": "[redacted:cookie]"}'),
    ('{\\"Cookie\\": \\"session=abc123\\"}', '{\\"Cookie\\": \\"[redacted:cookie]\\"}'),
    ("login --password hunter22", "login --password [redacted:password]"),
    ("login --password hunter22 --user ann", "login --password [redacted:password] --user ann"),
    ("login --password swordfish --user ann", "login --password [redacted:password] --user ann"),
    ("login --password swordfish", "login --password [redacted:password]"),
    ("login --db-password 'sword fish' -v", "login --db-password '[redacted:password]' -v"),
    ('{"cmd": "login --password hunter22"}', '{"cmd": "login --password [redacted:password]"}'),
    ("run --token a1b2c3d4", "run --token [redacted:token]"),
    ("run --auth-token a1b2c3d4", "run --auth-token [redacted:token]"),
    ("run --api-key abcd1234", "run --api-key [redacted:api-key]"),
    ("run --secret abcd1234 x", "run --secret [redacted:secret] x"),
    ("run --secret-key abcd1234 x", "run --secret-key [redacted:api-key] x"),
    ("curl -s -u ann:pa55word https://x", "curl -s -u [redacted:password] https://x"),
    ("mysql -u root -phunter22 shop", "mysql -u root -p[redacted:password] shop"),
    ("sshpass -p hunter22 ssh x", "sshpass -p [redacted:password] ssh x"),
    ("my password is hunter22", "my password is [redacted:password]"),
    ("My password is hunter22.", "My password is [redacted:password]."),
    ("the password for the wifi is 'hunter22'", "the password for the wifi is '[redacted:password]'"),
    ("the password is 84213377", "the password is [redacted:password]"),
    ("change my password to Hunter#Two, please", "change my password to [redacted:password], please"),
    ("my access token is abc123xyz", "my access token is [redacted:token]"),
    ("my api key is abc123xyz", "my api key is [redacted:api-key]"),
    ("pass: hunter22", "pass: [redacted:password]"),
    ("user: ann pass: hunter22", "user: ann pass: [redacted:password]"),
    ("pass = hunter22", "pass = [redacted:password]"),
    ("DB_PASS=hunter22", "DB_PASS=[redacted:password]"),
    ('{"smtp_pass": "hunter22"}', '{"smtp_pass": "[redacted:password]"}'),
    ("passphrase: correct horse battery staple", "passphrase: [redacted:password]"),
    ("passphrase: correct horse. Then log in", "passphrase: [redacted:password]. Then log in"),
    ("passphrase: ab.c-d", "passphrase: [redacted:password]"),
    ("**Password:** hunter22", "**Password:** [redacted:password]"),
    ("'password' => 'hunter22'", "'password' => '[redacted:password]'"),
    ("<password>hunter22</password>", "<password>[redacted:password]</password>"),
    ("machine x login ann password hunter22", "machine x login ann password [redacted:password]"),
    ("redis://:pa55word@db:6379/0", "redis://[redacted:password]@db:6379/0"),
    ("mongodb+srv://ann:p@ss@db/shop", "mongodb+srv://[redacted:password]@db/shop"),
    ("https://hooks.slack.com/services/T0/B0/abc123", "https://hooks.slack.com/services/[redacted:webhook]"),
    ("aws_secret_access_key = wJalr/abc123+x", "aws_secret_access_key = [redacted:api-key]"),
    ("TWILIO_AUTH_TOKEN=0123456789abcdef", "TWILIO_AUTH_TOKEN=[redacted:token]"),
]


@pytest.mark.parametrize(("text", "clean"), REPLACED)
def test_what_stands_in_a_header_an_option_or_a_sentence_is_replaced(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(("text", "clean"), REPLACED)
def test_what_was_replaced_stays_as_it_is(text: str, clean: str) -> None:
    assert Redactor().text(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "my password is wrong",
        "the password is required",
        "your password is 8-16 characters long",
        "the password is 12characters at least",
        "the password is base64-encoded",
        "the password is case-sensitive",
        "the password was sent to ann2@example.org",
        "change your password to something better",
        "reset your password",
        "pass: the ball",
        "pass: 12, fail: 3",
        "--- PASS: TestLogin2 (0.01s)",
        "PASS: tests/login_2.sh",
        "First pass: mask2 is set",
        "bypass: rule2",
        "cookie: chocolate",
        "Cookie: none",
        "a cookie = a biscuit",
        "Authorization: required",
        "Authorization: Basic authentication is needed",
        "Authorization: Basic Authentication",
        "use the --password option to log in",
        "the --password flag",
        "--password requires --user",
        "--password PASSWORD",
        "--password <password>",
        "--password $PASSWORD",
        "--password-stdin hunter22",
        "--max-tokens 4096",
        "--next-token 1a2b3c4d",
        "--idempotency-token 1a2b3c4d",
        "pass: 1234 of 1300",
        "--token and --secret are options",
        "tokens.filter(token => token.key.indexOf(id))",
        "the token is expired",
        "the token is 12345678",
        "the API key is missing",
        "the secret is out",
        "npm_config_registry and npm_package_version",
        "msg.send(x)",
        "pypi-publish-workflow-v1 and pypi-agent-2-of-the-new-kind",
        "http://localhost:8000…",
        "see https://x.org:8443/a@b",
        "see http://x.org:8443?mail=ann@example.org",
        "a task_live_feed, a desk_test_1",
        "mysql -u root -p shop",
        "curl -u $USER https://x",
        "the passphrase: must be long",
    ],
)
def test_ordinary_text_about_secrets_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_cookies_and_pass_codes_are_secret_by_the_name_of_their_argument() -> None:
    call = ToolCall("get", {"cookie": "abc", "passcode": 1234, "accountKey": "x", "cookies_eaten": 3}, None)
    run = Trajectory("x", (Turn("assistant", "", (call,)),))
    (clean,) = Redactor()(run).calls()
    assert clean.arguments == {
        "cookie": "[redacted:secret]",
        "passcode": "[redacted:password]",
        "accountKey": "[redacted:secret]",
        "cookies_eaten": 3,
    }


WORDS = (
    "password",
    "pass",
    "is",
    "passphrase",
    ":",
    "=",
    "--token",
    "cookie",
    "a=b1234;",
    "hunter22",
    "Basic",
    "'",
    '"',
)


@given(st.lists(st.sampled_from([*WORDS, "authorization", " ", "\n", "…", "curl", "-u", "x:y1z2", "<password>", "."])))
def test_redacting_twice_changes_nothing_more_whatever_stands_there(words: list[str]) -> None:
    for between in ("", " "):
        once = Redactor().text(between.join(words))
        assert Redactor().text(once) == once


@pytest.mark.parametrize("text", [text for text, _ in REPLACED] + [one for all_of in SHAPES.values() for one in all_of])
def test_a_rule_that_finds_something_names_a_literal_of_it(text: str) -> None:
    for rule in DEFAULT_RULES:
        assert not rule.pattern.search(text) or any(literal in text.lower() for literal in rule.literals), rule


@pytest.mark.parametrize(
    "text", ["password is ", "pass: ", "--x-", "curl -u ", "cookie=", "passphrase: ", "://a:", "<password>"]
)
def test_long_texts_take_time_in_proportion_to_their_length(text: str) -> None:
    for filling in ("a", "a ", "-a", "a=", text, "@", "!a"):
        Redactor().text((text + filling * 20_000)[:60_000])  # a rule that tries every end anew would take minutes


@pytest.mark.parametrize("text", ["sk-", "ghp_-", "AIza-", "xai-", "eyJ-", "mysql-", "SG.a-"])
def test_a_text_that_begins_keys_without_end_is_not_read_on_from_each_of_them(text: str) -> None:
    beginning = text * (500_000 // len(text))
    assert Redactor().text(beginning) == beginning  # read on from each, it would take half an hour and be timed out


def test_an_ingest_stores_no_secret(tmp_path: Path) -> None:
    texts = [text for text, _ in REPLACED] + [one for all_of in SHAPES.values() for one in all_of]
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    runs = [
        {
            "id": str(number),
            "success": True,
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": text},
            ],
        }
        for number, text in enumerate(texts)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    assert quick("ingest", tmp_path / "runs.jsonl", "--store", tmp_path / "s.hepm").code == 0
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("s.hepm*"))
    for secret in (b"hunter22", b"swordfish", b"pa55word", b"dXNlcjpw", MIXED.encode(), b"horse", b"session=", b"xyz"):
        assert secret not in stored
