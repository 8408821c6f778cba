// Lessons: to read, to search, to approve and reject, to retire and revive; notes on users: to edit.
"use strict";

const words = document.getElementById("words");
const retiredToo = document.getElementById("retired");
const lessonList = document.getElementById("lessons");
const kindNow = () => document.querySelector("#choose input[name=kind]:checked").value;
let editing = null;

const ABOUT = {
  principle: "Rules drawn from many runs. Those that fit stand in agents' prompts; retired ones do not.",
  experience: "What single runs taught, each sentence once. Those that fit stand in agents' prompts; retired ones do not.",
  notes: "What each user wants of the agent. The newest version stands in the prompts of runs for that user.",
};

async function loadLessons() {
  if (editing) return; // nothing may move under the hands of a person who writes
  const kind = kindNow();
  const answer = await ask("/api/lessons", { query: { kind, q: words.value, retired: String(retiredToo.checked && kind !== "notes") } });
  if (answer === null || editing || kind !== kindNow()) return;
  const waiting = answer.pending ? ` ${plural(answer.pending, "lesson is", "lessons are")} pending, and told to no agent: a model, an agent or an import wrote them. Keys: a approves the focused one, r rejects it.` : "";
  document.getElementById("lessons-about").textContent = ABOUT[kind] + waiting;
  retiredToo.disabled = kind === "notes";
  const card = kind === "notes" ? notesCard : lessonCard;
  const more = answer.total - answer.lessons.length;
  const none = words.value.trim() ? "No lesson contains these words." : NONE[kind];
  refill(
    lessonList,
    ...answer.lessons.map(card),
    ...(answer.total ? [] : [make("li", { class: "none" }, ...withCode(none))]),
    ...(more > 0 ? [make("li", { class: "none" }, `and ${asCount(more)} more: search for some words`)] : []),
  );
}
const NONE = {
  principle: "There are no principles yet. They come from runs with an outcome: `hepm lesson distill`, or by themselves after a run through this server.",
  experience: "There are no experiences yet. They come from runs with an outcome: `hepm lesson distill`, or by themselves after a run through this server.",
  notes: "There are no notes on users yet: `hepm lesson distill --kind note` writes them from stored runs.",
};

function usesOf({ uses, successes, shown }) {
  if (uses) return `${asCount(successes)} of ${plural(uses, "use")} succeeded`;
  return shown ? `shown in ${plural(shown, "run")} without an outcome` : "not shown yet";
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", ...attributes, onclick }, text);
}

const HELD_BACK = {
  "told to no agent": "It is about one run: agents are told rules of many runs",
};

function exampleList(example) {
  const names = ["situation", "action", "outcome"].filter((name) => example[name]);
  return make("dl", {}, ...names.flatMap((name) => [make("dt", {}, name), make("dd", { dir: "auto" }, example[name])]));
}

const RETIRED = { deleted: "retired by hand", pruned: "retired for its low score", pending: "pending" };

const isPending = (one) => one.retired === "pending";

function lessonButtons(one) {
  if (!mayWrite) return [];
  const revive = button(isPending(one) ? "Approve" : "Revive", () => setRetired(one, false), isPending(one) ? { class: "primary" } : {});
  const retire = button(isPending(one) ? "Reject" : "Retire", () => setRetired(one, true));
  return [make("span", { class: "end" }, ...(one.retired ? [revive] : []), ...(one.retired && !isPending(one) ? [] : [retire]))];
}

