// A chart is one figure, drawn as SVG, so that it prints.

const SVG = "http://www.w3.org/2000/svg";

// make builds an element: make("button", {class: "seed", onclick: f}, "text", child ...).
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "circle", "clipPath"].includes(tag);
  const e = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) e.setAttribute(name, String(value)); // there, false is not the same as absent
    else if (value !== false && value !== undefined) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter(c => c !== undefined && c !== null));
  return e;
}

// flat reports whether two numbers differ by rounding at most: a mean of equal numbers need not equal them.
function flat(low, high) { return high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)); }

// ticks returns round numbers between two others, which are not flat.
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
  for (let e = from; e <= to; e += by) {
    for (const m of mantissas) {
      const v = m * 10 ** e;
      if (v >= low * .999 && v <= high * 1.001) out.push(v);
    }
  }
  return out;
}

// show formats a number for people, with four digits.
function show(v) {
  if (v === null || v === undefined) return "–";
  const a = Math.abs(v);
  if (a >= 1e7) return v.toExponential(2).replace("e+", "e");
  if (Number.isInteger(v)) return String(v);
  return a >= 1000 ? v.toFixed(0) : String(+v.toPrecision(4));
}

class Chart {
  constructor(q) {
    this.q = q;
    const key = this.key = (q.evaluated ? "e." : "s.") + q.name;
    if (!state.log.has(key)) state.log.set(key, !!q.log);
    const toggle = () => { state.log.set(key, !state.log.get(key)); this.draw(); };
    this.logButton = make("button",
      {type: "button", "aria-pressed": state.log.get(key), title: "logarithmic or linear", onclick: toggle}, "log");
    this.svg = make("svg", {class: "chart", role: "img", tabindex: 0});
    this.tip = make("div", {class: "tip", role: "status", hidden: true});
    const title = make("span", {}, (q.evaluated ? "Evaluated: " : "Trained: ") + q.label);
    this.alike = make("p", {class: "alike"});
    this.figure = make("figure", {}, make("figcaption", {}, title, this.logButton), this.svg, this.alike, this.tip);
    this.listen();
  }

  listen() {
    const s = this.svg;
    s.addEventListener("pointermove", e => this.move(e));
    s.addEventListener("pointerleave", () => { if (!this.from) this.leave(); });
    s.addEventListener("pointerdown", e => {
      if (e.button !== 0 || e.pointerType === "touch") return;
      this.from = this.place(e);
      s.setPointerCapture(e.pointerId);
    });
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
    this.log = state.log.get(this.key);
    this.logButton.setAttribute("aria-pressed", this.log);
    const here = t => t.quantity === this.q.name && (state.phase < 0 || data.phases[state.phase] === t.phase);
    const targets = this.q.evaluated ? data.targets.filter(here) : [];
    this.xRange();
    this.yRange(targets);
    this.grid(W, H);
    this.phases(s);
    this.targets(targets);
    const id = "clip-" + this.key.replace(/[^a-z0-9]/gi, "-");
    const {left, right, top, bottom} = this;
    s.append(make("clipPath", {id}, make("rect", {x: left, y: top, width: right - left, height: bottom - top})));
    const inside = make("g", {"clip-path": `url(#${id})`});
    s.append(inside);
    this.curves(inside);
    if (!this.q.evaluated) this.skipped(inside);
    this.coincide();
    this.over = make("g", {});
    s.append(this.over);
    s.setAttribute("aria-label", this.describe());
  }

  xRange() {
    let x0 = Infinity, x1 = -Infinity;
    for (const l of this.lines) { x0 = Math.min(x0, l.x[0]); x1 = Math.max(x1, l.x[l.x.length - 1]); }
    if (state.range) [x0, x1] = state.range;
    else if (this.q.evaluated) { const d = (x1 - x0) * .02 || .5; x0 -= d; x1 += d; }
    if (flat(x0, x1)) { x0 -= .5; x1 += .5; }
    Object.assign(this, {x0, x1});
  }

