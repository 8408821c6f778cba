"""Secrets that are redacted by default, and ordinary text that stays: `secrets.txt` and `look_alikes.txt`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hepm import Memory
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.redact import DEFAULT_RULES, Redactor
from hepm.ingest.secret_rules import LONG_WORD
from hepm.types import JSON, ToolCall, Trajectory, Turn
from tests.ingest.made_up_secrets import PLACES, left_of, lines, samples

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
def test_a_run_whose_id_or_user_is_a_secret_is_refused_without_showing_it(tmp_path: Path, field: str) -> None:
    names = {"id": "run", field: KEY}
    with Memory.open(tmp_path) as memory:
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
