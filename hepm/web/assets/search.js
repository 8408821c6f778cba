// The search box: a combobox over the names; arrows choose, Enter goes there, Escape leaves.
"use strict";

const box = document.getElementById("search");
const found = document.getElementById("found");
const MOST_FOUND = 12;
let names = [];
let lowerNames = [];
let hits = [];
let active = 0;

/** What can be found: the tools drawn and, on the live page, the names of the others. */
function listNames() {
  names = [...TOOLS.map((_, id) => nameOf(id)), ...(DATA.others ?? [])];
  lowerNames = names.map((name) => name.slice(0, 2000).toLowerCase());
}

/** How well a name fits: whole, beginning, beginning of a word, anywhere, letters in order; null when not at all. */
function fit(name, wanted) {
  if (name === wanted) return 0;
  const at = name.indexOf(wanted);
  if (at === 0) return 1;
  if (at > 0) return /[\p{L}\p{N}]/u.test(name[at - 1]) ? 3 : 2;
  let from = 0;
  for (const letter of wanted) {
    from = name.indexOf(letter, from) + 1;
    if (from === 0) return null;
  }
  return 4;
}

function search() {
  const wanted = box.value.trim().toLowerCase();
  hits = wanted
    ? lowerNames
        .map((name, id) => ({ id, fits: fit(name, wanted) }))
        .filter((hit) => hit.fits !== null)
        .sort((a, b) => a.fits - b.fits || a.id - b.id)
        .slice(0, MOST_FOUND)
    : [];
  active = 0;
  listHits(wanted);
}

function listHits(wanted) {
  const items = hits.map(({ id }, i) => {
    const item = make("li", { id: `hit-${i}`, role: "option", dir: "auto", "aria-selected": String(i === active) }, names[id]);
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the box keeps the focus until the choice is made
      choose(i);
    });
    return item;
  });
  if (wanted && !hits.length) items.push(make("li", { class: "none" }, "No tool of that name"));
  found.replaceChildren(...items);
  found.hidden = !items.length;
  box.setAttribute("aria-expanded", String(!found.hidden));
  if (hits.length) box.setAttribute("aria-activedescendant", `hit-${active}`);
  else box.removeAttribute("aria-activedescendant");
}

function choose(i) {
  if (!hits[i]) return;
  const { id } = hits[i];
  box.value = "";
  search();
  if (id < TOOLS.length) selectTool(id);
  else showNeighbours(names[id]);
  panel.focus({ preventScroll: true });
}

box.addEventListener("input", search);
box.addEventListener("blur", () => (found.hidden = true));
box.addEventListener("focus", () => (found.hidden = !found.children.length));
box.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && hits.length) {
    active = (active + step + hits.length) % hits.length;
    listHits(box.value.trim());
    event.preventDefault();
  } else if (event.key === "Enter") {
    choose(active);
  } else if (event.key === "Escape") {
    box.value = "";
    search();
    box.blur();
    event.stopPropagation();
  }
});

const isTyping = ({ target }) => target.matches("textarea, input[type=search], input[type=password]");
document.addEventListener("keydown", (event) => {
  const typing = isTyping(event);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape" && !typing) {
    clearSelection();
  }
});
