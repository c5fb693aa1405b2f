// The list of one person: a row for each item, with a bar for its probability and how sure that is.

import { count, draw, isolatedText, make, nameElement, nameOf, percent } from "./elements.js";
import { busyWith, Problem } from "./service.js";
import { whyOf } from "./why.js";

const WIDTH = 200; // of a bar, in its own units
const HEIGHT = 14;
const SCALES = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1];

/** Return where a probability may be: two standard errors to either side. */
export function range({ probability, mcse }) {
  const error = 2 * (mcse ?? 0);
  return [Math.max(0, probability - error), Math.min(1, probability + error)];
}

/** Return what a full bar stands for, so that the longest of these fits. */
export function scaleOf(rows) {
  const most = Math.max(0, ...rows.map((row) => range(row)[1]));
  return SCALES.find((scale) => most <= scale) ?? 1;
}

/** Return a bar with its uncertainty, and the cut-off as a line. */
function barOf(row, scale, cut) {
  const x = (value) => (WIDTH * Math.min(value, scale)) / scale;
  const [low, high] = range(row);
  const middle = HEIGHT / 2;
  const line = (x1, x2, y1, y2, kind) => draw("line", { x1, x2, y1, y2, class: kind });
  return draw(
    "svg",
    { class: "bar", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "track", width: WIDTH, height: HEIGHT }),
    draw("rect", { class: "share", width: x(row.probability), height: HEIGHT }),
    line(x(low), x(high), middle, middle, "error"),
    line(x(low), x(low), 3, HEIGHT - 3, "error"),
    line(x(high), x(high), 3, HEIGHT - 3, "error"),
    cut > 0 && cut <= scale ? line(x(cut), x(cut), 0, HEIGHT, "cut") : null,
  );
}

function summaryOf(kept, left, cut, scale) {
  if (!kept && !left) return "Nothing is left to recommend.";
  const limit = `the cut-off of ${percent(cut, 0)}`;
  if (!kept) return `No item reaches ${limit}: ${count(left, "item is", "items are")} below it.`;
  const below = left ? `; ${count(left, "other")} below ${limit}` : "";
  return `${count(kept, "item")} recommended${below}. A full bar is ${percent(scale, 0)}.`;
}

/** The rows of one person. */
export class Rows {
  constructor(person) {
    this.person = person;
    this.open = new Set(); // items whose explanation is shown
    this.isResting = false; // while a slider moves, explanations wait
    this.later = [];
    this.list = make("ol", { class: "rows" });
    this.summary = make("p", { class: "note summary" });
    this.element = make("div", { class: "recommended" }, this.summary, this.list);
  }

  /** Show these recommendations: `cut` hides what is less probable, `shared` are items of both lists. */
  show(recommendations, { k = 0, cut = 0, scale = 1, shared = new Set() } = {}) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.item : null;
    const kept = recommendations.filter((row) => row.probability >= cut);
    this.later = [];
    this.list.replaceChildren(
      ...kept.map((row) => this.row(row, k, scale, cut, shared.has(String(row.item)))),
    );
    this.summary.textContent = summaryOf(kept.length, recommendations.length - kept.length, cut, scale);
    this.summary.hidden = !recommendations.length && !this.person.problem.hidden;
    if (focused !== null) this.list.querySelector(`[data-item="${CSS.escape(focused)}"]`)?.focus();
  }

  row(row, k, scale, cut, isShared) {
    const item = String(row.item);
    const why = make("div", { class: "why", id: `why-${this.person.letter}-${row.rank}`, hidden: true });
    const button = make(
      "button",
      {
        ...{ type: "button", class: "ask", "data-item": item, "aria-expanded": "false", "aria-controls": why.id },
        "aria-label": `Why ${isolatedText(nameOf(row))}?`,
        click: () => this.toggle(row, k, button, why),
      },
      "Why?",
    );
    const error = !row.mcse ? "" : ` ±\u00a0${(200 * row.mcse).toFixed(1)}`;
    const value = make("span", { class: "value" }, make("b", {}, percent(row.probability)), error);
    const element = make(
      "li",
      { class: "row", "data-item": item },
      make("span", { class: "rank" }, String(row.rank)),
      make(
        "span",
        { class: "title" },
        nameElement(row),
        isShared ? [" ", make("span", { class: "both" }, "both")] : [],
      ),
      barOf(row, scale, cut),
      value,
      button,
      why,
    );
    if (this.open.has(item)) this.toggle(row, k, button, why, true);
    return element;
  }

  /** Ask for no explanation until `follow` is called: k is being moved. */
  rest() {
    this.isResting = true;
  }

  /** Explain the open rows for the k that was chosen. */
  follow() {
    this.isResting = false;
    for (const explain of this.later.splice(0)) explain();
  }

  toggle(row, k, button, why, open = why.hidden) {
    const item = String(row.item);
    why.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) this.open.add(item);
    else this.open.delete(item);
    if (!open) return;
    why.replaceChildren(make("p", { class: "note" }, "Asking …"));
    const explain = () => this.explain(row, k, why);
    if (this.isResting) this.later.push(explain);
    else explain();
  }

  explain(row, k, why) {
    return busyWith(async () => {
      try {
        why.replaceChildren(...(await whyOf(await this.person.explanation(row.item, k))));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        why.replaceChildren(make("p", { class: "problem", role: "alert" }, error.message));
      }
    });
  }
}
