"""Lessons in files that agents read: a section of `AGENTS.md` or `CLAUDE.md`, and the `SKILL.md` of a skill's folder.

Between two markers stands one lesson a line, in an order that does not depend on the evidence. What a person edits
there is read back; the rest of the file is theirs. The first marker names the lessons that were written, so that a line
that is gone is known to be deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.age import Age, freshest
from hepm.experience.comparison import says_nothing
from hepm.experience.conditions import Conditions
from hepm.experience.content import MOST_RUNS
from hepm.experience.equal_lessons import EqualLessons
from hepm.experience.exchange import HAND, Read, digest_of, import_lessons
from hepm.experience.held_out import HeldOutRuns, Lesson, latest_labelled, support_of, support_of_content
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle, is_content
from hepm.experience.library import Library
from hepm.graph.lessons.rows import KINDS, UNUSED, Kind, LessonRow, StoredLesson, Triple
from hepm.text import count_of, on_one_line, quoted

END: Final = "<!-- end of hepm lessons -->"
WORKS: Final = "What works"
FAILS: Final = "What fails"

_BEGIN: Final = re.compile(r'^<!-- hepm lessons of (?P<namespace>"[^\n]*?"):(?P<ids>[^\n]*?) -->[ \t]*$', re.MULTILINE)
_HEADING: Final = re.compile(r"#+ +(.*?)\s*$")
_ITEM: Final = re.compile(r"[-*+] +(.*)", re.DOTALL)
_ID: Final = re.compile(r"\s*<!-- (?P<id>[ep]-[0-9a-f]+)(?: (?P<digest>[0-9a-f]{8}))? -->\s*$")
_EVIDENCE: Final = re.compile(r"\s*\((?:\d+ of \d+ runs|from [\d,]+ runs?\b|by hand\b)[^()]*\)\s*$")
_FRONT: Final = re.compile(r"---\n(?P<front>.*?)\n---\n", re.DOTALL)
_SKILL_NAME: Final = re.compile(r"[^a-z0-9]+")
_NAMED_TOOLS: Final = 12
_NAMESPACE_CHARS: Final = 200
_FEWEST_DIGITS: Final = 8
_SKILL_NAME_CHARS: Final = 64


class FileLesson(NamedTuple):
    """A line of a file: what one or more lessons say.

    Attributes:
        runs: What runs say that it was not made from.
    """

    equal: EqualLessons
    runs: HeldOutRuns
    age: Age

    @property
    def row(self) -> LessonRow:
        """The lesson by whose id the file names it."""
        return self.equal.first.row

    @property
    def works(self) -> bool:
        """Whether it says what works, and not what fails."""
        return self.equal.works

    @property
    def by_hand(self) -> bool:  # noqa: D102
        return self.row.properties["distilled_by"] == HAND

    @property
    def evidence(self) -> str:
        """Why to believe it, in a few words: "9 of 10 runs that did so succeeded, 2 of 8 others"."""
        runs = len(self.equal.sources)
        parts = [f"from {count_of(runs, 'run')}"] if runs else []
        if self.runs.enough:
            did, others = ("that did so", "others") if self.works else ("without it", "with it")
            heeded = f"{self.runs.heeded_successes} of {self.runs.heeded} runs {did} succeeded"
            parts = [f"{heeded}, {self.runs.others_successes} of {self.runs.others} {others}"]
        if self.by_hand:
            parts = ["by hand"]
        return "; ".join([*parts, *([self.age.note] if self.age.note else [])])


class Chosen(NamedTuple):
    """The lessons that a file gets, in its order, and how many others are left out as runs do not support them."""

    lessons: Sequence[FileLesson]
    left_out: int


def lessons_for_file(
    library: Library, *, namespace: str, kinds: Sequence[Kind] = ("principle",), every: bool = False
) -> Chosen:
    """The lessons to write: those of a hand, and those supported by runs that they were not made from.

    Left out are lessons for one user alone, since a file is for all, those too old for a prompt (see `Ages`), and what
    a person deleted or edited before.

    Args:
        kinds: Notes are not written: they are about one user.
        every: Include lessons that no such runs support, or that runs disagree on, and old ones.
    """
    found = _equal(library, kinds, namespace)
    refused = {one.key for one in _equal(library, kinds, namespace, refused=True)}
    supported = _support_of(found, library, namespace)
    rows = [each.row for one in found for each in one.lessons]
    ages = dict(zip((row.id for row in rows), library.ages(namespace).of(rows), strict=True))
    lessons = [
        FileLesson(one, supported[one.first.row.id], freshest(ages[each.row.id] for each in one.lessons))
        for one in found
    ]
    lessons = [one for one in lessons if one.by_hand or one.equal.key not in refused]
    kept = [one for one in lessons if every or one.by_hand or _is_sound(one)]
    kept = [one for one in kept if every or one.age.weight > 0]
    kept.sort(key=lambda one: (not one.works, _line_of(one.equal), one.row.id))
    return Chosen(kept, len(lessons) - len(kept))


def _is_sound(one: FileLesson) -> bool:
    return one.runs.supports and not one.equal.held_back


def _equal(library: Library, kinds: Sequence[Kind], namespace: str, *, refused: bool = False) -> list[EqualLessons]:
    """The lessons that a file may get; or those that a person deleted or edited, which come back in no other words."""
    stored = [one for kind in kinds if kind != "notes" for one in library.list(kind, namespace=namespace, retired=True)]
    wanted = ("deleted", "superseded") if refused else ("",)
    kept = [one for one in stored if one.row.retired in wanted]
    kept = [one for one in kept if not (one.row.properties.get("only_user") or says_nothing(one.row))]
    return [one for one in library.equal(kept, namespace=namespace) if not one.conditions.user]


def _support_of(found: Sequence[EqualLessons], library: Library, namespace: str) -> dict[str, HeldOutRuns]:
    """What held-out runs say of each, by the id that stands for it, under the condition that its sentence names."""
    needs = {one.first.row.id: Principle.of(one.first.row) for one in found if is_content(one.first.row)}
    others = {one.first.row.id: _asked(one) for one in found if one.first.row.id not in needs}
    supported = support_of(others, latest_labelled(library, namespace=namespace))
    runs = [*islice(latest_labelled(library, namespace=namespace), MOST_RUNS)] if needs else []
    return supported | support_of_content(needs, runs)


def _asked(one: EqualLessons) -> Lesson:
    """A lesson that says to runs what its sentence says."""
    row = one.first.row
    if one.placed is None:
        return Principle.of(row) if row.kind == "principle" else Experience.of(row)
    better, worse = one.placed.advice
    after = sorted(one.placed.after)
    triples = [Triple(tool, FOLLOWED_BY, target) for tool in after for target in sorted(better)]
    triples += [Triple(target, FAILS_AFTER, tool) for tool in after for target in sorted(worse)]
    kind = "guiding" if better else "cautionary"
    return Principle(kind, one.text, tuple(triples), one.sources, one.tools, one.conditions.without_users)


# Write


def section_of(lessons: Sequence[FileLesson], library: Library, *, namespace: str) -> str:
    """The lessons between their markers; equal lessons give equal text."""
    short = _short_ids(library, namespace)
    ids = "".join(f" {short[one.row.id]}" for one in lessons)
    lines = [
        f"<!-- hepm lessons of {quoted(namespace, _NAMESPACE_CHARS)}:{ids} -->",
        "## Lessons from recorded runs",
        "",
    ]
    lines += [f"{_summary(lessons)} Edit or delete lines, then run `hepm import` on this file.", ""]
    for heading, works in ((WORKS, True), (FAILS, False)):
        chosen = [one for one in lessons if one.works is works]
        lines += [f"### {heading}", ""] if chosen else []
        for one in chosen:
            evidence = f" ({_without_brackets(one.evidence)})" if one.evidence else ""
            text = _line_of(one.equal)
            lines.append(f"- {text}{evidence} <!-- {short[one.row.id]} {_digest(text, works=works)} -->")
        lines += [""] if chosen else []
    return "\n".join([*lines, END])


def with_section(text: str, section: str, name: str) -> str:
    """A file's text with the section in place of its former one, or at its end; nothing else changes."""
    found = _find(text, name)
    if found is not None:
        start, end = found
        return text[:start] + section + text[end:]
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{section}\n"


