// The report: where runs were lost, what worked instead, and what to tell the agent.
"use strict";

const heading = (text, note = "") => make("h2", {}, text, " ", ...(note ? [make("small", {}, ...withCode(note))] : []));
const runButtons = (runs, step = []) => make("ul", { class: "shown-runs" }, ...runs.map((run, at) => make("li", { dir: "auto" }, runLink(run), ...(at ? [] : step))));
const section = (title, note, list, row, kind = "rows") =>
  list.length ? [heading(title, note), make("ol", { class: kind }, ...list.map(row))] : [];

/** One side of a fork: a tool, in how many runs it failed or worked, as a bar, and runs to open, the first with what it did. */
function side({ tool, worked, called, shown }, failed, step) {
  const count = failed ? called - worked : worked;
  const fill = make("i");
  fill.style.width = `${(100 * count) / Math.max(called, 1)}%`;
  return make(
    "div",
    { class: failed ? "side mistake" : "side way" },
    make("p", { dir: "auto" }, make("b", {}, clipped(tool, 80)), ` ${failed ? "failed" : "worked"} in ${asCount(count)} of ${asCount(called)}`),
    make("div", { class: "share" }, fill),
    runButtons(shown, step ? [make("p", { class: "step" }, step.before, make("b", {}, `${step.before ? "→ " : ""}${step.call}`))] : []),
  );
}

function forkRow(fork) {
  const step = (side) => fork.steps.find((one) => one.side === side);
  const about = [fork.when, fork.models.length ? `of ${fork.models.join(", ")}` : "", fork.environments.join(", ")].filter(Boolean).join(" · ");
  const none = fork.ways.length ? "" : "other calls failed less often, and none of them stands out";
  return make(
    "li",
    { class: "fork" },
    make("p", { class: "lost" }, make("b", {}, `${fork.cost} lost `), make("span", { class: "where", dir: "auto" }, fork.where)),
    make(
      "div",
      { class: "sides" },
      make("div", {}, ...fork.mistakes.map((tally, at) => side(tally, true, at ? null : step("failed")))),
      make("div", {}, ...(fork.stands_out || !fork.ways.length ? [] : [make("p", { class: "none" }, "no single way stands out:")]), ...fork.ways.map((tally, at) => side(tally, false, at ? null : step("worked"))), ...(none ? [make("p", { class: "none" }, none)] : [])),
    ),
    ...(fork.answer ? [make("p", { class: "about", dir: "auto" }, fork.answer)] : []),
    ...(about ? [make("p", { class: "about", dir: "auto" }, about)] : []),
    ...(fork.line ? [make("p", { class: "line", dir: "auto" }, ...withCode(fork.line))] : []),
  );
}

function requestsRow(kind) {
  const how = kind.failed === kind.runs ? `never solved in ${plural(kind.runs, "run")}` : `${asCount(kind.failed)} of ${asCount(kind.runs)} failed`;
  return make(
    "li",
    {},
    make("p", { dir: "auto" }, make("b", {}, kind.name), `: ${how}; others fail in ${asPercent(kind.others)}`),
    ...(kind.tried.length ? [make("p", { class: "reason", dir: "auto" }, `tried: ${kind.tried.join(", ")}`)] : []),
    runButtons(kind.shown),
  );
}

function costOf({ calls, runs, seconds, tokens }) {
  const parts = [`${plural(calls, "call")} in ${plural(runs, "run")}`];
  if (seconds !== null) parts.push(`${asCount(Math.round(seconds))} s`);
  if (tokens) parts.push(`about ${plural(tokens, "token")} of results`);
  return parts.join(", ");
}

const byId = (ids) => runButtons(ids.map((id) => ({ id, request: `run ${id}` })));
const wasteRow = (text) => (row) => make("li", {}, make("p", { dir: "auto" }, make("b", {}, clipped(row.tool, 80)), ` ${text}: ${costOf(row.cost)}`), byId(row.shown));

function errorRow(row) {
  const ends = row.ends.map(({ how, runs, succeeded }) => `${how} in ${plural(runs, "run")}, of which ${asCount(succeeded)} succeeded`);
  return make(
    "li",
    {},
    make("p", { dir: "auto" }, make("b", {}, clipped(row.tool, 80)), ` failed${row.message ? ` "${row.message}"` : ""}: ${costOf(row.cost)}; ${asCount(row.failed)} of these runs failed`),
    make("p", { class: "reason", dir: "auto" }, `it ${ends.join("; ")}`),
    byId(row.shown),
  );
}

