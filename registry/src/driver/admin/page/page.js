// The page of a node. It only reads: every request is a GET to this node. What nodes say is put in as text, never as markup.
"use strict";

const LOOK_EVERY = 1000; // ms
const ANSWERS_WITHIN = 5000; // ms
const NAMES_EVERY = 2000; // ms, and only if something has changed: a page costs the node a look at all names
const SINGLETONS_EVERY = 5000; // ms: they are read from the store
const PAGE = 50; // rows of a table
const KEPT = 200; // events, and points of a curve
const at = (id) => document.getElementById(id);
// The page may be below any path: what it asks for is beside this script.
const base = document.currentScript.src.replace(/[^/]*$/, "");
// The session of the browser is shared with all that is below the same host.
const TOKEN = `callsign token of ${base}`;
const anew = () => ({ next: 0, leaders: [], points: [], last: null, watch: null, passed: null, ballots: new Map() });
const seen = { registry: null, incarnation: null, drawn: null, fresh: [], absent: new Set(), ...anew() };

class Refused extends Error {
  constructor(status, code, message, token) { super(message); Object.assign(this, { status, code, token }); }
}

// A node that was halted answers nothing, and the page is to say so.
async function get(path, query = {}, signal = AbortSignal.timeout(ANSWERS_WITHIN)) {
  const params = new URLSearchParams();
  if (seen.registry) params.set("registry", seen.registry);
  for (const [key, value] of Object.entries(query)) if (value !== null && value !== "") params.set(key, value);
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`${base}${path}?${params}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.error, body.message ?? `The node answered ${answer.status}.`, token);
}

// What a node may lack: the program that embeds the page chose so.
async function getIfThere(path, query) {
  if (seen.absent.has(path)) return null;
  try {
    return await get(path, query);
  } catch (refused) {
    if (!(refused instanceof Refused) || refused.code !== "no_such_route") throw refused;
    seen.absent.add(path);
    return null;
  }
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
  at("count").textContent = `${status.names?.toLocaleString() ?? "unknown how many"} in this node's replica with the members of groups, at position ${status.position}`;
  options(at("on"), [["", "any"], ...status.members.map(({ node }) => [node, node])], at("on").value);
  at("members").replaceChildren(...status.members.map((member) => row([
    named(member, member.node === status.node),
    member.leads ? "leads" : member.draining ? "leaves" : member.may_lead ? "follows" : "never leads",
    member.session_open ? "open" : bad("closed"),
    member.synced ? "synced" : bad("behind"),
    lag(member.behind),
    member.linked ? "up" : bad("down"),
    member.address,
  ])));
  drawGraph(status);
}

// How many positions of the log a member lacked when it was asked last.
function lag(behind) {
  if (behind === null) return make("td", "not known", "faint");
  return behind === 0 ? "0" : `${behind.toLocaleString()} behind`;
}

// A member's name, which leads to its own page, if it says where that is.
function named({ node, admin }, isThis) {
  if (isThis || !/^https?:/.test(admin ?? "")) return node + (isThis ? " (this node)" : "");
  const cell = make("td");
  const link = make("a", node);
  link.href = admin;
  link.rel = "noreferrer";
  cell.append(link);
  return cell;
}

// What two members, of which this node may be one, say of the link between them. What the other end does not say, one end may know.
function between([one, ofOne], [other, ofOther]) {
  const said = [ofOne?.has(other), ofOther?.has(one)].filter((linked) => linked !== undefined);
  if (said.length === 0) return ["unknown", "nobody has said yet whether they are linked"];
  return said.every(Boolean) ? ["link", "linked"] : ["cut", "not linked"];
}

function drawGraph({ node, members }) {
  // Of many members these are many lines.
  const drawn = JSON.stringify([node, ...members.map((member) => [member.node, member.leads, member.links_to])]);
  if (drawn === seen.drawn) return;
  seen.drawn = drawn;
  const place = (nth) => {
    const angle = (2 * Math.PI * nth) / members.length - Math.PI / 2;
    return [160 + 120 * Math.cos(angle), 105 + 80 * Math.sin(angle)];
  };
  const linked = members.map((member) => [member.node, member.links_to === null ? undefined : new Set(member.links_to)]);
  const cut = [];
  const lines = linked.flatMap((one, nth) => linked.slice(nth + 1).map((other, beyond) => {
    const [x1, y1] = place(nth);
    const [x2, y2] = place(nth + 1 + beyond);
    const [kind, said] = between(one, other);
    const line = draw("line", { x1, y1, x2, y2, class: kind });
    line.append(draw("title", {}, `${one[0]} and ${other[0]}: ${said}`));
    if (kind === "cut") cut.push(`${one[0]} and ${other[0]}`);
    return line;
  }));
  at("graph").setAttribute("aria-label", `Members, and the links between them. ${cut.length === 0 ? "No two are known to be without a link." : `Not linked: ${cut.join(", ")}.`}`);
  const nodes = members.flatMap((member, nth) => {
    const [cx, cy] = place(nth);
    const circle = draw("circle", { cx, cy, r: members.length > 24 ? 4 : 9, class: member.leads ? "node leader" : "node" });
    if (members.length > 24 && !member.leads && member.node !== node) return [circle];
    return [circle, draw("text", { x: cx, y: cy + 22, "text-anchor": "middle" }, member.node)];
  });
  at("graph").replaceChildren(...lines, ...nodes);
}

