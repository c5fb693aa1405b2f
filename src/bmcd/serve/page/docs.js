// The page about the addresses that machines ask: each with its fields, an example, and a button that sends it.

import { $, announce, isolated, make } from "./elements.js";
import { ask, busyWith, hasKey, prepare, Problem, send, setFailed } from "./service.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const GROUPS = { ask: "Ask", "look up": "Look up", run: "Run" };
const MOST_SHOWN = 20_000; // characters of an answer
let description = {};

/** Return the schema that a reference stands for. */
function resolve(schema) {
  if (!schema?.$ref) return schema ?? {};
  return schema.$ref.replace(/^#\//, "").split("/").reduce((part, name) => part?.[name], description) ?? {};
}

/** Return a few words for what a value may be. */
function kindOf(given) {
  const schema = resolve(given);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kindOf))].filter((kind) => kind !== "null").join(" or ");
  if (schema.type === "array") return `list (${kindOf(schema.items)})`;
  const words = { integer: "whole number", string: "text", object: "object", boolean: "true or false" };
  return words[schema.type] ?? schema.type ?? "anything";
}

/** Return the fields of a body, with those of the objects in its lists. */
function fieldsOf(given, before = "") {
  const schema = resolve(given);
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = before + name;
    const isWanted = schema.required?.includes(name) ?? false;
    const inner = resolve(field).type === "array" ? fieldsOf(resolve(field).items, `${path}[].`) : fieldsOf(field, `${path}.`);
    return [{ path, isWanted, kind: kindOf(field), text: field.description, otherwise: field.default }, ...inner];
  });
}

function tableOf(caption, fields) {
  if (!fields.length) return null;
  const rows = fields.map(({ path, isWanted, kind, text, otherwise }) => {
    const usual = otherwise === undefined || otherwise === null ? "" : ` Otherwise ${JSON.stringify(otherwise)}.`;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, make("code", {}, path)),
      make("td", {}, kind),
      make("td", {}, text ? `${text} ` : "", isWanted ? make("b", {}, "Needed.") : `May be left out.${usual}`),
    );
  });
  return make("table", {}, make("caption", {}, caption), make("tbody", {}, rows));
}

/** Return text as one word of a shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** One address with its method. */
class Route {
  constructor(path, method, told) {
    Object.assign(this, { path, method, told });
    this.id = `${method}${path}`.replace(/[^a-z0-9]+/gi, "-");
    this.parameters = told.parameters ?? [];
    const content = told.requestBody?.content?.["application/json"];
    this.inputs = this.parameters.map((parameter) => this.inputOf(parameter));
    const example = JSON.stringify(content?.example, null, 2) ?? "{}";
    const lines = { rows: Math.min(16, example.split("\n").length), spellcheck: "false", id: `${this.id}-body` };
    this.body = content && make("textarea", { ...lines, input: () => this.showCurl() });
    if (this.body) this.body.value = example;
    this.curl = make("pre", { class: "curl", tabindex: "0", "aria-label": "The same with curl" });
    this.answer = make("div", { class: "sent", role: "status" });
    this.element = this.section(content?.schema);
    this.showCurl();
  }

  inputOf(parameter) {
    const id = `${this.id}-${parameter.name}`;
    const input = make("input", { id, autocomplete: "off", spellcheck: "false", input: () => this.showCurl() });
    input.value = [parameter.example ?? ""].flat().join(", ");
    input.required = parameter.required ?? false; // a model without clicks has no user for an example
    return { parameter, input, label: make("label", { for: id }, make("code", {}, parameter.name)) };
  }

