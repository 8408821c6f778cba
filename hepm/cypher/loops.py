"""Loops over lists inside an expression: […] and all(…), any(…), none(…).

Inside them the embedded engine reads names and properties from outside in the wrong row. So it is given lists of plain
values, and tests that hold nothing but the item and constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from hepm.cypher.patterns import outside
from hepm.cypher.tokens import KEYWORDS, Token, split_at, tokens_of, until_where, written
from hepm.errors import QueryError

NOTHING: Final = "CAST(NULL AS BOOLEAN)"


class Writer(Protocol):
    """What writes the expressions around and inside."""

    parameters: Mapping[str, Any]
    walks: set[str]

    def write(self, tokens: Sequence[Token]) -> str:
        """One expression."""
        ...


class LoopWriter:
    """Writes loops for the embedded engine."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def comprehension(self, inner: Sequence[Token]) -> str:
        """What stands in [x IN list WHERE … | …]."""
        head, *tail = split_at(inner, "|")
        source, condition = until_where(head[2:])
        name = inner[0]
        check_names([*condition, *(tail[0] if tail else ())], {name.text})
        items, renamed = self._items(source, name, [*condition, *(tail[0] if tail else ())])
        whole = items
        if condition:
            items = f"list_filter({items}, {written(name)} -> {self._of_item(condition, name, renamed)})"
        if tail and not (renamed and not condition and len(tail[0]) == 3):
            items = f"list_transform({items}, {written(name)} -> {self._of_item(tail[0], name, renamed)})"
        elif renamed and not tail:
            raise outside(
                "a list of whole nodes or relationships picked by a condition", "return one of their properties"
            )
        return items if items == whole else f"CASE WHEN size({whole}) = 0 THEN ({items})[1:0] ELSE {items} END"

    def quantifier(self, function: str, inner: Sequence[Token]) -> str:
        """What stands in all(x IN list WHERE …), any(…) or none(…)."""
        if len(inner) < 3 or inner[1].upper != "IN":
            raise outside(f"this use of {function}()", f"write {function}(x IN list WHERE …)")
        source, condition = until_where(inner[2:])
        if not condition:
            raise outside(f"{function}() without WHERE", f"write {function}(x IN list WHERE …)")
        check_names(condition, {inner[0].text})
        items, renamed = self._items(source, inner[0], condition)
        test = self._of_item(condition, inner[0], renamed)
        name = written(inner[0])
        # The engine takes a test that is null for one that failed. (No CASE: it misreads one that is a condition.)
        passed = _count(items, f"{name} -> {test}")
        unknown = _count(items, f"{name} -> ({test}) IS NULL")
        if function == "any":
            return f"({passed} > 0 OR ({unknown} > 0 AND {NOTHING}))"
        wanted = f"{passed} + {unknown} = size({items})" if function == "all" else f"{passed} = 0"
        return f"({wanted} AND ({unknown} = 0 OR {NOTHING}))"

    def _items(self, source: Sequence[Token], name: Token, used_in: Sequence[Token]) -> tuple[str, str]:
        """The list to go through; where it holds nodes or relationships, the one property of them that is used.

        Inside such a loop the engine reads properties of the wrong row, so it is given a list of plain values.
        """
        used = {
            used_in[i + 2].text
            for i in range(len(used_in) - 2)
            if used_in[i].text == name.text and used_in[i].is_name and used_in[i + 1].is_sign(".")
        }
        if not used:
            return self._writer.write(source), ""
        function = source[0].text.lower() if source[0].kind == "word" else ""
        walk = len(source) == 1 and source[0].text in self._writer.walks
        if not walk and function not in {"nodes", "relationships"}:
            raise outside("a property of a list's items inside […] or all(…)", "UNWIND the list")
        only = used.pop()
        if used:
            raise outside("two properties of a path's parts inside one […] or all(…)", "write one for each of them")
        if not only.isidentifier():  # it goes into the text as a string
            raise QueryError(f"there is no property {only!r}.")
        return f"properties({self._writer.write(source)}, '{only}')", only

    def _of_item(self, tokens: Sequence[Token], name: Token, renamed: str) -> str:
        tokens = [self._constant(token) for token in tokens]
        if not renamed:
            return self._plain(tokens)
        plain: list[Token] = []
        at = 0
        while at < len(tokens):
            plain.append(tokens[at])
            if tokens[at].is_name and tokens[at].text == name.text and not (at and tokens[at - 1].is_sign(".")):
                if at + 2 >= len(tokens) or not tokens[at + 1].is_sign("."):
                    raise outside("a path's part beside one of its properties inside […] or all(…)", "use its property")
                at += 2
            at += 1
        return self._plain(plain)

    def _plain(self, tokens: Sequence[Token]) -> str:
        text = self._writer.write(tokens)
        words = [token.upper for token in tokens_of(text)]
        if any(
            word in {"AND", "OR", "XOR"} or (word == "NOT" and words[at - 1] != "IS") for at, word in enumerate(words)
        ):
            # With two loops over one list the engine would mix up what each has found.
            raise outside(
                "AND, OR or NOT inside of […] or all(…)", "write one loop around the other, or UNWIND the list"
            )
        return text

    def _constant(self, token: Token) -> Token:
        """A parameter's value in its place: the engine takes no parameter inside a loop."""
        value = self._writer.parameters.get(token.text) if token.kind == "param" else None
        if isinstance(value, str):
            return token._replace(kind="string", text=value)
        if isinstance(value, bool):
            return token._replace(kind="word", text=str(value).lower())
        if isinstance(value, int | float) and math.isfinite(value):
            return token._replace(kind="number", text=f"({value!r})" if value < 0 else repr(value))
        if token.kind == "param":
            raise outside(f"${token.text} inside of […] or all(…)", "give it a number or a text")
        return token


def _count(items: str, test: str) -> str:
    """How many pass. Of a list of nothing the engine may tell what it found for another row."""
    return f"CASE WHEN size({items}) = 0 THEN 0 ELSE size(list_filter({items}, {test})) END"


def check_names(
    tokens: Sequence[Token], known: set[str], where: str = "[…] or all(…)", instead: str = "UNWIND the list"
) -> None:
    """Refuse names from outside: the engine would read them in the wrong row."""
    known = set(known)
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if not token.is_name or token.upper in KEYWORDS or (at and tokens[at - 1].is_sign(".")):
            continue
        if following is not None and following.upper == "IN" and at and tokens[at - 1].is_sign("[", "("):
            known.add(token.text)
        if following is not None and following.is_sign("(", ":"):
            continue
        if token.text not in known:
            raise outside(f"{token.text!r} from outside of {where}", instead)
