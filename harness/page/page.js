// Draws the curves of a page from the numbers in it, and follows runs that go on. No library; SVG, so that it prints.
"use strict";
(() => {
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// make builds an element: make("button", {class: "seed", onclick: f}, "text", child ...).
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "circle", "clipPath"].includes(tag);
  const e = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter(c => c !== undefined && c !== null));
  return e;
}

let data = JSON.parse($("data").textContent);

// What the reader has chosen. It outlives new numbers.
const state = {axis: "steps", phase: -1, smooth: 1, mode: "mean", hidden: new Set(), log: new Map(), range: null};
const axes = {"steps": "step", "samples": "sequences trained on", "measured-seconds": "measured seconds of training", "modelled-seconds": "modelled seconds of training"};
const color = arm => `var(--c${arm % 8})`;

// series are the places and values of a quantity of one run, on the axis and in the phase chosen.
function series(run, q) {
  const from = q.evaluated ? run.tests : run.steps;
  const xs = from[state.axis], ys = from.values[q.name];
  const x = [], y = [], step = [], phase = [];
  if (!xs || !ys) return {x, y, step, phase};
  for (let i = 0; i < xs.length; i++) {
    if (state.phase >= 0 && from.phase[i] !== state.phase) continue;
    x.push(xs[i]); y.push(ys[i] === undefined ? null : ys[i]); step.push(from.steps[i]); phase.push(from.phase[i]);
  }
  // Phases that do not have the quantity are left out at both ends.
  const seen = y.findIndex(v => v !== null), last = y.findLastIndex(v => v !== null);
  const begin = seen < 0 ? y.length : phase.indexOf(phase[seen]), end = seen < 0 ? 0 : phase.lastIndexOf(phase[last]) + 1;
  return {x: x.slice(begin, end), y: y.slice(begin, end), step: step.slice(begin, end), phase: phase.slice(begin, end)};
}

// smooth is the mean of the last n values; empty places count for nothing.
function smooth(y, n) {
  if (n < 2) return y;
  return y.map((v, i) => {
    if (v === null) return null;
    let sum = 0, count = 0;
    for (let j = Math.max(0, i + 1 - n); j <= i; j++) if (y[j] !== null) { sum += y[j]; count++; }
    return sum / count;
  });
}

// lines are what a chart draws: single runs, or the mean of an arm's runs with a standard deviation to each side.
function lines(q) {
  const runs = data.runs.filter(r => !state.hidden.has(r.name));
  const one = r => {
    const s = series(r, q);
    return {arm: r.arm, label: `${data.arms[r.arm]}, seed ${r.seed}`, x: s.x, y: q.evaluated ? s.y : smooth(s.y, state.smooth), step: s.step, phase: s.phase};
  };
  if (state.mode === "runs") return runs.map(one).filter(l => l.x.length);
  const out = [];
  data.arms.forEach((name, arm) => {
    const of = runs.filter(r => r.arm === arm).map(one).filter(l => l.x.length);
    if (!of.length) return;
    const n = Math.min(...of.map(l => l.x.length));
    const l = {arm, label: of.length > 1 ? `${name}, mean of ${of.length}` : of[0].label, x: [], y: [], low: [], high: [], step: of[0].step.slice(0, n), phase: of[0].phase.slice(0, n)};
    for (let i = 0; i < n; i++) {
      const at = of.map(o => o.y[i]);
      l.x.push(of.reduce((s, o) => s + o.x[i], 0) / of.length);
      if (at.includes(null)) { l.y.push(null); l.low.push(null); l.high.push(null); continue; }
      const mean = at.reduce((s, v) => s + v, 0) / at.length;
      const sd = at.length > 1 ? Math.sqrt(at.reduce((s, v) => s + (v - mean) ** 2, 0) / (at.length - 1)) : 0;
      l.y.push(mean); l.low.push(mean - sd); l.high.push(mean + sd);
    }
    if (of.length < 2) { l.low = l.high = null; }
    out.push(l);
    // What single runs have beyond the shortest of them.
    for (const o of of) if (o.x.length > n) out.push({...o, x: o.x.slice(n - 1), y: o.y.slice(n - 1), step: o.step.slice(n - 1), phase: o.phase.slice(n - 1), thin: true});
  });
  return out;
}

