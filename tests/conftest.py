"""What many rooms' tests need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

from hepm import Memory
from tests.browser.chromium import chromium  # noqa: F401
from tests.loopback import loopback  # noqa: F401
from tests.neo4j_server import ON_SERVER, neo4j_server, servers_end_with_us  # noqa: F401

ROOT = Path(__file__).parent.parent
MADE_ONCE = {"chromium", "office", "recorded_desks", "explored", "benched", "replayed"}
"""Fixtures that take seconds: the tests of each run in one process."""

# There is a process for each core, and servers: threads of numpy and torch beside them would wait for each other.
for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(library, "1")

# A machine that is busy with something else is no failure: examples have no time limit of their own.
for name, examples in (("share", 25), ("exhaustive", 100)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("share" if config.option.markexpr else "exhaustive")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "neo4j_server" in fixtures:
            item.add_marker(ON_SERVER)
        for name in MADE_ONCE.intersection(fixtures):
            item.add_marker(pytest.mark.xdist_group(name))
        if item.get_closest_marker("above_stores") and ON_SERVER.mark in item.own_markers:
            item.add_marker(pytest.mark.exhaustive)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Long tests go first, so that no process is left alone with one at the end; those that end a server go last."""
    if item.get_closest_marker("restarts") is not None:
        return 2
    return 0 if item.get_closest_marker("notebook") is not None else 1


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands read no `hepm.toml` but those of tests."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """An empty one; many modules have one of their own."""
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as opened:
        yield opened


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one of the certificates that clients trust."""
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----\n")
    file = tmp_path_factory.mktemp("certificate") / "one.pem"
    file.write_text(first + end, "utf-8")
    return file


@pytest.fixture
def one_certificate(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of plain HTTP: a client loads all certificates of the machine, which takes longer than many tests."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@pytest.fixture(scope="session")
def recorded_runs() -> Path:
    """The folder of recorded runs, from HEPM_RECORDED_RUNS or beside the checkout.

    Without it these tests are skipped, and fail where CI=true, so that nobody thinks they ran.
    """
    folder = Path(os.environ.get("HEPM_RECORDED_RUNS") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        reason = f"no recorded runs in {folder}: set HEPM_RECORDED_RUNS to their folder"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
