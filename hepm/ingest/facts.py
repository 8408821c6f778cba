"""Facts: the pieces of a tool's result, or of what the user wrote, that can decide what to call next.

A state is a text, and two texts are compared as a whole: one word of a JSON reply drowns in the rest. As facts that
word stands alone, so that a small tree can split on it (`hepm.evidence.place`).
"""

from __future__ import annotations

import ast
import csv
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, groupby, islice
from typing import Final, TypeAlias
from xml.etree import ElementTree

from hepm.ingest.fields import as_text, unix_time
from hepm.ingest.formats.parts import result_text
from hepm.text import CUT, FUNCTION_WORDS, cut_off
from hepm.types import CLOCK, DATE, FIRST_DAY, JSON, PRESENT, TIME

_Facts: TypeAlias = Iterator[tuple[str, float]]
"""Names of facts and their numbers."""

MOST_FACTS: Final = 100
"""Facts of one result, or words of one message, that are kept: the first ones."""
_MOST_ITEMS: Final = 10  # of a list that are read; its length is a fact of its own
_DEEPEST: Final = 8
_SHORT: Final = 25  # characters of a text that is a value; a longer one is words
_MOST_NUMBERS: Final = 15  # of one text
KEPT_CHARS: Final = 2_000
"""Characters of a result that are stored, and that facts are read from (see `shorter_result`)."""
_PARSED_CHARS: Final = 100_000  # a longer result is read as words: parsing it takes milliseconds
_CLOSES: Final = {"{": "}", "[": "]"}
# Strings, one that was cut at the end, and the marks of objects and lists.
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|["\'].*|[{}\[\],]', re.DOTALL)
# Ids, dates and amounts inside texts: each run has its own, and some are personal.
_ID: Final = re.compile(r"\d{2}")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
# A number and what it counts or what it is called: "12 passed", "4 % lost", "exit code: 1". No part of a date, a time,
# a version or an id.
_AMOUNT: Final = r"(?<![\w.,:/-])(-?(?:\d{1,3}(?:,\d{3})+|\d{1,6})(?:\.\d{1,6})?)"
_COUNTING: Final = re.compile(rf"(?:\b([^\W\d_]{{2,}}) )?{_AMOUNT} ?%? ([^\W\d_]{{3,}})")
_NUMBERED: Final = frozenset({"port", "line", "pid", "id", "no", "number", "version", "page", "row"})
_NAMED: Final = re.compile(rf"(?<![^\W\d_])([^\W\d_]{{3,}})[:=] ?{_AMOUNT}(?![\w.,:/-]*\d)")
# "GROSS 42480 kg  NET 27800 kg", "(max 15.0)": a number behind its name, with nothing else between two marks.
_NAME_OF: Final = r"[^\W\d_][\w/-]{0,30}(?: [^\W\d_][\w/-]{0,30}){0,3}"
_UNIT: Final = r"%?(?:[^\W\d_]{1,4}(?:/[^\W\d_]{1,3})?)?"
_ALONE: Final = re.compile(
    rf"(?m)(?:^[ \t>*+-]{{0,20}}|(?<=[;,(|]) ?|(?<=  )|(?<=: )|(?<=\d ))({_NAME_OF}) {{1,12}}"
    rf"(-?\d{{1,6}}(?:\.\d{{1,6}})?) ?{_UNIT}(?=[ \t]*(?:$|[;()|]|,(?!\d))|  | [^\W\d_]{{1,30}} -?\d)"
)
# "$1,250", "Net EUR 31.481,21": with the word before it.
_MONEY: Final = re.compile(
    r"(?:(?<![^\W\d_])([^\W\d_]{3,})[*:= ]{1,12})?(?:[$€£]|\b(?:EUR|USD|GBP|CHF|JPY|INR|AUD|CAD|SEK|PLN)) ?"
    r"((?:\d{1,3}(?:[.,]\d{3})+|\d{1,9})(?:[.,]\d{1,2})?)(?![.,]?\d)"
)
# A number in a text of its own: "31.5 kg", "$1,250.00", "EUR 12", "30 days", "85%".
_QUANTITY: Final = re.compile(
    r"(?:[$€£]|[A-Z]{3} )? ?(-?\d{1,3}(?:,\d{3})+|-?\d{1,9})(\.\d{1,6})?(?: ?(?:%|[^\W\d_]{1,3}|[a-z]{4,12}))?"
)
# "23m ago" and "7d ago" are compared in minutes.
_AGE: Final = re.compile(
    r"(?<![\w.,:-])(\d{1,4}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?) ago"
)
_AGO: Final = "ago"
_MINUTES: Final = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10080}
# What an item of a list is named by: "cpu_percent", "p99_ms" or "Monday", but no id.
_ITEM: Final = re.compile(r"(?=.{2,30}$)[^\W\d]+(?:(?:[ ./-]\d{0,2}|\d{1,2})[^\W\d]+)*\d?")
# Keys whose whole numbers of five digits and more are ids; a text without a key may be one, too.
_OF_ID: Final = re.compile(
    r"(?i:(?:^|[\W_])(?:ids?|no|nr|number|code|zip|postcode|account|ticket|order|booking|reservation|invoice|customer|case"
    r"|ref|reference|serial|sku|pid|key|token)|^)(?:\[\w*\])*$|[a-z](?:I[dD]s?|N[or]|Number|Code|Key)(?:\[\w*\])*$"
)
_CODE: Final = re.compile(r"([^\W\d_]{2,6}[-_]?)\d{3,}")  # an id whose letters may say what it is of
# What failed, by its code: "HTTP 404", "error TS2304", "SQLSTATE[23505]"; and the keys that such a code stands under.
_FAILURE: Final = re.compile(
    r"(?i)\b(?:err(?:or|no)?|sqlstate|(?:exit|http|signal|status)(?=[^\d\n]{1,12}\b\d))\b(?:[ _]?(?:code|status))?"
    r"[^\w\n]{1,3}([a-z]{0,6}[-_]?\d{2,6})\b"
)
_FAILURE_KEY: Final = re.compile(r"(?i)(?:^|\.)(?:err(?:or|no)?|sqlstate|(?:(?:err(?:or)?|exit|status)_?)?code)$")
_LINE: Final = re.compile(r"[\s>*+-]*([^\W\d_][\w /-]{0,38}?)[*\s]{0,20}[:=][*]*\s+(\S.*)")
# What a column may be called, such as "p99_ms", "Use%", "led by" or "1h ago": no value, key or sentence.
_HEAD: Final = re.compile(rf"#|(?!.*(?:[\W_]\d\d|\d{{3}}))%?[^\W\d](?:[^.,:;!?]{{0,38}}[^\s.,:;!?])?|{_AGE.pattern}")
_ROWS: Final = "[]"  # stands for the rows of a table among other lines, and is no part of a path
# What names a person decides nothing for others.
_PERSONAL: Final = re.compile(
    r"(?i)(?:^|[._\[\]])(?:(?:first|last|full|middle|given|family|sur|user)[ _]?name|e?mail|phone|street|address\d?"
    r"|dob|birth[ _]?da(?:y|te)|date[ _]of[ _]birth)$"
)
_TIME: Final = r"[T ]\d\d:\d\d(?::[\d:.]+)?(?:Z|[+-]\d\d:?\d\d)?"
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?")
_DATE: Final = re.compile(rf"\d{{4}}-\d\d-\d\d(?P<time>{_TIME})?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = rf"(?i:{'|'.join(_MONTHS)})[a-z]{{0,6}}"
# "17 Nov 2026", "March 3rd, 2026 09:12".
_WRITTEN: Final = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?),? \d{{4}}(?:,? \d\d:\d\d)?"
)
_DAY: Final = rf"(?:[A-Z][a-z]{{2,8}}, )?(\d{{4}}-\d\d-\d\d(?:{_TIME})?|{_WRITTEN})(?!\d)"
_DATED: Final = re.compile(rf"(?<![^\W\d_])([^\W\d_]{{3,}})[*:= ]{{1,12}}{_DAY}")
_IS_WRITTEN: Final = re.compile(_WRITTEN)
# Words of three letters and more that every sentence may have.
_COMMON: Final = "and are but can for from has have its not our please that the this was will with would you your"
_NO_WORD: Final = frozenset(_COMMON.split())