// flat reports whether two numbers differ by no more than rounding makes them: a mean of equal numbers need not equal them.
function flat(low, high) { return high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)); }

// ticks are round numbers between two others, which are not flat.
function ticks(low, high, about) {
  const raw = (high - low) / about, power = 10 ** Math.floor(Math.log10(raw));
  const by = [1, 2, 2.5, 5, 10].map(m => m * power).find(b => b >= raw) || raw;
  const out = [];
  for (let k = Math.ceil(low / by - 1e-9); k * by <= high + by * 1e-9; k++) out.push(+(k * by).toPrecision(12));
  return out;
}

function logTicks(low, high) {
  const out = [], from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const by = Math.ceil((to - from) / 6) || 1, mantissas = to - from <= 2 ? [1, 2, 5] : [1];
  for (let e = from; e <= to; e += by) for (const m of mantissas) { const v = m * 10 ** e; if (v >= low * .999 && v <= high * 1.001) out.push(v); }
  return out;
}

// show is a number for people, with four digits.
function show(v) {
  if (v === null || v === undefined) return "–";
  const a = Math.abs(v);
  if (a >= 1e7) return v.toExponential(2).replace("e+", "e");
  if (Number.isInteger(v)) return String(v);
  return a >= 1000 ? v.toFixed(0) : String(+v.toPrecision(4));
}

const charts = [];

// Chart is one figure.
class Chart {
  constructor(q) {
    this.q = q;
    const key = this.key = (q.evaluated ? "e." : "s.") + q.name;
    if (!state.log.has(key)) state.log.set(key, !!q.log);
    this.logButton = make("button", {type: "button", "aria-pressed": state.log.get(key), title: "logarithmic or linear", onclick: () => { state.log.set(key, !state.log.get(key)); this.draw(); }}, "log");
    this.svg = make("svg", {class: "chart", role: "img", tabindex: 0});
    this.tip = make("div", {class: "tip", role: "status", hidden: true});
    this.figure = make("figure", {}, make("figcaption", {}, make("span", {}, (q.evaluated ? "Evaluated: " : "Trained: ") + q.label), this.logButton), this.svg, this.tip);
    const s = this.svg;
    s.addEventListener("pointermove", e => this.move(e));
    s.addEventListener("pointerleave", () => { if (!this.from) this.leave(); });
    s.addEventListener("pointerdown", e => { if (e.button === 0 && e.pointerType !== "touch") { this.from = this.place(e); s.setPointerCapture(e.pointerId); } });
    s.addEventListener("pointerup", e => this.up(e));
    s.addEventListener("dblclick", () => { state.range = null; drawAll(); });
    s.addEventListener("keydown", e => this.key_(e));
    s.addEventListener("blur", () => this.leave());
    let pinch = null;
    s.addEventListener("touchmove", e => {
      if (e.touches.length !== 2) { pinch = null; return; }
      e.preventDefault();
      const box = s.getBoundingClientRect(), [a, b] = [...e.touches].map(t => t.clientX - box.left).sort((p, q) => p - q);
      if (!pinch) { pinch = [this.value(a), this.value(b)]; return; }
      const scale = (pinch[1] - pinch[0]) / Math.max(b - a, 10), low = pinch[0] - (a - this.left) * scale;
      zoom(low, low + (this.right - this.left) * scale);
    }, {passive: false});
    s.addEventListener("touchend", () => { pinch = null; });
  }

  place(e) { return e.clientX - this.svg.getBoundingClientRect().left; }
  value(px) { return this.x0 + (px - this.left) / (this.right - this.left) * (this.x1 - this.x0); }

