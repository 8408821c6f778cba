"""How `hepm serve` and `hepm mcp` behave: the table `[serve]` of `hepm.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hepm.settings import setting
from hepm.types import Speak


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The settings of a server."""

    host: str = setting("127.0.0.1", "Address to listen on; others than this machine need a token.")
    port: int = setting(8765, "Port; 0 for any free one.", least=0, most=65_535)
    upstream: str = setting("https://api.openai.com/v1", "The endpoint behind the proxy, with its /v1.")
    tokens: Path | None = setting(
        None, 'JSON file of tokens: {"TOKEN": {"name": "ann", "namespaces": ["desk"], "write": true}}.', kind=Path
    )
    distrust: tuple[str, ...] = setting(
        (), "Names of tokens whose runs are stored, while nothing is learned from them."
    )
    placement: Any = setting(
        "auto",
        "Where a hint goes: behind the results, in the last message, in the system's, or in its own.",
        one_of=("auto", "behind", "tail", "system", "message"),
    )
    speak: Speak | None = setting(
        None,
        "What hints name, as in `hepm suggest`; it turns the guard off.",
        kind=str,
        one_of=("sure", "weighed", "all"),
    )
    guard: bool = setting(True, "Silence hints that harm, as the outcomes of sessions show.")
    holdout: float = setting(0.0, "Share of sessions, drawn by chance, that get nothing from memory.", least=0, most=1)
    deny: bool = setting(
        False, "Deny calls that failed in nearly all like runs, where another tool worked; once a place."
    )
    shortlist: int = setting(
        0,
        "Shorten lists of tools in requests without streaming: how many tools their words choose; 0 for all.",
        least=0,
    )
    idle_s: float = setting(1_800.0, "Seconds after which a resting run is stored.", least=1)
    hint_timeout_s: float = setting(1.0, "Seconds that a request waits for a hint.", least=0.001)
    sessions: Path | None = setting(
        None,
        "Folder for runs under way; beside the file, or hepm-sessions for a server, if it is not given.",
        kind=Path,
    )
    max_body_bytes: int = setting(64 << 20, "Size limit of a request.", least=1)
