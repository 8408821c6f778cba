"""The samples of `secrets.txt`, and the places in a run where a secret may stand."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hepm import Trajectory, Turn
from hepm.types import ToolCall

FOLDER: Final = Path(__file__).parent

_ALPHABETS: Final = {
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "low": string.ascii_lowercase + string.digits,
    "up": "ABCDEFGHJKLMNPQRSTUVWXYZ23456789",
    "b32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "alnum": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "digits": string.digits,
}
_WORDS: Final = (
    "copper",
    "drift",
    "ember",
    "falcon",
    "glacier",
    "harbor",
    "lunar",
    "mango",
    "orbit",
    "violin",
    "zebra",
)
_PLAIN_PASSWORDS: Final = ("swordfish", "sunshine", "Dragonfly", "monkeybar", "buttercup", "Blueberry")
_BASE64_OF: Final = {
    "base64ofpem": f"-----BEGIN RSA {'PRIVATE'} KEY-----\nMIIEowIBAAKCAQEA{{}}\n",
    "base64oftoken": f"gh{'p'}_{{}}",
    "base64ofsettings": "DB_HOST=db\nDB_PASSWORD={}\n",
    "base64ofurl": "https://ann:{}@db.example.com/x",
    "base64ofjson": '{{"user": "ann", "token": "{}"}}',
}


class Sample(NamedTuple):
    """A text that holds secrets.

    Attributes:
        heading: Of the part of `secrets.txt` that it stands in.
        parts: What stays, a secret, what stays, …
    """

    heading: str
    parts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def secrets(self) -> list[str]:
        return self.parts[1::2]


def lines(name: str) -> Iterator[tuple[str, str]]:
    """The lines of a file beside this one, each with the heading above it."""
    heading = ""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line and not line.startswith("#"):
            yield heading, line.replace("¦", "").replace("⏎", "\n")


def samples(seed: int = 0) -> list[Sample]:
    """Those of `secrets.txt`, their placeholders such as {hex:32} filled by chance."""
    found: list[Sample] = []
    for heading, line in lines("secrets.txt"):
        draw = random.Random(f"{seed} {line}")
        text = re.sub(r"\{([a-zA-Z]\w*):(\d+)\}", lambda match, draw=draw: _drawn(match[1], int(match[2]), draw), line)
        found.append(Sample(heading, re.split("«(.*?)»", text, flags=re.DOTALL)))
    return found


def _drawn(kind: str, length: int, draw: random.Random) -> str:
    if kind in _ALPHABETS:
        return "".join(draw.choices(_ALPHABETS[kind], k=length))
    if kind in _BASE64_OF:
        inner = _BASE64_OF[kind].format(_drawn("alnum", length, draw))
        return base64.b64encode(inner.encode()).decode()
    word = draw.choice(_WORDS).title()
    made = {
        "word": draw.choice(_PLAIN_PASSWORDS),
        "words": " ".join(draw.choices(_WORDS, k=length)),
        "password": f"{word[: length - 4]}{draw.choice('!#$*%@')}{draw.randint(10, 99)}{draw.choice('kqx')}",
        "uuid": "-".join(_drawn("hex", size, draw) for size in (8, 4, 4, 4, 12)),
        "escaped": "".join(f"\\u{ord(letter):04x}" for letter in _drawn("alnum", length, draw)),
    }
    return made[kind]


def _with_call(arguments: dict[str, str], result: str | None) -> Trajectory:
    return Trajectory("run", (Turn("assistant", "", (ToolCall("Bash", arguments, result),)),))


def _command(text: str) -> str:
    if "\n" in text:
        return f"cat > notes.txt <<'EOF'\n{text}\nEOF"
    return text


PLACES: Final[dict[str, Callable[[str], Trajectory]]] = {
    "argument": lambda text: _with_call({"q": text}, None),
    "result": lambda text: _with_call({}, text),
    "JSON in a result": lambda text: _with_call({}, json.dumps({"output": text, "ok": True})),
    "user": lambda text: Trajectory("run", (Turn("user", f"here it is: {text}\nThank you"),)),
    "agent": lambda text: Trajectory("run", (Turn("assistant", f"I found this:\n\n{text}\n\nShall I go on?"),)),
    "command": lambda text: _with_call({"command": _command(text)}, None),
}
"""Runs that hold a text, by the place where they hold it."""


def left_of(secrets: list[str], run: Trajectory) -> list[str]:
    """The lines of secrets that stand in a run, as they are or as JSON spells them."""
    texts: list[str] = []
    for turn in run.turns:
        texts.append(turn.text)
        for call in turn.calls:
            texts += (call.result or "", *map(str, call.arguments.values()))
    whole = "\n".join(texts)
    pieces = [piece for secret in secrets for piece in secret.split("\n") if len(piece) > 2]
    return [piece for piece in pieces if piece in whole or json.dumps(piece)[1:-1] in whole]
