// A run, turn by turn, in a dialog. Each page says how a run is read.
"use strict";

let readRun = async () => null;
const runDialog = document.getElementById("run");
const runBody = document.getElementById("run-body");

const ENDED = new Map([[true, ["succeeded", "yes"]], [false, ["failed", "no"]]]);

/** What a run was asked for, which leads to its calls. */
function runLink({ id, request }) {
  const text = request || `run ${id}`;
  return make("button", { type: "button", class: "tool", title: `Run ${id}`, onclick: () => openRun(id) }, clipped(text, 160));
}

async function openRun(id) {
  const run = await readRun(id);
  if (!run) return;
  runBody.replaceChildren(...runParts(run));
  if (!runDialog.open) runDialog.showModal();
  runDialog.scrollTop = 0;
}

function runParts(run) {
  const [word, kind] = ENDED.get(run.success) ?? [run.stored ? "no outcome" : "under way", ""];
  const about = [run.environment, run.task && `task ${run.task}`].filter(Boolean).join(" · ");
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