  draw() {
    const s = this.svg;
    s.replaceChildren();
    this.lines = lines(this.q);
    this.figure.hidden = !this.lines.length;
    if (!this.lines.length) return;
    const W = s.clientWidth || 560, H = s.clientHeight || 256;
    s.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const log = state.log.get(this.key);
    this.logButton.setAttribute("aria-pressed", log);
    // The ranges.
    let x0 = Infinity, x1 = -Infinity;
    for (const l of this.lines) { x0 = Math.min(x0, l.x[0]); x1 = Math.max(x1, l.x[l.x.length - 1]); }
    if (state.range) [x0, x1] = state.range;
    else if (this.q.evaluated) { const d = (x1 - x0) * .02 || .5; x0 -= d; x1 += d; }
    if (flat(x0, x1)) { x0 -= .5; x1 += .5; }
    let y0 = Infinity, y1 = -Infinity;
    const see = v => { if (v !== null && v !== undefined && (!log || v > 0)) { y0 = Math.min(y0, v); y1 = Math.max(y1, v); } };
    for (const l of this.lines) for (let i = 0; i < l.x.length; i++) if (l.x[i] >= x0 && l.x[i] <= x1) { see(l.y[i]); if (l.low) { see(l.low[i]); see(l.high[i]); } }
    const targets = this.q.evaluated ? data.targets.filter(t => t.quantity === this.q.name && (state.phase < 0 || data.phases[state.phase] === t.phase)) : [];
    for (const t of targets) see(t.value[0]);
    if (y0 === Infinity) { y0 = log ? .1 : 0; y1 = 1; }
    if (log) { if (y1 <= y0 * 1.0001) { y0 /= 2; y1 *= 2; } else { const f = (y1 / y0) ** .04; y0 /= f; y1 *= f; } }
    else if (flat(y0, y1)) { const d = Math.abs(y0) * .1 || 1; y0 -= d; y1 += d; }
    else { const d = (y1 - y0) * .04; y0 -= d; y1 += d; }
    const yt = log ? logTicks(y0, y1) : ticks(y0, y1, H / 45);
    const left = 14 + 6.2 * Math.max(2, ...yt.map(v => show(v).length)), right = W - 10, top = 8, bottom = H - 34;
    Object.assign(this, {x0, x1, left, right, top, bottom});
    const X = v => left + (v - x0) / (x1 - x0) * (right - left);
    const Y = v => log ? bottom - Math.log(v / y0) / Math.log(y1 / y0) * (bottom - top) : bottom - (v - y0) / (y1 - y0) * (bottom - top);
    this.X = X; this.Y = Y;
    for (const v of yt) s.append(make("line", {class: "grid", x1: left, x2: right, y1: Y(v), y2: Y(v)}), make("text", {x: left - 5, y: Y(v) + 4, "text-anchor": "end"}, show(v)));
    for (const v of ticks(x0, x1, (right - left) / 80)) s.append(make("line", {class: "grid", x1: X(v), x2: X(v), y1: bottom, y2: bottom + 4}), make("text", {x: X(v), y: bottom + 16, "text-anchor": "middle"}, show(v)));
    s.append(make("text", {x: (left + right) / 2, y: H - 4, "text-anchor": "middle"}, axes[state.axis]));
    this.phases(s);
    for (const t of targets) {
      if (log && t.value[0] <= 0) continue;
      s.append(make("line", {class: "target", x1: left, x2: right, y1: Y(t.value[0]), y2: Y(t.value[0])}), make("text", {x: right, y: Y(t.value[0]) - 4, "text-anchor": "end"}, `target ${show(t.value[0])}`));
    }
    const id = "clip-" + this.key.replace(/[^a-z0-9]/gi, "-");
    s.append(make("clipPath", {id}, make("rect", {x: left, y: top, width: right - left, height: bottom - top})));
    const inside = make("g", {"clip-path": `url(#${id})`});
    s.append(inside);
    for (const l of this.lines) if (l.low) inside.append(make("path", {class: "area", d: area(l, X, Y, log, y0), style: `fill:${color(l.arm)}`}));
    for (const l of this.lines) {
      inside.append(make("path", {class: l.thin ? "curve thin" : "curve", d: path(l, X, Y, log), style: `stroke:${color(l.arm)}`}));
      if (!this.q.evaluated || l.x.length > 60) continue;
      const aside = (l.arm - (data.arms.length - 1) / 2) * 4; // so that arms that were evaluated at the same step are seen beside each other
      l.x.forEach((v, i) => {
        if (l.y[i] === null || log && l.y[i] <= 0) return;
        const alone = l.phase[i - 1] !== l.phase[i] && l.phase[i + 1] !== l.phase[i], at = X(v) + (alone ? aside : 0);
        if (alone && l.low) inside.append(make("line", {x1: at, x2: at, y1: Y(log ? Math.max(l.low[i], y0) : l.low[i]), y2: Y(l.high[i]), style: `stroke:${color(l.arm)};stroke-width:1.5;opacity:.6`}));
        inside.append(make("circle", {cx: at, cy: Y(l.y[i]), r: alone ? 3.5 : 2.5, style: `fill:${color(l.arm)}`}));
      });
    }
    if (!this.q.evaluated) this.skipped(inside, X, bottom);
    this.over = make("g", {});
    s.append(this.over);
    s.setAttribute("aria-label", this.describe());
  }

