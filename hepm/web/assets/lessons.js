// Lessons: to read, to search, to approve and reject, to retire and revive; notes on users: to read.
"use strict";

const words = document.getElementById("words");
const retiredToo = document.getElementById("retired");
const lessonList = document.getElementById("lessons");
const kindNow = () => document.querySelector("#choose input[name=kind]:checked").value;

const ABOUT = {
  principle: "Rules drawn from many runs. Those that fit stand in agents' prompts; retired ones do not.",
  experience: "What single runs taught. Those that fit stand in agents' prompts; retired ones do not.",
  notes: "What each user wants of the agent. It stands in the prompts of runs for that user; `hepm lesson edit USER TEXT` changes it.",
};

async function loadLessons() {
  const kind = kindNow();
  const answer = await ask("/api/lessons", { query: { kind, q: words.value, retired: String(retiredToo.checked && kind !== "notes") } });
  if (answer === null || kind !== kindNow()) return;
  const waiting = answer.pending ? ` ${plural(answer.pending, "lesson is", "lessons are")} pending, and told to no agent: a model, an agent or an import wrote them. Keys: a approves the focused one, r rejects it.` : "";
  document.getElementById("lessons-about").replaceChildren(...withCode(ABOUT[kind] + waiting));
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

/** What a lesson of one run is about: its situation, its action and its outcome. */
function aboutList(about) {
  const names = Object.keys(about).filter((name) => about[name]);
  return make("dl", {}, ...names.flatMap((name) => [make("dt", {}, name), make("dd", { dir: "auto" }, about[name])]));
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
    ...(one.kind === "experience" ? [make("details", {}, make("summary", {}, "Where it comes from"), aboutList(one.about))] : []),
    make(
      "div",
      { class: "facts-line" },
      make("span", {}, one.labels.join(", ")),
      make("span", {}, `${isPending(one) ? `by ${clipped(one.by, 80)}, ` : ""}from ${plural(one.runs, "run")}`),
      ...(one.evidence ? [make("span", { title: "Of the runs that did so here; a call worked or failed as its run did" }, one.evidence)] : []),
      ...(one.held_back ? [make("span", { title: "It is about one run: agents are told rules of many runs" }, one.held_back)] : []),
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
    await ask("/api/lessons", { body: { kind: one.kind, id: one.id, retired } });
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
  return make(
    "li",
    {},
    make("p", {}, make("b", { dir: "auto" }, clipped(one.user, 120))),
    make("p", { class: "text", dir: "auto" }, one.text || "(empty)"),
    make("div", { class: "facts-line" }, make("span", {}, `version ${one.version}, by ${one.by}`)),
  );
}

document.getElementById("choose").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("choose").addEventListener("input", () => {
  clearTimeout(words.timer);
  words.timer = setTimeout(() => loadLessons().catch(explain), 150);
});