def skill_text(former: str, lessons: Sequence[FileLesson], library: Library, *, namespace: str, folder: str) -> str:
    """A `SKILL.md` with the section: a new one, or the former one with its evidence and date brought up to date.

    Front matter after https://agentskills.io: a name, what it is and when to read it, and where it comes from.
    """
    section = section_of(lessons, library, namespace=namespace)
    facts = {"lessons": str(len(lessons)), "runs": str(len(_runs(lessons))), "latest-run": _latest(lessons)}
    front = _FRONT.match(former)
    if front is not None:
        head = front["front"]
        for key, value in facts.items():
            head = re.sub(rf"^  {key}: .*$", f'  {key}: "{value}"', head, flags=re.MULTILINE)
        return with_section(f"---\n{head}\n---\n{former[front.end() :]}", section, "SKILL.md")
    tools = list(dict.fromkeys(tool for one in lessons for tool in one.equal.tools))
    named = ", ".join(tools[:_NAMED_TOOLS]) + (" and others" if len(tools) > _NAMED_TOOLS else "")
    about = f"What worked and what failed in recorded runs of {namespace}."
    about += f" Read it before a task with {named}." if named else ""
    name = _SKILL_NAME.sub("-", folder.lower()).strip("-")[:_SKILL_NAME_CHARS].strip("-") or "lessons"
    head = [f"name: {name}", f"description: {quoted(about, 1_000)}", "metadata:", "  from: hepm"]
    head += [f"  namespace: {quoted(namespace, _NAMESPACE_CHARS)}", *(f'  {key}: "{facts[key]}"' for key in facts)]
    return with_section("\n".join(["---", *head, "---", "", former]), section, "SKILL.md")


