// The drawing: vis-network draws dots and arrows, names are written over it at one size and never on each other.
"use strict";

const plane = document.getElementById("graph");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const view = { tool: null, edge: null, hovered: null, perTool: 1, weight: 0 };

// Blue to orange, told apart by people who see no red or no green: fewer failures than in the log as a whole, as many
// (grey), more. Of few runs little is known, so their share is drawn towards that of the log.
function againstBase(edge) {
  const base = DATA.base ?? 0.5;
  if (edge.failure_share === null) return null;
  const runs = runsOf(edge);
  const share = runs ? (edge.failure_share * runs + 2 * base) / (runs + 2) : edge.failure_share;
  return share <= base ? share / (2 * base || 1) : 0.5 + (share - base) / (2 * (1 - base));
}
/** How much stands behind an edge, in [0, 1]: the opacity of its arrow. */
const backing = (edge) => (edge.support === null ? 1 : Math.log1p(runsOf(edge)) / Math.log1p(MOST_RUNS));

const SCALE = {
  light: { stops: [[33, 102, 172], [150, 140, 150], [217, 95, 2]], unknown: [130, 130, 130], page: [250, 250, 248] },
  dark: { stops: [[92, 165, 235], [160, 150, 155], [255, 140, 40]], unknown: [130, 130, 130], page: [22, 25, 29] },
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const scale = () => (dark.matches ? SCALE.dark : SCALE.light);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function failureColour(edge) {
  const share = againstBase(edge);
  const { stops, unknown } = scale();
  if (share === null) return unknown;
  const [from, to, part] = share < 0.5 ? [stops[0], stops[1], 2 * share] : [stops[1], stops[2], 2 * share - 1];
  return from.map((value, i) => Math.round(value + (to[i] - value) * part));
}
const css = (rgb, alpha = 1) => `rgba(${rgb.join(",")},${alpha})`;

const isStart = (id) => id === DATA.start;

function isShown(edge) {
  if (edge.id === view.edge) return true;
  if (view.tool !== null && (edge.source === view.tool || edge.target === view.tool)) return true;
  return isStrong(edge, view.perTool) && (edge.weight ?? 0) >= view.weight;
}

/** Ids of the tools that stand out now: the selected one and its neighbours; null when all do. */
function standingOut() {
  if (view.edge !== null) return new Set([EDGES[view.edge].source, EDGES[view.edge].target]);
  if (view.tool === null) return null;
  const around = [...nextOf[view.tool].map((e) => e.target), ...beforeOf[view.tool].map((e) => e.source)];
  return new Set([view.tool, ...around]);
}

function edgeStyle(edge) {
  const chosen = view.tool === null && view.edge === null; // nothing is selected
  const mine = edge.id === view.edge || (view.tool !== null && (edge.source === view.tool || edge.target === view.tool));
  // The sides of a fork stand out: the mistake in orange, what worked in blue.
  const fork = edge.fork && scale().stops[edge.fork.mistake ? 2 : 0];
  const faint = fork && chosen ? 1 : chosen ? 0.1 + 0.4 * backing(edge) : 0.1;
  const strong = css(fork ?? failureColour(edge), mine ? 0.9 : faint);
  return {
    id: edge.id,
    hidden: !isShown(edge),
    width: (fork ? 4 : 1) + 8 * (edge.weight ?? 0) * (0.2 + 0.8 * backing(edge)) + (edge.id === view.edge ? 3 : 0),
    color: { color: strong, highlight: strong, hover: strong, inherit: false },
    dashes: edge.failure_share === null,
    selfReference: { size: 9 + TOOLS[edge.source].radius / 2, angle: Math.PI / 4 },
  };
}

function nodeStyle(tool, id, out) {
  const faded = out !== null && !out.has(id);
  const selected = id === view.tool;
  const fill = isStart(id) ? colour("start") : selected ? colour("chosen") : colour("node");
  const border = selected ? colour("text") : colour("page");
  return {
    id,
    opacity: faded ? 0.25 : tool.retired ? 0.5 : 1,
    borderWidth: selected ? 3 : 1.5,
    color: { background: fill, border, highlight: { background: fill, border }, hover: { background: fill, border } },
  };
}

const nodes = new vis.DataSet();
const links = new vis.DataSet();

const network = new vis.Network(plane, { nodes, edges: links }, {
  physics: false,
  layout: { improvedLayout: false },
  interaction: { selectable: false, hover: false, zoomSpeed: 0.7 },
  nodes: { borderWidthSelected: 3, chosen: false },
  edges: {
    arrows: { to: { enabled: true, scaleFactor: 0.5 } },
    chosen: false,
    smooth: { enabled: true, type: "curvedCW", roundness: 0.14 },
  },
});

// What vis-network holds of each node and edge, so that it gets only what changed.
const told = { nodes: new Map(), edges: new Map() };

/** Draw the graph anew; the part of the plane in sight stays. */
function drawGraph() {
  byCalls = []; // no names while there are no dots
  told.nodes.clear();
  told.edges.clear();
  links.clear();
  nodes.clear();
  nodes.add(
    TOOLS.map((tool, id) => ({
      ...nodeStyle(tool, id, null),
      x: tool.x,
      y: tool.y,
      shape: isStart(id) ? "diamond" : "dot",
      size: tool.radius,
    })),
  );
  links.add(EDGES.map((edge) => ({ ...edgeStyle(edge), from: edge.source, to: edge.target })));
  byCalls = TOOLS.map((_, id) => id);
}

/** Put the view into the picture. */
function redraw() {
  const out = standingOut();
  nodes.update(changed(told.nodes, TOOLS.map((tool, id) => nodeStyle(tool, id, out))));
  links.update(changed(told.edges, EDGES.map(edgeStyle)));
}
function changed(known, styles) {
  return styles.filter((style) => {
    const text = JSON.stringify(style);
    const differs = known.get(style.id) !== text;
    known.set(style.id, text);
    return differs;
  });
}

const moving = () => (still.matches ? false : { duration: 350, easingFunction: "easeInOutQuad" });

/** Bring tools into sight, with room for the names at the rim. */
function show(ids, { most = 1.2, animated = true } = {}) {
  if (!TOOLS.length) return;
  const at = [...ids].map((id) => network.getPosition(id));
  const [left, right] = [Math.min(...at.map((p) => p.x)), Math.max(...at.map((p) => p.x))];
  const [top, bottom] = [Math.min(...at.map((p) => p.y)), Math.max(...at.map((p) => p.y))];
  const wide = Math.max(80, plane.clientWidth - Math.min(170, plane.clientWidth / 3)) / (right - left + 1);
  const high = Math.max(60, plane.clientHeight - 90) / (bottom - top + 1);
  network.moveTo({
    position: { x: (left + right) / 2, y: (top + bottom) / 2 },
    scale: Math.min(wide, high, most),
    animation: animated && moving(),
  });
}

function showAll(animated = true) {
  nodes.update(TOOLS.map((tool, id) => ({ id, x: tool.x, y: tool.y })));
  show(byCalls, { most: 1.5, animated });
}

// Names. The most called come first and take the best place that is free around their dot.
const LINE = 16;
const WIDE = 3; // pixels of an edge from which on names keep off it
const MOST_WIDE = 40;
const POINTS = Array.from({ length: 15 }, (_, at) => (at + 1) / 16);
const mostNamed = () => (plane.clientWidth * plane.clientHeight) / 30_000;
let byCalls = [];
const font = (id) => `${isStart(id) || id === view.tool ? "600 " : ""}12px system-ui, "Segoe UI", Roboto, sans-serif`;
const textWidth = new Map();
let written = [];

function widthOf(context, id) {
  const key = `${context.font} ${TOOLS[id].label}`;
  if (!textWidth.has(key)) textWidth.set(key, context.measureText(TOOLS[id].label).width + 8);
  return textWidth.get(key);
}

/** Places around a dot, the nearest first. */
function places(at, away, width) {
  return [...placesAt(at, away, width), ...placesAt(at, away + LINE, width)];
}

function placesAt(at, away, width) {
  const [above, level, below] = [at.y - away - LINE, at.y - LINE / 2, at.y + away];
  const [left, middle, right] = [at.x - width, at.x - width / 2, at.x];
  return [
    { x: middle, y: below },
    { x: right + away, y: level },
    { x: middle, y: above },
    { x: left - away, y: level },
    { x: right, y: below },
    { x: left, y: below },
    { x: right, y: above },
    { x: left, y: above },
  ].map((corner) => ({ ...corner, width, height: LINE }));
}

const overlap = (a, b) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** Where each dot lies on the screen, as the square around it. */
function dots(zoom) {
  return byCalls.map((id) => {
    const at = network.canvasToDOM(network.getPosition(id));
    const half = zoom * TOOLS[id].radius;
    return { id, at, half, x: at.x - half, y: at.y - half, width: 2 * half, height: 2 * half };
  });
}

/** Where arrowheads lie on the screen, as squares. */
function arrowheads(zoom) {
  if (!byCalls.length) return []; // no dots yet
  return EDGES.filter((edge) => isShown(edge) && edge.source !== edge.target).flatMap((edge) => {
    const via = network.body.edges[edge.id]?.edgeType.getViaNode?.();
    const to = network.getPosition(edge.target);
    if (!via) return [];
    const [dx, dy] = [via.x - to.x, via.y - to.y];
    const length = Math.hypot(dx, dy) || 1;
    const head = 7.5 + 1.5 * (edgeStyle(edge).width ?? 1); // as vis-network draws it at this scaleFactor
    const from = TOOLS[edge.target].radius + head / 2;
    const at = network.canvasToDOM({ x: to.x + (from * dx) / length, y: to.y + (from * dy) / length });
    const half = (zoom * head) / 2;
    return [{ x: at.x - half, y: at.y - half, width: 2 * half, height: 2 * half }];
  });
}

/** Where the widest edges run on the screen, as squares along their curves. */
function wideEdges(zoom) {
  const drawn = byCalls.length ? EDGES.filter((edge) => isShown(edge) && edge.source !== edge.target) : [];
  const wide = drawn.map((edge) => ({ edge, width: zoom * edgeStyle(edge).width })).filter(({ width }) => width > WIDE);
  wide.sort((a, b) => b.width - a.width);
  return wide.slice(0, MOST_WIDE).flatMap(({ edge, width }) => {
    const via = network.body.edges[edge.id]?.edgeType.getViaNode?.();
    const [from, to] = [network.getPosition(edge.source), network.getPosition(edge.target)];
    if (!via) return [];
    return POINTS.map((part) => {
      const [near, mid, far] = [(1 - part) ** 2, 2 * part * (1 - part), part ** 2];
      const at = network.canvasToDOM({ x: near * from.x + mid * via.x + far * to.x, y: near * from.y + mid * via.y + far * to.y });
      return { x: at.x - width / 2, y: at.y - width / 2, width, height: width };
    });
  });
}

/** A place no other name has, inside the window, if possible off arrowheads and wide edges. The most called may cover the dots of less called ones. */
function freePlace(choices, dot, onScreen, [heads, wide], important) {
  const free = choices.filter(
    (place) =>
      place.x >= 0 &&
      place.y >= 0 &&
      place.x + place.width <= plane.clientWidth &&
      place.y + place.height <= plane.clientHeight &&
      !written.some((other) => overlap(place, other)),
  );
  const covers = (place, some) => onScreen.some((other) => other !== dot && some(other) && overlap(place, other));
  const off = free.filter((place) => !covers(place, () => true));
  const unlike = (some) => (place) => !some.some((other) => overlap(place, other));
  const clear = off.find(unlike([...heads, ...wide])) ?? off.find(unlike(heads)) ?? off[0];
  return clear ?? (important ? free.find((place) => !covers(place, (other) => other.id < mostNamed())) : undefined);
}

function placeNames(context, out) {
  const onScreen = dots(network.getScale()).filter(
    ({ at }) => at.x > -50 && at.y > -50 && at.x < plane.clientWidth + 50 && at.y < plane.clientHeight + 50,
  );
  const arrows = [arrowheads(network.getScale()), wideEdges(network.getScale())];
  const urgency = ({ id }) => (id === view.hovered ? 3 : id === view.tool || isStart(id) ? 2 : out?.has(id) ? 1 : 0);
  onScreen.sort((a, b) => urgency(b) - urgency(a) || a.id - b.id);
  written = [];
  for (const dot of onScreen) {
    context.font = font(dot.id);
    const choices = places(dot.at, dot.half + 3, widthOf(context, dot.id));
    const place = freePlace(choices, dot, onScreen, arrows, urgency(dot) > 0 || dot.id < mostNamed());
    if (place) written.push({ ...place, id: dot.id });
    else if (urgency(dot) > 1) written.push({ ...choices[0], id: dot.id });
  }
}

function writeNames(context) {
  const out = standingOut();
  placeNames(context, out);
  const [ink, ground] = [colour("text"), css(scale().page, 0.82)];
  // Urgent names were placed first; they are drawn last, over what they could not avoid.
  for (const { id, x, y, width } of [...written].reverse()) {
    context.globalAlpha = out !== null && !out.has(id) && id !== view.hovered ? 0.35 : 1;
    context.font = font(id);
    context.fillStyle = ground;
    context.fillRect(x, y, width, LINE);
    context.fillStyle = ink;
    context.fillText(TOOLS[id].label, x + 4, y + LINE - 4);
  }
}

network.on("afterDrawing", (context) => {
  context.save();
  const ratio = context.canvas.width / plane.clientWidth;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.direction = "ltr";
  writeNames(context);
  context.restore();
});

/** What lies under a point of the drawing: a dot, a name, an edge, or nothing. */
function under(point) {
  const node = network.getNodeAt(point);
  if (node !== undefined) return { tool: node };
  const spot = { ...point, width: 0, height: 0 };
  const name = written.find((place) => overlap(place, spot));
  if (name) return { tool: name.id };
  const edge = network.getEdgeAt(point);
  return edge === undefined ? {} : { edge };
}

dark.addEventListener("change", redraw);
