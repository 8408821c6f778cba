from __future__ import annotations

import gc
import json
import re
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hepm import Memory
from hepm.errors import InputError
from hepm.ingest import redact
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.redact import DEFAULT_RULES, Redactor
from hepm.ingest.secret_rules import LONG_WORD
from hepm.types import JSON, Outcome, ToolCall, Trajectory, Turn
from tests.ingest.made_up_secrets import PLACES, left_of, lines, samples
from tests.runs import trajectory


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


# Secrets that are redacted by default, and ordinary text that stays: `secrets.txt` and `look_alikes.txt`

SAMPLES = samples()
LOOK_ALIKES = [line for _, line in lines("look_alikes.txt")]
KEY = "gh" + "p_1A2b3C4d5E6f7G8h9I0jK1l2M3n4O5p6Q7r8"


def as_read(text: str) -> str:
    """Without zero-width characters, and full-width colons and letters of "password" as plain ones."""
    return text.replace("\u200b", "").replace("ｐａｓｓｗｏｒｄ", "password").replace("：", ":")


def test_every_secret_goes_and_what_stands_around_it_stays() -> None:
    redactor = Redactor()
    wrong: list[str] = []
    for _, parts in SAMPLES:
        around = r"\[redacted:[a-z-]+\]".join(re.escape(as_read(part)) for part in parts[::2])
        clean = redactor.text("".join(parts))
        if not re.fullmatch(around, as_read(clean)):
            wrong.append(clean)
    assert wrong == []


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_goes_from_every_place_of_a_run(place: str) -> None:
    redactor = Redactor()
    left: dict[str, list[str]] = {}
    for sample in SAMPLES:
        found = left_of(sample.secrets, redactor(PLACES[place](sample.text)))
        if found:
            left[sample.text] = found
    assert left == {}


@pytest.mark.parametrize("levels", [1, 2])
def test_a_secret_goes_from_json_within_json(levels: int) -> None:
    redactor = Redactor()
    left: list[str] = []
    for sample in SAMPLES:
        text, secrets = sample.text, sample.secrets
        for _ in range(levels):
            text = json.dumps({"output": text}, ensure_ascii=False)
            secrets = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets]
        clean = redactor.text(text)
        if any(secret in clean for secret in secrets):
            left.append(clean)
    assert left == []


def test_look_alikes_stay() -> None:
    redactor = Redactor()
    assert [redactor.text(text) for text in LOOK_ALIKES] == LOOK_ALIKES


def test_a_rule_that_finds_something_names_a_literal_of_it() -> None:
    for text in [*(sample.text for sample in SAMPLES), *LOOK_ALIKES]:
        for rule in DEFAULT_RULES:
            if rule.literals and rule.pattern.search(text):
                assert any(literal in text.lower() for literal in rule.literals) or LONG_WORD in rule.literals, text


WORDS = r"""
password pass is passphrase : = --token cookie a=b1234; hunter22 Basic ' " authorization … curl -u x:y1z2 <password> .
-> name value , \ @ :// key | [ ] AKIA ABCDEFGH12345678
"""


@given(st.lists(st.sampled_from([*WORDS.split(), " ", "\n", "\u200b"])))
@example(["password", "hunter22", ":", "password"])
def test_redacting_twice_changes_nothing_more(words: list[str]) -> None:
    for between in ("", " "):
        once = Redactor().text(between.join(words))
        assert Redactor().text(once) == once


BEGINNINGS = """
password is ¦pass: ¦--x-¦curl -u ¦cookie=¦passphrase: ¦://a:¦<password>¦name="password" ¦name: password ¦value: "¦--a-
¦set x ¦login: a / ¦variable "password" {¦a,password\n¦echo '¦password\n¦\\¦`¦\\"¦docker login ¦mysql ¦net use
¦htpasswd -b ¦config set ¦eyJ¦1//0¦key=¦pw=¦pass = ¦senha: ¦пароль ¦MIIaaQIBA¦\\u0041¦<input type=password ¦-u a -p
¦mnemonic ¦secret: |\n  a¦passwords:\n- a1¦sensitive=true value=¦name="password" text=¦.fill("password", "
"""


