// What is on the screen, as the part of the address after "#": browsers never send it to a server.

export const LETTERS = ["a", "b"];

/** Return what the address asks for: k, the cut-off in percent, and one or two people. */
export function readLink(text = location.hash) {
  const given = new URLSearchParams(text.replace(/^#/, ""));
  const number = (name, least, most, otherwise) => {
    const value = Number(given.get(name) ?? NaN);
    return Number.isInteger(value) && value >= least && value <= most ? value : otherwise;
  };
  const people = LETTERS.map((letter) => {
    const user = given.get(`${letter}-user`);
    return { user, clicked: user === null ? [...new Set(given.getAll(letter))] : [] };
  });
  const two = given.get("people") === "2";
  const [column, only] = ["column", "only"].map((name) => given.get(name) ?? "");
  const rules = { column, only, most: number("most", 0, 10, 0), least: number("least", 1, 10, 1) };
  return { rules, k: number("k", 1, 10_000, 10), cut: number("cut", 0, 100, 0), people: two ? people : people.slice(0, 1) };
}

/** Return the same as text. A user of the model is written by id alone: the model knows the clicks. */
export function linkOf({ k, cut, people, rules }) {
  const text = new URLSearchParams({ k, cut });
  if (rules.only || rules.most || rules.least > 1) text.set("column", rules.column);
  if (rules.only) text.set("only", rules.only);
  if (rules.most) text.set("most", rules.most);
  if (rules.least > 1) text.set("least", rules.least);
  if (people.length === 2) text.set("people", 2);
  people.forEach((person, place) => {
    const letter = LETTERS[place];
    if (person.user !== null) text.set(`${letter}-user`, person.user);
    else for (const item of person.clicked) text.append(letter, item.item ?? item);
  });
  return `#${text}`;
}
