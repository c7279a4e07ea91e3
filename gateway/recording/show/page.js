"use strict";
// The page is complete without this script. It folds out pieces, formats JSON, filters, copies, and handles keys.
// All content goes into the page as text, never as markup.

const PIECES = 500; // rows of folded pieces that are made at once
const JSON_MAX = 1 << 20; // characters: longer JSON stays as it is, because colours would make the page slow
const SHORT = 60; // characters: shorter JSON stays on one line
const find = (id) => document.getElementById(id);
const rows = [...document.querySelectorAll(".entry, .row:not(.head)")];
const make = (tag, name, text) => {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
};

// -- JSON ----------------------------------------------------------------------------------------------------

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const isJson = (text) => {
  if (!/^\s*[{[]/.test(text) || text.length > JSON_MAX) return false;
  try { JSON.parse(text); return true; } catch { return false; }
};

// Write the tokens as they stand, so that large numbers and the order of keys stay, with colours and line breaks.
function writeJson(target, text, pretty) {
  const tokens = text.match(TOKEN) || [];
  let depth = 0, plain = "";
  const line = () => { plain += pretty ? "\n" + "  ".repeat(depth) : ""; };
  const parts = [];
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      plain += token; depth += 1;
      if (next !== "}" && next !== "]") line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      if (tokens[at - 1] !== "{" && tokens[at - 1] !== "[") line();
      plain += token;
    } else if (token === ",") {
      plain += pretty ? "," : ", "; line();
    } else if (token === ":") {
      plain += ": ";
    } else {
      parts.push(plain);
      plain = "";
      const kind = token[0] === '"' ? (next === ":" ? "k" : "s") : /[\d-]/.test(token[0]) ? "n" : "w";
      parts.push(make("span", kind, token));
    }
  });
  target.replaceChildren(...parts, plain);
}

function colour(pre) {
  if (pre.dataset.raw !== undefined || !isJson(pre.textContent)) return;
  pre.dataset.raw = pre.textContent;
  writeJson(pre, pre.dataset.raw, pre.dataset.raw.length > SHORT);
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    colour(entry.target);
  }
}, { rootMargin: "400px" });
document.querySelectorAll(".entry pre.json").forEach((pre) => seen.observe(pre));

// -- folded pieces -------------------------------------------------------------------------------------------

async function unpack(run) {
  const bytes = Uint8Array.from(atob(run.dataset.pieces), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  let seq = 0, t = 0;
  return JSON.parse(await new Response(stream).text()).map(([more, later, text]) => [seq += more, t += later, text]);
}

const clock = (t) => {
  const minutes = Math.floor(t / 6e7);
  return `${minutes}:${((t - minutes * 6e7) / 1e6).toFixed(6).padStart(9, "0")}`;
};

async function unfold(run, upTo = 0) {
  run.pieces ??= await unpack(run);
  const list = run.querySelector(".pieces") || run.appendChild(make("ol", "pieces"));
  list.tabIndex = 0;
  list.setAttribute("aria-label", `${run.pieces.length} pieces`);
  run.querySelector(".more")?.remove();
  const begin = list.children.length;
  const end = Math.min(Math.max(begin ? begin + PIECES : PIECES, upTo), run.pieces.length);
  for (const [seq, t, text] of run.pieces.slice(begin, end)) {
    const item = make("li"), code = make("code");
    item.id = `l${seq}`;
    if (isJson(text)) writeJson(code, text, run.pieces.length === 1); else code.textContent = text;
    item.append(make("span", "time", clock(t)), code);
    list.append(item);
  }
  if (end < run.pieces.length) {
    const more = make("button", "more", `Show ${Math.min(PIECES, run.pieces.length - end)} of ${(run.pieces.length - end).toLocaleString("en")} more`);
    more.type = "button";
    more.addEventListener("click", () => unfold(run));
    run.append(more);
  }
}

const opened = (details) => {
  if (!details.querySelector(":scope > .copy")) {
    const copy = make("button", "copy", "Copy");
    copy.type = "button";
    details.append(copy);
  }
  details.querySelectorAll(":scope > pre").forEach(colour);
  if (details.dataset.pieces && !details.querySelector(".pieces")) {
    unfold(details).catch(() => say("This browser cannot unpack the pieces"));
  }
};
document.addEventListener("toggle", (event) => {
  if (event.target.open && event.target.matches(".line, .run")) opened(event.target);
}, true);

function toggleRow(row, open) {
  const all = [...row.querySelectorAll(".line, .run")];
  const now = open ?? !(all.length ? all.every((details) => details.open) : row.classList.contains("open"));
  all.forEach((details) => { details.open = now; });
  row.classList.toggle("open", now);
}

find("expand").addEventListener("click", ({ target }) => {
  const open = target.getAttribute("aria-pressed") !== "true";
  target.setAttribute("aria-pressed", open);
  target.textContent = open ? "Collapse all" : "Expand all";
  rows.filter((row) => !row.hidden).forEach((row) => toggleRow(row, open));
});

// A link to a line inside of a fold opens the fold.
async function goToHash() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  if (!find(id) && /^l\d+$/.test(id)) {
    const seq = Number(id.slice(1));
    for (const run of document.querySelectorAll(".run")) {
      if (seq < run.dataset.first || seq > run.dataset.last) continue;
      run.pieces ??= await unpack(run);
      const at = run.pieces.findIndex((piece) => piece[0] === seq);
      if (at < 0) continue;
      await unfold(run, at + 1);
      run.open = true;
      break;
    }
  }
  const target = find(id);
  const row = target?.closest(".entry, .row");
  if (row?.hidden) clearFilter();
  if (target?.matches(".line, .run")) target.open = true;
  target?.scrollIntoView({ block: "center" });
  if (row) select(row, false);
}
addEventListener("hashchange", goToHash);

