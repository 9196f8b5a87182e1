// The page of a node. It only reads: every request is a GET to this node. What nodes say is put in as text, never as markup.
"use strict";

const LOOK_EVERY = 1000; // ms
const NAMES_EVERY = 2000; // ms, and only if something has changed: a page costs the node a look at all names
const PAGE = 50; // names of a page
const KEPT = 200; // events, and points of a curve
const at = (id) => document.getElementById(id);
const seen = { registry: null, next: 0, leaders: [], points: [], last: null, page: { after: null, next: null }, watch: null, passed: null, shown: { at: 0, position: null }, fresh: [] };

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function get(path, query = {}, signal = undefined) {
  const params = new URLSearchParams();
  if (seen.registry) params.set("registry", seen.registry);
  for (const [key, value] of Object.entries(query)) if (value !== null && value !== "") params.set(key, value);
  const token = sessionStorage.getItem("token");
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`${path}?${params}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.message ?? `The node answered ${answer.status}.`);
}

function make(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function draw(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function row(cells) {
  const made = make("tr");
  made.append(...cells.map((cell) => (cell instanceof Node ? cell : make("td", cell))));
  return made;
}

const bad = (text) => make("td", text, "bad");
const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

function item(ms, text, kind) {
  const made = make("li", undefined, kind);
  made.append(make("time", clock(ms)), text);
  return made;
}

function options(select, values, chosen) {
  const known = [...select.options].map((option) => option.value);
  if (known.join("\n") === values.map(([value]) => value).join("\n")) return;
  select.replaceChildren(...values.map(([value, text]) => new Option(text, value, false, value === chosen)));
}

function showStatus(status) {
  seen.registry ??= status.registry;
  options(at("registry"), status.registries.map((name) => [name, name]), status.registry);
  const { leader } = status;
  const leads = leader ? `${leader.node} leads in epoch ${leader.epoch}${leader.serving ? "" : ", and does not serve yet"}` : "nobody leads";
  const own = status.failed ? "it has failed" : status.draining ? "it is about to leave" : status.ready ? "it is ready" : "it is not ready";
  at("where").textContent = `Node ${status.node}: ${own}. In the registry ${status.registry} ${leads}.`;
  document.title = `${status.node} – Callsign`;
  at("count").textContent = `${status.names?.toLocaleString() ?? "unknown how many"} in this node's replica, at position ${status.position}`;
  options(at("on"), [["", "any"], ...status.members.map(({ node }) => [node, node])], at("on").value);
  at("members").replaceChildren(...status.members.map((member) => row([
    member.node + (member.node === status.node ? " (this node)" : ""),
    member.leads ? "leads" : member.draining ? "leaves" : member.may_lead ? "follows" : "never leads",
    member.session_open ? "open" : bad("closed"),
    member.synced ? "synced" : bad("behind"),
    member.linked ? "up" : bad("down"),
    member.address,
  ])));
  drawGraph(status);
}

function drawGraph({ node, members }) {
  const place = (nth) => {
    const angle = (2 * Math.PI * nth) / members.length - Math.PI / 2;
    return [160 + 120 * Math.cos(angle), 105 + 80 * Math.sin(angle)];
  };
  const own = place(Math.max(0, members.findIndex((member) => member.node === node)));
  const lines = members.flatMap((member, nth) => {
    if (member.node === node) return [];
    const [x2, y2] = place(nth);
    return [draw("line", { x1: own[0], y1: own[1], x2, y2, class: member.linked ? "link" : "cut" })];
  });
  const nodes = members.flatMap((member, nth) => {
    const [cx, cy] = place(nth);
    const circle = draw("circle", { cx, cy, r: members.length > 24 ? 4 : 9, class: member.leads ? "node leader" : "node" });
    if (members.length > 24 && !member.leads && member.node !== node) return [circle];
    return [circle, draw("text", { x: cx, y: cy + 22, "text-anchor": "middle" }, member.node)];
  });
  at("graph").replaceChildren(...lines, ...nodes);
}

function showHistory({ changes, next }) {
  if (next < seen.next) {
    // The node began anew: all that it saw is asked for next time.
    Object.assign(seen, { next: 0, leaders: [] });
    return;
  }
  seen.next = next;
  for (const { at_ms, said, leader } of changes) {
    addEvent(at_ms, said);
    if (leader) seen.leaders.push({ at_ms, said, ...leader });
  }
  seen.leaders = seen.leaders.slice(-KEPT);
  if (changes.length > 0) at("leaders").replaceChildren(...seen.leaders.map(({ at_ms, said, node }) => item(at_ms, said, node ? "" : "bad")).reverse());
  drawLine();
}

function drawLine() {
  if (seen.leaders.length === 0) return at("line").replaceChildren();
  const now = Date.now();
  const from = seen.leaders[0].at_ms;
  const x = (ms) => (600 * (ms - from)) / Math.max(1, now - from);
  at("line").replaceChildren(...seen.leaders.map(({ at_ms, said, node, epoch }, nth) => {
    const until = seen.leaders[nth + 1]?.at_ms ?? now;
    const kind = node ? (epoch % 2 ? "odd" : "even") : "none";
    const bar = draw("rect", { x: x(at_ms), y: 8, height: 24, width: Math.max(1, x(until) - x(at_ms)), class: kind });
    bar.append(draw("title", {}, said));
    return bar;
  }));
}

// Many at a time: thousands may come in a second.
function addEvent(ms, text, kind) {
  if (seen.fresh.length === 0) setTimeout(showEvents, 100);
  seen.fresh.push([ms, text, kind]);
  if (seen.fresh.length > KEPT) seen.fresh.shift();
}