  // phases draws where one phase ends and the next begins, by the first run that is seen.
  phases(s) {
    if (state.phase >= 0) return;
    const r = data.runs.find(r => !state.hidden.has(r.name) && r.steps.steps.length);
    if (!r) return;
    const xs = r.steps[state.axis], ph = r.steps.phase;
    let begin = 0, room = -Infinity;
    for (let i = 1; i <= ph.length; i++) {
      if (i < ph.length && ph[i] === ph[i - 1]) continue;
      const from = Math.max(this.X(begin ? xs[begin - 1] : this.x0), this.left), to = Math.min(this.X(xs[i - 1]), this.right);
      if (begin && from > this.left && from < this.right) s.append(make("line", {class: "phase", x1: from, x2: from, y1: this.top, y2: this.bottom}));
      const name = data.phases[ph[i - 1]];
      if (to - from > 7 * name.length && from >= room) { s.append(make("text", {x: from + 4, y: this.top + 10}, name)); room = from + 7 * name.length; }
      begin = i;
    }
  }

  // skipped marks the steps whose gradient was not finite.
  skipped(g, X, bottom) {
    for (const r of data.runs) {
      if (state.hidden.has(r.name)) continue;
      for (const i of r.steps.skipped || []) if (state.phase < 0 || r.steps.phase[i] === state.phase) g.append(make("line", {x1: X(r.steps[state.axis][i]), x2: X(r.steps[state.axis][i]), y1: bottom - 6, y2: bottom, style: `stroke:${color(r.arm)};stroke-width:1.5`}));
    }
  }

  describe() {
    return `${this.q.label} against ${axes[state.axis]}. ` + this.lines.filter(l => !l.thin).map(l => {
      const last = l.y.length - 1;
      return `${l.label}: from ${show(l.y[0])} to ${show(l.y[last])}`;
    }).join("; ");
  }

  move(e) {
    if (!this.lines || !this.lines.length) return;
    const px = this.place(e);
    if (this.from !== undefined && this.from !== null) {
      const a = Math.max(this.left, Math.min(this.from, px)), b = Math.min(this.right, Math.max(this.from, px));
      this.over.replaceChildren(make("rect", {class: "select", x: a, width: Math.max(0, b - a), y: this.top, height: this.bottom - this.top}));
      this.tip.hidden = true;
      return;
    }
    this.cursor(this.value(Math.max(this.left, Math.min(this.right, px))));
  }

  up(e) {
    const from = this.from, to = this.place(e);
    this.from = null;
    if (from === undefined || from === null) return;
    if (Math.abs(to - from) > 8) zoom(this.value(Math.min(from, to)), this.value(Math.max(from, to)));
    else this.move(e);
  }

