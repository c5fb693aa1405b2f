"use strict";
(() => {
  const all = (what, where = document) => Array.from(where.querySelectorAll(what));
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  // Pick k: the page has a view for each.
  for (const choice of all("input[name=k]")) {
    choice.addEventListener("change", () => {
      for (const view of all(".view")) view.hidden = view.dataset.k !== choice.value;
    });
    if (choice.checked) choice.dispatchEvent(new Event("change"));
  }

  // Pick a user.
  const person = byId("person");
  const showPerson = () => {
    for (const card of all(".person")) card.hidden = card.dataset.user !== person.value;
  };
  if (person) {
    person.addEventListener("change", showPerson);
    showPerson();
  }

  // Look up an item or a user: what is shown is text, never markup.
  const lookup = JSON.parse(byId("lookup").textContent);
  const find = byId("find"), found = byId("found"), fact = byId("fact");
  const counted = (n, word) => n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");
  const kOf = (byK) => {
    const chosen = all("input[name=k]").find((choice) => choice.checked);
    return chosen ? chosen.value : Object.keys(byK)[0];
  };
  const showItem = ([title, clicks, byK]) => {
    const k = kOf(byK);
    const [n, hits] = byK[k];
    const hit = hits === null ? "" : ", " + counted(hits, "hit");
    fact.textContent = title + ": clicked by " + counted(clicks, "user") + "; recommended to " + counted(n, "user") +
      hit + " (k = " + k + ").";
    fact.hidden = false;
  };
  const showUserText = (name, clicks, byK) => {
    const k = kOf(byK), listed = [];
    for (let i = 0; i < byK[k].length; i += 2) {
      listed.push(lookup.items[byK[k][i]][0] + " (" + Math.round(byK[k][i + 1] / 10) + " %)");
    }
    fact.textContent = name + ", " + counted(clicks, "click") + ". Recommended (k = " + k + "): " +
      (listed.join(", ") || "nothing") + ".";
    fact.hidden = false;
  };
  const showUser = ([name, clicks, place, lists]) => {
    if (place < 0) {
      showUserText(name, clicks, lists);
      return;
    }
    person.value = String(place);
    showPerson();
    byId("users").scrollIntoView();
  };
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    const matches = (text) => wanted && text.toLowerCase().includes(wanted);
    const choices = lookup.users.flatMap((user) => (matches(user[0]) ? [[user[0], () => showUser(user)]] : [])).slice(0, 6)
      .concat(lookup.items.flatMap((item) => (matches(item[0]) ? [[item[0], () => showItem(item)]] : []))).slice(0, 8);
    found.replaceChildren(...choices.map(([text, act]) => {
      const line = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => {
        found.hidden = true;
        find.value = "";
        act();
      });
      line.append(button);
      return line;
    }));
    if (wanted && !choices.length) found.append(Object.assign(document.createElement("li"), { textContent: "Nothing." }));
    found.hidden = !wanted;
    fact.hidden = true;
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") found.hidden = true;
    if (event.key === "Enter" && !found.hidden) found.querySelector("button")?.click();
  });

  // Mark the section in view in the menu.
  const links = new Map(all("nav a").map((link) => [link.getAttribute("href").slice(1), link]));
  const inView = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const [id, link] of links) link.classList.toggle("on", id === entry.target.id);
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of all("section")) inView.observe(section);

  // Choose a hit rate: the page has a sentence and a row for each step of the slider.
  const answers = byId("cutoffs") ? JSON.parse(byId("cutoffs").textContent) : {};
  for (const slider of all("input[type=range]:not([data-rule])")) {
    const k = slider.dataset.k;
    const move = () => {
      const [rate, sentence] = answers[k][Number(slider.value)];
      byId("rate-" + k).textContent = rate;
      byId("cut-" + k).textContent = sentence;
      slider.setAttribute("aria-valuetext", rate);
      all(".steps tbody tr", slider.closest(".view")).forEach((row, step) =>
        row.classList.toggle("on", step === Number(slider.value)));
    };
    slider.addEventListener("input", move);
    move();
  }

  // The price of rules for lists: each user's most probable list under the rules, against the list without them.
  const ruled = byId("rules") ? JSON.parse(byId("rules").textContent) : {};
  for (const k of Object.keys(ruled)) {
    const controls = {};
    for (const one of all("[data-rule]")) if (one.dataset.k === k) controls[one.dataset.rule] = one;
    const listOf = (chances, groups, most, least) => {
      const chosen = new Set(), seen = new Map();
      const take = (wanted) => {
        for (let i = 0; i < chances.length && chosen.size < Number(k); i += 1) {
          if (chosen.has(i) || groups[i].some((group) => (seen.get(group) || 0) >= most) || !wanted(groups[i])) continue;
          chosen.add(i);
          for (const group of groups[i]) seen.set(group, (seen.get(group) || 0) + 1);
        }
      };
      take((own) => seen.size < least && own.some((group) => !seen.has(group)));
      take(() => true);
      return [Array.from(chosen).reduce((sum, i) => sum + chances[i] / 10000, 0), seen.size, chosen.size];
    };
    const move = () => {
      const column = Number(controls.column.value), { p, groups, n } = ruled[k];
      controls.least.max = String(Math.min(Number(k), n[column]));
      const most = Number(controls.most.value), least = Number(controls.least.value);
      const total = [0, 0, 0, 0, 0];
      p.forEach((chances, user) => {
        const before = listOf(chances, groups[column][user], Infinity, 1);
        const after = listOf(chances, groups[column][user], most, least);
        [before[0], before[1], after[0], after[1], after[2] < Math.min(Number(k), chances.length) ? 1 : 0]
          .forEach((value, place) => { total[place] += value; });
      });
      const users = p.length, price = Math.max(0, total[0] - total[2]) / users, hits = total[0] / users;
      byId("most-" + k + "-value").textContent = most >= Number(k) ? "off" : String(most);
      byId("least-" + k + "-value").textContent = String(least);
      byId("price-" + k).textContent = (total[3] / users).toFixed(2) + " groups in a list instead of " +
        (total[1] / users).toFixed(2) + ", for " + price.toFixed(3) + " of " + hits.toFixed(2) + " expected hits in a list (" +
        (hits > 0 ? 100 * price / hits : 0).toFixed(1) + " %), over " + counted(users, "user") + " of this report." +
        (total[4] ? " For " + total[4].toLocaleString("en") + " of them lists would be shorter than k." : "");
    };
    for (const one of Object.values(controls)) one.addEventListener("input", move);
    move();
  }

  // Show the hover text of a part of a figure: by mouse, by touch, or by arrow keys once the figure has the focus.
  const tip = byId("tip");
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
    // The browser would show these as tooltips.
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
      const place = parts.indexOf(current);
      const wrapped = (place + step + parts.length) % parts.length;
      const next = parts[place < 0 ? (step > 0 ? 0 : parts.length - 1) : wrapped];
      const box = next.getBoundingClientRect();
      show(next, box.left + box.width / 2, box.top + box.height / 2);
    });
  }
  addEventListener("scroll", hide, { passive: true });
  document.addEventListener("pointerdown", (event) => under(event) || hide());
  addEventListener("beforeprint", hide);
})();
