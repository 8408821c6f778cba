// What was suggested lately and what the agent did, and the runs under way.
"use strict";

const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
function since(at) {
  const seconds = Math.max(0, Date.now() / 1000 - at);
  if (seconds < 5) return "now";
  if (seconds < 60) return ago.format(-Math.round(seconds), "second");
  if (seconds < 3600) return ago.format(-Math.round(seconds / 60), "minute");
  return seconds < 86_400 ? ago.format(-Math.round(seconds / 3600), "hour") : ago.format(-Math.round(seconds / 86_400), "day");
}
const time = (at) => make("time", { class: "when", "data-at": String(at), datetime: new Date(1000 * at).toISOString() }, since(at));


/** A tool's name that leads to the tool in the graph. */
function toolLink(name, more = "") {
  return make("button", { type: "button", class: `tool ${more}`, dir: "auto", onclick: () => showTool(name) }, clipped(name, 80));
}

function figure(term, value, detail) {
  return make("div", {}, make("dt", {}, term), make("dd", {}, value), make("dd", { class: "detail" }, detail));
}

function storedDetail({ trajectories, successes }, labelled) {
  const noun = trajectories === 1 ? "run" : "runs";
  if (!labelled) return trajectories ? `${noun}, none with an outcome` : noun;
  const succeeded = `${shareOf(successes, labelled)} succeeded`;
  return labelled === trajectories ? `${noun}, ${succeeded}` : `${noun}; of ${asCount(labelled)} with an outcome, ${succeeded}`;
}

/** How many stored runs lack an outcome, and the ways to give one; "" if there are none. A run under way is not over. */
function withoutOutcome({ totals }) {
  const waiting = totals.unlabelled;
  if (!waiting) return "";
  const [have, teach, them] = waiting === 1 ? ["has", "teaches", "it"] : ["have", "teach", "them"];
  const ways = "your program sends POST /outcome at the end of a run, the buttons under Suggestions end a run under way, and `hepm label` labels stored runs, by hand, by a rule or by a model";
  return `${plural(waiting, "run")} ${have} no outcome and ${teach} nothing: label ${them}. Three ways: ${ways}.`;
}

function fillFigures({ counts, totals, open_runs, uplift }) {
  const { texts = 0, hints = 0, followed = 0, not_followed = 0, requests = 0 } = counts;
  const judged = followed + not_followed;
  const labelled = totals.successes + totals.failures;
  document.getElementById("figures").replaceChildren(
    upliftFigure(uplift),
    figure("Followed", shareOf(followed, judged), followedDetail(followed, judged)),
    figure("Said", asCount(texts), `in ${plural(requests, "request")} since the server started${texts ? `: ${plural(hints, "suggestion")}, else warnings or lessons` : ""}`),
    figure("Under way", asCount(open_runs), open_runs === 1 ? "run" : "runs"),
    figure("Stored", asCount(totals.trajectories), storedDetail(totals, labelled)),
  );
}

function runRow(run) {
  return make(
    "li",
    { class: "run" },
    time(run.at),
    make("span", { class: "request", dir: "auto" }, runLink(run)),
    make("span", { class: "mark" }, run.door),
    mayWrite ? make("span", { class: "end" }, ...[true, false].map((success) => outcomeButton(run, success))) : "",
  );
}

/** An outcome cannot be taken back here, so the message above asks again. */
function outcomeButton(run, success) {
  const name = clipped(run.request || run.id, 80);
  const end = async () => {
    try {
      await ask("/outcome", { body: { session: run.id, success } });
      say(`Stored as ${ENDED.get(success)[0]}: ${name}`);
      start();
    } catch (error) {
      explain(error);
    }
  };
  const really = () => say(`End this run as ${ENDED.get(success)[0]}? ${name}`, { action: make("button", { type: "button", onclick: end }, "End it") });
  return make("button", { type: "button", onclick: really }, success ? "It succeeded" : "It failed");
}

