// The lists as csv, and the way to the clipboard.

import { $ } from "./elements.js";

const COLUMNS = ["person", "k", "rank", "item", "title", "probability", "mcse"];
// What spreadsheets take for a formula. Plain numbers are none.
const FORMULA = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;
const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/** Return one field: always quoted, and with an apostrophe before what would be a formula. */
function field(value) {
  const text = String(value ?? "");
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** Return rows with these columns as csv (RFC 4180). */
export function csvOf(rows) {
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((name) => row[name]))];
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

/** Copy text; where the browser does not let a page do that, show it selected and return false. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    $("by-hand").hidden = true;
    return true;
  } catch {
    $("by-hand").hidden = false;
    $("by-hand-text").value = text;
    $("by-hand-text").focus();
    $("by-hand-text").select();
    return false;
  }
}
