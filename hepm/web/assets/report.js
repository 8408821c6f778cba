// The report: where runs were lost, what worked instead, and what to tell the agent.
"use strict";

const heading = (text, note = "") => make("h2", {}, text, " ", ...(note ? [make("small", {}, ...withCode(note))] : []));
const runButtons = (runs, step = []) => make("ul", { class: "shown-runs" }, ...runs.map((run, at) => make("li", { dir: "auto" }, runLink(run), ...(at ? [] : step))));
const section = (title, note, list, row, kind = "rows") =>
  list.length ? [heading(title, note), make("ol", { class: kind }, ...list.map(row))] : [];

/** One side of a fork: a tool, in how many runs it failed or worked, as a bar, and runs to open, the first with what it did. */
function side({ tool, worked, called, shown, step }, failed) {
  const count = failed ? called - worked : worked;
  const fill = make("i");
  fill.style.width = `${(100 * count) / Math.max(called, 1)}%`;
  return make(
    "div",
    { class: failed ? "side mistake" : "side way" },
    make("p", { dir: "auto" }, make("b", {}, actOf(tool)), ` ${failed ? "failed" : "worked"} in ${asCount(count)} of ${asCount(called)}`),
    make("div", { class: "share" }, fill),
    runButtons(shown, step ? [make("p", { class: "step" }, step.before, make("b", {}, `${step.before ? "→ " : ""}${step.call}`))] : []),
  );
}

function forkRow(fork) {
  const about = [fork.when, fork.models.length ? `of ${fork.models.join(", ")}` : "", fork.environments.join(", ")].filter(Boolean).join(" · ");
  const none = fork.ways.length ? "" : "other calls failed less often, and none of them stands out";
  return make(
    "li",
    { class: "fork" },
    make("p", { class: "lost" }, make("b", {}, `${fork.cost} lost `), make("span", { class: "where", dir: "auto" }, fork.where)),
    make(
      "div",
      { class: "sides" },
      make("div", {}, ...fork.mistakes.map((tally) => side(tally, true))),
      make("div", {}, ...(fork.stands_out || !fork.ways.length ? [] : [make("p", { class: "none" }, "no single way stands out:")]), ...fork.ways.map((tally) => side(tally, false)), ...(none ? [make("p", { class: "none" }, none)] : [])),
    ),
    ...(about ? [make("p", { class: "about", dir: "auto" }, about)] : []),
    ...(fork.line ? [make("p", { class: "line", dir: "auto" }, ...withCode(fork.line))] : []),
  );
}

/** A row in words, with the runs to open. */
function textRow({ name, text, below, runs }) {
  const said = text ? [make("b", {}, clipped(name, 160)), ...withCode(text)] : withCode(name);
  return make("li", {}, make("p", { dir: "auto" }, ...said), ...below.map((line) => make("p", { class: "reason", dir: "auto" }, line)), ...(runs.length ? [runButtons(runs)] : []));
}

/** The report as elements, the most useful first. */
function reportParts(report) {
  const { forks, sections } = report;
  return [
    make("p", { class: "lead", dir: "auto" }, report.sentence),
    ...section("Where runs were lost", "beyond what the alternative would have lost, with a 90 % interval; orange: the call that failed; blue: what worked there", forks, forkRow, "cards"),
    ...sections.flatMap(({ heading: title, remark, rows }) => section(title, remark, rows, textRow)),
  ];
}
