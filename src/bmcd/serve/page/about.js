// Which model answers, how far it can be trusted, and how its predictions compare with what was observed.

import { $, count, isolated, make, percent } from "./elements.js";

const VERDICTS = {
  converged: ["good", "✓", "Converged", "Another fit would give nearly the same probabilities."],
  "not converged": ["look", "!", "Not converged", "Another fit may give different probabilities: treat them as approximate."],
  "too short": ["look", "!", "Too short to tell", "The fit has too few draws to check convergence."],
  stopped: ["look", "!", "Stopped early", "The fit was stopped early: treat the probabilities as approximate."],
};
const VERDICTS_OF_BLEND = {
  converged: ["good", "✓", "Calibrated", "Predicted and observed hits agree."],
  "not converged": ["look", "!", "Not stable", "Predicted and observed hits differ: do not rely on the probabilities."],
  "too short": ["look", "!", "Not enough history", "There are too few past windows to check the probabilities."],
};

/** Show what `GET /v1/model` returns. */
export function showAbout(model) {
  const { data, verdict } = model;
  const known = model.members ? VERDICTS_OF_BLEND : VERDICTS;
  const words = known[verdict.state] ?? ["look", "!", verdict.state, ""];
  $("model-line").replaceChildren(
    make("b", {}, isolated(model.kind)),
    ` of ${count(data.items, "item")}${data.holds_clicks ? ` and ${count(data.users, "user")}` : ""} · ${words[2].toLowerCase()} · `,
    make("code", {}, model.hash.slice(0, 12)),
  );
  const loaded = new Date(model.loaded);
  $("model-cards").replaceChildren(
    card("", "", "Model", model.kind, [isolated(model.description)]),
    card("", "", "File", model.hash.slice(0, 12), [`SHA-256 ${model.hash}, loaded ${loaded.toLocaleString()}, bmcd ${model.version}`]),
    card(words[0], words[1], model.members ? "Does it hold over time?" : "Has it converged?", words[2], [words[3], details(verdict)]),
    calibrationCard(model.calibration),
    model.members ? membersCard(model) : "",
  );
}

/** Return a card: a lamp and a label, what counts most, and more below it. */
export function card(kind, lamp, label, strong, texts) {
  return make(
    "li",
    { class: kind || null },
    make("span", { class: "label" }, lamp ? make("span", { class: "lamp", "aria-hidden": "true" }, `${lamp} `) : null, label),
    make("strong", {}, isolated(strong)),
    texts.map((text) => make(typeof text === "string" ? "span" : "div", {}, text)),
  );
}

function details(verdict) {
  return make(
    "details",
    {},
    make("summary", {}, "The figures"),
    make("p", {}, isolated(verdict.text)),
    verdict.advice.map((text) => make("p", {}, isolated(text))),
  );
}

/** Name the members of a blend, and the time its answers refer to. */
function membersCard({ members, as_of: asOf }) {
  const names = members.filter((one) => one.kept).map((one) => one.member);
  const left = members.filter((one) => !one.kept).map((one) => one.member);
  return card("", "", "Members", names.join(", "), [
    ...(left.length ? [isolated(`Tried and left out: ${left.join(", ")}.`)] : []),
    ...(asOf ? [`As of ${asOf.slice(0, 19).replace("T", " ")}.`] : []),
  ]);
}

/** Compare predicted with observed hits: measured on test clicks, or by a blend on past windows. */
function calibrationCard(calibration) {
  const label = "Predicted and observed";
  if (!calibration) {
    return card("", "", label, "Not measured", ["To measure it, start the service with bmcd serve --test clicks.csv."]);
  }
  if (calibration.promised !== undefined) {
    const { promised, hit_rate: hits, k, users, expected_calibration_error: error } = calibration;
    const isGood = Math.abs(promised - hits) <= 0.05 && error <= 0.05;
    return card(isGood ? "good" : "look", isGood ? "✓" : "!", label, `Predicted ${percent(promised)}, observed ${percent(hits)}`, [
      `Of the ${count(k, "item")} recommended to each of ${count(users, "user")}.`,
      `Probabilities are off by ${percent(error)} on average.`,
      make("span", {}, "Measured on ", isolated(calibration.measured_on), "."),
    ]);
  }
  const { predicted, observed, largest_error: largest, windows, measured_on: on } = calibration;
  return card("", "", label, `Predicted ${percent(predicted)}, observed ${percent(observed)}`, [
    `Hits of the next click in lists of 10, over ${count(windows, "window")}; the largest error is ${percent(largest)}.`,
    `Measured on ${on}.`,
  ]);
}
