"use strict";
const table = document.getElementById("table");
const features = [];
const later = Array.from(document.querySelectorAll(".later"));
const next = document.getElementById("next");

// Adds the features of so many further pages, by default of all.
function add(pages = later.length) {
  for (const page of later.splice(0, pages)) {
    table.insertAdjacentHTML("beforeend", page.textContent);
    page.remove();
  }
  for (const body of Array.from(table.tBodies).slice(features.length)) {
    const text = body.querySelector("th").textContent.toLowerCase();
    features.push({ body, name: body.querySelector("bdi").textContent, text });
    body.querySelector("button").setAttribute("aria-expanded", false);
  }
  if (next) next.hidden = later.length === 0;
}
add(0);
if (next) next.addEventListener("click", () => add(1));

const headers = Array.from(table.querySelectorAll("th[data-sort]"));
const search = document.getElementById("search");
const sort = document.getElementById("sort");
const shown = document.getElementById("shown");
const all = document.getElementById("all");
const theme = document.getElementById("theme");

function open(body, wanted) {
  body.querySelector("button").setAttribute("aria-expanded", wanted);
  body.rows[1].hidden = !wanted;
  const chart = body.rows[0].cells[1].children;
  const copy = wanted && body.querySelector(".wide:empty");
  if (copy) copy.append(...Array.from(chart, (one) => one.cloneNode(true)));
}

table.addEventListener("click", (event) => {
  const row = event.target.closest(".feature");
  if (event.target.closest("a")) return;
  if (row && String(getSelection()) === "") open(row.parentNode, row.nextElementSibling.hidden);
});

all.addEventListener("click", () => {
  const wanted = all.getAttribute("aria-pressed") !== "true";
  all.setAttribute("aria-pressed", wanted);
  all.textContent = wanted ? "Close all" : "Open all";
  add();
  for (const { body } of features) open(body, wanted);
});

search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let count = 0;
  add();
  for (const { body, text } of features) {
    body.hidden = !text.includes(wanted);
    count += body.hidden ? 0 : 1;
  }
  shown.textContent = (wanted ? count.toLocaleString("en") + " of " : "") + features.length.toLocaleString("en");
  document.getElementById("nothing").hidden = count > 0;
});

const usual = (key) => (key === "name" ? "ascending" : "descending");

function order(key, direction) {
  for (const header of headers) {
    if (header.dataset.sort === key) header.setAttribute("aria-sort", direction);
    else header.removeAttribute("aria-sort");
  }
  sort.value = key;
  add();
  const sign = direction === "descending" ? -1 : 1;
  const compare = key === "name"
    ? (a, b) => a.name.localeCompare(b.name, "en", { numeric: true })
    : (a, b) => Number(a.body.dataset[key] ?? -1) - Number(b.body.dataset[key] ?? -1);
  const ordered = key ? features.slice().sort((a, b) => sign * compare(a, b)) : features;
  table.append(...ordered.map((feature) => feature.body));
}

for (const header of headers) {
  header.firstElementChild.addEventListener("click", () => {
    const key = header.dataset.sort;
    const now = header.getAttribute("aria-sort");
    if (now === null) order(key, usual(key));
    else if (now === usual(key)) order(key, now === "ascending" ? "descending" : "ascending");
    else order("", "");
  });
}
sort.addEventListener("change", () => order(sort.value, usual(sort.value)));

function openTarget(fragment) {
  if (fragment && !document.getElementById(fragment)) add();
  const target = document.getElementById(fragment);
  if (!target || !target.matches("tbody")) return;
  target.hidden = false;
  open(target, true);
  target.scrollIntoView();
}
const openAddress = () => openTarget(location.hash.slice(1));
addEventListener("hashchange", openAddress);
openAddress();

// In a frame of a notebook the page has no address of its own, so that links would lead away.
if (location.protocol === "about:") {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    openTarget(link.getAttribute("href").slice(1));
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select")) {
    event.preventDefault();
    search.focus();
  }
});

const dark = matchMedia("(prefers-color-scheme: dark)");
let isDark = dark.matches;
function paint() {
  theme.setAttribute("aria-pressed", isDark);
  theme.textContent = isDark ? "Light" : "Dark";
}
theme.addEventListener("click", () => {
  isDark = !isDark;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  paint();
});
dark.addEventListener("change", () => {
  isDark = dark.matches;
  delete document.documentElement.dataset.theme;
  paint();
});
paint();