def _runs(lessons: Sequence[FileLesson]) -> set[str]:
    return {source.run for one in lessons for source in one.equal.sources}


def _latest(lessons: Sequence[FileLesson]) -> str:
    return max((one.age.supported_on for one in lessons), default="")


def _summary(lessons: Sequence[FileLesson]) -> str:
    if not lessons:
        return "None at present."
    latest = f", the latest of {_latest(lessons)}" if _latest(lessons) else ""
    return f"{count_of(len(lessons), 'lesson')} from {count_of(len(_runs(lessons)), 'run')}{latest}."


def _line_of(one: EqualLessons) -> str:
    """What lessons say, on one line that ends no marker."""
    said = " ".join(one.text.split())
    return on_one_line(said.replace("<!--", "<! --").replace("-->", "-- >"))


def _digest(text: str, *, works: bool) -> str:
    """A hash of a line as it was written: its condition may have other words by the time that it is read back."""
    said = f"{WORKS if works else FAILS}\n{text}"
    return hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _without_brackets(text: str) -> str:
    return text.replace("(", "").replace(")", "")


def _short_ids(library: Library, namespace: str) -> Mapping[str, str]:
    """The beginning of each lesson's id that no other one has."""
    kinds: tuple[Kind, ...] = ("experience", "principle")
    ids = sorted(one.row.id for kind in kinds for one in library.list(kind, namespace=namespace, retired=True))
    found: dict[str, str] = {}
    for before, own, after in zip(["", *ids], ids, [*ids[1:], ""], strict=False):
        shared = max(_shared(own, before), _shared(own, after))
        found[own] = own[: max(shared + 1, len("p-") + _FEWEST_DIGITS)]
    return found


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


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


def read_section(text: str, name: str, library: Library, *, namespace: str) -> SectionRead:
    """The lessons of a file's section; edited and new ones are marked as written by hand.

    A line that nobody touched is the stored lesson, whatever it would say by now. Live lessons that say what an edited
    or deleted one says go with it. Of an edited one the machine-readable part stays as far as the new
    words name its tools.

    Raises:
        InputError: the section is of another namespace, lacks its end, names several lessons by one id, or has lost all
            its lines.
    """
    found = _find(text, name)
    begin = _BEGIN.search(text)
    if found is None or begin is None:
        raise InputError(
            f"{name} holds no lessons: `hepm export {name} --form agents` writes them between two markers."
        )
    written_in = json.loads(begin["namespace"])
    if written_in != namespace:
        raise InputError(f"the lessons in {name} are of the namespace {written_in!r}: name it with --namespace.")
    lines = list(_lines(text[begin.end() : found[1]]))
    stored = {id: _stored(library, id, name, namespace) for id in {*begin["ids"].split(), *(one.id for one in lines)}}
    kept = {one.id for one in lines}
    gone = [row for id in begin["ids"].split() if id not in kept and (row := stored[id]) is not None]
    deleted = [row for row in gone if row.live]
    if len(deleted) > 1 and not lines:
        raise InputError(f"{name} holds no lesson any more: all {len(deleted)} would be retired. Nothing changed.")
    tools = [tool.name for tool in library.store.tools(namespace=namespace)]
    lessons: list[Read] = []
    edited: list[LessonRow] = []
    edits = len(deleted)
    for line in lines:
        row = stored[line.id]
        if row is not None and _is_untouched(line, row, library, namespace):
            lessons.append(Read(row, row.id, digest_of(row)))
            continue
        made = _new(line, tools) if row is None else _edited(line, _alone(row, library, namespace))
        imported = library.lessons(namespace).get(made.id) is not None
        forgotten = row is None and line.id
        edits += not (imported or forgotten)
        lessons.append(Read(made, "" if row is None else row.id, ""))
        edited += [row] if row is not None else []
    gone_too = {row.id for row in deleted} | _saying_the_same([*deleted, *edited], library, namespace)
    return SectionRead(lessons, sorted(gone_too.difference(row.id for row in edited)), edits)


