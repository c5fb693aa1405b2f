// One of the people on the page: what they have clicked, and what is recommended to them.

import { announce, count, isolated, make, nameOf, percent } from "./elements.js";
import { CANDIDATES, priceOf, ruled } from "./groups.js";
import { Picker } from "./picker.js";
import { Rows } from "./rows.js";
import { ask, busyWith, Problem, setFailed } from "./service.js";

const KEPT = 300; // answers that are kept, of all people
const IDS_AT_A_TIME = 100; // in one address
const answers = new Map();

/** Forget all answers: another model answers now. */
export const forget = () => answers.clear();

/** Return an answer that was given before, or get it and keep it. */
async function once(question, work) {
  if (!answers.has(question)) {
    const answer = await work();
    answers.set(question, answer);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  }
  return answers.get(question);
}

/** Return the path of a user's recommendations. */
const pathOf = (user, more) => `v1/users/${encodeURIComponent(user.toWellFormed?.() ?? user)}/recommendations?${new URLSearchParams(more)}`;

/** A person, and the part of the page that shows them. */
export class Person {
  constructor(letter, { view, changed, answered, users, start }) {
    this.letter = letter;
    this.user = start.user;
    this.clicked = start.clicked.map((item) => (typeof item === "object" ? item : { item, title: null }));
    this.view = view;
    this.changed = changed; // is called when somebody else is shown,
    this.answered = answered; // and this with every answer; it returns whether the answer can be used
    this.unknown = new Set();
    this.lists = new Map(); // by k
    this.picker = new Picker(letter, {
      picked: (item) => this.edit([...this.clicked, item]),
      removed: (item) => this.edit(this.clicked.filter((other) => other !== item)),
    });
    this.rows = new Rows(this);
    this.problem = make("p", { class: "problem", role: "alert", hidden: true });
    this.who = make("p", { class: "note", hidden: true });
    this.price = make("p", { class: "price", role: "status", hidden: true });
    this.element = make(
      "section",
      { class: "person", id: `person-${letter}`, "aria-labelledby": `name-${letter}` },
      make("h2", { id: `name-${letter}` }, `Person ${letter.toUpperCase()}`),
      this.who,
      this.picker.element,
      users ? this.userForm() : null,
      this.problem,
      this.price,
      this.rows.element,
    );
  }

  userForm() {
    const field = { id: `user-${this.letter}`, autocomplete: "off", maxlength: 500, required: true };
    const submit = (event) => {
      event.preventDefault();
      if (input.value) this.startWith(input.value.trim());
    };
    const input = make("input", field);
    return make(
      "details",
      { class: "start" },
      make("summary", {}, "Start with a user of the model"),
      make(
        "form",
        { submit },
        make("label", { for: field.id }, "Id of the user"),
        input,
        make("button", {}, "Show this user"),
      ),
    );
  }

  /** Make this person somebody who has clicked these items. */
  edit(clicked) {
    this.user = null;
    this.clicked = clicked;
    this.showWho();
    this.changed();
    return this.update();
  }

  /** Make this person a user of the model. */
  startWith(user) {
    this.user = user;
    this.clicked = [];
    this.changed();
    return this.update();
  }

  /** The same for everybody who has clicked the same in the same order. */
  question(k, ...more) {
    const who = this.user === null ? this.clicked.map((item) => String(item.item)) : this.user;
    return JSON.stringify([who, k, ...more]);
  }

