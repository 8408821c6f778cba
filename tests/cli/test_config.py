"""`hepm.toml`, with the real command in a process."""

from __future__ import annotations

import json
import pwd
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click
import pytest

from hepm.cli.commands import find_command
from hepm.cli.config import TABLES, ConfigFile, find_config
from hepm.settings import settings_of
from hepm.types import Trajectory, Turn
from hepm.web.server import Server
from tests.cli.chats import chat, chats, write
from tests.faults.command import Answer, one_sentence, quick


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "runs.jsonl", chats())
    return tmp_path


def run(folder: Path, *arguments: str, **variables: str) -> Answer:
    """`hepm` in a folder."""
    return quick(*arguments, env=variables, cwd=folder)


def configure(folder: Path, text: str) -> None:
    (folder / "hepm.toml").write_text(text, "utf-8")


def test_the_file_names_store_and_namespace_of_all_commands(folder: Path) -> None:
    configure(folder, 'store = "desk.hepm"\nnamespace = "retail"\n')
    assert run(folder, "ingest", "runs.jsonl").code == 0
    assert (folder / "desk.hepm").exists()
    assert not (folder / "memory.hepm").exists()
    assert set(json.loads(run(folder, "stats", "--json").out)["namespaces"]) == {"retail"}
    assert "return_items" in run(folder, "suggest", "--after", "get_order", "--speak", "all").out


def test_an_option_wins_over_a_variable_and_that_over_the_file_and_that_over_the_default(folder: Path) -> None:
    configure(folder, 'store = "file.hepm"\n')
    named = ("stats", "--store", "option.hepm")
    assert "option.hepm, from the command line" in run(folder, *named, HEPM_STORE="variable.hepm").err
    assert "variable.hepm, from HEPM_STORE" in run(folder, "stats", HEPM_STORE="variable.hepm").err
    assert "file.hepm, from hepm.toml" in run(folder, "stats").err
    (folder / "hepm.toml").unlink()
    assert "memory.hepm, the default in this folder" in run(folder, "stats").err


