// What memory does: sessions with memory beside those that were held out, and how that became known.
"use strict";

const WIDTH = 720;
const HEIGHT = 170;
const MARGIN = { left: 44, right: 8, top: 8, bottom: 26 };
const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The first figure: by how many points memory changes success, if that is known. */
function upliftFigure({ success, measures, sessions, shadow, holdout }) {
  if (success) {
    const [value, interval] = measures[0].cells.at(-1).replace(")", "").split(" (");
    const known = success.low > 0 || success.high < 0;
    return figure("Uplift", known ? `${value} points` : "not yet known", `${interval}${known ? "" : " points"}, in ${plural(sessions, "session")}`);
  }
  if (shadow) return figure("Uplift", "shadow", "nothing is shown to agents");
  return figure("Uplift", "–", holdout || sessions ? `${plural(sessions, "session")} with an outcome` : "no session is held out");
}

/** How often agents called what a hint named. */
function followedDetail(followed, judged) {
  return judged ? `${asCount(followed)} of the ${asCount(judged)} before a call` : "no call after a suggestion yet";
}

function fillUplift(uplift) {
  document.getElementById("uplift").replaceChildren(...withCode(uplift.sentence));
  const plot = document.getElementById("uplift-plot");
  const more = document.getElementById("uplift-more");
  plot.hidden = uplift.points.length < 2;
  more.hidden = !uplift.measures.length;
  if (!plot.hidden) plot.replaceChildren(upliftPlot(uplift), make("figcaption", {}, "Points of success more with memory, by sessions with an outcome; the band is right 95 % of the time at every look."));
  const head = make("tr", {}, make("th", {}, ""), ...uplift.columns.map((name) => make("th", {}, name)));
  document.getElementById("uplift-table").replaceChildren(make("caption", {}, uplift.adjusted), head, ...uplift.measures.map(({ cells }) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))));
}

/** The difference with its band, session by session. */
function upliftPlot({ points, sentence }) {
  const last = points[points.length - 1];
  const first = points[0].sessions;
  // The first bands are wider than anything that is learned later: they are cut.
  const most = Math.min(1, Math.ceil(50 * Math.max(Math.abs(last.low), Math.abs(last.high))) / 20);
  const x = (sessions) => MARGIN.left + ((sessions - first) / (last.sessions - first)) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value) => MARGIN.top + ((most - Math.max(-most, Math.min(most, value))) / (2 * most)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const along = (name) => points.map((point) => `${x(point.sessions).toFixed(1)},${y(point[name]).toFixed(1)}`);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": sentence });
  svg.append(drawn("polygon", { class: "band", points: [...along("low"), ...along("high").reverse()].join(" ") }));
  svg.append(drawn("line", { class: "zero", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(0), y2: y(0) }));
  svg.append(drawn("polyline", { class: "value", points: along("value").join(" ") }));
  for (const value of [-most, 0, most]) {
    const text = `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.round(100 * Math.abs(value))}`;
    svg.append(drawn("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  svg.append(drawn("text", { x: MARGIN.left, y: HEIGHT - 8 }, asCount(first)));
  svg.append(drawn("text", { x: WIDTH - MARGIN.right, y: HEIGHT - 8, "text-anchor": "end" }, plural(last.sessions, "session")));
  return svg;
}
