"""Reflects on sessions of one user, to run beside others that do: reflecting.py STORE WORD..."""

from __future__ import annotations

import sys
from pathlib import Path

from hepm.experience.preferences import Preferences
from tests.experience.shelves import NS, open_bank


def main(store: str, words: list[str]) -> None:
    bank = open_bank(Path(store))
    print("ready", flush=True)
    sys.stdin.readline()
    for word in words:
        Preferences(bank).reflect("ann", [{"role": "user", "content": f"Always mention {word} first."}], namespace=NS)
    bank.store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