@lru_cache(maxsize=256)  # a session's results are asked for again before each call
def shorter_result(result: str) -> str:
    """A result as it is stored and compared: at most `KEPT_CHARS`; of an object or a list as JSON, its values first.

    Lists and texts inside are cut; "…" stands for what a list has left out, before its last item. Of the content parts
    of the Model Context Protocol the text is kept.
    """
    if '"text"' in result and '"type"' in result and len(result) <= _PARSED_CHARS:
        with suppress(ValueError, RecursionError):
            held = json.loads(result)
            text = result_text(held)
            if text is not None and text != as_text(held):
                result = text
    if len(result) <= KEPT_CHARS:
        return result
    parsed = parsed_result(result.strip()) if result[:40].lstrip()[:1] in _CLOSES else None
    if parsed is not None:
        result = json.dumps(_pruned(parsed, 0), ensure_ascii=False, default=str)
    # An escape of half a character is one no more.
    return cut_off(result, KEPT_CHARS).encode("utf-8", "replace").decode()


def _pruned(value: JSON, depth: int) -> JSON:
    if isinstance(value, str):
        return cut_off(value, 100)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth > _DEEPEST:
        return CUT
    if isinstance(value, Mapping):
        return {key: _pruned(value[key], depth + 1) for key in _values_first(value)}
    if len(value) > _MOST_ITEMS:
        value = [*value[: _MOST_ITEMS - 1], CUT, value[-1]]
    return [_pruned(item, depth + 1) for item in value]


