// What the reader does: selecting, hovering, filtering, and going back to where the page opened.
"use strict";

const perTool = document.getElementById("per-tool");
const weight = document.getElementById("weight");
let pointer = null;
let waiting = false;

/** Show a graph: the embedded one, or its next version, in which what is selected stays so by name. */
function load(data) {
  const chosen = view.tool === null ? null : TOOLS[view.tool].name;
  const before = view.edge === null ? null : EDGES[view.edge];
  const ends = before && [TOOLS[before.source].name, TOOLS[before.target].name];
  const asReadable = !TOOLS.length || view.perTool === readableNext();
  readGraph(data);
  const idOf = (name) => TOOLS.findIndex((tool) => tool.name === name);
  const tool = chosen === null ? -1 : idOf(chosen);
  const edge = ends && nextOf[idOf(ends[0])]?.find(({ target }) => target === idOf(ends[1]));
  Object.assign(view, { tool: tool < 0 ? null : tool, edge: edge?.id ?? null, hovered: null });
  // Texts that are asked for later: the former ones stand in for them.
  if (edge) Object.assign(edge, { ...textsOf(before), ...edge });
  if (asReadable) view.perTool = readableNext();
  perTool.max = MOST_NEXT;
  listNames();
  drawGraph();
}

function selectTool(id) {
  Object.assign(view, { tool: id, edge: null });
  fillPanel();
  refresh();
  show(standingOut());
}

function selectEdge(id) {
  Object.assign(view, { tool: null, edge: id });
  fillPanel();
  refresh();
  show(standingOut());
}

function clearSelection() {
  Object.assign(view, { tool: null, edge: null });
  fillPanel();
  refresh();
}

function refresh() {
  // What lay under the pointer is elsewhere now, until the pointer moves again.
  pointer = null;
  tip.hidden = true;
  redraw();
  perTool.value = view.perTool;
  weight.value = view.weight;
  document.getElementById("per-tool-value").textContent = `${view.perTool} of ${MOST_NEXT}`;
  document.getElementById("weight-value").textContent = view.weight.toFixed(2);
  const shown = EDGES.filter(isShown).length;
  document.getElementById("shown").textContent = `${asCount(shown)} of ${asCount(EDGES.length)} edges shown`;
}

function filterBy(values) {
  Object.assign(view, values);
  refresh();
}

function reset(animated = true) {
  Object.assign(view, { tool: DATA.focus, edge: null, perTool: readableNext(), weight: 0 });
  fillPanel();
  refresh();
  showAll(animated);
}

perTool.addEventListener("input", () => filterBy({ perTool: Number(perTool.value) }));
weight.addEventListener("input", () => filterBy({ weight: Number(weight.value) }));
document.getElementById("all-edges").addEventListener("click", () => filterBy({ perTool: MOST_NEXT, weight: 0 }));
document.getElementById("reset").addEventListener("click", () => reset());
const zoomBy = (factor) => network.moveTo({ scale: network.getScale() * factor, animation: moving() });
document.getElementById("zoom-in").addEventListener("click", () => zoomBy(1.4));
document.getElementById("zoom-out").addEventListener("click", () => zoomBy(1 / 1.4));

network.on("click", (event) => {
  const hit = under(event.pointer.DOM);
  // A click is no wish to travel: what was clicked is in sight already.
  Object.assign(view, { tool: hit.tool ?? null, edge: hit.edge ?? null });
  fillPanel();
  refresh();
});

function hover() {
  waiting = false;
  const hit = pointer ? under(pointer) : {};
  if (pointer) showTip(hit, pointer);
  else tip.hidden = true;
  plane.style.cursor = hit.tool === undefined && hit.edge === undefined ? "" : "pointer";
  const hovered = hit.tool ?? null;
  if (hovered !== view.hovered) {
    view.hovered = hovered;
    network.redraw();
  }
}
plane.addEventListener("pointermove", (event) => {
  const corner = plane.getBoundingClientRect();
  pointer = event.buttons ? null : { x: event.clientX - corner.left, y: event.clientY - corner.top };
  if (!waiting) requestAnimationFrame(hover);
  waiting = true;
});
plane.addEventListener("pointerleave", () => {
  pointer = null;
  hover();
});

load(JSON.parse(document.getElementById("data").textContent));
reset(false);
