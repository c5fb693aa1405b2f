"use strict";
(() => {
  const all = (what, where = document) => Array.from(where.querySelectorAll(what));
  const one = (name) => document.getElementById(name);
  document.documentElement.classList.add("js");

  // Pick k: every view of it is in the page already.
  for (const choice of all("input[name=k]")) {
    choice.addEventListener("change", () => {
      for (const view of all(".view")) view.hidden = view.dataset.k !== choice.value;
    });
    if (choice.checked) choice.dispatchEvent(new Event("change"));
  }

  // Pick a user.
  const person = one("person");
  const showPerson = () => {
    for (const card of all(".person")) card.hidden = card.dataset.user !== person.value;
  };
  if (person) {
    person.addEventListener("change", showPerson);
    showPerson();
  }

  // How often to be right: sentences and rows are made beforehand, a step each.
  const told = one("cutoffs") ? JSON.parse(one("cutoffs").textContent) : {};
  for (const slider of all("input[type=range]")) {
    const k = slider.dataset.k;
    const move = () => {
      const [rate, sentence] = told[k][Number(slider.value)];
      one("rate-" + k).textContent = rate;
      one("cut-" + k).textContent = sentence;
      slider.setAttribute("aria-valuetext", rate);
      all(".steps tbody tr", slider.closest(".view")).forEach((row, at) =>
        row.classList.toggle("on", at === Number(slider.value)));
    };
    slider.addEventListener("input", move);
    move();
  }

  // What a part of a figure says: by mouse, by touch, and by arrow keys once the figure has the focus.
  const tip = one("tip");
  let current = null;
  const hide = () => {
    if (current) current.classList.remove("on");
    current = null;
    tip.hidden = true;
  };
  const show = (part, x, y) => {
    if (current !== part) {
      hide();
      current = part;
      part.classList.add("on");
      tip.textContent = part.dataset.tip;
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
  };
  const under = (event) => event.target instanceof Element && event.target.closest("[data-tip]");
  for (const plot of all(".plot")) {
    const parts = all("[data-tip]", plot);
    // The browser's own tooltips would come on top.
    for (const title of all("title", plot)) title.remove();
    const point = (event) => (under(event) ? show(under(event), event.clientX, event.clientY) : hide());
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !parts.length) return;
      event.preventDefault();
      const at = parts.indexOf(current);
      const next = parts[at < 0 ? (step > 0 ? 0 : parts.length - 1) : (at + step + parts.length) % parts.length];
      const box = next.getBoundingClientRect();
      show(next, box.left + box.width / 2, box.top + box.height / 2);
    });
  }
  addEventListener("scroll", hide, { passive: true });
  document.addEventListener("pointerdown", (event) => under(event) || hide());
  addEventListener("beforeprint", hide);
})();