def _values_first(record: Mapping[str, JSON]) -> list[str]:
    """The keys of an object, those of objects and lists last: a long list must not crowd out the rest."""
    return sorted(record, key=lambda key: isinstance(record[key], Mapping | list))


@lru_cache(maxsize=4_096)  # runs of one environment repeat each other's results
def facts_of_result(result: str) -> Mapping[str, float]:
    """The facts of a result by name, such as {"status=shipped": 1, "total": 89.5, "items[]": 3}.

    A name with "=" is a value, one with "~" a word of a text of three words or more, one with `PRESENT` says that there
    is a text; all have the number 1. Other names are numbers: of the result, of what a text counts ("12 passed"), the
    length of a list, minutes ("7d ago"), or with `DATE` or `TIME` a date or a time in days. Other values with two
    digits in a row are left out. What items of a list say counts for all of them ("events[].state"), for the last one
    ("events[last].state"), and for each that has a name ("[cpu_percent].now").
    """
    text = result.strip()
    parsed = parsed_result(text)
    return _first(_facts_in_text(text, "") if parsed is None else _facts_in(parsed, "", 0))


@lru_cache(maxsize=4_096)
def facts_of_message(text: str) -> Mapping[str, float]:
    """The words of a message, and as "#" the largest number that it counts ("250 boxes") or sum of money in it."""
    start = text[:KEPT_CHARS]
    amounts = [number for _, number in islice(_numbers(start), _MOST_NUMBERS)]
    amounts += [_amount(digits) for _, digits in _MONEY.findall(start)]
    facts = [("#", max(amounts))] if amounts else []
    return _first([*facts, *((f"~{word}", 1) for word in _words(text))])


@lru_cache(maxsize=256)
def facts_of_instructions(text: str) -> Mapping[str, float]:
    """The date or time that it is, where a system prompt says so."""
    today = rf"(?i:\b(?:now|today|date|current|time)\b)[^\n.]{{0,40}}?(?<!\d){_DAY}"
    return _time_said(text[:_PARSED_CHARS], today)


@lru_cache(maxsize=256)
def time_of_message(text: str) -> Mapping[str, float]:
    """The same of an email: when it was sent, at its head."""
    return _time_said(text, rf"(?m)^(?:Date|Sent|Received): {_DAY}")


def _time_said(text: str, pattern: str) -> Mapping[str, float]:
    for said in re.finditer(pattern, text):
        for _, days in _dates(said[1]):
            return {TIME: days}
    return {}