// The node began anew: what it counted before is gone, and all that it saw since is asked for.
function forget() {
  Object.assign(seen, { next: 0, leaders: [], last: null, absent: new Set() });
  for (const table of [names, groups]) table.position = null;
}

function showHistory({ changes, next }) {
  // It did so since its status was asked for.
  if (next < seen.next) return forget();
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

// A table that is shown page by page. `every`: it is asked for so often at most, and `rows` makes the rows of what came.
function pages(id, path, every, filter, rows) {
  const table = { id, path, every, filter, rows, after: null, next: null, shownAt: 0, position: null, asked: null };
  at(`${id}-first`).addEventListener("click", () => turn(table, null));
  at(`${id}-next`).addEventListener("click", () => turn(table, table.next));
  return table;
}

const names = pages("names", "entries", NAMES_EVERY, () => ({ prefix: at("prefix").value, node: at("on").value, meta: at("meta").value }), ({ entries }) =>
  entries.map((entry) => row([entry.name, entry.node, entry.token, entry.revision, entry.meta === null ? "" : JSON.stringify(entry.meta)])));
const groups = pages("groups", "groups", NAMES_EVERY, () => ({ prefix: at("groups-prefix").value }), (body) =>
  body.groups.map(({ name, limit, members }) => row([name, limit === null ? "group" : limit === 1 ? "lock" : `semaphore of ${limit}`, members])));
const singletons = pages("singletons", "singletons", SINGLETONS_EVERY, () => ({}), (body) => body.singletons.map(singletonRow));

// A lease is good while its ballot moves. Whoever has just begun to look does not know yet.
function singletonRow({ name, leader, epoch, ballot, lease_ms, child }) {
  const actor = child ? `on ${child.node}` : "";
  if (leader === null) return row([name, bad("nobody"), "", "", actor]);
  const now = performance.now();
  const known = seen.ballots.get(name);
  if (known?.ballot !== ballot) seen.ballots.set(name, { ballot, at: now });
  const isSilent = known?.ballot === ballot && now - known.at > lease_ms;
  return row([name, leader, epoch, isSilent ? bad(`not refreshed for ${lease_ms / 1000} s and more`) : `${lease_ms / 1000} s`, actor]);
}

async function showTable(table, position) {
  const isDue = table.shownAt === 0 || performance.now() >= table.shownAt + table.every;
  if (!isDue || (table.position === position && position !== null)) return;
  // The position counts once its rows are shown: what was refused, or not answered, is asked for again.
  const asked = {};
  Object.assign(table, { shownAt: performance.now(), position: null, asked });
  const refused = at(`${table.id}-refused`);
  try {
    const answer = await getIfThere(table.path, { ...table.filter(), after: table.after, limit: PAGE });
    if (answer === null) return;
    const body = await answer.json();
    // Somebody has asked for something else meanwhile, which comes next.
    if (table.asked !== asked) return;
    table.next = body.next;
    refused.textContent = "";
    at(table.id).replaceChildren(...table.rows(body));
    table.position = position;
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401) throw error;
    if (table.asked !== asked) return;
    refused.textContent = error.message;
    at(table.id).replaceChildren();
    table.next = null;
  }
  at(`${table.id}-first`).disabled = table.after === null;
  at(`${table.id}-next`).disabled = table.next === null;
}

// They are read from the store, which changes without the names. Nobody waits for it.
async function showSingletons() {
  if (singletons.isAsked) return;
  singletons.isAsked = true;
  // Whatever is wrong with the node, the next look says.
  await showTable(singletons, null).catch(() => {});
  singletons.isAsked = false;
  at("elected").hidden = seen.absent.has("singletons");
}

function turn(table, after) {
  Object.assign(table, { after, shownAt: 0, position: null, asked: null });
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
    // What the others answer is in the next status.
    const status = await (await get("status", { ask_links: true })).json();
    at("lock").hidden = true;
    at("shown").hidden = false;
    // Also while nobody looked.
    if (seen.incarnation !== status.incarnation) forget();
    seen.incarnation = status.incarnation;
    showStatus(status);
    showHistory(await (await get("history", { after: seen.next })).json());
    const metrics = await getIfThere("metrics");
    at("rates").hidden = metrics === null;
    if (metrics) showRates(await metrics.text(), status.names ?? 0);
    showSingletons();
    for (const table of [names, groups]) await showTable(table, status.position);
    if (!seen.watch) follow(seen.passed ?? status.position);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      // Another one may have been given meanwhile, which nobody has tried.
      if (error.token && sessionStorage.getItem(TOKEN) === error.token) {
        at("wrong").textContent = "That is not its token.";
        sessionStorage.removeItem(TOKEN);
      }
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
  sessionStorage.setItem(TOKEN, at("token").value);
  at("token").value = "";
  at("wrong").textContent = "";
  look();
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  turn(names, null);
});
at("search-groups").addEventListener("submit", (event) => {
  event.preventDefault();
  turn(groups, null);
});
at("registry").addEventListener("change", () => {
  looking = looking.then(begin);
  look();
});

// Begins anew, in the registry that is chosen.
function begin() {
  seen.watch?.abort();
  Object.assign(seen, { registry: at("registry").value, ...anew() });
  for (const table of [names, groups, singletons]) Object.assign(table, { after: null, next: null, shownAt: 0, position: null, asked: null });
  at("leaders").replaceChildren();
  at("events").replaceChildren();
}

keepLooking();
