// Runs by what was asked for: the latest ones, and each turn by turn; and what keeps memory from helping.
"use strict";

const runDialog = document.getElementById("run");
const runBody = document.getElementById("run-body");

/** What a run was asked for, which leads to its calls. */
function runLink({ id, request }) {
  const text = request || "(no request known)";
  return make("button", { type: "button", class: "tool", title: `Run ${id}`, onclick: () => openRun(id) }, clipped(text, 160));
}

openRun = async (id) => {
  const run = await ask("/api/run", { query: { id } }).catch(explain);
  if (!run || run === true) return;
  runBody.replaceChildren(...runParts(run));
  if (!runDialog.open) runDialog.showModal();
  runDialog.scrollTop = 0;
};

function runParts(run) {
  const [word, kind] = ENDED.get(run.success) ?? [run.stored ? "no outcome" : "under way", ""];
  const about = [run.environment, run.task && `task ${run.task}`, run.arm && `arm: ${run.arm}`].filter(Boolean).join(" · ");
  const more = run.all_turns - run.turns.length;
  return [
    make("h2", { dir: "auto" }, clipped(run.request || "(no request known)", 160)),
    make("p", { class: "about" }, make("span", { class: `mark ${kind}` }, word), " ", about),
    make("p", { class: "id" }, run.id),
    make("ol", { class: "turns" }, ...run.turns.map(turnRow)),
    ...(more > 0 ? [make("p", { class: "none" }, `and ${plural(more, "more turn")}`)] : []),
  ];
}

const SPEAKS = { user: "User", assistant: "Agent" };

function turnRow(turn) {
  const hinted = turn.hinted.length ? [make("p", { class: "reason", dir: "auto" }, `memory had suggested ${turn.hinted.map((tool) => clipped(tool, 80)).join(", ")}`)] : [];
  return make(
    "li",
    {},
    make("span", { class: "who" }, SPEAKS[turn.role] ?? turn.role),
    make("div", {}, ...(turn.text ? [make("p", { class: "said", dir: "auto" }, turn.text)] : []), ...hinted, ...turn.calls.map(callRow)),
  );
}

function callRow({ name, arguments: given, result, error }) {
  const failed = error ? [make("span", { class: "mark no" }, "error")] : [];
  return make(
    "div",
    { class: "call" },
    make("div", { dir: "auto" }, make("b", {}, clipped(name, 80)), " ", make("code", {}, given), " ", ...failed),
    ...(result ? [make("pre", { dir: "auto" }, result)] : []),
  );
}

document.getElementById("run-close").addEventListener("click", () => runDialog.close());
runDialog.addEventListener("click", (event) => event.target === runDialog && runDialog.close());

function storedRow(run) {
  const [word, kind] = ENDED.get(run.success) ?? ["no outcome", ""];
  const when = run.at === null ? make("span", { class: "when" }, "") : time(run.at);
  return make("li", { class: "run" }, when, make("span", { class: "request", dir: "auto" }, runLink(run)), make("span", { class: "when" }, plural(run.calls, "call")), make("span", { class: "end" }, make("span", { class: `mark ${kind}` }, word)));
}

function adviceRow({ what, mend, command }) {
  return make("li", {}, make("p", { dir: "auto" }, `${what}.`), make("p", { class: "reason", dir: "auto" }, `${mend[0].toUpperCase()}${mend.slice(1)}: `, make("code", {}, command)));
}

/** What changes with stored runs alone. */
async function loadRuns() {
  const [stored, advised] = [await ask("/api/runs", { known: "runs" }), await ask("/api/advice", { known: "advice" })];
  if (stored !== null) refill(document.getElementById("stored"), ...(stored.runs.length ? stored.runs.map(storedRow) : [make("li", { class: "none" }, "No run is stored yet.")]));
  if (advised !== null) {
    document.getElementById("advice-view").hidden = !advised.advice.length;
    refill(document.getElementById("advice"), ...advised.advice.map(adviceRow));
  }
}
