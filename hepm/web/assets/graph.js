// The graph itself: tools and edges, who follows whom, and how numbers are written.
"use strict";

let DATA;
let TOOLS = [];
let EDGES = [];
let nextOf = [];
let beforeOf = [];
let MOST_NEXT = 1;
let MOST_RUNS = 1;

const LABEL = 36; // characters beside a dot

/** A name on one line, without invisible characters, its middle cut if it is long. */
function labelOf(name) {
  const line = name.slice(0, 2000).replace(/(?!\s)\p{C}/gu, "").split(/\s+/).filter(Boolean).join(" ");
  const characters = [...(line || "(no visible name)")];
  if (characters.length <= LABEL) return characters.join("");
  const head = Math.floor((2 * LABEL) / 3);
  return [...characters.slice(0, head), "…", ...characters.slice(head + 1 - LABEL)].join("");
}

/** Take a graph as the page's data. Ids of tools and edges are their numbers in it. */
function readGraph(data) {
  DATA = data;
  TOOLS = data.tools;
  EDGES = data.edges;
  TOOLS.forEach((tool, id) => (tool.label = id === data.start ? "start of a run" : labelOf(tool.name)));
  nextOf = TOOLS.map(() => []);
  beforeOf = TOOLS.map(() => []);
  EDGES.forEach((edge, id) => {
    edge.id = id;
    // Edges come strongest first, so this is the place of the target among the next tools of its source, from 1.
    edge.rank = nextOf[edge.source].push(edge);
    beforeOf[edge.target].push(edge);
  });
  beforeOf.forEach(sortBefore);
  MOST_NEXT = Math.max(1, ...nextOf.map((edges) => edges.length));
  MOST_RUNS = Math.max(1, ...EDGES.map(runsOf));
  (data.forks ?? []).forEach(markFork);
}

/** Mark the edges to what failed at a fork and to what worked there; of several forks the first one. */
function markFork({ after, ways, mistakes, text }) {
  for (const edge of EDGES) {
    const target = TOOLS[edge.target].name;
    if (edge.fork || TOOLS[edge.source].name !== after) continue;
    if (ways.includes(target)) edge.fork = { mistake: false, text };
    else if (mistakes.includes(target)) edge.fork = { mistake: true, text };
  }
}

function sortBefore(edges) {
  edges.sort((a, b) => (b.weight ?? 0) - (a.weight ?? 0) || (b.support ?? 0) - (a.support ?? 0) || a.id - b.id);
  // From which number of next tools on something leads here; below it the best supported way in is drawn all the same,
  // so that no tool hangs in the air.
  const ways = edges
    .filter((edge) => edge.source !== edge.target)
    .sort((a, b) => (b.support ?? 0) - (a.support ?? 0) || a.id - b.id);
  const reachedFrom = Math.min(...ways.map((edge) => edge.rank));
  if (ways.length) ways[0].standsInBelow = reachedFrom;
}

const runsOf = (edge) => (edge.support ?? 0) + (edge.failures ?? 0);
const isStrong = (edge, perTool) => edge.fork || edge.rank <= perTool || perTool < (edge.standsInBelow ?? 0);

/** How many next tools of each tool can be drawn before the picture becomes a tangle. */
function readableNext() {
  const room = Math.max(40, 2.2 * TOOLS.length);
  let next = MOST_NEXT;
  while (next > 1 && EDGES.filter((edge) => isStrong(edge, next)).length > room) next -= 1;
  return next;
}

const asWeight = (number) => (number === null ? NOT_KNOWN : number.toFixed(2));
/** Failed runs as a count of all that took an edge: a share alone hides that there were two. */
const asFailed = (edge) =>
  edge.failures === null || edge.support === null
    ? asPercent(edge.failure_share)
    : `${counted.format(edge.failures)} of ${counted.format(edge.failures + edge.support)} (${asPercent(edge.failure_share)})`;