  // yRange covers what lies within the range of x, and the targets.
  yRange(targets) {
    const log = this.log;
    let y0 = Infinity, y1 = -Infinity;
    const see = v => {
      if (v === null || v === undefined || log && v <= 0) return;
      y0 = Math.min(y0, v);
      y1 = Math.max(y1, v);
    };
    for (const l of this.lines) {
      for (let i = 0; i < l.x.length; i++) {
        if (l.x[i] < this.x0 || l.x[i] > this.x1) continue;
        see(l.y[i]);
        if (l.low) { see(l.low[i]); see(l.high[i]); }
      }
    }
    for (const t of targets) see(t.value[0]);
    if (y0 === Infinity) { y0 = log ? .1 : 0; y1 = 1; }
    if (log && y1 <= y0 * 1.0001) { y0 /= 2; y1 *= 2; }
    else if (log) { const f = (y1 / y0) ** .04; y0 /= f; y1 *= f; }
    else { const d = flat(y0, y1) ? Math.abs(y0) * .1 || 1 : (y1 - y0) * .04; y0 -= d; y1 += d; }
    Object.assign(this, {y0, y1});
  }

  // grid sets the scales X and Y, and draws grid lines and labels.
  grid(W, H) {
    const {svg: s, log, x0, x1, y0, y1} = this;
    const yt = log ? logTicks(y0, y1) : ticks(y0, y1, H / 45);
    const left = 14 + 6.2 * Math.max(2, ...yt.map(v => show(v).length)), right = W - 10, top = 18, bottom = H - 34;
    const X = v => left + (v - x0) / (x1 - x0) * (right - left);
    const share = v => log ? Math.log(v / y0) / Math.log(y1 / y0) : (v - y0) / (y1 - y0);
    const Y = v => bottom - share(v) * (bottom - top);
    Object.assign(this, {left, right, top, bottom, X, Y});
    for (const v of yt) {
      s.append(make("line", {class: "grid", x1: left, x2: right, y1: Y(v), y2: Y(v)}),
        make("text", {x: left - 5, y: Y(v) + 4, "text-anchor": "end"}, show(v)));
    }
    for (const v of ticks(x0, x1, (right - left) / 80)) {
      s.append(make("line", {class: "grid", x1: X(v), x2: X(v), y1: bottom, y2: bottom + 4}),
        make("text", {x: X(v), y: bottom + 16, "text-anchor": "middle"}, show(v)));
    }
    s.append(make("text", {x: (left + right) / 2, y: H - 4, "text-anchor": "middle"}, axes[state.axis]));
  }

  targets(targets) {
    for (const t of targets) {
      if (this.log && t.value[0] <= 0) continue;
      const y = this.Y(t.value[0]);
      this.svg.append(make("line", {class: "target", x1: this.left, x2: this.right, y1: y, y2: y}),
        make("text", {x: this.right, y: y - 4, "text-anchor": "end"}, `target ${show(t.value[0])}`));
    }
  }

  curves(inside) {
    const {X, Y, log, y0} = this;
    for (const l of this.lines) {
      if (l.low) inside.append(make("path", {class: "area", d: area(l, X, Y, log, y0), style: `fill:${color(l.arm)}`}));
    }
    for (const l of this.lines) {
      const kind = l.thin ? "curve thin" : state.mode === "mean" ? strokeClass(l.arm) : "curve";
      const dash = state.mode === "mean" && !l.thin ? dashes(l.arm) : "none";
      inside.append(make("path", {class: kind, d: path(l, X, Y, log), style: `stroke:${color(l.arm)};stroke-dasharray:${dash}`}));
      if (this.q.evaluated && l.x.length <= 60) this.dots(inside, l);
    }
  }

  // coincide says which arms cannot be told apart here: whose lines are nowhere further apart than a line is thick.
  coincide() {
    const {Y, log} = this, groups = [];
    const at = (l, i) => l.y[i] === null || log && l.y[i] <= 0 ? null : Y(l.y[i]);
    const same = (a, b) => a.x.length === b.x.length && a.x.every((v, i) => {
      const p = at(a, i), q = at(b, i);
      return Math.abs(this.X(v) - this.X(b.x[i])) < 1.5 && (p === q || p !== null && q !== null && Math.abs(p - q) < 1.5);
    });
    if (state.mode === "mean") {
      for (const l of this.lines.filter(l => !l.thin)) {
        const group = groups.find(g => same(g[0], l));
        if (group) group.push(l); else groups.push([l]);
      }
    }
    const text = groups.filter(g => g.length > 1).map(g => g.map(l => data.arms[l.arm]).join(", "));
    this.alike.textContent = text.length ? `Coincide: ${text.join("; ")}.` : "";
  }

