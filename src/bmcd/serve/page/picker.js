// A field to search for items, and the items that were picked.

import { announce, count, isolatedText, make, nameElement, nameOf } from "./elements.js";
import { ask, Problem } from "./service.js";

const PAUSE = 120; // milliseconds after the last letter
const MOST = 12;

/** A combobox as in the ARIA practices: the field keeps the focus, arrows move through what was found. */
export class Picker {
  constructor(letter, { picked, removed }) {
    this.picked = picked;
    this.removed = removed;
    this.found = [];
    this.active = -1;
    this.items = [];
    this.isFresh = false;
    this.pickFirst = false;
    const id = `found-${letter}`;
    this.input = make("input", {
      ...{ id: `search-${letter}`, type: "text", role: "combobox", autocomplete: "off", spellcheck: "false" },
      ...{ "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": id, maxlength: 200 },
      placeholder: "Type a title or an id",
      input: () => this.searchSoon(),
      keydown: (event) => this.key(event),
      click: () => this.search(),
      blur: () => this.close(),
    });
    this.list = make("ul", { id, role: "listbox", "aria-label": "Items found", hidden: true });
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    this.chips = make("ul", { class: "chips", "aria-label": `Clicked by person ${letter.toUpperCase()}` });
    this.element = make(
      "div",
      { class: "search" },
      make("label", { for: `search-${letter}` }, "Clicked so far"),
      this.chips,
      make("div", { class: "field" }, this.input, this.list),
    );
  }

  /** Show these items as picked; `unknown` ones are marked. */
  show(items, unknown) {
    this.items = items;
    const focused = [...this.chips.querySelectorAll("button")].indexOf(document.activeElement);
    this.chips.replaceChildren(
      ...items.map((item, place) => {
        const strange = unknown.has(String(item.item));
        const label = `Remove ${isolatedText(nameOf(item))}`;
        const remove = { type: "button", "aria-label": label, click: () => this.remove(place) };
        return make(
          "li",
          { class: strange ? "unknown" : null },
          nameElement(item),
          strange ? make("span", { class: "note" }, "not known to the model") : null,
          make("button", remove, "×"),
        );
      }),
    );
    this.chips.hidden = items.length === 0;
    if (focused >= 0) this.focusOn(focused);
  }

  remove(place) {
    const item = this.items[place];
    this.removed(item);
    announce(`${nameOf(item)} removed.`);
    this.focusOn(place);
  }

  /** Give the focus to the button at this place, the last one, or the field. */
  focusOn(place) {
    const buttons = this.chips.querySelectorAll("button");
    (buttons[Math.min(place, buttons.length - 1)] ?? this.input).focus();
  }

  searchSoon() {
    clearTimeout(this.timer);
    this.isFresh = false; // what is listed was found for other letters
    this.timer = setTimeout(() => this.search(), PAUSE);
  }

  async search() {
    clearTimeout(this.timer);
    this.stop?.abort();
    const mine = (this.stop = new AbortController());
    const taken = new Set(this.items.map((item) => String(item.item)));
    // Those already picked are left out here, so more are asked for.
    const query = new URLSearchParams({ q: this.input.value, limit: Math.min(MOST + taken.size, 1000) });
    try {
      const answer = await ask(`v1/items?${query}`, { signal: mine.signal });
      const left = answer.items.filter((item) => !taken.has(String(item.item)));
      this.open(left.slice(0, MOST), answer.total);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      this.tell(error.message);
    }
  }

  open(found, total) {
    if (document.activeElement !== this.input) return;
    this.found = found;
    this.active = -1;
    this.isFresh = true;
    if (this.pickFirst && found.length) return this.pick(0);
    this.pickFirst = false;
    const options = found.map((item, place) =>
      make(
        "li",
        { id: `${this.list.id}-${place}`, role: "option", "aria-selected": "false", click: () => this.pick(place) },
        nameElement(item),
        item.clicks === null ? null : make("span", { class: "note" }, count(item.clicks, "click")),
      ),
    );
    if (!found.length) return this.tell("No item matches.");
    this.list.replaceChildren(...options);
    this.expand(true);
    announce(`${count(found.length, "item")} shown of ${total.toLocaleString("en")}. Arrow keys move through them.`);
  }

  tell(text) {
    this.found = [];
    this.list.replaceChildren(make("li", { class: "note", role: "option", "aria-disabled": "true" }, text));
    this.expand(true);
    announce(text);
  }

  expand(open) {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
    if (!open) this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    clearTimeout(this.timer);
    this.stop?.abort();
    this.found = [];
    this.active = -1;
    this.isFresh = this.pickFirst = false;
    this.expand(false);
  }

  pick(place) {
    const item = this.found[place];
    this.input.value = "";
    this.close();
    this.picked({ item: item.item, title: item.title });
    announce(`${nameOf(item)} added.`);
  }

  move(step) {
    const options = this.list.querySelectorAll("[role=option]");
    if (!this.found.length) return;
    options[this.active]?.setAttribute("aria-selected", "false");
    this.active = this.active < 0 && step < 0 ? options.length - 1 : (this.active + step + options.length) % options.length;
    options[this.active].setAttribute("aria-selected", "true");
    options[this.active].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.active].id);
  }

  key(event) {
    const isOpen = !this.list.hidden;
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (isOpen) this.move(event.key === "ArrowDown" ? 1 : -1);
      else this.search();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isOpen && this.isFresh && this.found.length) this.pick(Math.max(this.active, 0));
      else if (this.input.value.trim()) {
        this.pickFirst = true;
        this.search();
      }
    } else if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      this.close();
    } else if (event.key === "Backspace" && !this.input.value && this.items.length) {
      this.close();
      this.removed(this.items.at(-1));
    }
  }
}
