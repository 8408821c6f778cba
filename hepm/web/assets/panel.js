// The panel beside the graph and the tip under the pointer. Recorded text enters only through textContent.
"use strict";

// The live page's own: texts behind an edge that came without them, and a tool that is not drawn.
let askForTexts;
let showNeighbours;

const panel = document.getElementById("panel");
const tip = document.getElementById("tip");

const nameOf = (id) => (isStart(id) ? TOOLS[id].label : TOOLS[id].name);
const toolButton = (id) =>
  make("button", { type: "button", class: isStart(id) ? "tool start" : "tool", dir: "auto", onclick: () => selectTool(id) }, nameOf(id));

const MEANS = {
  Weight: "Share of this edge among all that leave its tool, by successful runs, short ones counting for more; 0 to 1",
  Support: "Successful runs in which this tool came next",
  Failed: "Failed runs among all of known outcome in which this tool came next",
};
function facts(rows) {
  const terms = rows.flatMap(([term, value]) => [
    make("dt", MEANS[term] ? { title: MEANS[term] } : {}, term),
    make("dd", MEANS[term] ? { title: MEANS[term] } : {}, value),
  ]);
  return make("dl", { class: "facts" }, ...terms);
}

function bar(edge, share) {
  const fill = make("i");
  fill.style.width = `${100 * (share ?? 0)}%`;
  fill.style.background = css(failureColour(edge));
  return make("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** One row of a list of tools: the name goes to the tool, the bar and the numbers to the edge. */
function row(edge, id) {
  const numbers = `weight ${asWeight(edge.weight)} · support ${asCount(edge.support)} · failed ${asFailed(edge)}`;
  const why = make(
    "button",
    { type: "button", class: "why", title: `Runs and summaries behind this edge. ${Object.entries(MEANS).map((each) => each.join(": ")).join(". ")}`, onclick: () => selectEdge(edge.id) },
    bar(edge, edge.weight),
    make("span", { class: "numbers" }, numbers),
  );
  return make("li", {}, toolButton(id), why);
}

function list(title, edges, end, none) {
  const body = edges.length
    ? make("ol", { class: "ways" }, ...edges.map((edge) => row(edge, edge[end])))
    : make("p", { class: "none" }, none);
  return [make("h3", {}, title, " ", make("small", {}, String(edges.length))), body];
}

/** Calls and errors of a tool. No errors are not told: where calls carry no error flag they are not known. */
function callsOf(tool) {
  return facts([["Calls", asCount(tool.calls)], ...(tool.errors ? [["Errors", asCount(tool.errors)]] : [])]);
}

function toolPanel(id) {
  const tool = TOOLS[id];
  const about = isStart(id)
    ? [make("p", { class: "about" }, "Where every run starts, before its first call.")]
    : [
        make("p", { class: "about", dir: "auto" }, tool.description || "No description recorded."),
        ...(tool.retired ? [make("p", { class: "none" }, "Retired: it is never suggested.")] : []),
        callsOf(tool),
      ];
  return [
    make("h2", { dir: "auto" }, nameOf(id)),
    ...about,
    ...list("Next tools", nextOf[id], "target", "No tool followed it in the recorded runs."),
    ...(isStart(id) ? [] : list("Tools before it", beforeOf[id], "source", "Nothing came before it.")),
  ];
}

function texts(title, items, all, tag) {
  const more = all > items.length ? [make("p", { class: "none" }, `and ${asCount(all - items.length)} more`)] : [];
  const body = items.length
    ? make("ul", { class: tag }, ...items.map((text) => make("li", { dir: "auto" }, text)))
    : make("p", { class: "none" }, "None recorded.");
  return [make("h3", {}, title, " ", make("small", {}, asCount(all))), body, ...more];
}

const asRuns = (number, kind = "") =>
  number === null ? NOT_KNOWN : `${asCount(number)} ${kind}${number === 1 ? "run" : "runs"}`;

function edgePanel(edge) {
  return [
    make("h2", {}, toolButton(edge.source), make("span", { class: "arrow" }, " → "), toolButton(edge.target)),
    make("p", { class: "about" }, `Number ${edge.rank} of ${nextOf[edge.source].length} next tools.`),
    ...(edge.fork ? [make("p", { class: "fork-text", dir: "auto" }, edge.fork.text)] : []),
    bar(edge, edge.weight),
    facts([
      ["Weight", asWeight(edge.weight)],
      ["Support", asRuns(edge.support, "successful ")],
      ["Failed", asFailed(edge)],
    ]),
    ...(edge.summaries === undefined
      ? [make("p", { class: "none" }, "Loading…")]
      : [
          ...texts("What agents knew", edge.summaries, edge.all_summaries, "summaries"),
          ...runsBehind(edge),
        ]),
  ];
}

/** The runs behind an edge: on the live page by what was asked for, each leading to its calls. */
function runsBehind(edge) {
  if (typeof openRun === "undefined") return texts("Runs", edge.runs, edge.all_runs, "runs");
  const found = texts("Runs", edge.runs, edge.all_runs, "asked");
  found[1].querySelectorAll?.("li").forEach((item, at) => item.replaceChildren(runButton(edge.runs[at], edge.requests?.[edge.runs[at]])));
  return found;
}
const runButton = (id, request) => make("button", { type: "button", class: "tool", dir: "auto", title: id, onclick: () => openRun(id) }, request || id);

const textsOf = ({ summaries, runs, all_summaries, all_runs, requests }) => ({ summaries, runs, all_summaries, all_runs, requests });
async function completeEdge(edge) {
  Object.assign(edge, await askForTexts(edge));
  if (EDGES[view.edge] === edge) fillPanel();
}

const callsIn = (tool) => `${asCount(tool.calls)} ${tool.calls === 1 ? "call" : "calls"}`;

function overview() {
  const rows = TOOLS.map((tool, id) =>
    make("li", {}, toolButton(id), make("span", { class: "numbers" }, isStart(id) ? "" : callsIn(tool))),
  );
  return [
    make("h2", {}, "All tools"),
    make("p", { class: "about" }, "Click a tool for what comes next, an arrow for the runs behind it."),
    make("ol", { class: "all" }, ...rows),
  ];
}

function fillPanel() {
  // It keeps its place where it does nothing, so that nothing moves on a click.
  const back = make("button", { type: "button", class: "back", onclick: clearSelection }, "← All tools");
  if (view.tool === null && view.edge === null) back.style.visibility = "hidden";
  const body = view.edge !== null ? edgePanel(EDGES[view.edge]) : view.tool !== null ? toolPanel(view.tool) : overview();
  panel.replaceChildren(back, ...body);
  panel.scrollTop = 0;
  if (view.edge !== null && EDGES[view.edge].summaries === undefined) completeEdge(EDGES[view.edge]);
}

const TIP_CHARACTERS = 300;
const cut = (text) => (text.length > TIP_CHARACTERS ? `${text.slice(0, TIP_CHARACTERS)}…` : text);

function tipBody(found) {
  if (found.edge !== undefined) {
    const edge = EDGES[found.edge];
    return [
      make("b", {}, `${TOOLS[edge.source].label} → ${TOOLS[edge.target].label}`),
      facts([["Weight", asWeight(edge.weight)], ["Support", asCount(edge.support)], ["Failed", asFailed(edge)]]),
      ...(edge.fork ? [make("p", { dir: "auto" }, edge.fork.text)] : edge.summaries?.length ? [make("p", { dir: "auto" }, cut(edge.summaries[0]))] : []),
    ];
  }
  const tool = TOOLS[found.tool];
  const next = nextOf[found.tool].slice(0, 3).map((edge) => `${TOOLS[edge.target].label} (${asWeight(edge.weight)})`);
  return [
    make("b", {}, tool.label),
    ...(tool.description ? [make("p", { dir: "auto" }, cut(tool.description))] : []),
    ...(isStart(found.tool) ? [] : [callsOf(tool)]),
    make("p", {}, next.length ? `Next: ${next.join(", ")}` : "Nothing followed it."),
  ];
}

function showTip(found, point) {
  // What is selected stands in the panel, so a tip of it would only hide the graph.
  const known = (found.tool ?? null) === view.tool && (found.edge ?? null) === view.edge;
  tip.hidden = known || (found.tool === undefined && found.edge === undefined);
  if (tip.hidden) return;
  tip.replaceChildren(...tipBody(found));
  const [right, bottom] = [plane.clientWidth - tip.offsetWidth - 8, plane.clientHeight - tip.offsetHeight - 8];
  tip.style.left = `${Math.max(8, Math.min(point.x + 16, right))}px`;
  tip.style.top = `${Math.max(8, point.y + 16 > bottom ? point.y - tip.offsetHeight - 12 : point.y + 16)}px`;
}
