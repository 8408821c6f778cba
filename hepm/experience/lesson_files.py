"""Lessons in files that agents read: a section of `AGENTS.md` or `CLAUDE.md`, and the `SKILL.md` of a skill's folder.

Between two markers stands one lesson a line, in an order that does not depend on the evidence. What a person edits
there is read back; the rest of the file is theirs. The first marker names the lessons that were written, so that a line
that is gone is known to be deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.age import Age, freshest
from hepm.experience.comparison import says_nothing
from hepm.experience.conditions import Conditions
from hepm.experience.equal_lessons import EqualLessons
from hepm.experience.exchange import HAND, Read, digest_of, import_lessons
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience, Principle
from hepm.experience.principles import let_down
from hepm.graph.lessons.rows import KINDS, UNUSED, Kind, LessonRow, StoredLesson, Triple
from hepm.text import count_of, in_markdown, quoted

# Agents read the file as it is: markers are comments of Markdown.
END: Final = "<!-- end of hepm lessons -->"
WORKS: Final = "What works"
FAILS: Final = "What fails"

# <!-- hepm lessons of "shop": p-0123abcd e-89abcdef -->
_BEGIN: Final = re.compile(r'^<!-- hepm lessons of (?P<namespace>"[^\n]*?"):(?P<ids>[^\n]*?) -->[ \t]*$', re.MULTILINE)
_HEADING: Final = re.compile(r"#+ +(.*?)\s*$")
# Any bullet of Markdown; hepm writes "- ".
_ITEM: Final = re.compile(r"[-*+] +(.*)", re.DOTALL)
# At the end of a line: <!-- p-0123abcd 4f5e6d7c -->.
_ID: Final = re.compile(r"\s*<!-- ([ep]-[0-9a-f]+)(?: ([0-9a-f]{8}))? -->\s*$")
# "(9 of 10 runs that did so succeeded, 2 of 8 others)", "(from 3 runs)", "(by hand)".
_EVIDENCE: Final = re.compile(r"\s*\((?:\d+ of \d+ runs|from [\d,]+ runs?\b|by hand\b)[^()]*\)\s*$")
# The YAML block at the beginning of a SKILL.md.
_FRONT: Final = re.compile(r"---\n.*?\n---\n", re.DOTALL)
_SKILL_NAME: Final = re.compile(r"[^a-z0-9]+")
_NAMED_TOOLS: Final = 12  # in the description of a skill
_NAMESPACE_CHARS: Final = 200
_ID_CHARS: Final = len("p-01234567")  # of an id, of which all stands there if two lessons begin alike
_NO_BRACKETS: Final = str.maketrans("", "", "()")
_SKILL_NAME_CHARS: Final = 64  # the limit of agentskills.io
_DESCRIPTION_CHARS: Final = 1_000  # its limit is 1,024


class FileLesson(NamedTuple):
    """A line of a file: what one or more lessons say."""

    equal: EqualLessons
    age: Age

    @property
    def row(self) -> LessonRow:
        """The lesson by whose id the file names it."""
        return self.equal.first.row

    @property
    def by_hand(self) -> bool:  # noqa: D102
        return self.row.properties["distilled_by"] == HAND

    @property
    def shown(self) -> bool:
        """Whether a prompt would show it where it holds."""
        if not self.age.weight:
            return False
        return self.by_hand or not (self.equal.held_back or let_down(self.equal.uses))

    @property
    def evidence(self) -> str:
        """Why to believe it, in a few words: "9 of 10 runs", "from 3 runs; get_order changed since"."""
        support = self.equal.evidence
        if self.by_hand:
            support = "by hand"
        elif not support and self.equal.sources:
            support = f"from {count_of(len(self.equal.sources), 'run')}"
        return "; ".join(filter(None, (support, self.age.note)))


class Chosen(NamedTuple):
    """The lessons that a file gets, in its order, and how many others are left out, as no prompt shows them."""

    lessons: Sequence[FileLesson]
    left_out: int


def lessons_for_file(
    bank: LessonBank, *, namespace: str, kinds: Sequence[Kind] = ("principle",), every: bool = False
) -> Chosen:
    """The lessons to write: those that a prompt would show where they hold.

    Left out are lessons for one user alone, since a file is for all, those that are too old (see `Ages`) or let runs
    down, and what a person deleted or edited before.

    Args:
        kinds: Notes are not written: they are about one user.
        every: Include what no prompt shows.
    """
    equal = _equal(bank, kinds, namespace)
    refused = {lessons.key for lessons in _equal(bank, kinds, namespace, refused=True)}
    # Asked of all at once: their runs are read together.
    rows = [stored.row for lessons in equal for stored in lessons.lessons]
    age_of = dict(zip([row.id for row in rows], bank.ages(namespace).of(rows), strict=True))
    kept: list[FileLesson] = []
    left_out = 0
    for lessons in equal:
        age = freshest(age_of[stored.row.id] for stored in lessons.lessons)
        lesson = FileLesson(lessons, age)
        if lessons.key in refused and not lesson.by_hand:
            continue
        if every or lesson.shown:
            kept.append(lesson)
        else:
            left_out += 1
    # Not by evidence: with each new run, lines of a file under version control would move.
    kept.sort(key=lambda lesson: (not lesson.equal.works, _line_of(lesson.equal), lesson.row.id))
    return Chosen(kept, left_out)


def _equal(bank: LessonBank, kinds: Sequence[Kind], namespace: str, *, refused: bool = False) -> list[EqualLessons]:
    """The lessons that a file may get; or those that a person deleted or edited, which come back in no other words."""
    reasons = ("deleted", "superseded") if refused else ("",)
    tells = bank.told_to("").tells(namespace)  # a file is for all
    kept: list[StoredLesson] = []
    for kind in kinds:
        if kind == "notes":
            continue
        for stored in bank.list(kind, namespace=namespace, retired=True):
            row = stored.row
            if row.retired not in reasons or row.properties.get("only_user") or says_nothing(row):
                continue
            if refused or tells(stored):
                kept.append(stored)
    # `only_user` is what a lesson was stored with; that it holds for one user can also follow from its runs.
    return [lessons for lessons in bank.equal(kept, namespace=namespace) if not lessons.conditions.user]


# Write


def section_of(lessons: Sequence[FileLesson], bank: LessonBank, *, namespace: str) -> str:
    """The lessons between their markers; equal lessons give equal text."""
    short = _short_ids(bank, namespace)
    ids = "".join(f" {short[lesson.row.id]}" for lesson in lessons)
    lines = [
        f"<!-- hepm lessons of {quoted(namespace, _NAMESPACE_CHARS)}:{ids} -->",
        "## Lessons from recorded runs",
        "",
        f"{_summary(lessons)} Edit or delete lines, then run `hepm import` on this file.",
        "",
    ]
    for works, group in groupby(lessons, key=lambda lesson: lesson.equal.works):
        lines += [f"### {WORKS if works else FAILS}", ""]
        for lesson in group:
            text = _line_of(lesson.equal)
            # "- Call get_order before process_return. (9 of 10 runs …) <!-- p-0123abcd 4f5e6d7c -->"
            evidence = in_markdown(lesson.evidence).translate(_NO_BRACKETS)
            shown = f"{text} ({evidence})" if evidence else text
            lines.append(f"- {shown} <!-- {short[lesson.row.id]} {_digest(text, works=works)} -->")
        lines.append("")
    return "\n".join([*lines, END])


def with_section(text: str, section: str, name: str) -> str:
    """A file's text with the section in place of its former one, or at its end; nothing else changes."""
    place = _find(text, name)
    if place is not None:
        start, end = place
        return text[:start] + section + text[end:]
    if text and not text.endswith("\n"):
        text += "\n"
    if text and not text.endswith("\n\n"):
        text += "\n"
    return f"{text}{section}\n"