  section(schema) {
    const [title, ...text] = (this.told.description ?? this.told.summary ?? "").split("\n\n");
    const fields = this.parameters.map((one) => ({
      ...{ path: one.name, isWanted: one.required, kind: kindOf(one.schema) },
      ...{ text: one.description ?? one.schema?.description, otherwise: one.schema?.default },
    }));
    const send = (event) => {
      event.preventDefault();
      this.send();
    };
    return make(
      "section",
      { id: this.id, class: "route" },
      make("h3", {}, make("span", { class: `method ${this.method}` }, this.method.toUpperCase()), " ", make("code", {}, this.path)),
      make("p", {}, title),
      text.map((paragraph) => make("p", {}, paragraph)),
      tableOf("In the address", fields),
      schema ? tableOf("In the body", fieldsOf(schema)) : null,
      make(
        "form",
        { submit: send },
        this.inputs.length ? make("div", { class: "inputs" }, this.inputs.map(({ label, input }) => make("div", {}, label, input))) : null,
        this.body ? [make("label", { for: this.body.id }, "Body"), this.body] : [],
        this.curl,
        make("button", { class: "send", "aria-label": `Send ${this.method.toUpperCase()} ${this.path}` }, "Send"),
      ),
      this.answer,
    );
  }

  /** The address with what was typed; parameters that were left empty are left out. */
  address() {
    let path = this.path.replace(/^\//, "");
    const query = new URLSearchParams();
    for (const { parameter, input } of this.inputs) {
      const isList = resolve(parameter.schema).type === "array";
      const values = (isList ? input.value.split(",").map((one) => one.trim()) : [input.value]).filter(Boolean);
      if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else for (const value of values) query.append(parameter.name, value);
    }
    return String(query) ? `${path}?${query}` : path;
  }

  showCurl() {
    const parts = ["curl", quoted(new URL(this.address(), document.baseURI).href)];
    if (this.method !== "get" && !this.body) parts.push("-X", this.method.toUpperCase());
    if (hasKey()) parts.push("-H", '"Authorization: Bearer $BMCD_SERVE_KEY"'); // the name, never the key
    if (this.body) parts.push("-H", quoted("Content-Type: application/json"), "-d", quoted(compact(this.body.value)));
    this.curl.textContent = parts.join(" ");
  }

  async send() {
    await busyWith(async () => {
      let status, text;
      try {
        const answer = await send(this.address(), { method: this.method.toUpperCase(), body: this.body?.value });
        text = await answer.text();
        status = `Status ${answer.status}${answer.ok ? "" : ": refused"}`;
      } catch {
        status = "The service cannot be reached. Is it running?";
        text = "";
      }
      const shown = pretty(text);
      const cut = shown.length > MOST_SHOWN ? `${shown.slice(0, MOST_SHOWN)}\n… and ${shown.length - MOST_SHOWN} characters more` : shown;
      const pre = make("pre", { tabindex: "0", "aria-label": "The answer" }, isolated(cut));
      this.answer.replaceChildren(make("p", {}, make("b", {}, status)), ...(text.trim() ? [pre] : []));
      announce(status);
    });
  }
}

/** Return JSON in one line, numbers as they were typed; or the text itself if it is not JSON. */
function compact(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return text.replace(/("(?:[^"\\]|\\.)*")|\s*\n\s*/g, (_, string) => string ?? " ").trim();
}

/** Return JSON in lines; an answer with numbers that JavaScript cannot hold stays as it came. */
function pretty(text) {
  if (/(?<![\w."])\d{16,}(?!\d*")/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, '""').replace(/\d+\.\d+(e[+-]?\d+)?/gi, "0"))) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function start() {
  prepare();
  await busyWith(async () => {
    try {
      description = await ask("openapi.json");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setFailed("description", true);
      $("routes").replaceChildren(make("p", { class: "problem", role: "alert" }, error.message));
      return;
    }
    $("description").textContent = description.info.description ?? "";
    const routes = Object.entries(description.paths).flatMap(([path, methods]) =>
      METHODS.filter((method) => methods[method]).map((method) => new Route(path, method, methods[method])),
    );
    for (const tag of [...new Set(routes.map((route) => route.told.tags?.[0] ?? ""))]) {
      const own = routes.filter((route) => (route.told.tags?.[0] ?? "") === tag);
      $("routes").append(make("h2", {}, GROUPS[tag] ?? tag), ...own.map((route) => route.element));
    }
    $("menu").append(...routes.map((route) => make("li", {}, make("a", { href: `#${route.id}` }, `${route.method.toUpperCase()} ${route.path}`))));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  });
}

start();
