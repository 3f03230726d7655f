// The page around the charts: controls, legend, and news of runs in progress.

const charts = [];

function zoom(low, high) { state.range = flat(low, high) ? state.range : [low, high]; drawAll(); }
function drawAll() { for (const c of charts) c.draw(); note(); }

function note() {
  const parts = ["Drag across a chart to zoom, double-click for all; + − 0 and arrows on the keyboard. " +
    "Short lines at the bottom are skipped steps."];
  if (state.mode === "mean" && data.runs.length > data.arms.length) {
    parts.unshift("Lines are means over the seeds, and bands one standard deviation to each side.");
  }
  if (data.every > 1) parts.push(`Each point is the mean of ${data.every} steps.`);
  if (state.smooth > 1) parts.push(`Trained quantities are means of the last ${state.smooth} points.`);
  $("curvenote").textContent = parts.join(" ");
}

function select(label, options, value, set) {
  const change = e => { set(e.target.value); state.range = null; drawAll(); };
  const option = ([v, text]) => make("option", {value: v, selected: String(v) === String(value)}, text);
  return make("label", {}, label, make("select", {onchange: change}, ...options.map(option)));
}

function button(text, onclick) { return make("button", {type: "button", onclick}, text); }

function controls() {
  const has = a => data.runs.some(r => r.steps[a] && r.steps[a].length);
  const modes = [["mean", "mean and band"], ["runs", "each run"]];
  const smoother = {type: "range", min: 0, max: 6, step: 1, value: Math.log2(state.smooth),
    oninput: e => { state.smooth = 2 ** e.target.value; drawAll(); }};
  const several = data.runs.length > data.arms.length;
  const box = $("controls");
  box.replaceChildren(
    select("against", Object.entries(axes).filter(([a]) => has(a)), state.axis, v => { state.axis = v; }),
    select("phase", [[-1, "all"], ...data.phases.map((p, i) => [i, p])], state.phase, v => { state.phase = +v; }),
    ...(several ? [select("show", modes, state.mode, v => { state.mode = v; })] : []),
    make("label", {}, "smooth", make("input", smoother)),
    button("zoom in", () => zoomBy(.5)),
    button("zoom out", () => zoomBy(2)),
    button("all", () => { state.range = null; drawAll(); }));
  box.hidden = false;
}

function zoomBy(factor) {
  const c = charts.find(c => c.lines && c.lines.length);
  if (!c) return;
  const middle = (c.x0 + c.x1) / 2, half = (c.x1 - c.x0) / 2 * factor;
  zoom(middle - half, middle + half);
}

const mostSeeds = 12; // of an arm that have buttons

function legend() {
  const box = $("legend");
  const toggle = (runs, hide) => {
    for (const r of runs) hide ? state.hidden.add(r.name) : state.hidden.delete(r.name);
    legend();
    drawAll();
  };
  box.replaceChildren(...data.arms.map((name, arm) => {
    const runs = data.runs.filter(r => r.arm === arm), shown = runs.some(visible);
    const all = make("button", {type: "button", "aria-pressed": shown, onclick: () => toggle(runs, shown)},
      make("svg", {class: "swatch stroke", viewBox: "0 0 29 11", "aria-hidden": true}, make("path",
        {class: strokeClass(arm), d: "M0 5.5L29 5.5", style: `stroke:${color(arm)};stroke-dasharray:${dashes(arm)}`})), name);
    const seed = r => make("button", {type: "button", class: "seed", "aria-pressed": visible(r),
      "aria-label": `${name}, seed ${r.seed}`, onclick: () => toggle([r], visible(r))}, r.seed);
    return make("span", {}, all, ...(runs.length < 2 || runs.length > mostSeeds ? [] : runs.map(seed)));
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
    for (const q of data.quantities) charts.push(new Chart(q));
    // In view is what the verdict is about; without that, all of it.
    const first = charts.filter(c => c.q.main), rest = charts.filter(c => !c.q.main);
    $("charts").replaceChildren(...(first.length ? first : rest).map(c => c.figure));
    const more = $("more");
    more.hidden = !first.length || !rest.length;
    if (!more.hidden) {
      more.querySelector("summary").textContent = `${rest.length} more curves`;
      more.querySelector(".charts").replaceChildren(...rest.map(c => c.figure));
    }
  }
  drawAll();
}

// follow fetches the page again whenever the server says that runs made progress, and takes over what changed.
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
        const open = [...old.querySelectorAll("details")].map(d => d.open);
        old.replaceChildren(...(fresh ? fresh.childNodes : []));
        old.querySelectorAll("details").forEach((d, i) => { d.open = !!open[i]; });
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
if ($("more")) $("more").addEventListener("toggle", drawAll); // what is folded has no width to draw in
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
// Nobody can click on paper: it shows all details, in the colours of paper.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const d of opened) d.open = true;
  document.documentElement.classList.add("paper");
  drawAll();
});
addEventListener("afterprint", () => {
  for (const d of opened) d.open = false;
  document.documentElement.classList.remove("paper");
  drawAll();
});
