// Stored runs by what was asked for, with filters; the report on them, and what keeps memory from helping.
"use strict";

readRun = (id) => ask("/api/run", { query: { id } }).then((run) => (run === true ? null : run), (error) => void explain(error));

const filterForm = document.getElementById("filter-runs");
const storedList = document.getElementById("stored");
const moreRuns = document.getElementById("more-runs");
let lastRow = null; // row number of the last run that is listed

function storedRow(run) {
  const [word, kind] = ENDED.get(run.success) ?? ["no outcome", ""];
  const when = run.at === null ? make("span", { class: "when" }, "") : time(run.at);
  const where = [run.environment, run.task && `task ${run.task}`, run.model].filter(Boolean).join(" · ");
  return make("li", { class: "run" }, when, make("span", { class: "request", dir: "auto" }, runLink(run), ...(where ? [make("small", { class: "about" }, ` ${clipped(where, 120)}`)] : [])), make("span", { class: "when" }, plural(run.steps, "turn")), make("span", { class: "end" }, make("span", { class: `mark ${kind}` }, word)));
}

function chosenFilter() {
  const entries = [...new FormData(filterForm)].map(([name, value]) => [name, value.trim()]);
  return Object.fromEntries(entries.filter(([, value]) => value));
}

/** The values that a filter can be set to; what is chosen stays. */
function fillChoices(name, values, none) {
  const field = filterForm.elements[name];
  const chosen = field.value;
  field.replaceChildren(make("option", { value: "" }, none), ...values.map((value) => make("option", { value }, clipped(value, 60))));
  field.value = values.includes(chosen) ? chosen : "";
}

async function loadStored(before = null) {
  const query = chosenFilter();
  if (before !== null) query.before = before;
  const found = await ask("/api/runs", { query }).catch(explain);
  if (!found || found === true) return;
  fillChoices("tool", found.tools, "any tool");
  fillChoices("model", found.models, "any model");
  fillChoices("week", found.weeks, "any week");
  const rows = found.runs.map(storedRow);
  if (before !== null) storedList.append(...rows);
  else refill(storedList, ...(rows.length ? rows : [make("li", { class: "none" }, Object.keys(query).length ? "No run matches." : "No run is stored yet.")]));
  lastRow = found.runs.length ? found.runs[found.runs.length - 1].seq : null;
  moreRuns.hidden = !found.more;
}
let typing = null;
filterForm.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => loadStored(), 250);
});
filterForm.addEventListener("submit", (event) => event.preventDefault());
moreRuns.addEventListener("click", () => loadStored(lastRow));

function adviceRow({ what, mend, command }) {
  return make("li", {}, make("p", { dir: "auto" }, `${what}.`), make("p", { class: "reason", dir: "auto" }, `${mend[0].toUpperCase()}${mend.slice(1)}: `, make("code", {}, command)));
}

/** What keeps memory from helping. */
async function loadAdvice() {
  const advised = await ask("/api/advice", { known: "advice" });
  if (advised === null) return;
  document.getElementById("advice-view").hidden = !advised.advice.length;
  refill(document.getElementById("advice"), ...advised.advice.map(adviceRow));
}

/** The report; what is open in it stays. */
async function loadReport() {
  const report = await ask("/api/report", { known: "report" });
  if (report !== null) document.getElementById("report").replaceChildren(...reportParts(report));
}
