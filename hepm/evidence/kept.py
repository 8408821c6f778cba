"""The evidence of a large memory in a file beside it: a new process reads it, and need not learn it again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import count
from math import prod
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hepm.evidence.chance import Chance
from hepm.evidence.decisions import CallPlace, FactName, FloatArray
from hepm.evidence.engine import Learned, ToolCodes, stems_of
from hepm.evidence.facts import FactTest, Questions
from hepm.evidence.nearest import KnownRun, Requests
from hepm.evidence.place import Nodes, PlaceEvidence
from hepm.evidence.rules import RunsOf, ToolRule

_log = logging.getLogger("hepm")

FORMAT: Final = 20
"""Raised when the file, or what a number in it means, changes: older ones are learned again."""

_NODES: Final = ("forest.test_M", "forest.after_M2", "small.test_M", "small.after_M2")
_ROWS: Final = ("leaf_NT", "small_N", "unseen_NT", "called_NK", "value_N", "cleared_N", "run_N", "last_N4", "asked_N")
_ENDS: Final = ("end_leaf_E", "end_won_E", "end_run_E")
_arrays: Final = attrgetter(*_NODES, *_ROWS, *_ENDS)
"""The arrays that are kept of a place, in the order of `PlaceEvidence`, after its tests."""


class KeptEvidence(NamedTuple):
    """What a file holds.

    Attributes:
        about: `revision` of the store, `newest` (row number of the newest run) and `newest_id`.
        value_D2: Of each decision of its runs, in order, its value and what it missed.
    """

    about: Mapping[str, Any]
    evidence: Learned
    value_D2: FloatArray


def kept_file(folder: Path, namespace: str) -> Path:
    """The file of a namespace, whose name may hold characters that no file name may."""
    digest = hashlib.blake2b(namespace.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return folder / f"{digest}.npz"


def drop_kept(file: Path) -> None:
    """Remove a file, if it is there."""
    for kept in (file, _rules_beside(file)):
        with contextlib.suppress(OSError):
            kept.unlink(missing_ok=True)


def drop_former(file: Path) -> None:
    """Remove what former versions kept in a folder of this name: vectors and calls that may be forgotten since."""
    shutil.rmtree(file.with_suffix(""), ignore_errors=True)


def keep(file: Path, kept: KeptEvidence) -> None:
    """Write a file atomically; a full disk keeps none."""
    evidence = kept.evidence
    places: list[list[object]] = []
    for place, known in evidence.places.items():
        places.append([*place, known.seen, known.tools, known.questions.tests, sorted(known.questions.others)])
    # One array of all places each: thousands of small ones would take a new process half a second to read.
    columns = list(zip(*map(_arrays, evidence.places.values()), strict=True))
    arrays = {f"places_{number}": np.concatenate(column, axis=None) for number, column in enumerate(columns)}
    requests = evidence.requests
    texts = {
        "format": FORMAT,
        "about": kept.about,
        "places": places,
        "shapes": [[array.shape for array in column] for column in columns],
        "runs": [run._replace(words=sorted(run.words), numbers=sorted(run.numbers)) for run in requests.runs],
        "families": list(requests.families),
        "tools": list(evidence.numbers),
        "base": evidence.base,
        "ceiling": evidence.ceiling,
        "support": evidence.support,
        "failures": evidence.failures,
        "chance": astuple(evidence.chance),
        "whole": evidence.whole,
    }
    arrays["texts"] = np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)
    arrays |= {"family_R": requests.family_R, "won_R": requests.won_R, "called_3P": evidence.called_3P}
    arrays["value_D2"] = kept.value_D2
    _write(file, lambda stream: np.savez(stream, allow_pickle=False, **arrays))


def _write(file: Path, write: Callable[[BinaryIO], object]) -> None:
    part = file.with_name(f".{file.name}-{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
            write(stream)
        part.replace(file)
    except OSError as error:
        _log.info("what was learned is not kept beside the memory: %s", error)
        part.unlink(missing_ok=True)


def _rules_beside(file: Path) -> Path:
    return file.with_suffix(".rules.json")


def keep_rules(file: Path, revision: int, rules: Iterable[ToolRule]) -> None:
    """Write rules beside the file of what was learned."""
    texts = json.dumps({"format": FORMAT, "revision": revision, "rules": list(rules)})
    _write(_rules_beside(file), lambda stream: stream.write(texts.encode()))


def read_kept_rules(file: Path) -> tuple[int, list[ToolRule]] | None:
    """The rules beside a file, and the revision of the store whose runs they are of.

    None if there are none, or they are damaged or of another version.
    """
    try:
        texts: Mapping[str, Any] = json.loads(_rules_beside(file).read_bytes())
        if texts["format"] != FORMAT:
            return None
        return texts["revision"], list(map(_rule, texts["rules"]))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        _log.warning("the rules that were kept beside the memory are damaged, and are counted again: %r", error)
        return None


def _test(kept: Sequence[Any]) -> FactTest:
    source, fact, above, others, than, weights = kept
    return FactTest(
        source, fact, above, tuple(others), than and FactName(*than), tuple((word, weight) for word, weight in weights)
    )


def _rule(kept: Sequence[Any]) -> ToolRule:
    place, conditions, better, worse, runs, family, part = kept
    tests = tuple((_test(test), true) for test, true in conditions)
    by_tool = {tool: RunsOf(*map(tuple, of_tool)) for tool, of_tool in runs.items()}
    return ToolRule(CallPlace(*place), tests, better, tuple(worse), by_tool, family, part)


def read_kept(file: Path) -> KeptEvidence | None:
    """What a file holds; None if there is none, or it is damaged or of another version."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            texts: Mapping[str, Any] = json.loads(arrays["texts"].tobytes())
            if texts["format"] != FORMAT:
                return None
            return KeptEvidence(texts["about"], _evidence(texts, arrays), arrays["value_D2"])
    except FileNotFoundError:
        return None
    except (OSError, EOFError, KeyError, TypeError, ValueError, IndexError, zipfile.BadZipFile) as error:
        _log.warning("what was learned and kept in %s is damaged, and is learned again: %r", file.name, error)
        drop_kept(file)
        return None


