"""How to reach a database of a Neo4j server: its address, and who asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hepm.errors import InputError


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach one database. No representation and no error shows the password."""

    uri: str
    username: str = "neo4j"
    password: str = field(default="", repr=False)
    database: str = "neo4j"

    @classmethod
    def from_environment(cls, address: str, *, auth: tuple[str, str] | None = None) -> Login:
        """From an address such as neo4j://host:7687 or neo4j://host/database, `auth`, and NEO4J_* variables.

        Raises:
            InputError: the address is broken, names no host, or holds a password.
        """
        try:
            parts = urlsplit(address)
            _ = parts.port  # parsed here, like the host: a port that is no number is noticed when it is read
        except ValueError as error:  # the address is left out of the text: it may hold a password
            raise InputError(
                f"the address of the server is broken ({error}): write it like neo4j://localhost:7687 or "
                "neo4j://[::1]:7687."
            ) from None
        if parts.username is not None or parts.password is not None:
            raise InputError(
                f"the address of {parts.hostname} holds a user or a password, and addresses end up in logs: "
                "set NEO4J_USERNAME and NEO4J_PASSWORD instead."
            )
        if not parts.hostname:
            raise InputError(f"{address!r} names no server: write it like neo4j://localhost:7687.")
        uri = f"{parts.scheme}://{parts.netloc}"
        if parts.query:  # routing settings of a cluster
            uri += f"?{parts.query}"
        username, password = auth or (os.environ.get("NEO4J_USERNAME"), os.environ.get("NEO4J_PASSWORD"))
        database = parts.path.strip("/") or os.environ.get("NEO4J_DATABASE")
        return cls(uri, username or "neo4j", password or "", database or "neo4j")
