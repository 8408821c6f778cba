"""What is wrong in the header of a store, and one without faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hepm.types import SUCCESS_FROM

_LEAST: Final = {"dimensions": 0, "revision": 0, "states_per_move": 1, "lessons_removed": 0}
_NEEDED: Final = ("embedder", "counting", "dimensions", "revision", "states_per_move")  # in stores of every version


def header_faults(meta: Mapping[str, object]) -> list[str]:
    """What is wrong in the header, as sentences; missing keys included."""
    faults: list[str] = []
    for key in _NEEDED:
        if key not in meta:
            faults.append(f"its {key} is missing")
    for key, value in meta.items():
        if key in _LEAST and not _is_count(value, _LEAST[key]):
            faults.append(f"its {key} is {value!r}, not a number from {_LEAST[key]}")
        elif key == "counting" and value not in ("all", "shortest"):
            faults.append(f"its {key} is {value!r}, not 'all' or 'shortest'")
        elif key == "embedder" and not isinstance(value, str):
            faults.append(f"its {key} is {value!r}, not a name")
        elif key == "success_from" and not _is_threshold(value):
            faults.append(f"its {key} is {value!r}, not a reward above 0 and at most 1")
    if not faults and (meta["embedder"] == "") != (int(str(meta["dimensions"])) == 0):
        faults.append(f"its embedder is {meta['embedder']!r}, with vectors of {meta['dimensions']} numbers")
    return faults


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and int(value) >= least


def _is_threshold(value: object) -> bool:
    try:
        return isinstance(value, str) and 0 < float(value) <= 1
    except ValueError:
        return False


def mended_header(meta: Mapping[str, object], *, dimensions: int, revision: int) -> dict[str, str]:
    """A header without faults. Without a name or a size, vectors are of no embedder.

    Args:
        dimensions: Of the stored vectors; 0 for none.
        revision: The last one that the journal knows.
    """
    mended = {"revision": str(revision), "states_per_move": "256", "lessons_removed": "1"}
    for key in mended:
        if _is_count(meta.get(key), _LEAST[key]):
            mended[key] = str(meta[key])
    if "success_from" in meta:  # without one, the runs are read anew on opening
        held = meta["success_from"]
        mended["success_from"] = str(held) if _is_threshold(held) else str(SUCCESS_FROM)
    mended["counting"] = "shortest" if meta.get("counting") == "shortest" else "all"
    mended["embedder"] = ""
    mended["dimensions"] = "0"
    name = meta.get("embedder")
    if isinstance(name, str) and name and dimensions:
        mended["embedder"] = name
        mended["dimensions"] = str(dimensions)
    return mended