  /** Get the lists for all k: first that for the k on the screen, then the others, so that k moves at once. */
  update() {
    this.stop?.abort();
    const mine = (this.stop = new AbortController());
    this.lists = new Map();
    this.rows.open.clear();
    return busyWith(async () => {
      this.element.setAttribute("aria-busy", "true");
      try {
        const { k, steps } = this.view;
        for (const size of [k, ...steps.filter((step) => step !== k)]) {
          const answer = await this.recommendations(size, mine.signal);
          if (mine.signal.aborted) return;
          this.lists.set(size, answer);
          if (size === k) this.arrived(answer);
          if (!this.answered(answer)) return;
        }
        await this.addTitles(mine.signal);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof Problem)) throw error;
        this.fail(error.message);
      }
    });
  }

  async recommendations(k, signal) {
    const { rules, model } = this.view;
    const grouped = Object.keys(model.groups ?? {}).length > 0;
    const more = grouped ? { k: Math.max(k, Math.min(CANDIDATES, model.limits.k, model.data.items)), horizon: k, groups: true } : { k };
    const only = grouped && rules.only ? { [rules.column]: [rules.only] } : null;
    return once(this.question(k, only), async () => {
      if (this.user !== null) {
        return ask(pathOf(this.user, only ? { ...more, only: `${rules.column}:${rules.only}` } : more), { signal });
      }
      const people = [{ clicked: this.clicked.map((item) => item.item) }];
      const answer = await ask("v1/recommend", { body: { people, ...more, ...(only ? { only } : {}) }, signal });
      return { model: answer.model, ...answer.people[0] };
    });
  }

  /** Return the list for k under the rules on the screen, and what they cost; null if there is no answer yet. */
  listFor(k) {
    const rows = this.lists.get(k)?.recommendations;
    return rows ? ruled(rows, k, this.view.rules) : null;
  }

  /** Return why an item has the probability it has. */
  explanation(item, k) {
    const who = this.user === null ? { clicked: this.clicked.map((one) => one.item) } : { user: this.user };
    return once(this.question(k, item), () => ask("v1/explain", { body: { ...who, item, k } }));
  }

  /** Say what rules cost, if there are some. */
  showPrice(found) {
    const { most, least } = this.view.rules;
    this.price.hidden = !found || (!most && least <= 1);
    if (!this.price.hidden) this.price.textContent = priceOf(found, this.view.k);
  }

  /** Show the first answer for these clicks. */
  arrived(answer) {
    this.fail(null);
    if (this.user !== null && answer.clicked) this.clicked = answer.clicked.map((item) => ({ item, title: null }));
    this.unknown = new Set(answer.unknown_items.map(String));
    this.element.removeAttribute("aria-busy");
    this.showWho();
    const first = answer.recommendations[0];
    const most = first ? ` First: ${nameOf(first)}, ${percent(first.probability)}.` : "";
    announce(`Person ${this.letter.toUpperCase()}: ${count(Math.min(answer.recommendations.length, this.view.k), "recommendation")}.${most}`);
  }

  /** Get the titles of clicks that came with a link, or from a user of the model. */
  async addTitles(signal) {
    const missing = this.clicked.filter((one) => one.title === null && !this.unknown.has(String(one.item)));
    for (let start = 0; start < missing.length; start += IDS_AT_A_TIME) {
      const query = new URLSearchParams();
      for (const one of missing.slice(start, start + IDS_AT_A_TIME)) query.append("ids", one.item);
      const { items } = await ask(`v1/items?${query}`, { signal });
      const titles = new Map(items.map((one) => [String(one.item), one.title]));
      for (const one of missing) one.title ??= titles.get(String(one.item)) ?? null;
    }
    this.showWho();
  }

  showWho() {
    this.picker.show(this.clicked, this.unknown);
    this.who.hidden = !this.problem.hidden || (this.user === null && this.clicked.length > 0);
    if (this.user === null) this.who.textContent = "Nothing clicked yet: this is what a new user is likely to click.";
    else this.who.replaceChildren("User ", isolated(this.user), " of the model. Change the clicks to see what if.");
  }

  fail(text) {
    this.problem.hidden = text === null;
    this.problem.textContent = text ?? "";
    setFailed(this, text !== null);
    if (text === null) return;
    this.lists = new Map();
    this.element.removeAttribute("aria-busy");
    this.showWho();
    this.rows.show([]);
  }

  /** Take this person off the page. */
  remove() {
    this.stop?.abort();
    setFailed(this, false);
    this.element.remove();
  }
}
