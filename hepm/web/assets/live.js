// What is in sight, and how it stays true: the server is asked every second or two, and answers only what is new.
"use strict";

const POLL_MS = 1500;
const NO_GRAPH = { start: null, focus: null, base: null, tools: [], edges: [] };
const namespaces = document.getElementById("namespace");
const views = [...document.querySelectorAll("nav button")];
const counts = make("output", {});
const whole = make("button", { type: "button", hidden: "", onclick: () => drawAround(null) }, "← Whole graph");
const nothing = make("p", { id: "nothing", hidden: "" });
const NO_TOOLS = "This namespace holds no tools yet. The graph grows with runs that have an outcome: of agents that work through this server, and of `hepm ingest`.";
plane.parentElement.append(make("div", { id: "over" }, whole, counts), nothing);
let lastNow = null;
let timer = null;
let round = 0;
let lessonsAt = null; // revision of the lessons in sight
let runsAt = null; // and of the runs
let around = null; // the tool whose neighbourhood is drawn; null for the whole graph
let placed = "";

// Where the page is stands in its address, so that it can be reloaded and bookmarked.
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const view = parts.get("view");
  return { namespace: parts.get("namespace"), view: views.some((one) => one.dataset.view === view) ? view : "report" };
}

function goTo(changes) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...place, ...changes })) if (value !== null) parts.set(name, value);
  location.hash = parts.toString();
}

function arrive() {
  const before = place.namespace;
  Object.assign(place, readAddress());
  if (place.namespace !== before) forgetNamespace();
  for (const one of views) {
    if (one.dataset.view === place.view) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  for (const element of document.querySelectorAll("main")) element.hidden = element.dataset.shows !== place.view;
  document.body.dataset.view = place.view;
  if (place.view === "lessons") lessonsAt = null;
  if (["hints", "runs", "report"].includes(place.view)) runsAt = null;
  if (place.view === "graph") requestAnimationFrame(() => placed || reset(false));
  start();
}

function forgetNamespace() {
  say(null); // it may offer to undo what was done elsewhere
  answers.clear();
  lessonsAt = runsAt = around = null;
  placed = "";
  load(NO_GRAPH);
  reset(false);
}

function start() {
  clearTimeout(timer);
  poll();
}

async function poll() {
  const mine = ++round;
  let pause = POLL_MS;
  try {
    const now = await ask("/api/now", { known: "now" });
    if (mine !== round) return;
    if (now !== null) showNow(now);
    if (place.view === "graph") await updateGraph();
    const reload = { hints: loadAdvice, runs: loadStored, report: loadReport }[place.view];
    if (reload && runsAt !== lastNow.revision) {
      runsAt = lastNow.revision;
      await reload();
    }
    if (place.view === "lessons" && lessonsAt !== lastNow.revision) {
      lessonsAt = lastNow.revision;
      await loadLessons();
    }
    solved();
  } catch (error) {
    if (mine !== round) return;
    if (error.status === 401) return void explain(error); // until there is a token
    if (!explain(error)) pause = 3 * POLL_MS;
  }
  retellTimes();
  if (mine === round && !document.hidden) timer = setTimeout(poll, pause);
}

function showNow(now) {
  lastNow = now;
  if (place.namespace === null) {
    const others = now.namespaces.filter((name) => name !== now.namespace);
    if (!now.totals.trajectories && !now.open_runs && others.length) return goTo({ namespace: others[0] });
    place.namespace = now.namespace;
  }
  mayWrite = now.write;
  fillNamespaces(now.namespaces);
  for (const [kind, count] of [["principle", now.totals.principles], ["experience", now.totals.experiences], ["notes", now.totals.notes]])
    document.getElementById(`all-${kind}`).textContent = asCount(count);
  document.title = `hepm · ${visible(clipped(now.namespace, 60))}`;
  fillHints(now);
}

function fillNamespaces(names) {
  const text = JSON.stringify([names, place.namespace]);
  if (namespaces.dataset.names === text) return;
  namespaces.dataset.names = text;
  namespaces.replaceChildren(
    ...names.map((name) => {
      const option = make("option", { value: name }, clipped(name, 60));
      option.selected = name === place.namespace;
      return option;
    }),
  );
}

// The graph

async function updateGraph() {
  const data = await ask("/api/graph", { known: "graph", query: around === null ? {} : { tool: around } });
  if (data === null) return;
  const first = !TOOLS.length;
  // Tools stay where they were drawn before, so that the eye finds them again.
  const known = new Map(TOOLS.map((tool) => [tool.name, tool]));
  if (data.tools.every((tool) => known.has(tool.name))) for (const tool of data.tools) Object.assign(tool, { x: known.get(tool.name).x, y: known.get(tool.name).y });
  load(data);
  counts.textContent = data.tools.length ? data.counts : "";
  whole.hidden = around === null;
  nothing.hidden = data.tools.length > 0;
  nothing.replaceChildren(...withCode([NO_TOOLS, withoutOutcome(lastNow)].filter(Boolean).join(" ")));
  const now = JSON.stringify(TOOLS.map((tool) => [tool.name, tool.x, tool.y]));
  const moved = now !== placed;
  placed = now;
  if (first) return reset(false);
  const top = panel.scrollTop;
  const buttons = () => [...panel.querySelectorAll("button")];
  const focused = buttons().indexOf(document.activeElement);
  fillPanel();
  panel.scrollTop = top;
  if (focused >= 0) buttons()[focused]?.focus({ preventScroll: true });
  refresh();
  if (view.edge !== null) completeEdge(EDGES[view.edge]);
  if (moved && view.tool === null && view.edge === null) showAll();
}

askForTexts = async (edge) => {
  const none = { summaries: [], runs: [], all_summaries: 0, all_runs: 0, requests: {} };
  const ends = { source: TOOLS[edge.source].name, target: TOOLS[edge.target].name };
  return (await ask("/api/edge", { query: ends }).catch(explain)) || none;
};

async function drawAround(tool) {
  around = tool;
  answers.delete("graph");
  load(NO_GRAPH);
  await updateGraph().catch(explain);
}
showNeighbours = drawAround;

async function showTool(name) {
  goTo({ view: "graph" });
  await updateGraph().catch(explain);
  const id = TOOLS.findIndex((tool) => tool.name === name);
  if (id >= 0) selectTool(id);
  else if (DATA.others?.includes(name)) await drawAround(name);
  else say("This tool is not in the graph: no stored run with an outcome called it.");
}

for (const one of views) one.addEventListener("click", () => goTo({ view: one.dataset.view }));
namespaces.addEventListener("change", () => goTo({ namespace: namespaces.value }));
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "/" || place.view === "graph" || isTyping(event)) return;
    event.stopPropagation(); // the search for tools is out of sight
    if (place.view === "lessons") {
      event.preventDefault();
      words.focus();
    }
  },
  true,
);
addEventListener("hashchange", arrive);
document.addEventListener("visibilitychange", () => document.hidden || start());
arrive();
