// Elements made from text alone: nothing that comes from the service is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

/** Return a new element with attributes and children; text stays text, functions become listeners. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Return a new element of a drawing. */
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return what an item is called: its title, or else its id. */
export const nameOf = (item) => String(item.title ?? item.item);

const LONGEST = 120; // characters of a name that are shown
const FULL = 2000; // and those of what is shown when one points at it

/** Return an element with what an item is called: too long a name is cut, but whole when one points at it. */
export function nameElement(item, longest = LONGEST) {
  const name = nameOf(item);
  const letters = [...name.slice(0, 2 * longest + 2)];
  const shown = letters.length > longest ? `${letters.slice(0, longest).join("")}…` : name;
  return isolated(shown, { title: name.slice(0, FULL) });
}

/** Return text as an element whose direction of writing does not reach what stands around it. */
export const isolated = (text, attributes = {}) => make("bdi", attributes, String(text));

/** Return the same for text that cannot hold elements, such as a label. */
export const isolatedText = (text) => `\u2068${text}\u2069`;

/** Return a probability as people read it. */
export const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}\u00a0%`;

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** Say something to whoever listens instead of looking. */
export function announce(text) {
  $("said").textContent = text;
}
