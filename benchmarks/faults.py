"""Is anything lost when processes are killed while they write? 200 kills, one JSON line; minutes, not seconds.

python benchmarks/faults.py [--kills 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from parts.measured import about

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.killing import JOBS, Killer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    kinds: dict[str, object] = {}
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(JOBS):
            share = options.kills // len(JOBS) + (number < options.kills % len(JOBS))
            tally = Killer(kind, Path(folder), seed=options.seed).kill(share)
            kinds[kind] = {
                "kills": tally.kills,
                "after_an_acknowledgement": tally.in_the_middle,
                "faults": tally.faults,
            }
            lost += len(tally.faults)
    asked = {"kills": options.kills, "seed": options.seed, "sqlite": sqlite3.sqlite_version}
    found = {"faults": lost, "kinds": kinds, "wall_s": round(time.monotonic() - began)}
    print(json.dumps(about("no kill loses or doubles what was acknowledged") | asked | found))
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
