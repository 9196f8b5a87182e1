// What this node counts, as curves: of two looks at its metrics the difference counts. It needs `page.js`, which is run after it.
"use strict";

// The sum of a metric over all lines that have these labels.
function counted(text, metric, ...labels) {
  return text.split("\n").reduce((sum, line) => {
    const is = (line.startsWith(`${metric}{`) || line.startsWith(`${metric} `)) && labels.every((label) => line.includes(label));
    return is ? sum + Number(line.slice(line.lastIndexOf(" ") + 1)) : sum;
  }, 0);
}

// A histogram so far: how many there were, how long all took, and how many took no longer than each bound. An application that embeds the
// page may count without bounds.
function histogram(text, metric, label) {
  const bounds = new Map();
  for (const line of text.split("\n")) {
    const bound = line.startsWith(`${metric}_bucket{`) && line.includes(label) && /le="([^"]+)"/.exec(line);
    if (!bound) continue;
    const most = bound[1] === "+Inf" ? Infinity : Number(bound[1]);
    bounds.set(most, (bounds.get(most) ?? 0) + Number(line.slice(line.lastIndexOf(" ") + 1)));
  }
  return { count: counted(text, `${metric}_count`, label), sum: counted(text, `${metric}_sum`, label), bounds };
}

// What came between two looks at a histogram.
function betweenLooks(before, now) {
  const bounds = [...now.bounds].map(([most, count]) => [most, count - (before.bounds.get(most) ?? 0)]);
  return { count: now.count - before.count, sum: now.sum - before.sum, bounds: bounds.sort(([one], [other]) => one - other) };
}

// Below which time this share of them stayed, in ms: as if those between two bounds were spread evenly. Above the last bound nothing is known, and without
// bounds it is the mean. Null: there were none.
function quantile({ count, sum, bounds }, share) {
  if (count <= 0) return null;
  if (bounds.length === 0) return (1000 * sum) / count;
  let [least, below] = [0, 0];
  for (const [most, upTo] of bounds) {
    if (upTo >= share * count) {
      if (most === Infinity) return 1000 * least;
      return 1000 * (least + ((most - least) * (share * count - below)) / Math.max(1, upTo - below));
    }
    if (most !== Infinity) least = most;
    below = upTo;
  }
  return 1000 * least;
}

const number = (value) => (value === null ? "none" : value.toLocaleString([], { maximumFractionDigits: 1 }));

// A curve for each list of values; null is a gap, which the curve crosses.
function curves(title, lists) {
  const most = Math.max(...lists.flat().filter((value) => value !== null), 1e-9);
  const shown = make("div", title(most));
  const picture = draw("svg", { viewBox: "0 0 600 44", preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(...lists.map((values, nth) => {
    const at = (value, i) => `${(600 * i) / Math.max(1, KEPT - 1)},${42 - (40 * value) / most}`;
    // One value alone is a short line: a point would not be seen.
    const isAlone = values.filter((value) => value !== null).length === 1;
    const known = values.flatMap((value, i) => (value === null ? [] : isAlone ? [at(value, i), at(value, i + 0.5)] : [at(value, i)]));
    return draw("polyline", { points: known.join(" "), class: nth === 0 ? "curve" : "curve second" });
  }));
  shown.append(picture);
  return shown;
}

// How long something took: half of it, and all but one in a hundred.
function times(what, hasBounds, points) {
  const lists = hasBounds ? [points.map(([half]) => half), points.map(([, most]) => most)] : [points.map(([half]) => half)];
  const last = lists.map((values) => values.at(-1));
  const [half, nearlyAll] = last.map(number);
  const said = last[0] === null ? "none since the last look" : hasBounds ? `half within ${half}, 99 of 100 within ${nearlyAll}` : `on average ${half}`;
  return curves((most) => `ms ${what}: ${said} (most: ${number(most)})`, lists);
}

function rate(title, values) {
  return curves((most) => `${title}: ${number(values.at(-1))} (most: ${number(most)})`, [values]);
}

function showRates(text, names) {
  const label = `registry=${JSON.stringify(seen.registry)}`;
  const now = {
    at: performance.now(),
    answered: counted(text, "callsign_registry_calls_total", label),
    calls: histogram(text, "callsign_registry_call_seconds", label),
    commits: histogram(text, "callsign_registry_commit_seconds", label),
  };
  const { last } = seen;
  seen.last = now;
  // Of a node that began anew, what it counted before is gone.
  if (!last || now.answered < last.answered || now.calls.count < last.calls.count || now.commits.count < last.commits.count) return;
  const seconds = (now.at - last.at) / 1000;
  const [calls, commits] = [betweenLooks(last.calls, now.calls), betweenLooks(last.commits, now.commits)];
  const took = (of) => [quantile(of, 0.5), quantile(of, 0.99)];
  seen.points.push({ answered: (now.answered - last.answered) / seconds, commits: commits.count / seconds, callTook: took(calls), commitTook: took(commits), names });
  seen.points = seen.points.slice(-KEPT);
  const all = (of) => seen.points.map((point) => point[of]);
  at("curves").replaceChildren(
    rate("calls answered a second", all("answered")),
    times("a call took", now.calls.bounds.size > 0, all("callTook")),
    rate("commits a second, as leader", all("commits")),
    times("a commit took, as leader", now.commits.bounds.size > 0, all("commitTook")),
    rate("names", all("names")),
  );
}