def skill_text(former: str, lessons: Sequence[FileLesson], bank: LessonBank, *, namespace: str, folder: str) -> str:
    """A `SKILL.md` with the section: a new one, or the former one, of which the rest stays.

    Front matter after https://agentskills.io: a name, what it is and when to read it, and where it comes from.
    """
    if _FRONT.match(former) is None:
        # Small letters, digits and single hyphens, none at the ends, as agentskills.io asks for.
        name = _SKILL_NAME.sub("-", folder.lower())[:_SKILL_NAME_CHARS].strip("-")
        front = (
            "---",
            f"name: {name or 'lessons'}",
            f"description: {quoted(_skill_description(lessons, namespace), _DESCRIPTION_CHARS)}",
            "metadata:",
            "  from: hepm",
            f"  namespace: {quoted(namespace, _NAMESPACE_CHARS)}",
            "---",
            "",
        )
        former = "\n".join((*front, former))
    return with_section(former, section_of(lessons, bank, namespace=namespace), "SKILL.md")


def _skill_description(lessons: Sequence[FileLesson], namespace: str) -> str:
    """What a skill is about, and when to read it."""
    tools: dict[str, None] = {}
    for lesson in lessons:
        tools.update(dict.fromkeys(lesson.equal.tools))
    about = f"What worked and what failed in recorded runs of {namespace}."
    if not tools:
        return about
    named = ", ".join(list(tools)[:_NAMED_TOOLS])
    if len(tools) > _NAMED_TOOLS:
        named += " and others"
    return f"{about} Read it before a task with {named}."