  // cursor shows the values next to a place.
  cursor(v) {
    this.at = v;
    const rows = [];
    let px = null, step = null;
    this.over.replaceChildren();
    for (const l of this.lines) {
      const i = nearest(l.x, v);
      if (i < 0 || l.y[i] === null && this.q.evaluated || l.thin && l.x[0] > v) continue;
      if (px === null) { px = this.X(l.x[i]); step = l.step[i]; }
      rows.push([l, i]);
      if (l.y[i] !== null && (l.y[i] > 0 || !state.log.get(this.key))) this.over.append(make("circle", {cx: this.X(l.x[i]), cy: this.Y(l.y[i]), r: 3.5, style: `fill:${color(l.arm)}`}));
    }
    if (px === null) return this.leave();
    this.over.prepend(make("line", {class: "cursor", x1: px, x2: px, y1: this.top, y2: this.bottom}));
    const x = rows[0][0].x[rows[0][1]];
    const table = make("table", {}, ...rows.map(([l, i]) => make("tr", {}, make("td", {}, make("span", {class: "swatch", style: `color:${color(l.arm)}`})), make("td", {}, l.label),
      make("td", {}, l.low ? `${show(l.y[i])} ± ${show(l.high[i] - l.y[i])}` : show(l.y[i])))));
    this.tip.replaceChildren(make("div", {}, state.axis === "steps" ? `step ${show(x)}` : `step ${step}, ${axes[state.axis]} ${show(x)}`), table);
    this.tip.hidden = false;
    this.tip.style.left = 0; // so that its width is its own
    const width = this.figure.clientWidth, own = this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, px + 12 + own < width ? px + 12 : px - 12 - own) + "px";
    this.tip.style.top = "2.5rem";
  }

  leave() { this.tip.hidden = true; if (this.over) this.over.replaceChildren(); }

  key_(e) {
    if (!this.lines || !this.lines.length) return;
    const width = this.x1 - this.x0, middle = this.at === undefined ? (this.x0 + this.x1) / 2 : this.at;
    switch (e.key) {
    case "ArrowRight": this.cursor(Math.min(this.x1, middle + width / 50)); break;
    case "ArrowLeft": this.cursor(Math.max(this.x0, middle - width / 50)); break;
    case "+": zoom(middle - width / 4, middle + width / 4); break;
    case "-": zoom(middle - width, middle + width); break;
    case "0": case "Escape": state.range = null; drawAll(); break;
    default: return;
    }
    e.preventDefault();
  }
}