def test_the_users_file_is_read_where_the_folder_has_none(folder: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    (settings / "hepm").mkdir(parents=True)
    configure(settings / "hepm", 'store = "mine.hepm"\n')
    at_home = {"XDG_CONFIG_HOME": str(settings)}
    assert f"mine.hepm, from {settings}/hepm/hepm.toml" in run(folder, "stats", **at_home).err
    configure(folder, 'store = "ours.hepm"\n')
    assert "ours.hepm, from hepm.toml" in run(folder, "stats", **at_home).err


def test_a_user_without_a_home_has_no_file_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert find_config() is None


WRONG = [
    ("store = 7", "hepm.toml: store = 7 is not a string."),
    (
        "port = 80",
        "there is no key 'port'; it may have store, namespace, outcome_by, ingest, lessons, model, serve, redaction.",
    ),
    ("serve = 80", "hepm.toml: serve is a table: write [serve] above its keys."),
    ("[serve]\nport = 70000", "hepm.toml: serve.port = 70000 is not a whole number from 0 to 65535."),
    ("[serve]\nspeak = 'loud'", "hepm.toml: serve.speak = 'loud' is not one of 'sure', 'weighed', 'all'."),
    ("[serve]\nholdout = nan", "hepm.toml: serve.holdout = nan is not a number from 0 to 1."),
    ("[serve]\ndistrust = 'ann'", "hepm.toml: serve.distrust = 'ann' is not a list of strings."),
    ("outcome_by = ['luck']", "hepm.toml: outcome_by: no rule is called 'luck'"),
    ("[redaction.rules]\nticket = '('", "hepm.toml: redaction.rules.ticket = '(' is not a regular expression: "),
]


def test_what_is_wrong_in_the_file_is_said_in_a_sentence_with_what_is_allowed(folder: Path) -> None:
    for text, sentence in WRONG:
        configure(folder, text)
        assert sentence in one_sentence(run(folder, "serve"))
    assert not (folder / "memory.hepm").exists()


def test_a_file_that_is_no_text_or_cannot_be_read_is_said(folder: Path) -> None:
    (folder / "hepm.toml").write_bytes(b"store = '\xff'")
    assert "hepm.toml is not TOML" in one_sentence(run(folder, "stats"))


def test_a_broken_file_keeps_nobody_from_help(folder: Path) -> None:
    configure(folder, "[[[")
    assert run(folder, "serve", "--help").code == 0


def test_rules_of_the_file_redact_what_an_ingest_stores(folder: Path) -> None:
    configure(folder, "[redaction.rules]\nticket = 'T-[0-9]+'\n")
    write(folder / "runs.jsonl", [chat("one", ["look"], task="a", wish="see T-17")])
    assert run(folder, "ingest", "runs.jsonl").code == 0
    stored = run(folder, "export").out
    assert "T-17" not in stored
    assert "[redacted:ticket]" in stored


def test_an_import_is_not_redacted_again(folder: Path) -> None:
    write(folder / "runs.jsonl", [chat("one", ["look"], task="a", wish="see T-17")])
    run(folder, "ingest", "runs.jsonl")
    run(folder, "export", "out.jsonl")
    configure(folder, "store = 'other.hepm'\n[redaction.rules]\nticket = 'T-[0-9]+'\n")
    assert run(folder, "import", "out.jsonl").code == 0
    assert "see T-17" in run(folder, "export").out


def test_secrets_are_kept_where_the_file_says_so(folder: Path) -> None:
    secret = "password: hunter22-of-mine"
    write(folder / "runs.jsonl", [chat("one", ["look"], task="a", wish=secret)])
    configure(folder, "store = 'plain.hepm'\n[redaction]\nkeep_secrets = true\n")
    run(folder, "ingest", "runs.jsonl")
    assert secret in run(folder, "export").out


def test_an_option_that_is_a_setting_alone_is_refused_with_its_key(folder: Path) -> None:
    answer = run(folder, "serve", "--speak", "weighed")
    assert (answer.code, "it is the setting serve.speak of hepm.toml." in answer.err) == (2, True)


def test_a_server_goes_by_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "port = 0\nidle_s = 60\nsessions = 'under-way'\nspeak = 'weighed'\n[redaction.rules]\nticket = 'T-[0-9]+'\n"
    configure(folder, f"store = 'served.hepm'\noutcome_by = []\n[serve]\n{lines}")
    began: list[Server] = []

    def serve(server: Server, port: object, say: Callable[[str], object]) -> None:
        began.append(server)
        assert server.memory.speak == "weighed"
        with server.memory.session(task="solve T-17") as session:
            session.record("look", {}, "see T-17")
            assert [file for file in (folder / "under-way").rglob("*") if file.is_file()]
        say("http://127.0.0.1:1")

    monkeypatch.setattr("hepm.web.server.serve", serve)
    answer = run(folder, "serve", "--upstream", "https://ann:s3cret@models.example/v1")
    assert answer.err == (
        "hepm serves served.hepm (upstream https://models.example/v1, by hepm.toml) at http://127.0.0.1:1\n"
    )
    [server] = began
    ingest = server.runs.ingest_options()
    assert ingest.redactor is not None
    [turn] = ingest.redactor(Trajectory("a", (Turn("user", "see T-17"),))).turns
    assert "T-17" not in turn.text
    assert (server.options.port, server.runs.idle_s, ingest.outcome_by) == (0, 60.0, ())


def test_no_store_is_made_where_the_port_of_a_server_is_in_use(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = run(folder, "serve", "--port", str(taken.getsockname()[1]), "--store", "new.hepm")
    assert "give another --port" in one_sentence(answer)
    assert not (folder / "new.hepm").exists()


def test_every_setting_has_a_meaning_and_a_default_within_what_is_allowed() -> None:
    for table in (ConfigFile, *TABLES.values()):
        for name, setting in settings_of(table).items():
            assert re.fullmatch(r"[A-Z].*\.", setting.help), name


def test_init_connects_to_the_port_of_the_file(folder: Path) -> None:
    configure(folder, 'namespace = "desk"\n[serve]\nport = 9100\n')
    assert "http://127.0.0.1:9100/desk" in run(folder, "init", "claude-code").out


def test_an_option_that_a_key_sets_has_the_default_the_range_and_the_help_of_that_key():
    options = {one.name: one for one in find_command("serve").params}
    port, holdout = options["port"], options["holdout"]
    assert isinstance(port.type, click.IntRange)
    assert isinstance(holdout.type, click.FloatRange)
    assert (port.default, port.type.min, port.type.max, port.help) == (8765, 0, 65_535, "Port; 0 for any free one.")
    assert (holdout.default, holdout.type.min, holdout.type.max) == (0.0, 0, 1)
