// The server's data: requests with the token and the namespace, and what to do when one is refused.
"use strict";

const TOKEN = "hepm-token";
const message = document.getElementById("message");
const dialog = document.getElementById("ask");
const answers = new Map(); // what the page has, as the server sent it
let mayWrite = false;
const place = { namespace: null, view: "report" };

class Refusal extends Error {
  constructor(status, text, namespaces) {
    super(text);
    this.status = status;
    this.namespaces = namespaces;
  }
}

/** A header holds visible ASCII only; other namespaces stand in the path, where "/" could not. */
function addressOf(path, headers) {
  if (place.namespace === null) return path;
  if (!/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(place.namespace)) return `/${encodeURIComponent(place.namespace)}${path}`;
  headers["x-hepm-namespace"] = place.namespace;
  return path;
}

/** JSON of a route; null if `known` names what the page has and nothing of it has changed. */
async function ask(path, { query = {}, body, known } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers["x-hepm-token"] = token;
  if (body) headers["content-type"] = "application/json";
  const address = addressOf(path, headers);
  const search = new URLSearchParams(query).toString();
  const options = { headers, cache: "no-store", credentials: "omit" };
  const asked = place.namespace;
  const response = await fetch(search ? `${address}?${search}` : address, body ? { ...options, method: "POST", body: JSON.stringify(body) } : options);
  const text = await response.text();
  if (!response.ok) {
    const answer = readJson(text);
    throw new Refusal(response.status, answer.error?.message ?? `the server answered ${response.status}`, answer.error?.namespaces);
  }
  // An answer about a namespace that was left meanwhile is no news.
  if (asked !== place.namespace && asked !== null) return null;
  if (known && answers.get(known) === text) return null;
  if (known) answers.set(known, text);
  return readJson(text);
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {}; // of something between the page and the server
  }
}

/** A sentence above the page; a problem stays until it is solved, anything else for ten seconds. */
function say(text, { problem = false, action } = {}) {
  clearTimeout(say.timer);
  message.hidden = !text;
  message.classList.toggle("problem", problem);
  message.replaceChildren(make("span", { dir: "auto" }, text ?? ""), ...(action ? [action] : []));
  message.dataset.problem = problem ? "yes" : "";
  if (text && !problem) say.timer = setTimeout(() => say(null), 10_000);
}
const solved = () => message.dataset.problem && say(null);

/** What a refused request means for the person; true if the page goes on by itself. */
function explain(error) {
  if (error.status === 401) {
    const wrong = sessionStorage.getItem(TOKEN);
    document.getElementById("ask-error").textContent = wrong ? "The server does not know this token." : "";
    if (!dialog.open) dialog.showModal();
    return false;
  }
  if (error.status === 403 && error.namespaces?.length && !error.namespaces.includes(place.namespace)) {
    goTo({ namespace: error.namespaces[0] });
    return true;
  }
  const text = error instanceof Refusal ? error.message : "The server does not answer. It is asked again.";
  say(text, { problem: true });
  return false;
}

dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing is to be seen without a token
document.getElementById("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  sessionStorage.setItem(TOKEN, field.value.trim());
  field.value = "";
  dialog.close();
  start();
});