@pytest.mark.timeout(60)  # a rule that tries every end anew would take minutes
def test_long_texts_take_time_in_proportion_to_their_length() -> None:
    for text in BEGINNINGS[1:-1].split("¦"):
        for filling in ("a", "a ", "-a", "a=", text, "@", "!a", "\\", "password"):
            Redactor().text((text + filling * 10_000)[:10_000])


def test_a_secret_goes_from_a_long_text_that_is_else_as_one_that_was_searched() -> None:
    rules = "Follow the rules of the desk. " * 100
    assert Redactor().text(rules) == rules
    for _ in range(2):
        assert Redactor().text(f"{rules}password=hunter22") == f"{rules}password=[redacted:password]"
    assert Redactor().text(rules) == rules


@pytest.mark.timeout(60)  # read on from each, it would take minutes
def test_a_text_that_begins_keys_without_end_is_not_read_on_from_each_of_them() -> None:
    for text in ("sk-", "ghp_-", "AIza-", "xai-", "eyJ-", "mysql-", "SG.a-"):
        beginning = text * (60_000 // len(text))
        assert Redactor().text(beginning) == beginning


def cleaned(arguments: dict[str, JSON]) -> dict[str, JSON]:
    (call,) = Redactor()(Trajectory("x", (Turn("assistant", "", (ToolCall("get", arguments, None),)),))).calls()
    return dict(call.arguments)


def test_a_value_is_secret_by_the_name_beside_it_or_the_option_before_it() -> None:
    assert cleaned({"env": [{"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "MODE", "value": "fast"}]}) == {
        "env": [{"name": "DB_PASSWORD", "value": "[redacted:password]"}, {"name": "MODE", "value": "fast"}]
    }
    assert cleaned({"argv": ["login", "--password", "swordfish", "--user", "ann"]}) == {
        "argv": ["login", "--password", "[redacted:password]", "--user", "ann"]
    }


@pytest.mark.parametrize("field", ["id", "user"])
def test_a_run_whose_id_or_user_is_a_secret_is_refused_without_showing_it(memory: Memory, field: str) -> None:
    names = {"id": "run", field: KEY}
    report = memory.ingest([Trajectory(turns=(Turn("user", "hi"),), **names)], options=IngestOptions(vectors=False))
    assert report.stored == 0
    (rejection,) = report.rejected
    assert f"its {field} holds a secret" in rejection.reason
    assert KEY not in str(rejection)


def test_an_ingest_stores_no_secret(tmp_path: Path) -> None:
    def run(number: int, text: str) -> Trajectory:
        call = ToolCall("look", {"q": text}, text)
        return Trajectory(f"run {number}", (Turn("user", text), Turn("assistant", text, (call,))), tags={"note": text})

    with Memory.open(tmp_path / "s.hepm") as memory:
        memory.ingest(
            [run(number, sample.text) for number, sample in enumerate(SAMPLES)], options=IngestOptions(vectors=False)
        )
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("s.hepm*"))
    secrets = {secret for sample in SAMPLES for secret in sample.secrets if "\n" not in secret and len(secret) > 12}
    assert [secret for secret in secrets if secret.encode() in stored] == []


# A redactor that several threads share, and what is left of its texts afterwards

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"
REMEMBERED = 100_000


def test_a_secret_is_taken_out_though_another_thread_fills_the_memory_between_look_and_rewrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redact, "_REMEMBERED", REMEMBERED)

    def while_it_is_looked_at(text: str) -> str:
        if text == "meanwhile":
            crowd = threading.Thread(target=lambda: [redactor(run) for run in others])
            crowd.start()
            crowd.join()
        return text

    others = [trajectory("long", goal="x" * (REMEMBERED + 1)), trajectory("next", goal="y")]
    redactor = Redactor(hook=while_it_is_looked_at)
    run = Trajectory("r", (Turn("user", f"my key is {SECRET}"), Turn("user", "meanwhile")))
    assert SECRET not in redactor(run).turns[0].text


def test_no_text_of_a_user_is_kept_in_memory_once_its_run_is_stored(memory: Memory) -> None:
    said = "what one user said " + "and said " * 5
    memory.ingest([trajectory("r", "look", goal=said)], options=IngestOptions(vectors=False))
    gc.collect()
    holders = [one for one in gc.get_objects() if type(one) in (set, dict) and said in one]
    assert holders == []
