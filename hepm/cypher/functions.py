"""The functions of the portable subset, and how each is written for the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hepm.cypher.model import BESIDE, LESSON, LESSONS
from hepm.cypher.patterns import outside

_AS_THEY_ARE: Final = {
    name.lower(): name
    for name in (
        "count", "avg", "min", "max", "collect", "percentileCont", "percentileDisc",
        "coalesce", "size", "length", "nodes", "range",
        "toLower", "toUpper", "trim", "ltrim", "rtrim", "left", "right",
        "abs", "ceil", "floor", "sqrt", "sign", "log10",
    )
}  # fmt: skip
_RENAMED: Final = {
    "relationships": "rels",
    "type": "label",
    "log": "ln",
    "startnode": "start_node",
    "endnode": "end_node",
}
_WRITTEN_OUT: Final[Mapping[str, str]] = {
    # The embedded engine says null for the sum of nothing, refuses an index that is not there, and says one label.
    "sum": "coalesce(sum({0}), 0)",
    "head": "list_extract({0}, CASE WHEN size({0}) > 0 THEN 1 END)",
    "last": "list_extract({0}, CASE WHEN size({0}) > 0 THEN -1 END)",
    "tofloat": "CAST({0} AS DOUBLE)",
    "type": "CASE WHEN {0} IS NOT NULL THEN label({0}) END",
}
QUANTIFIERS: Final = {"all", "any", "none"}
FUNCTIONS: Final = sorted(
    {*_AS_THEY_ARE.values(), "sum", "head", "last", "toFloat", "labels", "replace", "relationships", "type", "log"}
    | {"startNode", "endNode"} | QUANTIFIERS
)  # fmt: skip

_KNOWN: Final = {name.lower() for name in FUNCTIONS}
_INSTEAD: Final[Mapping[str, str]] = {
    "round": "leave the rounding to whoever prints it",
    "tostring": "return the value as it is",
    "tointeger": "use floor()",
    "id": "compare the nodes themselves, or return their names",
    "elementid": "compare the nodes themselves, or return their names",
    "exists": "write EXISTS { … }, or IS NOT NULL",
    "single": "UNWIND the list and count",
    "reduce": "UNWIND the list and aggregate",
    "substring": "use left() and right()",
    "shortestpath": "write it in MATCH, as allShortestPaths",
}


def check_function(name: str) -> None:
    """Refuse a function that lies outside of the portable subset.

    Raises:
        QueryError: the sentence says what to use.
    """
    if name.lower() not in _KNOWN:
        raise outside(f"the function {name}()", _INSTEAD.get(name.lower(), "run it on a store in Neo4j"))


def written_labels(node: str, labels: frozenset[str]) -> str:
    """The labels of a node, given as written and with those of the engine's that it may have: there it has one."""
    more = [(f"label({node}) = '{label}'", LESSON) for label in LESSONS if label in labels]
    for one in BESIDE:
        value = str(one.value).upper() if isinstance(one.value, bool) else f"'{one.value}'"
        test = f"{node}.`{one.property}` = {value}"
        more += [(f"label({node}) = '{label}' AND {test}", one.label) for label in one.of if label in labels]
    pieces = "".join(f" + CASE WHEN {test} THEN ',{label}' ELSE '' END" for test, label in more)
    return f"CASE WHEN {node} IS NOT NULL THEN string_split(label({node}){pieces}, ',') END"


def written_call(name: str, arguments: str) -> str:
    """A call of a function, for the embedded engine."""
    function = name.lower()
    if function in _WRITTEN_OUT:
        return _WRITTEN_OUT[function].format(arguments)
    return f"{_AS_THEY_ARE.get(function) or _RENAMED[function]}({arguments})"
