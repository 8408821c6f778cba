"""What many rooms' tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.neo4j_server import neo4j_server  # noqa: F401

ROOT = Path(__file__).parent.parent

# A machine that is busy with something else is no failure: examples have no time limit of their own.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("unhurried")


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
