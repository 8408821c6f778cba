"""Jars are fetched once, checked each time, and never used when they differ."""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from hepm.graph.neo4j_local.installation import VERSION, Jar, locked_jars, provide_jars, sha256_of
from tests.faults.command import HEPM, hepm, one_sentence, quick
from tests.faults.places import can_mount, small_disk, unwritable
from tests.neo4j_local.conftest import FULL_CACHE, Serve, damage

# jgo leaves its connections to the garbage collector, which has to find them here: in another test it would warn.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _no_connection_stays() -> Iterator[None]:
    yield
    gc.collect()


def test_a_lock_file_names_coordinates_and_digests_and_nothing_else():
    jars = locked_jars()
    assert "://" not in files("hepm.graph.neo4j_local").joinpath("jars.lock.txt").read_text("utf-8")
    assert not any("/" in jar.coordinate for jar in jars)
    server = {f"org.neo4j:neo4j:{VERSION}", f"org.neo4j.app:neo4j-server:{VERSION}"}
    assert server < {jar.coordinate for jar in jars}
    assert all(len(jar.sha256) == 64 for jar in jars)


def test_a_full_cache_needs_no_network(jars: list[Jar], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert [sha256_of(file) for file in provide_jars()] == [jar.sha256 for jar in jars]


def test_a_damaged_jar_is_fetched_again(copied: Path, jars: list[Jar], mirror: Serve):
    mirror(FULL_CACHE / "jars")
    damage(copied / jars[7].path)
    provide_jars()
    assert sha256_of(copied / jars[7].path) == jars[7].sha256


def test_without_a_network_a_damaged_jar_is_refused_with_a_sentence(copied: Path, jars: list[Jar], tmp_path: Path):
    damage(copied / jars[7].path)
    start = ("neo4j", "start", "--folder", tmp_path / "server")
    answer = quick(*start, env={"HTTPS_PROXY": "http://127.0.0.1:9"})
    assert answer.code == 1
    assert jars[7].coordinate in answer.err
    assert "needs the network" in answer.err
    assert not (tmp_path / "server" / "data").exists()


def test_a_mirror_that_serves_another_file_under_a_jars_name_is_refused(
    copied: Path, jars: list[Jar], mirror: Serve, tmp_path: Path
):
    shutil.copytree(copied / jars[7].path.parent, tmp_path / "false" / jars[7].path.parent.relative_to("jars"))
    damage(tmp_path / "false" / jars[7].path.relative_to("jars"))
    mirror(tmp_path / "false")
    start = ("neo4j", "start", "--folder", tmp_path / "server")
    (copied / jars[7].path).unlink()
    answer = quick(*start)
    assert f"{jars[7].coordinate} is not the jar that hepm's lock file names" in one_sentence(answer)
    assert not (copied / jars[7].path).exists()
    shutil.rmtree(tmp_path / "false")
    assert "(no repository has it)" in one_sentence(quick(*start))


def test_a_fetch_that_was_killed_goes_on_where_it_stopped(copied: Path, jars: list[Jar], mirror: Serve, tmp_path: Path):
    left = mirror(FULL_CACHE / "jars", most=40)
    for jar in jars:
        (copied / jar.path).unlink()
    arguments = ["neo4j", "start", "--folder", str(tmp_path / "server")]
    with subprocess.Popen([HEPM, *arguments], stderr=subprocess.DEVNULL) as first:
        while sum((copied / jar.path).exists() for jar in jars) < 20:
            assert first.poll() is None
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
    left.release(1000)
    there = {jar.path for jar in jars if (copied / jar.path).exists()}
    assert 20 <= len(there) < len(jars)
    assert all(sha256_of(copied / jar.path) == jar.sha256 for jar in jars if jar.path in there)
    said: list[str] = []
    provide_jars(say=said.append)
    assert said == [f"fetching {len(jars) - len(there)} of the {len(jars)} jars of Neo4j {VERSION} into {copied}"]
    assert all(sha256_of(copied / jar.path) == jar.sha256 for jar in jars)
    assert not (copied / "staging").exists()


def test_two_processes_on_one_cache_fetch_each_jar_once(copied: Path, jars: list[Jar], mirror: Serve):
    mirror(FULL_CACHE / "jars")
    for jar in jars[:60]:
        (copied / jar.path).unlink()
    module = "hepm.graph.neo4j_local.installation"
    command = [sys.executable, "-c", f"from {module} import *; provide_jars()"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("fetching 60 of" in text for text in told) == 1
    assert all(sha256_of(copied / jar.path) == jar.sha256 for jar in jars)


@pytest.mark.skipif(not can_mount(), reason="this user may mount nothing, so there is no small disk")
def test_a_cache_on_a_full_disk_and_one_that_cannot_be_written_say_so(tmp_path: Path):
    start = ("neo4j", "start", "--folder", tmp_path / "server")
    disk = tmp_path / "disk"
    disk.mkdir()
    there = {"HEPM_NEO4J_CACHE": str(disk)}
    with small_disk(disk, 20_000) as under:
        answer = hepm(*start, under=under, env=there)
        assert "No space left on device" in one_sentence(answer)
    with unwritable(disk) as under:
        answer = hepm(*start, under=under, env=there)
        assert f"the cache {disk} cannot be written" in one_sentence(answer)