def _summary(lessons: Sequence[FileLesson]) -> str:
    """Such as "2 lessons from 14 runs, the latest of 2025-03-01."."""
    if not lessons:
        return "None at present."
    runs: set[str] = set()
    for lesson in lessons:
        runs.update(*(stored.row.run_ids for stored in lesson.equal.lessons))
    text = f"{count_of(len(lessons), 'lesson')} from {count_of(len(runs), 'run')}"
    latest = max(lesson.age.supported_on for lesson in lessons)
    if latest:
        text += f", the latest of {latest}"
    return f"{text}."


def _line_of(lessons: EqualLessons) -> str:
    """What lessons say, on one line that ends no marker."""
    return in_markdown(lessons.text)


def _digest(text: str, *, works: bool) -> str:
    """A hash of a line as it was written: its condition may have other words by the time that it is read back."""
    # With its heading: who moves a line below the other one says the opposite.
    written = f"{WORKS if works else FAILS}\n{text}"
    return hashlib.blake2b(written.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _short_ids(bank: LessonBank, namespace: str) -> Mapping[str, str]:
    """The beginning of each lesson's id, or the whole of one that begins like another's."""
    ids: list[str] = []
    kinds: tuple[Kind, ...] = ("experience", "principle")
    for kind in kinds:
        ids += [stored.row.id for stored in bank.list(kind, namespace=namespace, retired=True)]
    beginnings = Counter(id[:_ID_CHARS] for id in ids)
    short: dict[str, str] = {}
    for id in ids:
        short[id] = id if beginnings[id[:_ID_CHARS]] > 1 else id[:_ID_CHARS]
    return short


# Read back


class SectionRead(NamedTuple):
    """What a file's section says.

    Attributes:
        lessons: Its lines, in the form of an import.
        deleted: Ids of live lessons whose lines are gone, or say something else now.
        edits: Changed, new and deleted lines that were not imported yet.
    """

    lessons: Sequence[Read]
    deleted: Sequence[str]
    edits: int


class _Line(NamedTuple):
    """A line of a section: under which heading, what it says, and the id and the digest at its end, or ""."""

    works: bool
    text: str
    id: str
    digest: str


def has_section(text: str) -> bool:
    """Whether a file holds lessons between hepm's markers."""
    return _BEGIN.search(text) is not None


def read_section(text: str, name: str, bank: LessonBank, *, namespace: str) -> SectionRead:
    """The lessons of a file's section; edited and new ones are marked as written by hand.

    A line that nobody touched is the stored lesson, whatever it would say by now. Live lessons that say what an edited
    or deleted one says go with it. Of an edited one the machine-readable part stays as far as the new
    words name its tools.

    Raises:
        InputError: the section is of another namespace, lacks its end, names several lessons by one id, or has lost all
            its lines.
    """
    section, written = _section_in(text, name, namespace)
    lines = list(_lines(section))
    kept = {line.id for line in lines}
    stored = {id: _stored(bank, id, name, namespace) for id in {*written, *kept}}
    deleted: list[LessonRow] = []
    for id in written:
        row = stored[id]
        if id not in kept and row is not None and row.live:
            deleted.append(row)
    # An emptied section is more likely an accident of an editor than a wish.
    if len(deleted) > 1 and not lines:
        raise InputError(f"{name} holds no lesson any more: all {len(deleted)} would be retired. Nothing changed.")
    tools = [tool.name for tool in bank.store.tools(namespace=namespace)]
    lessons: list[Read] = []
    edited: list[LessonRow] = []
    edits = len(deleted)
    for line in lines:
        row = stored[line.id]
        if row is None:
            made = _new(line, tools)
            former = ""
        elif line.digest == _digest(line.text, works=line.works):
            lessons.append(Read(row, row.id, digest_of(row)))
            continue
        else:
            made = _edited(line, _alone(row, bank, namespace))
            former = row.id
            edited.append(row)
        lessons.append(Read(made, former, ""))
        forgotten = row is None and line.id
        if not forgotten and bank.lessons(namespace).get(made.id) is None:
            edits += 1
    gone_too = {row.id for row in deleted} | _saying_the_same([*deleted, *edited], bank, namespace)
    # What was edited is replaced by its import, not deleted.
    gone_too.difference_update(row.id for row in edited)
    return SectionRead(lessons, sorted(gone_too), edits)


def _section_in(text: str, name: str, namespace: str) -> tuple[str, list[str]]:
    """The text between the markers of a file, and the ids that its first marker names."""
    place = _find(text, name)
    begin = _BEGIN.search(text)
    if place is None or begin is None:
        raise InputError(
            f"{name} holds no lessons: `hepm export {name} --form agents` writes them between two markers."
        )
    written_in = json.loads(begin["namespace"])
    if written_in != namespace:
        raise InputError(f"the lessons in {name} are of the namespace {written_in!r}: name it with --namespace.")
    _, end = place
    return text[begin.end() : end], begin["ids"].split()


def _alone(row: LessonRow, bank: LessonBank, namespace: str) -> EqualLessons:
    """What one lesson says."""
    (lessons,) = bank.equal([StoredLesson(0, row, UNUSED, None)], namespace=namespace)
    return lessons


def _saying_the_same(rows: Sequence[LessonRow], bank: LessonBank, namespace: str) -> set[str]:
    """Ids of the live lessons that say what some of their kind say."""
    same: set[str] = set()
    for kind in KINDS:
        keys = {_alone(row, bank, namespace).key for row in rows if row.kind == kind}
        if not keys:
            continue
        for lessons in bank.equal(bank.list(kind, namespace=namespace), namespace=namespace):
            if lessons.key in keys:
                same.update(stored.row.id for stored in lessons.lessons)
    return same


def _find(text: str, name: str) -> tuple[int, int] | None:
    """Where the section begins and ends; None if there is none."""
    begin = _BEGIN.search(text)
    if begin is None:
        return None
    end = text.find(END, begin.end())
    if end < 0:
        raise InputError(f"the lessons in {name} lack their end: put {END!r} after the last one.")
    return begin.start(), end + len(END)


def _lines(section: str) -> Iterator[_Line]:
    """The items of a section. An editor may have wrapped them, changed their bullets, or escaped underscores."""
    works = True
    items: list[tuple[bool, str]] = []
    for line in section.splitlines():
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if heading is not None:
            if heading[1] in (WORKS, FAILS):
                works = heading[1] == WORKS
        elif item is not None:
            items.append((works, item[1]))
        elif items and line.startswith((" ", "\t")):
            # Indented: the item goes on.
            under, begun = items[-1]
            items[-1] = under, f"{begun} {line}"
    for under, item_text in items:
        written, id, digest, *_ = (*_ID.split(item_text.replace("\\_", "_")), "", "")
        text = " ".join(_EVIDENCE.sub("", written).split())
        if text:
            yield _Line(under, text, id, digest or "")


def _stored(bank: LessonBank, id: str, name: str, namespace: str) -> LessonRow | None:
    """The lesson whose id begins so, retired or not; None if none does, or if there is no id."""
    if not id:
        return None
    kind: Kind = "principle" if id.startswith("p-") else "experience"
    rows = [stored.row for stored in bank.list(kind, namespace=namespace, retired=True) if stored.row.id.startswith(id)]
    if len(rows) > 1:
        raise InputError(f"{name} names a lesson {id!r}, and {len(rows)} begin so: write more of its id.")
    return next(iter(rows), None)


def _edited(line: _Line, former: EqualLessons) -> LessonRow:
    """A lesson with the words of a hand; of its triples those stay whose tools the words still name.

    Its condition stays if the words still name it: else it would hold under one that nobody can read.
    """
    row = former.first.row
    when = former.conditions.without_users
    if former.conditions.when.casefold() not in line.text.casefold():
        when = Conditions(environments=when.environments)
    tools = _named_in(line.text, row.tools)
    if row.kind == "experience":
        experience = Experience.of(row)
        return replace(experience, lesson=line.text, tools=tools, conditions=when, distilled_by=HAND).row()
    triples: list[Triple] = []
    if line.works is former.works:  # else they say the opposite of what it says now
        lost = set(row.tools).difference(tools)
        for triple in row.triples:
            if triple.subject not in lost and triple.object not in lost:
                triples.append(triple)
    edited = replace(
        Principle.of(row),
        kind="guiding" if line.works else "cautionary",
        text=line.text,
        triples=tuple(triples),
        tools=tools,
        conditions=when,
        distilled_by=HAND,
    )
    return edited.row()


def _new(line: _Line, tools: Iterable[str]) -> LessonRow:
    kind = "guiding" if line.works else "cautionary"
    named = _named_in(line.text, tools)
    return Principle(kind, line.text, tools=named, conditions=Conditions(), distilled_by=HAND).row()


def _named_in(text: str, tools: Iterable[str]) -> tuple[str, ...]:
    """Those of some tools that a text names."""
    # Not inside a longer name: "get_order" is not named by "get_order_items", nor by "shop.get_order".
    return tuple([tool for tool in tools if re.search(rf"(?<![\w.-]){re.escape(tool)}(?![\w-])", text)])


# One lesson


def edit_lesson(bank: LessonBank, row: LessonRow, text: str, *, namespace: str) -> LessonRow:
    """Replace what a live lesson says, as an edited line of a section does; the new lesson.

    Lessons that said the same are retired with it.

    Raises:
        InputError: the text is empty, or the lesson is retired.
    """
    if not text.strip():
        raise InputError(f"the lesson {row.id} needs a text: `hepm lesson retire {row.id}` keeps it from agents.")
    if not row.live:
        raise InputError(f"the lesson {row.id} is retired ({row.retired}): edit a live one.")
    former = _alone(row, bank, namespace)
    edited = _edited(_Line(former.works, " ".join(text.split()), row.id, ""), former)
    if edited.id != row.id:
        same = _saying_the_same([row], bank, namespace) - {row.id}
        import_lessons(bank, [Read(edited, row.id, "")], namespace=namespace, deleted=sorted(same))
    return edited