// -- filter --------------------------------------------------------------------------------------------------

const filter = find("filter");
const chips = [...document.querySelectorAll("#kinds button")];
let texts = new WeakMap();
const textOf = (row) => {
  if (!texts.has(row)) {
    const parts = [...row.querySelectorAll(".kind, .name, summary, pre, .lost, .gone")];
    const pieces = [...row.querySelectorAll(".run")].flatMap((run) => (run.pieces || []).map((piece) => piece[2]));
    const whole = [...parts.map((part) => `${part.dataset.raw || ""} ${part.textContent}`), ...pieces].join(" ");
    texts.set(row, whole.toLowerCase());
  }
  return texts.get(row);
};

// Before the first search, unpack all pieces, so that the filter finds text in folds too.
let unpacked;
async function unpackAll() {
  const runs = [...document.querySelectorAll(".run")];
  while (runs.length) {
    await Promise.all(runs.splice(0, 50).map(async (run) => { run.pieces ??= await unpack(run); }));
  }
  texts = new WeakMap();
  unpacked = true;
  applyFilter();
}

function applyFilter() {
  if (filter.value && unpacked === undefined) {
    unpacked = false;
    unpackAll().catch(() => say("This browser cannot unpack the pieces"));
  }
  const words = filter.value.trim().toLowerCase();
  const kinds = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.kind);
  let shown = 0;
  for (const row of rows) {
    const of = row.dataset.kinds.split(" ");
    const fits = (!kinds.length || kinds.some((kind) => of.includes(kind))) && (!words || textOf(row).includes(words));
    row.hidden = !fits;
    shown += fits;
  }
  document.querySelectorAll(".turn").forEach((turn) => { turn.hidden = !turn.querySelector(".entry:not([hidden])"); });
  find("nothing").hidden = shown > 0;
  find("count").textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
}

function clearFilter() {
  filter.value = "";
  chips.forEach((chip) => chip.setAttribute("aria-pressed", "false"));
  applyFilter();
}

for (const chip of chips) {
  const count = rows.filter((row) => row.dataset.kinds.split(" ").includes(chip.dataset.kind)).length;
  chip.hidden = !count;
  chip.append(" ", make("small", "", count.toLocaleString("en")));
}

let waiting;
filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(applyFilter, 80); });
find("clear").addEventListener("click", clearFilter);
chips.forEach((chip) => chip.addEventListener("click", () => {
  chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true");
  applyFilter();
}));

// -- copy ----------------------------------------------------------------------------------------------------

let saying;
function say(text) {
  find("said").textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => { find("said").textContent = ""; }, 1500);
}