def _of_places(joined: NDArray[Any], shapes: Sequence[Sequence[int]]) -> list[NDArray[Any]]:
    """The arrays of the places, of which one was made."""
    ends = np.cumsum([prod(shape) for shape in shapes])
    pieces = np.split(joined, ends[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _evidence(texts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Learned:
    places: dict[CallPlace, PlaceEvidence] = {}
    columns = [_of_places(arrays[f"places_{number}"], shapes) for number, shapes in enumerate(texts["shapes"])]
    for about, of_place in zip(texts["places"], zip(*columns, strict=True), strict=True):
        tool, failed, seen, tools, tests, other_results = about
        asked = Questions(list(map(_test, tests)), other_results)
        forest, small = Nodes(*of_place[:2]), Nodes(*of_place[2:4])
        leaf_NT, *rows = of_place[4:]
        leaf_NT = np.asfortranarray(leaf_NT)  # as in `grow`
        places[CallPlace(tool, failed)] = PlaceEvidence(seen, tuple(tools), asked, forest, small, leaf_NT, *rows)
    runs = [KnownRun(id, frozenset(words), frozenset(named), tuple(calls)) for id, words, named, calls in texts["runs"]]
    requests = Requests.weighed(runs, arrays["family_R"], arrays["won_R"], dict(zip(texts["families"], count())))
    weights, first, *measured = texts["chance"]
    numbers = ToolCodes(zip(texts["tools"], count()))
    return Learned(
        places,
        requests,
        numbers,
        texts["base"],
        texts["ceiling"],
        Counter(texts["support"]),
        Counter(texts["failures"]),
        arrays["called_3P"],
        numbers.lasts([run.calls for run in runs]),
        stems_of(numbers),
        Chance(tuple(weights), tuple(first), *measured),
        texts["whole"],
    )
