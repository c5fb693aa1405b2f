// The page for editors: one or two people, what is recommended to them, k and the cut-off.

import { showAbout } from "./about.js";
import { copy, csvOf } from "./csv.js";
import { $, announce, count, make } from "./elements.js";
import { showCard, showGroups, showRules } from "./groups.js";
import { LETTERS, linkOf, readLink } from "./link.js";
import { follow } from "./live.js";
import { forget, Person } from "./person.js";
import { scaleOf } from "./rows.js";
import { ask, busyWith, prepare, Problem, setFailed } from "./service.js";
import { forgetClusters } from "./why.js";

const STEPS = [1, 3, 5, 10, 20];
const EXPLAIN_PAUSE = 150; // milliseconds for which a slider stands still before open explanations follow
// Milliseconds for which a model is kept on the page, even if several answer in turn behind one address.
const RELOAD_PAUSE = 5000;
const view = { k: 10, cut: 0, rules: { column: "", only: "", most: 0, least: 1 }, steps: STEPS, people: [], model: null, since: 0 };

/** Show the lists that are there for the k and the cut-off on the screen; nothing is asked of the service. */
function show() {
  const found = view.people.map((person) => person.listFor(view.k));
  const lists = found.map((one) => one?.list ?? null);
  const scale = scaleOf(lists.flatMap((list) => list ?? []));
  const cut = view.cut / 100;
  const [first, second] = lists.map((list) => new Set((list ?? []).filter((row) => row.probability >= cut).map((row) => String(row.item))));
  const shared = new Set(second ? [...first].filter((item) => second.has(item)) : []);
  view.people.forEach((person, place) => {
    person.showPrice(found[place]);
    if (lists[place]) person.rows.show(lists[place], { k: view.k, cut, scale, shared });
  });
  $("shared").hidden = !(lists[0] && lists[1]);
  $("shared").textContent = shared.size
    ? `${count(shared.size, "item is", "items are")} recommended to both.`
    : "Nothing is recommended to both.";
  showRules(view.rules);
  $("k-value").textContent = view.k;
  $("k").setAttribute("aria-valuetext", `k = ${view.k}`);
  $("k-words").textContent = view.k === 1 ? "their next click" : `one of their next ${view.k} clicks`;
  $("cut-value").textContent = `${view.cut} %`;
  $("cut").setAttribute("aria-valuetext", `${view.cut} %`);
}

function keepLink() {
  const link = linkOf(view);
  if (link !== location.hash) history.replaceState(null, "", link);
}

/** Make the slider of k, with the k of a link among its steps. */
function setSteps() {
  const most = Math.min(view.model.limits.k, view.model.data.items);
  view.k = Math.min(view.k, most);
  view.steps = [...new Set([...STEPS.filter((step) => step <= most), view.k])].sort((one, other) => one - other);
  $("k").max = view.steps.length - 1;
  $("k").value = view.steps.indexOf(view.k);
  $("cut").value = view.cut;
}

/** Follow a change of filters, for which the service is asked, or of rules, which need no answer. */
function groupsChanged(isFilter) {
  show();
  keepLink();
  if (isFilter) for (const person of view.people) person.update();
}

function addPerson(start) {
  const person = new Person(LETTERS[view.people.length], {
    ...{ view, start, users: view.model.data.holds_clicks, changed: keepLink },
    answered: (answer) => {
      // In live use another model with the same clicks and a few more is no news.
      const isOther = answer.model !== view.model.hash && Date.now() - view.since > RELOAD_PAUSE && !view.model.live;
      if (isOther) reloaded();
      else show();
      return !isOther;
    },
  });
  view.people.push(person);
  $("people").append(person.element);
  const two = view.people.length === 2;
  $("people").classList.toggle("two", two);
  $("compare").textContent = two ? "Show one person" : "Compare with a second person";
  return person;
}

function removePerson() {
  view.people.pop().remove();
  $("people").classList.remove("two");
  $("compare").textContent = "Compare with a second person";
}

/** Show what the address asks for. */
async function restore() {
  const wanted = readLink();
  Object.assign(view, { k: wanted.k, cut: wanted.cut, rules: wanted.rules });
  setSteps();
  showGroups(view.model, view.rules, groupsChanged);
  while (view.people.length) removePerson();
  wanted.people.forEach(addPerson);
  show();
  keepLink();
  await Promise.all(view.people.map((person) => person.update()));
}

/** Another model answers than the one that is shown: begin again with it. */
async function reloaded() {
  forget();
  forgetClusters();
  view.since = Date.now();
  await busyWith(async () => {
    view.model = await ask("v1/model");
    showAbout(view.model);
    follow(view.model, forget); // answers that are kept become old
    announce("A new model is in use.");
    await restore();
  });
}

/** Say next to the buttons what has been done. */
function tell(text) {
  $("done").textContent = text;
}

function rowsForCsv() {
  return view.people.flatMap((person) => {
    const name = person.user ?? person.letter.toUpperCase();
    const rows = person.listFor(view.k)?.list ?? [];
    return rows.filter((row) => row.probability >= view.cut / 100).map((row) => ({ ...row, person: name, k: view.k }));
  });
}

function listen() {
  let timer;
  $("k").addEventListener("input", () => {
    view.k = view.steps[Number($("k").value)];
    for (const person of view.people) person.rows.rest();
    show();
    clearTimeout(timer);
    timer = setTimeout(() => {
      keepLink();
      for (const person of view.people) person.rows.follow();
    }, EXPLAIN_PAUSE);
  });
  $("cut").addEventListener("input", () => {
    view.cut = Number($("cut").value);
    show();
    clearTimeout(timer);
    timer = setTimeout(keepLink, EXPLAIN_PAUSE);
  });
  $("compare").addEventListener("click", () => {
    if (view.people.length === 2) removePerson();
    else addPerson({ user: null, clicked: view.people[0].clicked }).update();
    keepLink();
    show();
    if (view.people.length === 2) view.people[1].picker.input.focus();
  });
  $("copy-link").addEventListener("click", async () => {
    keepLink();
    tell((await copy(location.href)) ? "The link is on the clipboard." : "Copy the link from the box below.");
  });
  $("copy-csv").addEventListener("click", async () => {
    const rows = rowsForCsv();
    const done = await copy(csvOf(rows));
    tell(done ? `${count(rows.length, "row")} copied as csv.` : "Copy the csv from the box below.");
  });
  $("by-hand-close").addEventListener("click", () => {
    $("by-hand").hidden = true;
    $("copy-csv").focus();
  });
  $("card-details").addEventListener("toggle", () => {
    if ($("card-details").open) busyWith(async () => showCard(await ask("v1/card")));
  });
  addEventListener("hashchange", () => {
    if (location.hash !== linkOf(view)) restore();
  });
}

async function start() {
  prepare();
  await busyWith(async () => {
    try {
      view.model = await ask("v1/model");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setFailed("model", true);
      $("people").replaceChildren(make("p", { class: "problem", role: "alert" }, error.message));
      return;
    }
    showAbout(view.model);
    follow(view.model, forget);
    $("controls").hidden = $("about").hidden = $("card-details").hidden = false;
    listen();
    await restore();
  });
}

start();
