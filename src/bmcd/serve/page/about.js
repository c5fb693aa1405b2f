// Which model answers, how far it can be trusted, and how its promises came true.

import { $, count, isolated, make, percent } from "./elements.js";

const VERDICTS = {
  converged: ["good", "✓", "Settled", "Another fit would give nearly the same probabilities."],
  "not converged": ["look", "!", "Not settled", "Another fit may give other probabilities: take them as rough."],
  "too short": ["look", "!", "Too short to tell", "The fit has too few draws to say whether it has settled."],
  stopped: ["look", "!", "Stopped early", "The fit was stopped before it was done: take probabilities as rough."],
};

/** Show what `GET /v1/model` tells. */
export function showAbout(model) {
  const { data, verdict } = model;
  const words = VERDICTS[verdict.state] ?? ["look", "!", verdict.state, ""];
  $("model-line").replaceChildren(
    make("b", {}, isolated(model.kind)),
    ` of ${count(data.items, "item")}${data.holds_clicks ? ` and ${count(data.users, "user")}` : ""} · ${words[2].toLowerCase()} · `,
    make("code", {}, model.hash.slice(0, 12)),
  );
  const loaded = new Date(model.loaded);
  $("model-cards").replaceChildren(
    card("", "", "Model", model.kind, [isolated(model.description)]),
    card("", "", "File", model.hash.slice(0, 12), [`SHA-256 ${model.hash}, loaded ${loaded.toLocaleString()}, bmcd ${model.version}`]),
    card(words[0], words[1], "Has it settled?", words[2], [words[3], details(verdict)]),
    calibrationCard(model.calibration),
  );
}

function card(kind, lamp, label, strong, texts) {
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

/** Say how often promises came true: measured on test clicks, or by a blend while it was fitted. */
function calibrationCard(calibration) {
  const label = "Do its promises come true?";
  if (!calibration) {
    return card("", "", label, "Not measured", ["Whoever runs the service can measure it: bmcd serve --test clicks.csv."]);
  }
  if (calibration.promised !== undefined) {
    const { promised, hit_rate: hits, k, users, expected_calibration_error: error } = calibration;
    const isGood = Math.abs(promised - hits) <= 0.05 && error <= 0.05;
    return card(isGood ? "good" : "look", isGood ? "✓" : "!", label, `Promised ${percent(promised)}, came true ${percent(hits)}`, [
      `Of the ${count(k, "item")} recommended to each of ${count(users, "user")}.`,
      `Promises are off by ${percent(error)} on average.`,
      make("span", {}, "Measured on ", isolated(calibration.measured_on), "."),
    ]);
  }
  const scores = Object.entries(calibration.brier).map(([k, value]) => `${value.toFixed(3)} (k = ${k})`);
  return card("good", "✓", label, "Calibrated while it was fitted", [
    `Measured on ${calibration.measured_on}: mean squared error of the probabilities ${scores.join(", ")}; 0 is perfect.`,
  ]);
}