function showEvents() {
  at("events").prepend(...seen.fresh.map((event) => item(...event)).reverse());
  seen.fresh = [];
  while (at("events").children.length > KEPT) at("events").lastChild.remove();
}

function counted(text, metric, ...labels) {
  return text.split("\n").reduce((sum, line) => {
    const is = (line.startsWith(`${metric}{`) || line.startsWith(`${metric} `)) && labels.every((label) => line.includes(label));
    return is ? sum + Number(line.slice(line.lastIndexOf(" ") + 1)) : sum;
  }, 0);
}

function showRates(text, names) {
  const label = `registry=${JSON.stringify(seen.registry)}`;
  const now = {
    at: performance.now(),
    names,
    calls: counted(text, "callsign_registry_calls_total", label),
    commits: counted(text, "callsign_registry_commit_seconds_count", label),
    seconds: counted(text, "callsign_registry_commit_seconds_sum", label),
  };
  const { last } = seen;
  seen.last = now;
  if (!last) return;
  const seconds = (now.at - last.at) / 1000;
  const commits = now.commits - last.commits;
  seen.points.push([(now.calls - last.calls) / seconds, commits / seconds, commits > 0 ? (1000 * (now.seconds - last.seconds)) / commits : 0, names]);
  seen.points = seen.points.slice(-KEPT);
  const said = ["calls answered a second", "commits a second, as leader", "ms a commit took, as leader", "names"];
  at("curves").replaceChildren(...said.map((title, nth) => {
    const values = seen.points.map((point) => point[nth]);
    const most = Math.max(...values, 1e-9);
    const points = values.map((value, i) => `${(600 * i) / Math.max(1, KEPT - 1)},${42 - (40 * value) / most}`).join(" ");
    const curve = draw("svg", { viewBox: "0 0 600 44", preserveAspectRatio: "none", "aria-hidden": "true" });
    curve.append(draw("polyline", { points, class: "curve" }));
    const number = (value) => value.toLocaleString([], { maximumFractionDigits: 1 });
    const shown = make("div", `${title}: ${number(values.at(-1))} (most: ${number(most)})`);
    shown.append(curve);
    return shown;
  }));
}

async function showNames(position) {
  seen.shown = { at: performance.now(), position };
  const query = { prefix: at("prefix").value, node: at("on").value, meta: at("meta").value, after: seen.page.after, limit: PAGE };
  try {
    const { entries, next } = await (await get("entries", query)).json();
    seen.page.next = next;
    at("refused").textContent = "";
    at("names").replaceChildren(...entries.map((entry) =>
      row([entry.name, entry.node, entry.token, entry.revision, entry.meta === null ? "" : JSON.stringify(entry.meta)])));
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    at("refused").textContent = refused.message;
    at("names").replaceChildren();
    seen.page.next = null;
  }
  at("first").disabled = seen.page.after === null;
  at("next").disabled = seen.page.next === null;
}

function turn(after) {
  seen.page.after = after;
  seen.shown = { at: 0, position: null };
  return look();
}

// Server-sent events, read by hand: `EventSource` cannot send a token.
async function follow(position) {
  const following = new AbortController();
  seen.watch = following;
  try {
    const answer = await get("watch", { from: position }, following.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      events.forEach(showEvent);
    }
  } catch (error) {
    if (following.signal.aborted) return;
  }
  if (seen.watch === following) seen.watch = null;
}

function showEvent(event) {
  const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const kind = field("event");
  // Where to go on if the stream ends. Empty: there is nothing to go on from.
  seen.passed = field("id") || seen.passed;
  if (kind === "change") {
    const { name, why, was, now } = JSON.parse(field("data"));
    addEvent(Date.now(), `${name}: ${why}${now ? ` on ${now.node}` : was ? `, it was on ${was.node}` : ""}`);
  } else if (kind === "reset" || kind === "lagged" || kind === "lapsed" || kind === "resumed") {
    addEvent(Date.now(), `The watch of names says: ${kind}.`, "bad");
  }
}

let looking = Promise.resolve();

// One look after the other: two at once would tell the same events twice.
function look() {
  looking = looking.then(lookOnce);
  return looking;
}

async function lookOnce() {
  try {
    const status = await (await get("status")).json();
    at("lock").hidden = true;
    at("shown").hidden = false;
    showStatus(status);
    showHistory(await (await get("history", { after: seen.next })).json());
    showRates(await (await get("metrics")).text(), status.names ?? 0);
    const isDue = seen.shown.at === 0 || performance.now() >= seen.shown.at + NAMES_EVERY;
    if (isDue && seen.shown.position !== status.position) await showNames(status.position);
    if (!seen.watch) follow(seen.passed ?? status.position);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      if (sessionStorage.getItem("token")) at("wrong").textContent = "That is not its token.";
      sessionStorage.removeItem("token");
      at("lock").hidden = false;
      at("shown").hidden = true;
    } else {
      at("where").textContent = `The node does not answer: ${error.message}`;
    }
  }
}

async function keepLooking() {
  if (!document.hidden) await look();
  setTimeout(keepLooking, LOOK_EVERY);
}

at("lock").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value);
  at("token").value = "";
  at("wrong").textContent = "";
  look();
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  turn(null);
});
at("first").addEventListener("click", () => turn(null));
at("next").addEventListener("click", () => turn(seen.page.next));
at("registry").addEventListener("change", () => {
  looking = looking.then(begin);
  look();
});

// Begins anew, in the registry that is chosen.
function begin() {
  seen.watch?.abort();
  Object.assign(seen, { registry: at("registry").value, next: 0, leaders: [], points: [], last: null, watch: null, passed: null, page: { after: null, next: null }, shown: { at: 0, position: null } });
  at("leaders").replaceChildren();
  at("events").replaceChildren();
}

keepLooking();
