
"use strict";
// Data becomes text nodes and nothing else. Rows are kept by id and changed in place, so that what is open, focused
// or scrolled to stays where it is.

const EVERY_MS = 2000;
const RANGE_MIN_MS = 1000;
const WIDTH_MIN = 0.5;
const STATUSES = ["pending", "completed", "failed", "timeout"];
const BADGES = new Map([
  ["tool_call", ["TOOL", "tool"]], ["resource_read", ["RES", "res"]], ["prompt_get", ["PROMPT", "prompt"]],
  ["backend_tool", ["B:TOOL", "tool"]], ["backend_resource", ["B:RES", "res"]], ["backend_prompt", ["B:PROMPT", "prompt"]],
  ["codemode_search", ["CODEMODE_SEARCH", "code"]], ["codemode_execute", ["CODEMODE_EXECUTE", "code"]],
]);

const byId = (id) => document.getElementById(id);
const ui = {
  live: byId("live"), liveText: byId("live-text"), trouble: byId("trouble"), axis: byId("axis"),
  sessions: byId("sessions"), empty: byId("empty"), none: byId("none"), reset: byId("reset"),
  filters: { session: byId("by-session"), server: byId("by-server"), status: byId("by-status"), time: byId("by-time") },
};
const panels = new Map();
const rows = new Map();
let report = null;
let paused = false;
let lost = false;
let timer = 0;
let asking = false;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