def _dates(text: str) -> _Facts:
    """A date or a time with its mark, in days; none of a day that is in no calendar, or another text."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        yield CLOCK, int(clock[1]) / 24 + int(clock[2]) / 1_440
    when = _DATE.fullmatch(_iso(text))
    if when is not None:
        seconds = unix_time(when[0])
        if seconds is not None:
            yield TIME if when["time"] else DATE, seconds / 86_400 - FIRST_DAY


def _iso(text: str) -> str:
    """A written date, "17 Nov 2026", as ISO has it; another text as it is."""
    if _IS_WRITTEN.fullmatch(text) is None:
        return text
    day, year, *clock = re.findall(r"[\d:]+", text)
    month = 1 + _MONTHS.index(_WORD.findall(text)[0][:3].lower())
    return "T".join([f"{year}-{month:02}-{int(day):02}", *clock])


def _first(facts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The first facts; of numbers with one name, as in the items of a list, the largest, and of ages the least."""
    first: dict[str, float] = {}
    for name, number in facts:
        choose = min if name.rpartition(".")[2] == _AGO else max
        first[name] = choose(number, first.get(name, number))
        if len(first) == MOST_FACTS:
            break
    return first


def parsed_result(text: str) -> JSON:
    """What a text holds as JSON, as Python prints it, as XML, as a table or as lines of "key: value"; else None."""
    if len(text) > _PARSED_CHARS:
        return None
    # By how it begins, the likeliest first.
    readings: tuple[Callable[[str], JSON], ...] = (_table, _lines)
    if text[:1] in _CLOSES:
        readings = (json.loads, _literal, _cut_short)
    elif text[:1] == "<":
        readings = (_xml,)
    elif text[:1] == "|":
        readings = (_table,)
    for parse in readings:
        with suppress(ValueError, SyntaxError, TypeError, IndexError, RecursionError, MemoryError):
            return parse(text)
    return None


def _literal(text: str) -> JSON:
    with warnings.catch_warnings(action="ignore"):  # of backslashes that escape nothing
        return ast.literal_eval(text)


def _cut_short(text: str) -> JSON:
    """What a text held that was cut: without the part that is not whole, and with "…" at the end of cut lists."""
    if len(text) > KEPT_CHARS:
        raise ValueError("none that was cut")
    opened: list[str] = []
    end, closing = 0, ""
    for mark in _MARK.finditer(text):
        if mark[0] in _CLOSES:
            opened.append(_CLOSES[mark[0]])
        elif mark[0] in _CLOSES.values():
            opened.pop()
        elif mark[0] != ",":
            continue
        end = mark.start() if mark[0] == "," else mark.end()
        closing = "".join(reversed(opened)).replace("]", f',"{CUT}"]')
    if text[end - 1] == "[":
        closing = closing[1:]
    whole = text[:end] + closing
    try:
        return json.loads(whole)
    except ValueError:
        return _literal(whole)


def _xml(text: str) -> JSON:
    return _element(ElementTree.fromstring(f"<x>{text}</x>"))


def _element(element: ElementTree.Element) -> JSON:
    """An element's children by their names, or its text."""
    text = (element.text or "").strip()
    if not len(element):
        return text
    if text or any(child.tail and child.tail.strip() for child in element):
        raise ValueError("a sentence with marks in it")
    return _by_key((child.tag, _element(child)) for child in element)


def _table(text: str) -> JSON:
    """The rows of a table whose columns are set apart by bars, tabs, commas or several spaces, and the text around it.

    Of Markdown's with two columns its values by their names. A table that was cut ends with "…".
    """
    if text.count("\n") > 1_000:
        raise ValueError("too long a table")
    lines: list[str] = []
    ruled: set[int] = set()  # lines with one below that only sets them apart
    for line in text.splitlines():
        # What the lines between the rows of a table are made of.
        if line.strip() and not line.strip(" \t|+-=:─━═│┃║┼╪╫╬├┤┌┐└┘┬┴╞╡╔╗╚╝"):
            ruled.add(len(lines) - 1)
        else:
            lines.append(line)
    cells = [_cells(line) for line in lines]
    runs = [list(run) for columns, run in groupby(range(len(lines)), lambda line: len(cells[line])) if columns > 1]
    tables = [run for run in runs if _is_table([cells[line] for line in run], ruled=run[0] in ruled)]
    longest = max(tables, key=len)  # a ValueError without any
    first, last = longest[0], longest[-1]
    head, *rows = [cells[line] for line in longest]
    is_cut = text.endswith(CUT) and last >= len(lines) - 2
    if is_cut:  # the last line is a part of a row
        rows = rows[: len(lines) - 2 - first]
        last = len(lines)
    table: JSON
    if len(head) == 2 and lines[first].lstrip().startswith("|"):
        table = _by_key((row[0], row[1]) for row in rows)
    else:
        table = [dict(zip(head, row, strict=True)) for row in rows] + [CUT] * is_cut
    around = [line.strip() for line in lines[:first] + lines[last + 1 :]]
    if not any(around):
        return table
    with suppress(ValueError):
        return {**_lines("\n".join(around)), _ROWS: table}
    return {"": "\n".join(around).strip(), _ROWS: table}


