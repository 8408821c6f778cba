"""Golden files: small sources in each format's layout, and the runs and rejections that reading them gives.

    python -m tests.ingest.golden [NAME]...  # writes each expected.json anew; look at what changed before a commit

golden/NAME/source holds the files, made up for these tests, golden/NAME/expected.json what is read from them. A file's
name says what it shows. A new format needs a folder here and no test of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hepm.ingest.formats.hepm import write_run
from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions, Rejection, Remark

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir())


def source(case: str, *parts: str) -> Path:
    """The folder that a case reads, or a file in it."""
    return GOLDEN.joinpath(case, "source", *parts)


def values(case: str, *parts: str) -> Any:
    """The JSON of a file; a list where the file has a value a line."""
    found = lines_of(source(case, *parts))
    return found if parts[-1].endswith(".jsonl") or len(found) > 1 else found[0]


def lines_of(path: Path) -> list[Any]:
    """The values of a file in which each line is one, or all lines together are."""
    text = path.read_text("utf-8")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def reading(case: str) -> list[dict[str, Any]]:
    """What is read from a case, in order: each run as hepm writes it, with its reader; each rejection."""
    folder = source(case)
    place = os.path.join(folder, "")
    found: list[dict[str, Any]] = []
    for reader, item in read_runs([folder], ReadOptions()):
        if isinstance(item, Remark):
            found.append({"remark": item.file.removeprefix(place), "record": item.record, "kinds": item.kinds})
        elif isinstance(item, Rejection):
            reason = item.reason.replace(place, "")
            found.append({"rejected": item.file.removeprefix(place), "record": item.record, "reason": reason})
        else:
            run = json.loads(write_run(item))
            for turn in run["turns"]:
                turn.pop("mark", None)  # times and hashes, by which parts of a run are joined: nobody could check them
            found.append({"reader": reader, **run, "source": item.source.removeprefix(place)})
    return found


def expected(case: str) -> list[dict[str, Any]]:
    """What should be read."""
    return json.loads((GOLDEN / case / "expected.json").read_text("utf-8"))


def _written(items: list[dict[str, Any]]) -> str:
    """JSON in which each turn has a line of its own."""
    return "[\n" + ",\n".join(map(_written_item, items)) + "\n]\n"


def _written_item(item: dict[str, Any]) -> str:
    if not item.get("turns"):
        return json.dumps(item, ensure_ascii=False)
    about = json.dumps({key: value for key, value in item.items() if key != "turns"}, ensure_ascii=False)
    lines = ",\n".join("  " + json.dumps(turn, ensure_ascii=False) for turn in item["turns"])
    return f'{about[:-1]}, "turns": [\n{lines}\n]}}'


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        (GOLDEN / name / "expected.json").write_text(_written(reading(name)), "utf-8")