function copyText(text) {
  const old = () => { // a page from a file may not use the clipboard in every browser
    const area = document.body.appendChild(make("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    say(done ? "Copied" : "Not copied: the browser refused");
  };
  if (!navigator.clipboard) return old();
  navigator.clipboard.writeText(text).then(() => say("Copied"), old);
}

async function copyOf(part) {
  const texts = [];
  for (const run of part.matches(".run") ? [part] : part.querySelectorAll(".run")) {
    run.pieces ??= await unpack(run);
    texts.push(...run.pieces.map((piece) => piece[2]));
  }
  const pres = part.matches(".run") ? [] : [...part.querySelectorAll("pre")].filter((pre) => !pre.closest(".run"));
  return [...pres.map((pre) => pre.dataset.raw ?? pre.textContent), ...texts].join("\n");
}

document.addEventListener("click", async (event) => {
  const row = event.target.closest(".entry, .row:not(.head)");
  if (!row) return;
  if (event.target.matches(".copy")) {
    copyText(await copyOf(event.target.closest(".line, .run, .entry")));
  } else if (!event.target.closest("a, button, summary") && String(getSelection()) === "") {
    select(row);
  }
});

// -- keys ----------------------------------------------------------------------------------------------------

let now = null;
function select(row, scroll = true) {
  now?.classList.remove("now");
  now = row;
  row.classList.add("now");
  row.focus({ preventScroll: true });
  if (scroll) row.scrollIntoView({ block: "nearest" });
}

function step(by, among = rows) {
  const visible = among.filter((row) => !row.hidden);
  const top = (row) => row.getBoundingClientRect().top;
  let at = visible.indexOf(now);
  if (at < 0) { // begin where the reader is
    const bar = document.querySelector(".bar").getBoundingClientRect().bottom;
    const near = visible.findIndex((row) => top(row) >= bar);
    at = by > 0 ? (near < 0 ? visible.length : near) - 1 : (near < 0 ? visible.length : near);
  }
  const row = visible[Math.max(0, Math.min(visible.length - 1, at + by))];
  if (row) select(row);
}

function stepTurn(by) {
  const turns = [...document.querySelectorAll(".turn:not([hidden])")];
  const at = turns.findIndex((turn) => turn.contains(now));
  const turn = turns[at < 0 ? (by > 0 ? 0 : turns.length - 1) : Math.max(0, Math.min(turns.length - 1, at + by))];
  const first = turn?.querySelector(".entry:not([hidden])");
  if (!first) return;
  turn.scrollIntoView({ block: "start" });
  select(first, false);
}

function otherSide() {
  if (!now) return;
  const link = now.querySelector("a.time");
  if (now.matches(".entry")) { history.pushState(null, "", link.hash); return goToHash(); }
  const seq = Number(now.dataset.last);
  const entries = [...document.querySelectorAll(".entry")].filter((entry) => Number(entry.dataset.seq) <= seq);
  const entry = entries.at(-1);
  if (!entry) return;
  if (entry.hidden) clearFilter();
  select(entry, false);
  entry.scrollIntoView({ block: "center" });
}

const help = find("help");
find("help-button").addEventListener("click", () => help.showModal());
find("close").addEventListener("click", () => help.close());

const KEYS = {
  j: () => step(1), k: () => step(-1), n: () => stepTurn(1), p: () => stepTurn(-1), w: otherSide,
  "/": () => { filter.focus(); filter.select(); },
  "?": () => help.showModal(),
  c: async () => { if (now) copyText(await copyOf(now)); },
  Escape: () => { if (filter.value || chips.some((chip) => chip.getAttribute("aria-pressed") === "true")) clearFilter(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const at = event.target;
  if (at === filter) {
    if (event.key === "Escape") { filter.value ? clearFilter() : filter.blur(); event.preventDefault(); }
    if (event.key === "Enter") { filter.blur(); now = null; step(1); event.preventDefault(); }
    return;
  }
  if (at.matches("input, textarea")) return;
  let action = KEYS[event.key];
  if (at === now) {
    action = { ArrowDown: KEYS.j, ArrowUp: KEYS.k, Enter: () => toggleRow(now), " ": () => toggleRow(now), o: () => toggleRow(now) }[event.key] || action;
  }
  if (!action) return;
  event.preventDefault();
  action();
});

document.documentElement.classList.add("js");
new ResizeObserver(([bar]) => { // what sticks below the bar must know its height
  document.documentElement.style.setProperty("--bar", `${bar.target.offsetHeight}px`);
}).observe(document.querySelector(".bar"));
applyFilter();
goToHash();