/** The state of a suggestion as a word and a colour; `latest` if the run is under way and had none since. */
function verdict(hint, latest) {
  if (!hint.tools.length) return [hint.warned.length ? "warned" : hint.lessons ? "lessons" : "done", ""];
  if (hint.usual && hint.followed === true) return ["usual call", ""];
  if (hint.followed === true) return ["followed", "yes"];
  if (hint.followed === false) return ["not followed", "no"];
  return [latest ? "waiting" : "no call", ""];
}

/** What the agent called, if that was not the first suggestion. */
function calledInstead({ called, tools }) {
  if (!called.length || (tools.length && called.includes(tools[0]))) return [];
  return [make("div", { class: "called", dir: "auto" }, `called ${called.map((tool) => clipped(tool, 80)).join(", ")}`)];
}

function hintRow(hint, latest) {
  const [word, kind] = verdict(hint, latest);
  const [end, how] = ENDED.get(hint.success) ?? [];
  const suggested = hint.tools.flatMap((tool, i) => [...(i ? [", "] : []), toolLink(tool, i ? "" : "first")]);
  const more = [];
  if (hint.warned.length) more.push(`${suggested.length ? "; " : ""}warned of ${hint.warned.map(actOf).join(", ")}`);
  if (hint.lessons) more.push(`${suggested.length || more.length ? "; " : ""}${plural(hint.lessons, "lesson")}`);
  return make(
    "li",
    { class: "hint" },
    time(hint.at),
    make(
      "div",
      { class: "what" },
      make("div", { dir: "auto" }, ...suggested, ...more),
      // A turn without a call decides nothing, and most conversations have many.
      ...(word === "no call" ? [] : [make("div", { class: "reason", dir: "auto" }, clipped(hint.reason, 400))]),
    ),
    make("div", {}, make("span", { class: `mark ${kind}` }, word), ...calledInstead(hint)),
    make("div", { class: "ended" }, ...(end ? [make("span", { class: `mark ${how}`, title: "How the run ended" }, end)] : []), make("div", { class: "of", dir: "auto" }, runLink({ id: hint.run, request: hint.request }))),
  );
}

/** Put new rows into a list; the focus, and what is unfolded, stay. */
function refill(element, ...children) {
  const controls = () => [...element.querySelectorAll("button, summary, input, textarea")];
  const focused = controls().indexOf(document.activeElement);
  const open = new Set([...element.querySelectorAll("details[open]")].map((one) => one.closest("li").dataset.id));
  element.replaceChildren(...children);
  for (const one of element.querySelectorAll("details")) one.open = open.has(one.closest("li").dataset.id);
  if (focused >= 0) controls()[Math.min(focused, controls().length - 1)]?.focus({ preventScroll: true });
}

function fillHints(now) {
  fillUplift(now.uplift);
  fillFigures(now);
  const unlabelled = document.getElementById("unlabelled");
  unlabelled.replaceChildren(...withCode(withoutOutcome(now)));
  document.getElementById("guard").textContent = `Guard: ${now.guard}.`;
  unlabelled.hidden = !unlabelled.textContent;
  document.getElementById("open-runs").textContent = now.open_runs > now.runs.length ? `the latest ${now.runs.length} of ${asCount(now.open_runs)}` : "";
  refill(document.getElementById("runs"), ...(now.runs.length ? now.runs.map(runRow) : [make("li", { class: "none" }, "No run is under way.")]));
  const open = new Set(now.runs.map((run) => run.id));
  const seen = new Set();
  const rows = now.hints.map((hint) => {
    const latest = open.has(hint.run) && !seen.has(hint.run);
    seen.add(hint.run);
    return hintRow(hint, latest);
  });
  const none = "Nothing was said yet. Suggestions, warnings and lessons appear here once an agent speaks through this server and memory knows the situation.";
  refill(document.getElementById("hints"), ...(rows.length ? rows : [make("li", { class: "none" }, none)]));
}

/** Times pass even if nothing happens. */
function retellTimes() {
  for (const element of document.querySelectorAll("time[data-at]")) element.textContent = since(Number(element.dataset.at));
}
