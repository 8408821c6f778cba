"""Cypher text as tokens, so that nothing inside a string, a comment or a backticked name is taken for Cypher."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from hepm.errors import QueryError

Kind: TypeAlias = Literal["word", "quoted", "string", "number", "param", "sign"]


PARAMETER: Final = "p_"


class Token(NamedTuple):
    """One token.

    Attributes:
        text: A word, number or sign as written; the content of a string; the name of a parameter or of a quoted name.
        start, end: Where it stands in the text.
        apart: Whether white space or a comment stands before it.
    """

    kind: Kind
    text: str
    start: int
    end: int
    apart: bool

    @property
    def upper(self) -> str:
        """A word in capitals, as keywords are compared; "" for everything else."""
        return self.text.upper() if self.kind == "word" else ""

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of these signs."""
        return self.kind == "sign" and self.text in signs

    @property
    def is_name(self) -> bool:
        """Whether it may name something."""
        return self.kind in {"word", "quoted"}


KEYWORDS: Final = {
    *("AND", "OR", "XOR", "NOT", "IN", "IS", "NULL", "STARTS", "ENDS", "WITH", "CONTAINS", "TRUE", "FALSE", "DISTINCT"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "AS", "WHERE", "ASC", "DESC", "ASCENDING", "DESCENDING"),
}
"""Words that name nothing in an expression."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n\r]* | /\*.*?\*/ )
  | (?P<param> \$\w+ )
  | (?P<word> [^\W\d]\w* )
  | (?P<quoted> `[^`]*` )
  | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
  | (?P<open> /\* )
  | (?P<sign> \.\. | <> | <= | >= | =~ | \+= | != | :: | \|\| | [()\[\]{},.:;|+\-*/%^=<>&!] )
  | (?P<number> \d+\.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "`": "`"}


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text.

    Raises:
        QueryError: a string or comment that does not end, or a sign that Cypher does not have.
    """
    found: list[Token] = []
    at, apart = 0, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup == "open":
            raise QueryError(f"the query cannot be read from {text[at : at + 20]!r} on: {_likely_cause(text[at])}.")
        kind = match.lastgroup
        if kind == "space":
            apart = True
        else:
            if (
                kind == "number"
                and match.end() < len(text)
                and (text[match.end()].isalnum() or text[match.end()] == "_")
            ):
                raise QueryError(f"{text[at : match.end() + 1]!r} is no number: write digits alone.")
            found.append(Token(kind, _content(kind, match[0]), at, match.end(), apart))  # type: ignore[arg-type]
            apart = False
        at = match.end()
    return found


def _likely_cause(sign: str) -> str:
    if sign in "'\"":
        return "a string does not end"
    if sign == "/":
        return "a comment does not end"
    if sign == "`":
        return "a name in backticks does not end"
    return "Cypher has no such sign"


def _content(kind: str | None, raw: str) -> str:
    if kind == "string":
        return _ESCAPE.sub(lambda match: _unescaped(match[1]), raw[1:-1])
    if kind == "param":
        return raw[1:]
    return raw[1:-1] if kind == "quoted" else raw


def _unescaped(escape: str) -> str:
    if escape[0] in "uU" and len(escape) > 1:
        try:
            return chr(int(escape[1:], 16))
        except ValueError as error:
            raise QueryError(f"a string holds \\{escape}, which is no letter.") from error
    if escape not in _ESCAPED:
        raise QueryError(f"a string holds \\{escape}, which Cypher does not know: a backslash itself is written \\\\.")
    return _ESCAPED[escape]


def written(token: Token) -> str:
    """A token as text again: strings and names in one way, whatever way they were written in.

    Names stand in backticks, because the embedded engine keeps many words to itself; so do parameters behind a prefix.
    """
    if token.kind == "string":
        return "'" + token.text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if token.is_name:
        return f"`{token.text}`"
    return f"${PARAMETER}{token.text}" if token.kind == "param" else token.text


def closing(tokens: Sequence[Token], at: int) -> int:
    """Where the bracket that opens at `at` is closed.

    Raises:
        QueryError: nowhere, or by another kind of bracket.
    """
    pairs = {"(": ")", "[": "]", "{": "}"}
    open_brackets: list[str] = []
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.is_sign("(", "[", "{"):
            open_brackets.append(pairs[token.text])
        elif token.is_sign(")", "]", "}"):
            if open_brackets.pop() != token.text:
                break
            if not open_brackets:
                return index
    raise QueryError(f"the query opens {tokens[at].text!r} and does not close it.")


def split_at(tokens: Sequence[Token], *signs: str) -> list[list[Token]]:
    """Parts between these signs, where they stand in no bracket and no CASE."""
    parts: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_sign("(", "[", "{") or token.upper == "CASE":
            end = end_of_case(tokens, index) if token.upper == "CASE" else closing(tokens, index)
            parts[-1].extend(tokens[index : end + 1])
            index = end
        elif token.is_sign(*signs):
            parts.append([])
        else:
            parts[-1].append(token)
        index += 1
    return parts


def until_where(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """What stands before a WHERE that is in no bracket, and what behind it."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_sign("(", "[", "{") - token.is_sign(")", "]", "}")
        if depth == 0 and token.upper == "WHERE":
            return tokens[:index], tokens[index + 1 :]
    return tokens, ()


def end_of_case(tokens: Sequence[Token], at: int) -> int:
    """Where the CASE that begins at `at` ends."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index].upper == "CASE") - (tokens[index].upper == "END")
        if depth == 0:
            return index
    raise QueryError("a CASE lacks its END.")
