// Live use: clicks by minute, predicted beside observed hits, what is trending; updated every few seconds.

import { card } from "./about.js";
import { $, count, draw, isolated, make, nameElement, percent } from "./elements.js";
import { send } from "./service.js";

const PAUSE = 5000; // milliseconds between two looks
const HEIGHT = 40; // of the bars, each of them 4 wide and 1 apart
const STATES = {
  calibrated: ["good", "✓"],
  warning: ["look", "!"],
  "too few": ["", ""],
};
let timer = null;
let looked = () => {};

/** Show live use from now on, if the service has it; `whenLooked` is called after every look. */
export function follow(model, whenLooked) {
  $("live").hidden = !model.live;
  clearTimeout(timer);
  looked = whenLooked;
  if (model.live) look();
}

async function look() {
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      const answer = await send("v1/live");
      if (answer.ok) show(await answer.json());
      looked();
      $("live").dataset.state = answer.ok ? "ready" : "late";
    } catch {
      $("live").dataset.state = "late"; // whatever the page asks next says why
    }
  }
  timer = setTimeout(look, PAUSE);
}

function show(live) {
  $("live-cards").replaceChildren(
    clicksCard(live),
    hitsCard("In the last hour", live.hour),
    hitsCard("In the last day", live.day),
    trendingCard(live.trending),
  );
}

function clicksCard({ clicks_per_minute: clicks, not_counted: open, counted_until: until, refresh }) {
  const most = Math.max(1, ...clicks);
  const bars = clicks.map((n, place) => {
    const height = (HEIGHT * n) / most;
    return draw("rect", { x: 5 * place, y: HEIGHT - height, width: 4, height, class: "bar" });
  });
  const said = `Clicks by minute over the last hour, at most ${most}; ${clicks.at(-1)} in the last minute`;
  const drawing = draw("svg", { viewBox: `0 0 ${5 * clicks.length} ${HEIGHT}`, role: "img", "aria-label": said, class: "minutes" }, bars);
  return card("", "", "Clicks per minute", clicks.at(-1).toLocaleString("en"), [
    drawing,
    `${count(open, "click")} to be counted within ${refresh} s; counted until ${until.slice(0, 19).replace("T", " ")}.`,
  ]);
}

function hitsCard(label, { state, predicted, observed, lists, coverage, outside_predicted: expected, outside_observed: outside }) {
  const [kind, lamp] = STATES[state];
  if (predicted === null) return card("", "", label, "No hits yet", ["Lists are compared with the clicks after them."]);
  const advice = { warning: "Do not rely on the probabilities.", "too few": "Too few lists to evaluate." };
  return card(kind, lamp, label, `Predicted ${percent(predicted)}, observed ${percent(observed)}`, [
    ...(advice[state] ? [advice[state]] : []),
    `Of the next clicks after ${count(lists, "list")}; ${percent(coverage)} of the items were recommended.`,
    `Clicks on new items: predicted ${percent(expected)}, observed ${percent(outside)}.`,
  ]);
}

function trendingCard(items) {
  const rows = items.slice(0, 5).map((item) => make("li", {}, nameElement(item, 40), ` ${percent(item.share)}`));
  return card("", "", "Trending", items.length ? isolated(items[0].title ?? items[0].item).textContent : "Nothing", [
    make("ol", { class: "trending" }, rows),
  ]);
}
