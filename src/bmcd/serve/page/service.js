// Questions to the service: the key, trouble told in plain words, and what is tried again.

import { $, make } from "./elements.js";

const KEY = "bmcd-key";
const BUG = "bug";
const LONGEST_WAIT = 15; // seconds between two tries
const working = new Set();
const waiting = new Map(); // questions that wait, each with what wakes it
const failed = new Set();
let askedForKey = null;

/** What the service, or the way to it, had to say against a question. */
export class Problem extends Error {
  constructor(status, detail, after = null) {
    super(detail);
    this.status = status;
    this.after = after;
  }
}

/** Show by the state of the page whether it is at work, is ready, or has a problem. */
function show() {
  const state = waiting.size || failed.size ? "error" : working.size ? "busy" : "ready";
  document.documentElement.dataset.state = state;
  if (!waiting.size && !failed.has(BUG)) $("trouble").hidden = true;
}

/** Keep the state "busy" until this has been done. */
export async function busyWith(work) {
  const token = {};
  working.add(token);
  show();
  try {
    return await work();
  } finally {
    working.delete(token);
    show();
  }
}

/** Remember whether a part of the page shows a problem. */
export function setFailed(part, isFailed) {
  if (isFailed) failed.add(part);
  else failed.delete(part);
  show();
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/** Send one request, with the key if there is one. */
export function send(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (hasKey()) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  return fetch(path, { method, body, signal, headers, cache: "no-store", referrerPolicy: "no-referrer" });
}

/** Return the answer to a question; wait and ask again where that helps, else raise `Problem`. */
export function ask(path, { body, signal } = {}) {
  return busyWith(async () => {
    for (let tries = 0; ; tries += 1) {
      try {
        return await askOnce(path, body, signal);
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.status === 401) await keyWanted(signal);
        else if ([0, 429, 503].includes(problem.status)) await pause(problem, tries, signal);
        else throw problem;
      }
    }
  });
}

async function askOnce(path, body, signal) {
  const method = body === undefined ? "GET" : "POST";
  let answer, text;
  try {
    answer = await send(path, { method, body: body && JSON.stringify(body), signal });
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached.");
  }
  let content = {};
  try {
    content = JSON.parse(text, exactIds);
  } catch {
    if (answer.ok) throw new Problem(answer.status, "The answer of the service cannot be read.");
  }
  if (answer.ok) return content;
  const after = Number.parseFloat(answer.headers.get("Retry-After"));
  throw new Problem(answer.status, content.detail ?? `The service answered with status ${answer.status}.`, after);
}

/** Keep whole numbers that JavaScript cannot hold as text: the service knows ids by their text too. */
function exactIds(key, value, context) {
  const large = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return large && context ? context.source : value;
}

const WORDS = {
  0: "The service cannot be reached. Is it running?",
  429: "The service is busy.",
  503: "The model is not ready yet.",
};

/** Wait before the next try, and say why. */
async function pause(problem, tries, signal) {
  const usual = problem.status === 503 ? 1 : 2 ** Math.min(tries, 4);
  const seconds = Math.min(LONGEST_WAIT, Math.max(Number.isFinite(problem.after) ? problem.after : usual, 0.2));
  $("trouble-text").textContent = `${WORDS[problem.status]} Trying again in ${Math.ceil(seconds)} s.`;
  $("trouble").hidden = false;
  const jitter = problem.status === 429 ? Math.random() : 0; // those refused together do not come back together
  await wait((wake) => setTimeout(wake, 1000 * (seconds + jitter)), signal);
}

/** Wait until woken; the page's state is "error" meanwhile. */
async function wait(start, signal) {
  const token = {};
  try {
    await new Promise((wake, stop) => {
      waiting.set(token, wake);
      signal?.addEventListener("abort", () => stop(new DOMException("not wanted any more", "AbortError")));
      start(wake);
      show();
    });
  } finally {
    waiting.delete(token);
    show();
  }
}

function tryNow() {
  for (const wake of waiting.values()) wake();
}

/** Ask for the key in a form; it is kept for this tab, and never becomes part of a link. */
function keyWanted(signal) {
  const wasWrong = hasKey() && !askedForKey;
  askedForKey ??= new Promise((given) => {
    sessionStorage.removeItem(KEY);
    $("key-wrong").hidden = !wasWrong;
    $("key-form").hidden = false;
    $("key").focus();
    const submit = (event) => {
      event.preventDefault();
      const key = $("key").value.trim();
      if (!key) return;
      if (!/^[\x20-\x7e]+$/.test(key)) {
        $("key-wrong").hidden = false;
        return;
      }
      sessionStorage.setItem(KEY, key);
      $("key").value = "";
      $("key-form").hidden = true;
      $("key-form").removeEventListener("submit", submit);
      askedForKey = null;
      given();
    };
    $("key-form").addEventListener("submit", submit);
  });
  const form = askedForKey;
  return wait((wake) => form.then(wake), signal);
}

/** Put the places for trouble and for the key on the page. */
export function prepare() {
  $("trouble").append(
    make("span", { id: "trouble-text" }),
    " ",
    make("button", { type: "button", id: "try-now", click: tryNow }, "Try now"),
  );
  $("key-form").append(
    make("label", { for: "key" }, "Authentication required: enter the key. It is kept until this tab is closed."),
    make("input", { id: "key", type: "password", autocomplete: "off", required: true, maxlength: 1000 }),
    make("button", {}, "Use the key"),
    make("p", { id: "key-wrong", hidden: true, role: "alert" }, "This key is not correct."),
  );
  addEventListener("online", tryNow);
  addEventListener("unhandledrejection", () => {
    setFailed(BUG, true);
    $("trouble-text").textContent = "Something on this page went wrong, which is a bug. Load the page again.";
    $("try-now").hidden = true;
    $("trouble").hidden = false;
  });
}