def _is_untouched(line: _Line, row: LessonRow, library: Library, namespace: str) -> bool:
    if line.digest:
        return line.digest == _digest(line.text, works=line.works)
    now = _alone(row, library, namespace)
    return (line.text, line.works) == (_line_of(now), now.works)


def _alone(row: LessonRow, library: Library, namespace: str) -> EqualLessons:
    """What one lesson says."""
    (found,) = library.equal([StoredLesson(0, row, UNUSED, None)], namespace=namespace)
    return found


def _saying_the_same(rows: Sequence[LessonRow], library: Library, namespace: str) -> set[str]:
    """Ids of the live lessons that say what some of their kind say."""
    same: set[str] = set()
    for kind in KINDS:
        keys = {_alone(row, library, namespace).key for row in rows if row.kind == kind}
        every = library.equal(library.list(kind, namespace=namespace), namespace=namespace) if keys else []
        same.update(each.row.id for one in every if one.key in keys for each in one.lessons)
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
    items: list[tuple[bool, list[str]]] = []
    for line in section.splitlines():
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if heading is not None:
            works = False if heading[1] == FAILS else True if heading[1] == WORKS else works
        elif item is not None:
            items.append((works, [item[1]]))
        elif items and line.startswith((" ", "\t")) and line.strip():
            items[-1][1].append(line.strip())
    for under, parts in items:
        text, id, digest = " ".join(parts).replace("\\_", "_"), "", ""
        named = _ID.search(text)
        if named is not None:
            text, id, digest = text[: named.start()], named["id"], named["digest"] or ""
        text = " ".join(_EVIDENCE.sub("", text).split())
        if text:
            yield _Line(under, text, id, digest)


def _stored(library: Library, id: str, name: str, namespace: str) -> LessonRow | None:
    """The lesson whose id begins so, retired or not; None if none does, or if there is no id."""
    if not id:
        return None
    kind: Kind = "principle" if id.startswith("p-") else "experience"
    rows = [one.row for one in library.list(kind, namespace=namespace, retired=True) if one.row.id.startswith(id)]
    if len(rows) > 1:
        raise InputError(f"{name} names a lesson {id!r}, and {len(rows)} begin so: write more of its id.")
    return rows[0] if rows else None


def _edited(line: _Line, former: EqualLessons) -> LessonRow:
    """A lesson with the words of a hand; of its triples those stay whose tools the words still name.

    Its condition stays if the words still name it: else it would hold under one that nobody can read.
    """
    row, when = former.first.row, former.conditions.without_users
    if former.conditions.when.casefold() not in line.text.casefold():
        when = Conditions(environments=when.environments)
    tools = tuple(tool for tool in row.tools if _names(line.text, tool))
    if row.kind == "experience":
        told = replace(Experience.of(row), lesson=line.text, tools=tools, conditions=when, distilled_by=HAND)
        return told.row()
    lost = set(row.tools).difference(tools)
    triples = tuple(one for one in row.triples if lost.isdisjoint((one.subject, one.object)))
    if line.works is not former.works:
        triples = ()  # they say the opposite of what it says now
    kind = "guiding" if line.works else "cautionary"
    told = Principle.of(row)
    return replace(
        told, kind=kind, text=line.text, triples=triples, tools=tools, conditions=when, distilled_by=HAND
    ).row()


def _new(line: _Line, tools: Iterable[str]) -> LessonRow:
    named = tuple(tool for tool in tools if _names(line.text, tool))
    kind = "guiding" if line.works else "cautionary"
    return Principle(kind, line.text, tools=named, conditions=Conditions(), distilled_by=HAND).row()


def _names(text: str, tool: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(tool)}(?![\w-])", text) is not None


# One lesson


def edit_lesson(library: Library, row: LessonRow, text: str, *, namespace: str) -> LessonRow:
    """Replace what a live lesson says, as an edited line of a section does; the new lesson.

    Lessons that said the same are retired with it.

    Raises:
        InputError: the text is empty, or the lesson is retired.
    """
    if not text.strip():
        raise InputError(f"the lesson {row.id} needs a text: `hepm lesson retire {row.id}` keeps it from agents.")
    if not row.live:
        raise InputError(f"the lesson {row.id} is retired ({row.retired}): edit a live one.")
    former = _alone(row, library, namespace)
    edited = _edited(_Line(former.works, " ".join(text.split()), row.id, ""), former)
    if edited.id != row.id:
        same = _saying_the_same([row], library, namespace) - {row.id}
        import_lessons(library, [Read(edited, row.id, "")], namespace=namespace, deleted=sorted(same))
    return edited