def _cells(line: str) -> list[str]:
    """What stands in the columns of a line, of which a text that is no row has one."""
    line = line.strip(" ")
    if "|" in line or "│" in line:
        cells = line.replace("│", "|").removeprefix("|").split("|")
        if line[0] in "|│" and not cells[-1]:
            cells.pop()
    elif "\t" in line:
        cells = line.split("\t")
    elif re.search(r",\S", line) and "  " not in line:
        (cells,) = csv.reader([line])
    else:
        cells = re.split(r" {2,}", line)
    return [cell.strip() for cell in cells]


def _is_table(rows: Sequence[Sequence[str]], *, ruled: bool) -> bool:
    """Whether the first row is a head: by the line below, or as it names columns and is no line of a log."""
    head, *others = rows
    if ruled:
        return bool(others)
    levels = ("trace", "debug", "info", "notice", "warn", "warning", "error", "fatal", "critical")
    if len(others) < 2 or head[0].lower() in levels or any(row[0] == head[0] for row in others):
        return False
    return all(map(_HEAD.fullmatch, head))


def _lines(text: str) -> dict[str, JSON]:
    """The short values of lines, by their keys, and with the key "" the rest."""
    pairs: list[tuple[str, JSON]] = []
    rest: list[str] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None and len(match[2]) < _SHORT:
            pairs.append((match[1], match[2].strip("\"'* ")))
        else:
            rest.append(line.strip())
    if len(pairs) < 2:  # a single one may be prose
        raise ValueError("hardly a line is such")
    if any(rest):
        pairs.append(("", "\n".join(rest)))
    return _by_key(pairs)


def _by_key(pairs: Iterable[tuple[str, JSON]]) -> dict[str, JSON]:
    """A mapping in which a key that comes more than once has a list."""
    values: dict[str, list[JSON]] = defaultdict(list)
    for key, value in pairs:
        values[key].append(value)
    return {key: found if found[1:] else found[0] for key, found in values.items()}


def _facts_in(value: JSON, path: str, depth: int) -> _Facts:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key in _values_first(dict(islice(value.items(), 25))):
            yield from _facts_in(value[key], _below(path, str(key)), depth + 1)
    elif isinstance(value, list | tuple):
        yield from _facts_in_list(value, path, depth)
    elif value is None or isinstance(value, bool):
        yield f"{path}={json.dumps(value)}", 1
    elif isinstance(value, int | float):
        # Larger numbers are ids or times; of a float they would also be rounded.
        if abs(value) < 1e9:
            yield path or "value", value
    elif isinstance(value, str):
        held = parsed_result(value.strip()) if len(value) >= _SHORT else None
        if held is not None:  # as protocols of tools wrap what a tool returned
            yield from _facts_in(held, "", 0)
        else:
            yield from _facts_in_text(value, path)


def _facts_in_list(value: Sequence[JSON], path: str, depth: int) -> _Facts:
    items = [item for item in value if item != CUT]
    if len(items) == len(value):  # of a list that was cut the length is not known
        yield f"{path}[]", len(value)
    for item in items[:_MOST_ITEMS]:
        yield from _facts_in(item, f"{path}[]", depth + 1)
    if len(items) > 1 and isinstance(value[-1], Mapping):  # else the last one is not known
        yield from _facts_in(value[-1], f"{path}[last]", depth + 1)
    for name, item in _by_name(items[:_MOST_ITEMS]).items():
        yield from _facts_in(item, f"{path}[{name}]", depth + 1)