function duration(ms) {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

function ago(ms) {
  if (ms < 2000) return "just now";
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
}

// A request with its times as numbers. Only rows that are over have an end that stays.
function read(request, now) {
  const start = Date.parse(request.startedAt) || now;
  const over = request.status === "completed" || request.status === "failed";
  const took = typeof request.durationMs === "number" ? request.durationMs : null;
  const end = over ? start + (took ?? 0) : Math.max(now, start);
  const status = STATUSES.includes(request.status) ? request.status : "pending";
  return { ...request, status, start, end, took, over, key: `${request.sessionId} ${request.requestId}` };
}

function visible(request, now) {
  const { session, server, status, time } = ui.filters;
  return (!session.value || request.sessionId === session.value)
    && (!server.value || request.server === server.value)
    && (!status.value || request.status === status.value)
    && (!time.value || now - Number(time.value) <= request.end);
}

function render() {
  if (!report) return;
  const now = Date.parse(report.generatedAt) || Date.now();
  const groups = Object.entries(report.sessions).map(([id, list]) => {
    const all = list.map((request) => read({ ...request, sessionId: id }, now));
    return { id, all };
  });
  const everything = groups.flatMap((group) => group.all);
  counters(report.stats);
  choices(ui.filters.session, groups.map((group) => group.id).sort());
  choices(ui.filters.server, [...new Set(everything.map((request) => request.server).filter(Boolean))].sort());
  for (const group of groups) {
    group.shown = group.all.filter((request) => visible(request, now)).sort((a, b) => a.start - b.start);
    group.latest = Math.max(...group.shown.map((request) => request.over ? request.end : now));
  }
  const shown = groups.filter((group) => group.shown.length).sort((a, b) => b.latest - a.latest || (a.id < b.id ? -1 : 1));
  const range = rangeOf(shown.flatMap((group) => group.shown), now);
  const focused = document.activeElement;
  place(ui.sessions, shown.map((group) => panel(group, range, now)));
  forget(panels, new Set(shown.map((group) => group.id)));
  forget(rows, new Set(shown.flatMap((group) => group.shown.map((request) => request.key))));
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  ticks(range);
  ui.axis.hidden = !shown.length;
  ui.empty.hidden = everything.length > 0;
  ui.none.hidden = !everything.length || shown.length > 0;
  ui.reset.hidden = !Object.values(ui.filters).some((filter) => filter.value);
}

function rangeOf(requests, now) {
  let from = Infinity;
  let to = -Infinity;
  for (const request of requests) {
    from = Math.min(from, request.start);
    to = Math.max(to, request.end);
  }
  if (ui.filters.time.value) from = Math.max(from, now - Number(ui.filters.time.value));
  return { from, length: Math.max(RANGE_MIN_MS, to - from) };
}

function counters(stats) {
  const values = { totalRequests: stats.totalRequests, sessionCount: stats.sessionCount, ...stats.byStatus };
  for (const cell of document.querySelectorAll("[data-count]")) {
    const value = Number(values[cell.dataset.count]) || 0;
    setText(cell, value.toLocaleString("en"));
    cell.parentElement.classList.toggle("zero", value === 0);
  }
}

// What was chosen stays a choice, even when no row has it any more.
function choices(select, values) {
  if (select.value && !values.includes(select.value)) values.push(select.value);
  const known = [...select.options].slice(1).map((option) => option.value);
  if (known.length === values.length && known.every((value, at) => value === values[at])) return;
  const chosen = select.value;
  const options = values.map((value) => {
    const option = make("option", "", value.length > 60 ? `${value.slice(0, 60)}…` : value);
    option.value = value;
    return option;
  });
  select.replaceChildren(select.options[0], ...options);
  select.value = chosen;
}

function ticks(range) {
  const marks = ui.axis.querySelectorAll("i");
  marks.forEach((mark, at) => setText(mark, at === 0 ? "0" : duration(range.length * at / (marks.length - 1))));
}

// Puts children in this order, and moves only those that are out of place.
function place(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

function forget(map, keep) {
  for (const key of map.keys()) if (!keep.has(key)) map.delete(key);
}

function panel(group, range, now) {
  let known = panels.get(group.id);
  if (!known) {
    known = { element: make("section", "panel"), list: make("div", "list"), note: make("span", "note"), bad: make("span", "note bad") };
    const title = make("h2");
    title.append("Session ", make("span", "id", group.id), known.note, known.bad);
    known.element.append(title, known.list);
    panels.set(group.id, known);
  }
  const count = group.shown.length;
  const failed = group.shown.filter((request) => request.status === "failed").length;
  setText(known.note, `${count} request${count === 1 ? "" : "s"} · ${ago(now - group.latest)}`);
  setText(known.bad, failed ? `${failed} failed` : "");
  place(known.list, group.shown.map((request) => row(request, range)));
  return known.element;
}

function row(request, range) {
  let known = rows.get(request.key);
  if (!known) {
    known = build(request);
    rows.set(request.key, known);
  }
  known.request = request;
  const from = Math.max(request.start, range.from);
  const left = Math.min(100 - WIDTH_MIN, (from - range.from) / range.length * 100);
  const width = Math.min(100 - left, Math.max(WIDTH_MIN, (request.end - from) / range.length * 100));
  known.fill.style.left = `${left.toFixed(3)}%`;
  known.fill.style.width = `${width.toFixed(3)}%`;
  setClass(known.fill, `fill ${request.status}`);
  const took = request.over && request.took !== null ? duration(request.took) : "...";
  setText(known.took, request.status === "failed" ? `✕ ${took}` : took);
  setClass(known.took, `took ${request.status}`);
  const label = `${known.badge} ${request.name}${request.server ? ` on ${request.server}` : ""}, ${request.status}, ${took}`;
  if (known.label !== label) known.button.setAttribute("aria-label", known.label = label);
  if (known.detail) fillDetail(known);
  return known.item;
}

function build(request) {
  const [badge, kind] = BADGES.get(request.type) || [String(request.type), "tool"];
  const known = { item: make("div", "item"), button: make("button", "row"), fill: make("span", "fill"), took: make("span", "took"), badge, detail: null };
  known.button.type = "button";
  known.button.setAttribute("aria-expanded", "false");
  const what = make("span", "what");
  what.append(make("span", `badge ${kind}`, badge), make("span", "name", request.name));
  if (request.server) what.append(make("span", "server", request.server));
  const track = make("span", "track");
  track.append(known.fill);
  known.button.append(what, track, known.took);
  known.button.title = request.args ? `${request.name}\n${request.args}` : request.name;
  known.button.addEventListener("click", () => toggle(known));
  known.item.append(known.button);
  return known;
}

function toggle(known) {
  if (known.detail) {
    known.detail.remove();
    known.detail = null;
  } else {
    known.detail = make("dl", "detail");
    known.item.append(known.detail);
    fillDetail(known);
  }
  known.item.classList.toggle("open", Boolean(known.detail));
  known.button.setAttribute("aria-expanded", String(Boolean(known.detail)));
}

function fillDetail(known) {
  const { request } = known;
  const clock = (text) => {
    const date = new Date(text);
    return Number.isNaN(date.getTime()) ? "unknown" : `${date.toLocaleString()} (${date.toISOString()})`;
  };
  const status = request.status === "timeout" ? "timeout: took too long to wait for, goes on in the background" : request.status;
  const facts = [
    ["Status", status], ["Name", request.name], ["Server", request.server],
    ["Error", request.error, "text error"], ["Arguments", request.args, "text"], ["Result", request.resultSummary, "text"],
    ["Took", request.over && request.took !== null ? duration(request.took) : null],
    ["Started", clock(request.startedAt)], ["Ended", request.over ? clock(request.endedAt) : null],
    ["Type", request.type], ["Request", request.requestId],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "");
  const said = JSON.stringify(facts);
  if (known.said === said && known.detail.childElementCount) return;
  known.said = said;
  known.detail.replaceChildren(...facts.flatMap(([term, value, kind]) => [make("dt", "", term), make("dd", kind || "", String(value))]));
}

function show() {
  const hidden = document.hidden;
  const state = paused || hidden ? "paused" : lost ? "lost" : report ? "live" : "starting";
  const text = { paused: "Paused", lost: "Lost, trying again", live: "Live", starting: "Connecting" }[state];
  ui.live.dataset.state = state;
  ui.live.setAttribute("aria-pressed", String(paused));
  setText(ui.liveText, text);
}

async function ask() {
  if (asking || paused || document.hidden) return;
  asking = true;
  try {
    const response = await fetch("/waterfall/json", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
    const body = await response.json();
    if (!response.ok) throw new Error(body.error || `the gateway answered ${response.status}`);
    report = body;
    lost = false;
    ui.trouble.hidden = true;
    render();
  } catch (error) {
    lost = true;
    setText(ui.trouble, `The gateway cannot be reached: ${error.message}. What is shown may be old.`);
    ui.trouble.hidden = false;
  } finally {
    asking = false;
    show();
    schedule();
  }
}

function schedule() {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(ask, EVERY_MS);
}

function resume() {
  show();
  clearTimeout(timer);
  ask();
}

ui.live.addEventListener("click", () => {
  paused = !paused;
  resume();
});
document.addEventListener("visibilitychange", resume);
for (const filter of Object.values(ui.filters)) filter.addEventListener("change", render);
ui.reset.addEventListener("click", () => {
  for (const filter of Object.values(ui.filters)) filter.value = "";
  render();
  ui.filters.session.focus();
});
setText(byId("home"), location.origin);
resume();
