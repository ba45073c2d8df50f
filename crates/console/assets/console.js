// The console works without this. With it: times in the reader's zone, keys, columns that sort, text that is copied.
"use strict";

const two = (number) => String(number).padStart(2, "0");

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const fraction = /\.\d+/.exec(time.dateTime)?.[0] ?? "";
    time.textContent = `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${fraction}`;
  }
}
localTimes(document);

// A part that is live is asked for again, unless somebody is in it.
const live = document.querySelector("div[data-live]");
if (live) {
  const label = document.createElement("label");
  label.className = "live";
  label.innerHTML = '<input type="checkbox" checked> live';
  live.before(label);
  const on = label.firstChild;
  setInterval(async () => {
    if (!on.checked || document.hidden || live.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      live.replaceChildren(...page.querySelector("div[data-live]").childNodes);
      localTimes(live);
    } catch {
      on.checked = false;
    }
  }, 2000);
}

// The store's clock may be another than the reader's, so what counts is how long the page is open.
const opened = Date.now();
function countDown() {
  for (const span of document.querySelectorAll(".away[data-at]")) {
    const at = Date.parse(span.dataset.at) / 1000;
    const left = Math.round(at - Number(span.dataset.now) - (Date.now() - opened) / 1000);
    const all = Math.abs(left);
    const [days, hours, minutes] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60];
    let text = `${all} s`;
    if (days >= 10 || (days > 0 && hours === 0)) text = `${days.toLocaleString("en")} d`;
    else if (days > 0) text = `${days} d ${hours} h`;
    else if (hours > 0) text = minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
    else if (minutes > 0) text = `${minutes} min`;
    span.textContent = left < 0 ? `${text} ago` : `in ${text}`;
  }
}
if (document.querySelector(".away[data-at]")) setInterval(countDown, 1000);

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const head of table.tHead.rows[0].cells) {
    if (head.querySelector(".unseen")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[head.cellIndex];
        return cell.querySelector("time")?.dateTime ?? cell.textContent.trim();
      };
      const rows = [...table.tBodies[0].rows];
      const text = new Intl.Collator("en", { numeric: true }).compare;
      const number = (row) => {
        const value = row.cells[head.cellIndex].querySelector(".num")?.textContent;
        return value === undefined ? NaN : Number(value);
      };
      const order = (a, b) => number(a) - number(b) || text(key(a), key(b));
      rows.sort((a, b) => (up ? order(a, b) : order(b, a)));
      table.tBodies[0].append(...rows);
    });
  }
}

// A part of a page, asked for again: what is in `id` is replaced by what the same part of the other page has.
async function renew(id, address, signal) {
  const answer = await fetch(address, { signal });
  const part = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(id);
  const here = document.getElementById(id);
  if (!part || !here) return null;
  here.replaceChildren(...part.childNodes);
  return part;
}

for (const form of document.querySelectorAll("form[data-live]")) {
  let asked;
  form.addEventListener("input", (event) => {
    const shown = form.querySelector(`output[for="${event.target.id}"]`);
    if (shown) shown.textContent = Number(event.target.value).toLocaleString("en");
    asked?.abort();
    asked = new AbortController();
    const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
    renew(form.dataset.live, address, asked.signal).catch(() => {});
  });
}

// A draft is checked while it is written: what is wrong is told at its field, once that was touched.
for (const form of document.querySelectorAll("form[data-check]")) {
  // What the schema says comes from the console, in place of the browser's own words.
  form.noValidate = true;
  const touched = new Set();
  let asked, timer;
  const tell = (input, text) => {
    const id = `${input.id}-wrong`;
    let told = document.getElementById(id);
    if (!told && text) {
      told = Object.assign(document.createElement("p"), { id, className: "wrong" });
      told.setAttribute("role", "alert");
      const field = input.closest(".field");
      if (field) field.append(told);
      else input.after(told);
    }
    if (told) told.textContent = text;
    if (text) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", id);
    } else {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
      told?.remove();
    }
  };
  const check = async () => {
    asked?.abort();
    asked = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.dataset.check, { method: "POST", body, signal: asked.signal });
    if (!answer.ok) return;
    const { wrong } = await answer.json();
    for (const input of touched) tell(input, wrong[input.name.replace(/^field\./, "")] ?? "");
  };
  form.addEventListener("input", (event) => {
    if (!/^field\.|^item$/.test(event.target.name ?? "")) return;
    touched.add(event.target);
    clearTimeout(timer);
    timer = setTimeout(() => check().catch(() => {}), 200);
  });
}

// What is under way is looked at again until it is over.
async function watch() {
  const part = await renew("work", location.href).catch(() => document.getElementById("work"));
  if (part?.dataset.again) setTimeout(watch, 500);
}
if (document.querySelector("#work[data-again]")) setTimeout(watch, 500);

// Charts go on while somebody looks at them.
const traffic = document.querySelector("#traffic[data-every]");
if (traffic) {
  setInterval(() => {
    if (document.visibilityState === "visible") renew("traffic", "/traffic").catch(() => {});
  }, Number(traffic.dataset.every) * 1000);
}

const keys = document.getElementById("keys");
const keysButton = document.querySelector("button.keys");
if (keys && keysButton) {
  keysButton.hidden = false;
  keysButton.addEventListener("click", () => keys.showModal());
}

let row = -1;
function goTo(step) {
  const rows = [...document.querySelectorAll("table.rows tbody tr")];
  if (rows.length === 0) return;
  row = Math.min(Math.max(row + step, 0), rows.length - 1);
  for (const other of rows) other.classList.toggle("now", other === rows[row]);
  rows[row].querySelector("a.open")?.focus();
  rows[row].scrollIntoView({ block: "nearest" });
}

for (const area of document.querySelectorAll("textarea[data-run]")) {
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    area.form.requestSubmit(document.getElementById("run"));
  });
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (writing || event.ctrlKey || event.metaKey || event.altKey || keys?.open) return;
  const press = {
    "/": () => document.getElementById("find").focus(),
    "?": () => keys.showModal(),
    j: () => goTo(1),
    k: () => goTo(-1),
    x: () => document.querySelectorAll("table.rows tbody tr")[row]?.querySelector("input[type=checkbox]")?.click(),
    e: () => document.getElementById("edit")?.click(),
    n: () => document.getElementById("new")?.click(),
    s: () => {
      const box = document.getElementById("statement");
      if (box) box.focus();
      else location.assign("/statement");
    },
  }[event.key];
  if (!press) return;
  event.preventDefault();
  press();
});
