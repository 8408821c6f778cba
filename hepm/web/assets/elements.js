// Elements and numbers, as every page writes them. Recorded text enters only through textContent.
"use strict";

/** Characters without a shape, or that turn the writing direction so that one name can pose as another, are spelled out. */
const visible = (text) =>
  text.replace(
    /[\p{Cs}\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** An element with attributes and children; a child that is no element becomes text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return element;
}

/** A text of hepm's own as nodes: what stands between backticks is code. */
function withCode(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? make("code", {}, part) : part)) : [text];
}

const counted = new Intl.NumberFormat("en");
const NOT_KNOWN = "not known";

const asCount = (number) => (number === null ? NOT_KNOWN : counted.format(number));
const asPercent = (share) =>
  share === null ? NOT_KNOWN : `${share > 0 && share < 0.01 ? "<1" : Math.round(100 * share)} %`;
const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
/** A tool's name; that no further call was made is no tool. */
const actOf = (tool) => (tool === "<END>" ? "stopping" : clipped(tool, 80));
const shareOf = (part, all) => (all ? asPercent(part / all) : "–");
const plural = (number, one, many = `${one}s`) => `${asCount(number)} ${number === 1 ? one : many}`;
