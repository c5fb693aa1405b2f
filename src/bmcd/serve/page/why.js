// Why an item has the probability it has: reasons in words, and what tastes, clusters or members contribute.

import { count, draw, isolated, make, nameElement, percent } from "./elements.js";
import { ask, Problem } from "./service.js";

const SHOWN = 5;
const TOP = 3; // items by which a cluster is known
const SHORT = 40; // characters of their names
let summaries = null;

/** Forget what the clusters are like: another model answers now. */
export function forgetClusters() {
  summaries = null;
}

/** Return what each cluster or taste is like, by number; nothing for models that have none. */
function clusters() {
  summaries ??= ask("v1/clusters").then(
    (answer) => new Map(answer.clusters.map((one) => [one.cluster, one])),
    (problem) => {
      if (!(problem instanceof Problem)) throw problem;
      return new Map();
    },
  );
  return summaries;
}

/** Return the elements that explain one probability. */
export async function whyOf(answer) {
  if (!answer.models) return contributionsOf(answer, await clusters());
  const parts = Object.entries(answer.parts ?? {});
  // With several parts that have clusters, their numbers do not say which is meant.
  const known = parts.length === 1 ? await clusters() : new Map();
  return [
    ...(answer.reasons ?? []).map((reason) => make("p", { class: "reason" }, isolated(reason))),
    make("p", { class: "note" }, "Each member raises or lowers the rate of the item against that of the person's average candidate; the factors multiply."),
    make("ul", { class: "parts" }, answer.models.map(factorOf)),
    ...parts.flatMap(([name, part]) => [
      make("h3", {}, isolated(name), ` alone: ${percent(part.probability)}`),
      ...contributionsOf(part, known),
    ]),
  ];
}

function factorOf({ model, factor }) {
  return make("li", {}, make("b", {}, isolated(model)), `: ${factor.toPrecision(2)} times the average rate.`);
}

/** Return the tastes or clusters of an explanation, the largest first; small ones in one line. */
function contributionsOf(answer, known) {
  const all = answer.tastes ?? answer.clusters ?? [];
  const kind = answer.tastes ? "taste" : "cluster";
  const rest = all.slice(SHOWN);
  const scale = Math.max(answer.probability, 1e-9);
  const added = rest.reduce((sum, one) => sum + one.contribution, 0);
  return [
    make("ul", { class: "parts" }, all.slice(0, SHOWN).map((one) => partOf(one, kind, known, scale))),
    rest.length ? make("p", { class: "note" }, `${count(rest.length, `other ${kind}`)}: ${percent(added)} together.`) : null,
  ].filter(Boolean);
}

function partOf(one, kind, known, scale) {
  const summary = known.get(one[kind]);
  const name = one.name ?? summary?.name ?? summary?.suggested_name;
  const facts =
    kind === "taste"
      ? `${percent(one.share, 0)} of this person's visits go there; it has the item at rank ${one.rank.toFixed(0)}, ` +
        `and ${percent(one.click_probability)} of its visits click it.`
      : `The person belongs to it with ${percent(one.membership, 0)}; it has the item at rank ${one.rank.toFixed(0)} ` +
        `(${one.rank_interval.map((value) => value.toFixed(0)).join(" to ")}): ${percent(one.probability)} there.`;
  const top = (summary?.top ?? []).slice(0, TOP);
  const likes = top.flatMap((item, place) => [place ? ", " : "", nameElement(item, SHORT)]);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "part" },
      make(
        "span",
        {},
        make("b", {}, `${kind === "taste" ? "Taste" : "Cluster"} ${one[kind]}`),
        name ? [" · ", isolated(name)] : [],
      ),
      draw(
        "svg",
        { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        draw("rect", { class: "track", width: 100, height: 10 }),
        draw("rect", { class: "share", width: (100 * Math.min(one.contribution, scale)) / scale, height: 10 }),
      ),
      make("span", { class: "value" }, "adds ", make("b", {}, percent(one.contribution))),
    ),
    make("p", { class: "note" }, facts, likes.length ? [" Its first: ", ...likes, "."] : []),
  );
}