def _by_name(items: Sequence[JSON]) -> Mapping[str, JSON]:
    """The rest of each item by the name that it begins with, such as "cpu_percent"; of no item if two have one name."""
    named: dict[str, JSON] = {}
    for item in items:
        if not isinstance(item, Mapping) or not item:
            return {}
        key, *others = item
        name = item[key]
        if not isinstance(name, str) or not _ITEM.fullmatch(name) or _PERSONAL.search(str(key)):
            continue
        if name.lower() in named:
            return {}
        named[name.lower()] = {other: item[other] for other in others}
    return named


def _below(path: str, key: str) -> str:
    """The path of a key. Keys that are ids are all the same: their values are what may decide."""
    key = "*" if _ID.search(key) else key[:40]
    if key == _ROWS:
        return path
    return f"{path}.{key}" if path else key


def _facts_in_text(text: str, path: str) -> _Facts:
    is_there = path and "[" not in path and any(map(str.isalnum, text))
    present = [(f"{path}{PRESENT}", 1)] if is_there else []
    is_personal = _PERSONAL.search(path)
    dates = [] if is_personal else list(_dates(text.strip()))
    if is_personal or dates:
        yield from ((f"{path}{mark}", days) for mark, days in dates)
        yield from present
        return
    if len(text) >= _SHORT:
        yield from present
        shown = text[:KEPT_CHARS]
        alone = [(name.lower(), float(number)) for name, number in _ALONE.findall(shown)]
        known = [(name, number) for name, number in alone if name.rpartition(" ")[2] not in _NUMBERED]
        for name, number in islice(chain(known, _numbers(shown)), _MOST_NUMBERS):
            yield _below(path, name), number
        yield from ((f"{path}~{word}", 1) for word in _words(shown))
        return
    text = text.strip()
    age, quantity, code = _AGE.fullmatch(text), _QUANTITY.fullmatch(text), _CODE.fullmatch(text)
    if age is not None:
        yield _below(path, _AGO), int(age[1]) * _MINUTES[age[2][0]]
    elif quantity is not None and not (re.fullmatch(r"\d{5,}", text) and _OF_ID.search(path)):
        yield path or "value", float(quantity[1].replace(",", "") + (quantity[2] or ""))
    else:
        fails = _FAILURE.fullmatch(text) or (_FAILURE_KEY.search(path) and re.fullmatch(r"[^\W\d]{1,6}-?\d{2,6}", text))
        if code is not None and not fails:
            yield f"{path}={code[1].lower()}…", 1
        elif fails or not _ID.search(text) or re.fullmatch(r"[^\W\d]{4,}\d\d", text):  # "HighLatencyP99" is no id
            yield f"{path}={text.lower()}", 1
            if text.count(" ") > 1:  # "under recall since march"
                yield from ((f"{path}~{word}", 1) for word in _words(text))
        yield from present


def _numbers(text: str) -> _Facts:
    for number, unit in _AGE.findall(text):
        yield _AGO, int(number) * _MINUTES[unit[0]]
    for before, number, word in _COUNTING.findall(text):
        # "port 5432 failed" and "at 90 and rising" count nothing; in "694 Highland Drive" the number is a house's.
        if before.lower() not in _NUMBERED and word.lower() not in FUNCTION_WORDS and not word.istitle():
            yield word.lower(), float(number.replace(",", ""))
    for word, number in _NAMED.findall(text):
        yield word.lower(), float(number.replace(",", ""))
    for word, day in _DATED.findall(text):
        for _, days in _dates(day):
            yield f"{word.lower()}{TIME}", days
    for word, digits in _MONEY.findall(text):
        yield word.lower() or "sum", _amount(digits)


def _amount(digits: str) -> float:
    """The number that is written with points or commas; a last one with two digits or one after it is the decimal."""
    whole, mark, cents = digits.replace(",", ".").rpartition(".")
    if mark and len(cents) < 3:
        return float(f"{whole.replace('.', '')}.{cents}")
    return float(digits.replace(",", "").replace(".", ""))


def _words(text: str) -> list[str]:
    lower = text.lower()
    codes: list[str] = _FAILURE.findall(lower)
    return [word for word in dict.fromkeys(codes + _WORD.findall(lower)) if word not in _NO_WORD]
