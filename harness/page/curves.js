// What the charts show: curves of runs, or the mean of an arm's runs, from the numbers in the page.

const $ = id => document.getElementById(id);

let data = JSON.parse($("data").textContent);

// What the reader has chosen. It outlives new numbers.
const state = {axis: "steps", phase: -1, smooth: 1, mode: "mean", hidden: new Set(), log: new Map(), range: null};
const axes = {
  "steps": "step",
  "samples": "sequences trained on",
  "measured-seconds": "measured seconds of training",
  "modelled-seconds": "modelled seconds of training",
};
const color = arm => `var(--c${arm % 8})`;
// The first arm is a broad line, and the others lie on it, dashed differently: none hides another, in grey either.
const strokeClass = arm => arm === 0 && data.arms.length > 1 ? "curve first" : "curve";
const dashes = arm => arm === 0 ? "none" : ["none", "7 4", "2 3", "10 3 2 3", "4 4", "12 5", "1 4", "8 2 2 2 2 2", "5 2"][(arm - 1) % 9];
const inPhase = phase => state.phase < 0 || state.phase === phase;
const visible = run => !state.hidden.has(run.name);

// series returns places and values of a quantity of one run, on the chosen axis and in the chosen phase.
function series(run, q) {
  const from = q.evaluated ? run.tests : run.steps;
  const xs = from[state.axis], ys = from.values[q.name];
  const x = [], y = [], step = [], phase = [];
  if (!xs || !ys) return {x, y, step, phase};
  for (let i = 0; i < xs.length; i++) {
    if (!inPhase(from.phase[i])) continue;
    x.push(xs[i]);
    y.push(ys[i] === undefined ? null : ys[i]);
    step.push(from.steps[i]);
    phase.push(from.phase[i]);
  }
  // Phases without the quantity are cut off at both ends.
  const seen = y.findIndex(v => v !== null), last = y.findLastIndex(v => v !== null);
  const begin = seen < 0 ? y.length : phase.indexOf(phase[seen]);
  const end = seen < 0 ? 0 : phase.lastIndexOf(phase[last]) + 1;
  return {x: x.slice(begin, end), y: y.slice(begin, end), step: step.slice(begin, end), phase: phase.slice(begin, end)};
}

// smooth replaces each value by the mean of the last n; empty places stay empty and count for nothing.
function smooth(y, n) {
  if (n < 2) return y;
  return y.map((v, i) => {
    if (v === null) return null;
    let sum = 0, count = 0;
    for (let j = Math.max(0, i + 1 - n); j <= i; j++) if (y[j] !== null) { sum += y[j]; count++; }
    return sum / count;
  });
}

// lines returns what a chart draws: single runs, or the mean of an arm's runs with one standard deviation to each side.
function lines(q) {
  const runs = data.runs.filter(visible);
  const one = r => {
    const s = series(r, q), y = q.evaluated ? s.y : smooth(s.y, state.smooth);
    return {arm: r.arm, label: `${data.arms[r.arm]}, seed ${r.seed}`, x: s.x, y, step: s.step, phase: s.phase};
  };
  if (state.mode === "runs") return runs.map(one).filter(l => l.x.length);
  const out = [];
  data.arms.forEach((name, arm) => {
    const of = runs.filter(r => r.arm === arm).map(one).filter(l => l.x.length);
    if (!of.length) return;
    const n = Math.min(...of.map(l => l.x.length));
    out.push(mean(name, arm, of, n));
    // What single runs have beyond the end of the shortest.
    const rest = o => ({x: o.x.slice(n - 1), y: o.y.slice(n - 1), step: o.step.slice(n - 1), phase: o.phase.slice(n - 1)});
    for (const o of of) if (o.x.length > n) out.push({...o, ...rest(o), thin: true});
  });
  return out;
}

// mean averages the first n points of the lines of an arm.
function mean(name, arm, of, n) {
  const label = of.length > 1 ? `${name}, mean of ${of.length}` : of[0].label;
  const l = {arm, label, x: [], y: [], low: [], high: [], step: of[0].step.slice(0, n), phase: of[0].phase.slice(0, n)};
  for (let i = 0; i < n; i++) {
    const at = of.map(o => o.y[i]);
    l.x.push(of.reduce((s, o) => s + o.x[i], 0) / of.length);
    if (at.includes(null)) { l.y.push(null); l.low.push(null); l.high.push(null); continue; }
    const m = at.reduce((s, v) => s + v, 0) / at.length;
    const sd = at.length > 1 ? Math.sqrt(at.reduce((s, v) => s + (v - m) ** 2, 0) / (at.length - 1)) : 0;
    l.y.push(m);
    l.low.push(m - sd);
    l.high.push(m + sd);
  }
  if (of.length < 2) l.low = l.high = null;
  return l;
}

// path draws through the visible points, each phase by itself. Of several points in one column of the screen it keeps the
// first, the least, the greatest and the last.
function path(l, X, Y, log) {
  const {x, y, phase} = l;
  let d = "", pen = false, column = null;
  const flush = () => {
    if (!column) return;
    const {first, low, high, last} = column;
    for (const [px, py] of first === low ? [low, high, last] : [first, low, high, last]) {
      d += (pen ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1);
      pen = true;
    }
    column = null;
  };
  for (let i = 0; i < x.length; i++) {
    if (y[i] === null || y[i] === undefined || log && y[i] <= 0) { flush(); pen = false; continue; }
    if (i && phase[i] !== phase[i - 1]) { flush(); pen = false; }
    const p = [X(x[i]), Y(y[i])], at = Math.round(p[0]);
    if (column && column.at === at) {
      if (p[1] < column.low[1]) column.low = p;
      if (p[1] > column.high[1]) column.high = p;
      column.last = p;
      continue;
    }
    flush();
    column = {at, first: p, low: p, high: p, last: p};
  }
  flush();
  return d;
}

// area draws the band between low and high.
function area(l, X, Y, log, floor) {
  let d = "", top = [], low = [];
  const close = () => {
    if (top.length) d += "M" + top.concat(low.reverse()).join("L") + "Z";
    top = [];
    low = [];
  };
  for (let i = 0; i < l.x.length; i++) {
    if (l.y[i] === null) { close(); continue; }
    if (i && l.phase[i] !== l.phase[i - 1]) close();
    const at = X(l.x[i]).toFixed(1);
    top.push(at + " " + Y(log ? Math.max(l.high[i], floor) : l.high[i]).toFixed(1));
    low.push(at + " " + Y(log ? Math.max(l.low[i], floor) : l.low[i]).toFixed(1));
  }
  close();
  return d;
}

// nearest returns the index of the value closest to v in an ascending list.
function nearest(x, v) {
  if (!x.length) return -1;
  let a = 0, b = x.length - 1;
  while (b - a > 1) {
    const m = (a + b) >> 1;
    if (x[m] < v) a = m; else b = m;
  }
  return Math.abs(x[a] - v) <= Math.abs(x[b] - v) ? a : b;
}
