"""Ports on the loopback address."""

from __future__ import annotations

import os
import socket

from hepm.errors import LocalServerError

HOST = "127.0.0.1"


def choose_port(
    option: str, *, wanted: int | None, remembered: int | None, usual: int, taken: int | None = None
) -> int:
    """A free port: the wanted one, else the one of last time, else the usual one or the next above it, else any.

    Args:
        option: How the command line calls the wanted one.
        taken: A port that is given away already.
    Raises:
        LocalServerError: the wanted one is in use.
    """
    if wanted is not None:
        if wanted == taken or not is_free(wanted):
            raise LocalServerError(
                f"port {wanted} of {HOST} is in use: choose another with {option}, or leave it out for a free one"
            )
        return wanted
    for port in (remembered, *range(usual, usual + 100)):
        if port is not None and port != taken and is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def is_free(port: int) -> bool:
    """Whether a server can listen on this port."""
    if answers(port):  # some systems let two listen
        return False
    with socket.socket() as probe:
        if os.name == "posix":  # as the server does; elsewhere the flag means the opposite
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether anything listens on this port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
