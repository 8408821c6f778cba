"""Lessons in files that agents read: a section of `AGENTS.md` or `CLAUDE.md`.

Between two markers stands one lesson a line, in an order that does not depend on the evidence; the rest of the file is
a person's. What a person changed or added there stays, and what they deleted stays away: the first marker names the
lessons that were written, and each line has a hash of its words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, Self

from hepm.errors import InputError
from hepm.evidence.rules import FAILED
from hepm.experience.comparison import says_nothing
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import EXTRACTIVE, HAND, Experience, ListedLesson, listed_lessons, read_lesson
from hepm.experience.principles import let_down
from hepm.graph.delta import Names
from hepm.graph.lessons.rows import PENDING, LessonRow, Parent, StoredLesson, next_calls
from hepm.graph.lessons.transaction import LessonChange
from hepm.text import CUT, count_of, in_markdown, quoted
from hepm.types import END, Object

# Agents read the file as it is: markers are comments of Markdown.
SECTION_END: Final = "<!-- end of hepm lessons -->"
WORKS: Final = "What works"
FAILS: Final = "What fails"

# <!-- hepm lessons of "shop": p-0123abcd e-89abcdef -->
_BEGIN: Final = re.compile(
    r'^<!-- hepm lessons of (?P<namespace>"[^\n]*?"):(?P<ids>[^\n]*?) -->[ \t\r]*$', re.MULTILINE
)
# At the end of a line: <!-- p-0123abcd 4f5e6d7c {"after": ["get_order"], "call": ["refund"]} -->.
_ID: Final = re.compile(r"\s*<!-- ([ep]-[0-9a-f]+)(?: ([0-9a-f]{8}))?(?: (\{.*\}))? -->\s*$")
# "(worked in 12 of 12 runs; …)", "(from 3 runs)", "(by hand)", "(pending)".
_EVIDENCE: Final = re.compile(
    r"\s*\((?:(?:worked|failed) in [\d,]+ of [\d,]+ runs|from [\d,]+ runs?\b|by hand\b|pending\b)[^()]*\)\s*$"
)


def _is_for_file(listed: ListedLesson) -> bool:
    """Whether a prompt would show it where it holds, and readers of a file, who always see it, can act on it.

    A counted lesson is not of use if it hangs on a word or number that somebody says, or on the id of one thing; if it
    warns of a call after another one, whatever that gave, and names nothing better; or if what it advises worked in no
    more than half of the runs.
    """
    lesson = listed.lesson
    if lesson.distilled_by == HAND:
        return True
    if let_down(listed.stored.uses):
        return False
    if lesson.distilled_by != EXTRACTIVE:
        return True
    tests = [fact.test for fact in lesson.conditions.facts]
    # "~balance", "#"; "reservation_id=xehm4b", "orderId=w7"; not "paid=true" and the code of a failure, "~503"
    of_text = r"~\D*$|^#$|(?:^|[_.-])(?i:id)=|[a-z]I[dD]="
    if any(re.search(of_text, test.fact) and test.than is None for test in tests):
        return False
    if lesson.warns:
        # Who reads not to stop can go on.
        stops = any(call.tool == END for call in next_calls(lesson.triples))
        return stops or any(test.source != FAILED.source for test in tests)
    return not lesson.tried or 2 * lesson.worked > lesson.tried


def lessons_for_file(
    bank: LessonBank,
    *,
    namespace: str,
    every: bool = False,
    pending: bool = False,
    principles: Iterable[StoredLesson] | None = None,
) -> tuple[list[ListedLesson], int]:
    """The lessons to write, in their order, and how many others are left out.

    They are those that a prompt would show where they hold, and that one can act on.

    Left out are lessons for one user alone, since a file is for all, those that let runs down, and counted ones that
    hold where a word is said, which their readers distrust, or that warn of a call without saying when, or what else
    to do.

    Args:
        every: Include what no prompt shows.
        pending: Include what waits for approval, which who merges the file gives (see `approved_in`).
        principles: To choose from; those of the store by default.
    """
    known = bank.lessons(namespace)
    if principles is None:
        principles = bank.list("principle", namespace=namespace, retired=True)
    states = ("", PENDING) if pending else ("",)
    able = [
        stored
        for stored in principles
        if stored.row.retired in states
        and not says_nothing(stored.row)
        and known.told_to(stored, "")  # a file is for all
    ]
    kept = [one for one in listed_lessons(able) if every or _is_for_file(one)]
    # Not by evidence: with each new run, lines of a file under version control would move.
    kept.sort(key=lambda one: (one.lesson.warns, in_markdown(one.text), one.lesson.id))
    return kept, len(able) - len(kept)


# Write


_CLAIMED: Final = ("in", "after", "if", "call", "not")


class Claim(NamedTuple):
    """What a line says of the next tool, to be counted anew (see `hepm.report.check`); facts as stores keep them."""

    environments: Names
    after: Names
    facts: Names
    better: Names
    worse: Names

    @classmethod
    def of(cls, row: LessonRow) -> Self | None:
        """Of a lesson; None if it makes none."""
        known: Object = {**row.properties}
        calls = list(next_calls(row.triples))
        if not known["after"] or not calls:
            return None
        better = tuple(call.tool for call in calls if call.advised)
        worse = tuple(call.tool for call in calls if not call.advised)
        return cls(known["environments"], known["after"], known["facts"], better, worse)

    @property
    def conditions(self) -> Conditions:
        """When it holds; ValueError where a fact is none."""
        return Conditions(self.environments, after=self.after, facts=tuple(map(FactCondition.read, self.facts)))

    @property
    def text(self) -> str:
        """As JSON that ends no comment."""
        values = {name: value for name, value in zip(_CLAIMED, self, strict=True) if value}
        return json.dumps(values, ensure_ascii=False).replace(">", "\\u003e")

    @classmethod
    def read(cls, text: str) -> Self | None:
        """What `text` gave; None if an editor damaged it, or if it claims more than this version reads."""
        try:
            values: Object = json.loads(text)
            claim = cls(*[tuple(values.pop(name, ())) for name in _CLAIMED])
            _ = hash((claim, claim.conditions))  # a TypeError where a name is none
            return None if values else claim
        except (ValueError, TypeError, AttributeError):
            return None


class LineOfFile(NamedTuple):
    """A line of a section.

    Attributes:
        works: Whether it stands below the heading of what works.
        whole: As it stands there.
        text: What it says, without its evidence.
        id: Of its lesson; "" if a person wrote it.
        edited: Whether a person wrote or changed it.
        claim: What it said as hepm wrote it; None if that was nothing to be counted.
    """

    works: bool
    whole: str
    text: str
    id: str
    edited: bool
    claim: Claim | None


def _lines_in(section: str) -> Iterator[LineOfFile]:
    """The lessons between the markers. An editor may have wrapped lines, changed bullets, or escaped underscores."""
    works = True
    # What is indented goes on with the line before.
    for line in re.sub(r"\s*\n[ \t]+(?=\S)", " ", section).splitlines():
        heading = re.match(r"#+ +(.*?)\s*$", line)
        # Any bullet of Markdown; hepm writes "- ". What a person wrote without one stays, and gets one.
        whole = re.sub(r"^[-*+] +", "", line).strip().replace("\\_", "_")
        if heading is not None:
            works = heading[1] != FAILS
        elif whole and not re.match(r"[\d,]+ lessons? from|None at present", line):  # the line below the title
            written, id, digest, claim, *_ = (*_ID.split(whole), "", "", "")
            text = " ".join(_EVIDENCE.sub("", written).split())
            yield LineOfFile(works, whole, text, id, digest != _digest(text, works=works), Claim.read(claim or ""))


class LessonFile(NamedTuple):
    """A file with the lessons between its markers.

    Attributes:
        before, after: What stands around them, or around where they are to stand.
        namespace: Of the lessons, quoted; "" without markers.
        ids: Of lessons that were written there, also of those that a person deleted.
    """

    name: str
    before: str
    after: str
    namespace: str = ""
    ids: Sequence[str] = ()
    lines: Sequence[LineOfFile] = ()

    @classmethod
    def read(cls, text: str, name: str) -> Self:
        """The file of this name and text; InputError if it lacks its second marker."""
        begin = _BEGIN.search(text)
        if begin is None:
            before = text.rstrip("\n")
            return cls(name, f"{before}\n\n" if before else "", "\n")
        section, end, after = text[begin.end() :].partition(SECTION_END)
        if not end:
            raise InputError(f"the lessons in {name} lack their end: put {SECTION_END!r} after the last one.")
        before = text[: begin.start()]
        return cls(name, before, after, begin["namespace"], begin["ids"].split(), list(_lines_in(section)))

    def with_lessons(self, lessons: Iterable[ListedLesson], *, namespace: str) -> str:
        """The file's text with these lessons between the markers; equal lessons give equal text.

        Lines that a person wrote, changed or deleted there stay so.

        Raises:
            InputError: those between the markers are of another namespace.
        """
        named = quoted(namespace, 200)
        if self.namespace not in ("", named):
            raise InputError(
                f"the lessons in {self.name} are of the namespace {self.namespace}: name it with --namespace."
            )
        own = [line for line in self.lines if line.edited]
        # What a person deleted, and what they changed.
        skipped = {*self.ids, *(line.id for line in own)} - {line.id for line in self.lines if not line.edited}
        written = {listed.lesson.id[:10]: listed for listed in lessons}  # p-01234567
        for id in skipped & written.keys():
            del written[id]
        summary = "None at present"
        if written:
            runs = set(chain.from_iterable(listed.lesson.run_ids for listed in written.values()))
            summary = (
                f"{count_of(len(written), 'lesson')} from {count_of(len(runs), 'run')}. "
                "A call worked or failed as its run did"
            )
        body = ["## Lessons from recorded runs", "", f"{summary}. Lines that you change or delete stay so.", ""]
        for works, heading in ((True, WORKS), (False, FAILS)):
            items = [line.whole for line in own if line.works is works]
            items += [_line_with_mark(listed, id) for id, listed in written.items() if listed.lesson.warns is not works]
            if items:
                body += [f"### {heading}", "", *(f"- {item}" for item in items), ""]
        ids = "".join(f" {id}" for id in (*written, *filter(None, sorted(skipped))))
        return self.before + "\n".join([f"<!-- hepm lessons of {named}:{ids} -->", *body, SECTION_END]) + self.after


def _line_with_mark(listed: ListedLesson, id: str) -> str:
    """Such as "Call get_order before process_return. (worked in 9 of 10 runs) <!-- p-0123abcd 4f5e6d7c -->"."""
    claim = Claim.of(listed.stored.row)
    digest = _digest(in_markdown(listed.text), works=not listed.lesson.warns)
    mark = " ".join(filter(None, (id, digest, claim and claim.text)))
    return f"{line_of(listed)} <!-- {mark} -->"


def line_of(listed: ListedLesson) -> str:
    """Such as "Call get_order before process_return. (worked in 9 of 10 runs)", on one line of Markdown."""
    support = listed.lesson.support
    if listed.lesson.distilled_by == HAND:
        support = "by hand"
    evidence = "; ".join(filter(None, (support, listed.stored.row.retired)))
    text = in_markdown(listed.text)
    if evidence:
        text += f" ({re.sub('[()]', '', in_markdown(evidence))})"
    return text


def _digest(text: str, *, works: bool) -> str:
    """A hash of a line as it was written, with its heading: who moves it below the other one says the opposite."""
    written = f"{WORKS if works else FAILS}\n{text}"
    return hashlib.blake2b(written.encode("utf-8", "replace"), digest_size=4).hexdigest()


def approved_in(bank: LessonBank, file: LessonFile, *, namespace: str) -> Iterator[StoredLesson]:
    """The pending lessons whose words stand in a file: who merged it approved them."""
    standing = {line.text for line in file.lines}
    for stored in bank.pending(namespace=namespace):
        lesson = read_lesson(stored.row)
        words = lesson.in_own_words
        # In a file with lessons of several environments, a line begins with its own: "In shop: Call get_order."
        for said in (words, f"In {', '.join(lesson.conditions.environments)}: {words}"):
            written = " ".join(in_markdown(said).split())
            # The end of a text that was cut was not read.
            if written in standing and not written.endswith(CUT):
                yield stored
                break


# One lesson


def edit_lesson(bank: LessonBank, stored: StoredLesson, text: str, *, namespace: str) -> LessonRow:
    """Replace what a live or pending lesson says; the new lesson, written by hand, which needs no approval.

    Of its triples those stay whose tools the words still name, and its condition if they name it: else it would hold
    under one that no reader sees.

    Raises:
        InputError: the text is empty, or the lesson is retired.
    """
    words = " ".join(text.split())
    row = stored.row
    if not words:
        raise InputError(f"the lesson {row.id} needs a text: `hepm lesson retire {row.id}` keeps it from agents.")
    if row.is_retired:
        raise InputError(f"the lesson {row.id} is retired ({row.retired}): edit a live one.")
    lesson = read_lesson(row)
    when = lesson.conditions
    if when.when.casefold() not in words.casefold():
        when = Conditions(environments=when.environments)
    tools = named_in(words, row.tools)
    lost = set(row.tools).difference(tools)
    kept = [triple for triple in row.triples if not named_in(f"{triple.subject} {triple.object}", lost)]
    sentence = "lesson" if isinstance(lesson, Experience) else "text"
    new = replace(lesson, triples=tuple(kept), tools=tools, conditions=when, distilled_by=HAND, **{sentence: words})
    edited = new.row()
    if edited.id != row.id:
        # The new one has the uses of the former one, and its words may be those of a retired one.
        put = replace(edited, parents=(Parent(row.id, "edit"),), prior=stored.uses)
        change = LessonChange(put=[put], retire={row.id: "superseded"}, revive=[edited.id], imported=True)
        bank.change(change, namespace=namespace)
    return edited


def named_in(text: str, tools: Iterable[str]) -> Names:
    """Those of some tools that a text names."""
    # Not inside a longer name: "get_order" is not named by "get_order_items", nor by "shop.get_order".
    return tuple([tool for tool in tools if re.search(rf"(?<![\w.-]){re.escape(tool)}(?![\w-])", text)])