  // dots marks the points of a line. A point alone in its phase has no curve to show it, and gets its band as a stroke.
  dots(inside, l) {
    const {X, Y, log, y0} = this;
    const aside = (l.arm - (data.arms.length - 1) / 2) * 4; // arms that were evaluated at the same step stand side by side
    l.x.forEach((v, i) => {
      if (l.y[i] === null || log && l.y[i] <= 0) return;
      const alone = l.phase[i - 1] !== l.phase[i] && l.phase[i + 1] !== l.phase[i], at = X(v) + (alone ? aside : 0);
      if (alone && l.low) {
        inside.append(make("line", {x1: at, x2: at, y1: Y(log ? Math.max(l.low[i], y0) : l.low[i]), y2: Y(l.high[i]),
          style: `stroke:${color(l.arm)};stroke-width:1.5;opacity:.6`}));
      }
      inside.append(make("circle", {cx: at, cy: Y(l.y[i]), r: alone ? 3.5 : 2.5, style: `fill:${color(l.arm)}`}));
    });
  }

  // phases marks where one phase ends and the next begins, in the first visible run.
  phases(s) {
    if (state.phase >= 0) return;
    const r = data.runs.find(r => visible(r) && r.steps.steps.length);
    if (!r) return;
    const xs = r.steps[state.axis], ph = r.steps.phase;
    let begin = 0, room = -Infinity;
    for (let i = 1; i <= ph.length; i++) {
      if (i < ph.length && ph[i] === ph[i - 1]) continue;
      const from = Math.max(this.X(begin ? xs[begin - 1] : this.x0), this.left), to = Math.min(this.X(xs[i - 1]), this.right);
      if (begin && from > this.left && from < this.right) {
        s.append(make("line", {class: "phase", x1: from, x2: from, y1: this.top, y2: this.bottom}));
      }
      const name = data.phases[ph[i - 1]];
      if (to - from > 7 * name.length && from >= room) {
        s.append(make("text", {x: from + 4, y: this.top - 6}, name));
        room = from + 7 * name.length;
      }
      begin = i;
    }
  }

  // skipped marks the steps whose gradient was not finite.
  skipped(g) {
    for (const r of data.runs.filter(visible)) {
      for (const i of r.steps.skipped || []) {
        if (!inPhase(r.steps.phase[i])) continue;
        const x = this.X(r.steps[state.axis][i]);
        g.append(make("line",
          {x1: x, x2: x, y1: this.bottom - 6, y2: this.bottom, style: `stroke:${color(r.arm)};stroke-width:1.5`}));
      }
    }
  }

  describe() {
    return `${this.q.label} against ${axes[state.axis]}. ${this.alike.textContent} ` + this.lines.filter(l => !l.thin).map(l => {
      const last = l.y.length - 1;
      return `${l.label}: from ${show(l.y[0])} to ${show(l.y[last])}`;
    }).join("; ");
  }

  move(e) {
    if (!this.lines || !this.lines.length) return;
    const px = this.place(e);
    if (this.from !== undefined && this.from !== null) {
      const a = Math.max(this.left, Math.min(this.from, px)), b = Math.min(this.right, Math.max(this.from, px));
      this.over.replaceChildren(make("rect",
        {class: "select", x: a, width: Math.max(0, b - a), y: this.top, height: this.bottom - this.top}));
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

  // cursor shows the values closest to a place.
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
      if (l.y[i] === null || l.y[i] <= 0 && state.log.get(this.key)) continue;
      this.over.append(make("circle", {cx: this.X(l.x[i]), cy: this.Y(l.y[i]), r: 3.5, style: `fill:${color(l.arm)}`}));
    }
    if (px === null) return this.leave();
    this.over.prepend(make("line", {class: "cursor", x1: px, x2: px, y1: this.top, y2: this.bottom}));
    this.tell(rows, px, step);
  }

  // tell fills the tip with rows of a line and its index.
  tell(rows, px, step) {
    const x = rows[0][0].x[rows[0][1]];
    const table = make("table", {}, ...rows.map(([l, i]) => make("tr", {},
      make("td", {}, make("span", {class: "swatch", style: `color:${color(l.arm)}`})),
      make("td", {}, l.label),
      make("td", {}, l.low ? `${show(l.y[i])} ± ${show(l.high[i] - l.y[i])}` : show(l.y[i])))));
    const title = state.axis === "steps" ? `step ${show(x)}` : `step ${step}, ${axes[state.axis]} ${show(x)}`;
    this.tip.replaceChildren(make("div", {}, title), table);
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
