"""The server's door: wait until it opens, and see that the password fits."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from hepm.errors import LocalServerError, MissingExtraError
from hepm.graph.neo4j_local.ports import HOST

if TYPE_CHECKING:
    from neo4j import Driver

USER: Final = "neo4j"
_FIRST_PASSWORD: Final = "neo4j"


def await_login(
    port: int, password: str, *, alive: Callable[[], bool], listens: Callable[[], bool], timeout_s: float
) -> bool:
    """Wait until the server answers a query of its user; a server with the first password of all gets ours.

    Args:
        alive: Whether its process is there.
        listens: Whether it is that process that listens.
    Returns:
        False where the server ended meanwhile, or did not answer in time.
    Raises:
        LocalServerError: the server refuses the password.
    """
    require_driver()
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and alive():
        if listens() and _logs_in(port, password):
            return True
        time.sleep(0.1)
    return False


def require_driver() -> None:
    """Say how to get the driver where it is missing."""
    if find_spec("neo4j") is None:
        raise MissingExtraError("starting Neo4j needs its driver: pip install 'hepm[neo4j-local]'")


def _logs_in(port: int, password: str) -> bool:
    from neo4j.exceptions import AuthError, DriverError, Neo4jError

    try:
        with _driver(port, password) as driver, driver.session(database="neo4j") as session:
            session.run("RETURN 1").consume()
        return True
    except AuthError as error:
        _replace_first_password(port, password, error)
        return False
    except (DriverError, Neo4jError):  # not up yet: a database that starts, a connection that is cut
        return False


def _replace_first_password(port: int, password: str, refused: Exception) -> None:
    from neo4j.exceptions import AuthError

    try:
        with _driver(port, _FIRST_PASSWORD) as driver, driver.session(database="system") as session:
            session.run(
                "ALTER CURRENT USER SET PASSWORD FROM $old TO $new", old=_FIRST_PASSWORD, new=password
            ).consume()
    except AuthError:
        raise LocalServerError(
            "the server refuses the password that lies in its folder: was it changed elsewhere? Write the right one"
            " into the file that `hepm neo4j status` names, and start again"
        ) from refused


def _driver(port: int, password: str) -> Driver:
    from neo4j import GraphDatabase

    logging.getLogger("neo4j").addHandler(logging.NullHandler())
    return GraphDatabase.driver(
        f"bolt://{HOST}:{port}",
        auth=(USER, password),
        connection_timeout=5,
        max_transaction_retry_time=0,
        telemetry_disabled=True,
    )
