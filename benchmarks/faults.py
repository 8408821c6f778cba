"""Is anything lost when processes are killed while they write? 200 kills, one JSON line; minutes, not seconds.

python benchmarks/faults.py [--kills 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.killing import KINDS, Killer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    kinds: dict[str, object] = {}
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(KINDS):
            share = options.kills // len(KINDS) + (number < options.kills % len(KINDS))
            tally = Killer(kind, Path(folder), seed=options.seed).kill(share)
            kinds[kind] = {
                "kills": tally.kills,
                "after_an_acknowledgement": tally.in_the_middle,
                "faults": tally.faults,
            }
            lost += len(tally.faults)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(
        json.dumps(
            {
                "claim": "no kill loses or doubles what was acknowledged",
                "kills": options.kills,
                "faults": lost,
                "kinds": kinds,
                "seed": options.seed,
                "wall_s": round(time.monotonic() - began),
                "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
                "versions": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
                "commit": commit.stdout.strip(),
            }
        )
    )
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
