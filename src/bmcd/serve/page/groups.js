// Groups of items: filters that the service applies, and rules for lists, worked out here from the probabilities.

import { $, count, isolated, make } from "./elements.js";

// The best items from which rules choose; a list under rules is the most probable one among these.
export const CANDIDATES = 100;

/** Return the k most probable rows under rules, and what the rules cost in expected hits.
 *
 * First the best items of new groups, as many as there must be, then the best of all, none beyond the cap of its
 * groups. Where no item is in several groups, no list under the rules is more probable.
 */
export function ruled(rows, k, { column, most, least }) {
  const plain = rows.slice(0, k);
  const groupsOf = (row) => row.groups?.[column] ?? [];
  const seen = new Map();
  const chosen = new Set();
  const take = (wanted) => {
    for (const row of rows) {
      if (chosen.size >= k) return;
      const own = groupsOf(row);
      if (chosen.has(row) || (most > 0 && own.some((group) => (seen.get(group) ?? 0) >= most)) || !wanted(own)) continue;
      chosen.add(row);
      for (const group of own) seen.set(group, (seen.get(group) ?? 0) + 1);
    }
  };
  take((own) => seen.size < least && own.some((group) => !seen.has(group)));
  take(() => true);
  const list = rows.filter((row) => chosen.has(row)).map((row, place) => ({ ...row, rank: place + 1 }));
  const sum = (some) => some.reduce((total, row) => total + row.probability, 0);
  const groups = (some) => new Set(some.flatMap(groupsOf)).size;
  return { list, before: sum(plain), after: sum(list), groups: groups(list), plainGroups: groups(plain) };
}

/** Say what rules do to a list. */
export function priceOf({ before, after, groups, plainGroups, list }, k) {
  const price = Math.max(0, before - after);
  const share = before > 0 ? ` (${((100 * price) / before).toFixed(1)}\u00a0%)` : "";
  const short = list.length < k ? ` Only ${count(list.length, "item")} can be shown under these rules.` : "";
  return `${count(groups, "group")} in the list instead of ${plainGroups}; ${price.toFixed(2)} of ${before.toFixed(2)} expected hits given up${share}.${short}`;
}

/** Put the controls of the model's groups on the page; `changed` is called with true if the service must be asked. */
export function showGroups(model, rules, changed) {
  const columns = Object.keys(model.groups ?? {}).filter((name) => model.groups[name].length > 1);
  $("groups").hidden = !columns.length;
  if (!columns.length) return;
  if (!columns.includes(rules.column)) Object.assign(rules, { column: columns[0], only: "" });
  const groups = model.groups[rules.column];
  $("column").replaceChildren(...columns.map((name) => make("option", { value: name, selected: name === rules.column }, name)));
  $("only").replaceChildren(
    make("option", { value: "" }, "all groups"),
    ...groups.map((name) => make("option", { value: name, selected: name === rules.only }, name)),
  );
  if (!groups.includes(rules.only)) rules.only = "";
  rules.least = Math.min(rules.least, groups.length);
  $("least").max = Math.min(groups.length, 10);
  $("most").value = rules.most;
  $("least").value = rules.least;
  $("column").onchange = () => {
    Object.assign(rules, { column: $("column").value, only: "" });
    showGroups(model, rules, changed);
    changed(true);
  };
  $("only").onchange = () => {
    rules.only = $("only").value;
    changed(true);
  };
  for (const name of ["most", "least"]) {
    $(name).oninput = () => {
      rules[name] = Number($(name).value);
      changed(false);
    };
  }
}

/** Write the settings beside the sliders. */
export function showRules(rules) {
  const most = rules.most ? `at most ${rules.most}` : "any number";
  $("most-value").textContent = rules.most || "off";
  $("most").setAttribute("aria-valuetext", most);
  $("least-value").textContent = rules.least;
  $("least").setAttribute("aria-valuetext", `at least ${count(rules.least, "group")}`);
}

/** Show the model card below the page. */
export function showCard(card) {
  $("card").replaceChildren(
    ...card.parts.map((part) =>
      make(
        "section",
        {},
        make("h3", {}, part.title),
        part.texts.map((text) => make("p", {}, isolated(text))),
        part.points.length ? make("ul", {}, part.points.map((text) => make("li", {}, isolated(text)))) : null,
        part.rows.length ? tableOf(part.rows) : null,
      ),
    ),
  );
}

function tableOf([head, ...rows]) {
  const cells = (name, row) => row.map((cell, place) => make(place ? "td" : name, {}, isolated(cell)));
  const heads = head.some((one) => one !== "") ? make("thead", {}, make("tr", {}, head.map((one) => make("th", { scope: "col" }, one)))) : null;
  return make("table", {}, heads, make("tbody", {}, rows.map((row) => make("tr", {}, cells("th", row)))));
}