function onKey(event, one) {
  const retired = { a: false, r: true }[event.key];
  if (retired === undefined || event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  setRetired(one, retired);
}

function lessonCard(one) {
  const end = lessonButtons(one);
  const reviewed = isPending(one) && mayWrite ? { tabindex: "0", onkeydown: (event) => onKey(event, one) } : {};
  return make(
    "li",
    { "data-id": one.id, class: isPending(one) ? "pending" : one.retired ? "gone" : "", ...reviewed },
    make("p", { class: "text", dir: "auto" }, one.text),
    ...one.replaces.map((text) => make("p", { dir: "auto" }, make("small", {}, `Replaces: ${text}`))),
    ...(one.examples.length ? [make("details", {}, make("summary", {}, "Where it comes from"), ...one.examples.map(exampleList))] : []),
    make(
      "div",
      { class: "facts-line" },
      make("span", {}, one.labels.join(", ")),
      make("span", {}, `${isPending(one) ? `by ${clipped(one.by, 80)}, ` : ""}from ${plural(one.runs, "run")}`),
      ...(one.evidence ? [make("span", { title: "Successful runs at this place, under this condition, that did so" }, one.evidence)] : []),
      ...(one.held_back ? [make("span", { title: HELD_BACK[one.held_back] ?? "" }, one.held_back)] : []),
      make("span", { title: "Runs in whose prompt it stood" }, usesOf(one.uses)),
      ...(one.retired ? [make("span", {}, RETIRED[one.retired] ?? `retired: ${one.retired}`)] : []),
      make("span", { class: "tools" }, ...one.tools.slice(0, 8).map((tool) => toolLink(tool))),
      ...end,
    ),
  );
}

async function setRetired(one, retired) {
  try {
    const place = [...lessonList.children].findIndex((card) => card.dataset.id === one.id);
    await ask("/api/lessons", { body: { kind: one.kind, ids: one.ids, retired } });
    const done = isPending(one) ? (retired ? "Rejected" : "Approved") : retired ? "Retired, so that prompts leave it out" : "Revived";
    const back = isPending(one) ? (retired ? "Approve" : "Retire") : "Undo";
    say(`${done}: ${clipped(one.text, 120)}`, { action: button(back, () => setRetired({ ...one, retired: "" }, !retired)) });
    await loadLessons();
    if (isPending(one)) lessonList.children[place]?.focus(); // the next one, for the next key
  } catch (error) {
    explain(error);
  }
}

function notesCard(one) {
  const item = make(
    "li",
    {},
    make("p", {}, make("b", { dir: "auto" }, clipped(one.user, 120))),
    make("p", { class: "text", dir: "auto" }, one.text || "(empty)"),
    make(
      "div",
      { class: "facts-line" },
      make("span", {}, `version ${one.version}, by ${one.written_by}`),
      make("span", { class: "end" }, button(mayWrite ? "Edit" : "Earlier versions", () => editNotes(item, one))),
    ),
  );
  return item;
}

/** Whether no notes are being edited; else it says what to do. */
function mayLeaveNotes() {
  if (editing) say("Save or cancel the notes that are open first.");
  return !editing;
}

async function editNotes(item, one) {
  if (!mayLeaveNotes()) return;
  try {
    const { versions } = await ask("/api/notes", { query: { user: one.user } });
    const newest = versions[0];
    if (!newest) return await loadLessons();
    const field = make("textarea", { "aria-label": `Notes on ${one.user}`, dir: "auto", maxlength: "4000" });
    field.value = newest.text;
    field.readOnly = !mayWrite;
    editing = item;
    item.replaceChildren(
      make("p", {}, make("b", { dir: "auto" }, clipped(one.user, 120)), " ", make("small", {}, "one wish a line")),
      field,
      make(
        "div",
        { class: "facts-line" },
        make("span", { class: "end" }, button(mayWrite ? "Cancel" : "Close", closeEditor), ...(mayWrite ? [button("Save", () => saveNotes(one.user, field.value, newest.version), { class: "primary" })] : [])),
      ),
      make("ol", { class: "versions" }, ...versions.slice(1, 20).map((version) => versionRow(version, field))),
    );
    field.focus();
  } catch (error) {
    explain(error);
  }
}

function versionRow(version, field) {
  const take = mayWrite ? [" ", button("Use this text", () => ((field.value = version.text), field.focus()))] : [];
  return make("li", {}, make("span", { class: "when" }, `version ${version.version}, by ${version.written_by}`), ...take, make("p", { class: "text", dir: "auto" }, version.text));
}

async function saveNotes(user, text, version) {
  try {
    const written = await ask("/api/notes", { body: { user, text, version } });
    say(written.version === version ? "Nothing was changed." : `Version ${written.version} of the notes on ${clipped(user, 80)} is written.`);
    await closeEditor();
  } catch (error) {
    explain(error); // the editor stays open: nothing that was written is lost
  }
}

function closeEditor() {
  editing = null;
  return loadLessons().catch(explain);
}

document.getElementById("choose").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("choose").addEventListener("input", () => {
  if (!mayLeaveNotes()) return void (document.querySelector("#choose input[value=notes]").checked = true);
  clearTimeout(words.timer);
  words.timer = setTimeout(() => loadLessons().catch(explain), 150);
});
