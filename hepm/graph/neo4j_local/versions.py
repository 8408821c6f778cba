"""The lines of Neo4j Community that hepm can run, each pinned to one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hepm.errors import InputError

BROWSER: Final = "org.neo4j.client:neo4j-browser:5.24.0"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of Neo4j Community.

    Attributes:
        name: What users call it, and what its lock file is called.
        release: The pinned release.
        main: Class that starts the server.
        javas: Major versions of Java that it runs on.
        settings: Lines of neo4j.conf that this line alone needs.
    """

    name: str
    release: str
    main: str
    javas: tuple[int, ...]
    settings: tuple[str, ...]

    @property
    def roots(self) -> tuple[str, ...]:
        """Maven coordinates that all its jars follow from."""
        return (f"org.neo4j:neo4j:{self.release}", f"org.neo4j.app:neo4j-server:{self.release}", BROWSER)


# Without the quiet period a stop takes 0.4 s, with the default one 10 s: nobody else is on this loopback server.
LINES: Final = {
    line.name: line
    for line in (
        Line(
            name="5.26",
            release="5.26.30",
            main="org.neo4j.server.CommunityEntryPoint",
            javas=(17, 21),
            settings=("internal.dbms.bolt.netty_server_shutdown_quiet_period=0",),
        ),
        Line(
            name="2026.08",
            release="2026.08.1",
            main="org.neo4j.server.Neo4jCommunity",
            javas=(21, 25),
            settings=(
                "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration=0s",
                # It neither looks for other servers in the network nor offers itself to a console elsewhere.
                "server.fleet_discovery.enabled=false",
                "dbms.fleet_manager.enabled=false",
                "server.http.x_forward.enabled=false",
            ),
        ),
    )
}
DEFAULT: Final = "5.26"


def line_of(version: str) -> Line:
    """The line of a name or a release.

    Raises:
        InputError: hepm has no such line.
    """
    for line in LINES.values():
        if version in (line.name, line.release):
            return line
    known = ", ".join(f"{line.name} (which is {line.release})" for line in LINES.values())
    raise InputError(f"hepm has no Neo4j {version!r}. It runs: {known}.")