// path draws through the points that can be seen, from phase to phase anew. Where several share a column of the screen, the least and the greatest of them are kept.
function path(l, X, Y, log) {
  const {x, y, phase} = l;
  let d = "", pen = false, column = null;
  const flush = () => {
    if (!column) return;
    for (const [px, py] of column.first === column.low ? [column.low, column.high, column.last] : [column.first, column.low, column.high, column.last]) { d += (pen ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1); pen = true; }
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

function area(l, X, Y, log, floor) {
  let d = "", top = [], low = [];
  const close = () => { if (top.length) d += "M" + top.concat(low.reverse()).join("L") + "Z"; top = []; low = []; };
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

// nearest is the place of the value next to v in a list that rises.
function nearest(x, v) {
  if (!x.length) return -1;
  let a = 0, b = x.length - 1;
  while (b - a > 1) { const m = (a + b) >> 1; if (x[m] < v) a = m; else b = m; }
  return Math.abs(x[a] - v) <= Math.abs(x[b] - v) ? a : b;
}

function zoom(low, high) { state.range = flat(low, high) ? state.range : [low, high]; drawAll(); }
function drawAll() { for (const c of charts) c.draw(); note(); }

function note() {
  const parts = ["Drag across a chart to zoom, double-click for all; + − 0 and arrows on the keyboard. Short lines at the bottom are skipped steps."];
  if (state.mode === "mean" && data.runs.length > data.arms.length) parts.push("Bands are one standard deviation over the seeds to each side.");
  if (data.every > 1) parts.push(`Each point is the mean of ${data.every} steps.`);
  if (state.smooth > 1) parts.push(`Trained quantities are means of the last ${state.smooth} points.`);
  $("curvenote").textContent = parts.join(" ");
}

function controls() {
  const select = (label, options, value, set) => make("label", {}, label, make("select", {onchange: e => { set(e.target.value); state.range = null; drawAll(); }}, ...options.map(([v, text]) => make("option", {value: v, selected: String(v) === String(value)}, text))));
  const has = a => data.runs.some(r => r.steps[a] && r.steps[a].length);
  const box = $("controls");
  box.replaceChildren(
    select("against", Object.entries(axes).filter(([a]) => has(a)), state.axis, v => { state.axis = v; }),
    select("phase", [[-1, "all"], ...data.phases.map((p, i) => [i, p])], state.phase, v => { state.phase = +v; }),
    data.runs.length > data.arms.length ? select("show", [["mean", "mean and band"], ["runs", "each run"]], state.mode, v => { state.mode = v; }) : null,
    make("label", {}, "smooth", make("input", {type: "range", min: 0, max: 6, step: 1, value: Math.log2(state.smooth), oninput: e => { state.smooth = 2 ** e.target.value; drawAll(); }})),
    make("button", {type: "button", onclick: () => zoomBy(.5)}, "zoom in"), make("button", {type: "button", onclick: () => zoomBy(2)}, "zoom out"),
    make("button", {type: "button", onclick: () => { state.range = null; drawAll(); }}, "all"));
  box.hidden = false;
}

function zoomBy(factor) {
  const c = charts.find(c => c.lines && c.lines.length);
  if (!c) return;
  const middle = (c.x0 + c.x1) / 2, half = (c.x1 - c.x0) / 2 * factor;
  zoom(middle - half, middle + half);
}

function legend() {
  const box = $("legend");
  box.replaceChildren(...data.arms.map((name, arm) => {
    const runs = data.runs.filter(r => r.arm === arm), shown = runs.some(r => !state.hidden.has(r.name));
    const all = make("button", {type: "button", "aria-pressed": shown, onclick: () => { for (const r of runs) shown ? state.hidden.add(r.name) : state.hidden.delete(r.name); legend(); drawAll(); }},
      make("span", {class: "swatch", style: `color:${color(arm)}`}), name);
    const seeds = runs.length < 2 ? [] : runs.map(r => make("button", {type: "button", class: "seed", "aria-pressed": !state.hidden.has(r.name), "aria-label": `${name}, seed ${r.seed}`,
      onclick: () => { state.hidden.has(r.name) ? state.hidden.delete(r.name) : state.hidden.add(r.name); legend(); drawAll(); }}, r.seed));
    return make("span", {}, all, ...seeds);
  }));
  box.hidden = false;
}

function start() {
  if (!data || !$("charts")) return;
  controls();
  legend();
  const keys = data.quantities.map(q => (q.evaluated ? "e." : "s.") + q.name).join();
  if (charts.map(c => c.key).join() !== keys) {
    charts.length = 0;
    // The loss first, then evaluations, which a verdict is about.
    const first = q => q.name === "loss" && !q.evaluated;
    const order = [...data.quantities.filter(first), ...data.quantities.filter(q => q.evaluated), ...data.quantities.filter(q => !q.evaluated && !first(q))];
    for (const q of order) charts.push(new Chart(q));
    $("charts").replaceChildren(...charts.map(c => c.figure));
  }
  drawAll();
}

// follow asks for the page again whenever the server says that runs went on, and takes over what changed.
function follow() {
  const address = document.body.dataset.events, live = $("live");
  if (!address) return;
  const say = text => { live.textContent = text; };
  const source = new EventSource(address);
  const shown = new Map([...document.querySelectorAll("[data-live]")].map(e => [e.id, e.innerHTML])); // as the server sent it
  let busy = false, again = false;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const reply = await fetch(location.href, {cache: "no-store"});
      if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
      const next = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = next.getElementById(old.id);
        const html = fresh ? fresh.innerHTML : "";
        if (html === shown.get(old.id)) continue;
        shown.set(old.id, html);
        old.replaceChildren(...(fresh ? fresh.childNodes : []));
      }
      data = JSON.parse(next.getElementById("data").textContent);
      start();
      say(`live, ${new Date().toLocaleTimeString()}`);
    } catch (err) {
      say(`not up to date: ${err.message}`);
    }
    busy = false;
    if (again) { again = false; refresh(); }
  };
  source.addEventListener("open", () => say("live"));
  source.addEventListener("change", refresh);
  source.addEventListener("error", () => say("connection lost, trying again …"));
}

start();
follow();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
// On paper there is nothing to click: all details are shown, in the colours of paper.
let opened = [];
addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details:not([open])")]; for (const d of opened) d.open = true; document.documentElement.classList.add("paper"); drawAll(); });
addEventListener("afterprint", () => { for (const d of opened) d.open = false; document.documentElement.classList.remove("paper"); drawAll(); });
})();