function toolRow(tool) {
  const parts = [];
  if (tool.drift) parts.push(tool.drift);
  if (tool.errors) parts.push(`${asCount(tool.errors)} of ${plural(tool.calls, "call")} failed (${asPercent(tool.errors / tool.calls)})`);
  if (tool.errors && tool.latest[1]) parts.push(`every call did in ${asCount(tool.latest[0])} of the latest ${plural(tool.latest[1], "run")}`);
  if (tool.refused) parts.push(`refused ${plural(tool.refused, "time")}`);
  if (tool.aliases.length) parts.push(`also called ${tool.aliases.join(", ")}`);
  if (!tool.calls && !tool.retired) parts.push("offered and never called");
  return make("li", { dir: "auto" }, make("b", {}, clipped(tool.name, 80)), `: ${parts.join("; ")}`);
}

/** Successes and failures week by week, as bars. */
function weekBars(weeks) {
  const most = Math.max(...weeks.map(({ succeeded, failed }) => succeeded + failed));
  const bars = weeks.map(({ monday, succeeded, failed }) => {
    const [won, lost] = [make("i", { class: "won" }), make("i", { class: "lost" })];
    won.style.height = `${(60 * succeeded) / most}px`;
    lost.style.height = `${(60 * failed) / most}px`;
    return make("li", { title: `week of ${monday}: ${asCount(succeeded)} succeeded, ${asCount(failed)} failed` }, lost, won);
  });
  return make("ol", { class: "weeks", "aria-label": "Runs by week" }, ...bars);
}

function spokenParts({ sentence, receipt, weeks, hinted, read, followed, hints }) {
  const lines = [sentence, receipt].filter(Boolean);
  if (hinted) lines.push(`A hint named a tool in ${asCount(hinted)} of the latest ${plural(read, "run")}; ${asCount(followed)} of ${plural(hints, "hint")} followed.`);
  const rows = weeks.map((week) => {
    const turned = week.turned && week.turned.map((value) => `${value > 0 ? "+" : ""}${asCount(Math.round(value))}`);
    const cells = [week.monday, asCount(week.spoke), asCount(week.succeeded), asCount(week.controls), asCount(week.controls_succeeded), turned ? `${turned[0]} (${turned[1]} to ${turned[2]})` : "–"];
    return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
  });
  const names = ["week of", "spoke in", "succeeded", "without memory", "succeeded", "failures turned"];
  const table = make("table", { class: "receipts" }, make("tr", {}, ...names.map((name) => make("th", {}, name))), ...rows);
  return lines.length ? [heading("What memory did"), ...lines.map((line) => make("p", { dir: "auto" }, ...withCode(line))), ...(rows.length ? [table] : [])] : [];
}

/** The report as elements, the most useful first. */
function reportParts(report) {
  const { forks, requests, waste, tools, weeks, spoken, advice } = report;
  return [
    make("p", { class: "lead", dir: "auto" }, report.sentence),
    ...(weeks.length > 1 ? [weekBars(weeks), make("p", { class: "about" }, `Runs by the week in which they ended, from ${weeks[0].monday} on: blue succeeded, orange failed.`)] : []),
    ...section("Where runs were lost", "beyond what the alternative would have lost, with a 90 % interval; orange: the call that failed; blue: what was right there, even if something later lost the run", forks, forkRow, "cards"),
    ...section("Requests that fail", "", requests, requestsRow),
    ...section("Called three times or more without change", `in the latest ${plural(waste.runs, "run")}`, waste.repeated, wasteRow("too many")),
    ...section("Errors, and what ended them", "", waste.errors, errorRow),
    ...section("Calls that successful runs leave out", "", waste.left_out, wasteRow("in runs of tasks that others solve without")),
    ...section("What solved errors", "", waste.recipes, (text) => make("li", { dir: "auto" }, text)),
    ...section("Tools", "", tools.filter((tool) => tool.remarkable), toolRow),
    ...spokenParts(spoken),
    ...section("What to tell the agent", "`hepm report --write AGENTS.md` writes these lines", advice, (line) => make("li", { dir: "auto" }, ...withCode(line))),
  ];
}
