// --- The scales that the pictures were drawn with ---------------------------------------------------------------
function forward([low, high, start, end, log], value) {
  if (value === null || (log && value <= 0)) return null;
  const part = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return start + part * (end - start);
}
const position = (data, x) => data.time + " " + (data.whole ? Math.round(x) : x).toLocaleString("en", { maximumFractionDigits: 12 });
const backward = ([low, high, start, end], pixel) => low + (pixel - start) / (end - start) * (high - low);
function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, index) => { if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = index; });
  return best;
}
function draw(parent, kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  parent.append(made);
  return made;
}
function path(xs, ys) {
  let text = "", pen = "M";
  xs.forEach((x, index) => {
    if (ys[index] === null) { pen = "M"; return; }
    text += pen + x.toFixed(1) + "," + ys[index].toFixed(1);
    pen = "L";
  });
  return text;
}

// --- Curves: the nearest arm's seeds as thin lines, and the nearest seed marked -----------------------------------
function curves(data, panel) {
  const plot = data.plots ? data.plots[panel.plot] : data, box = plot.box;
  const time = (x) => plot.names ? plot.names[x] : position(data, x);
  const height = (value) => plot.names && plot.y[4] && value === 0 ? box[1] + box[3] : forward(plot.y, value);  // profiles have zeros at the edge
  const prepared = panel.arms.map((name) => plot.arms.find((arm) => arm.name === name)).map((arm) => ({
    ...arm,
    px: arm.x.map((x) => forward(panel.x, x)),
    py: arm.values.map((row) => row.map(height)),
    pm: arm.mean.map(height),
  }));
  function paint(layer, index, at, seed) {
    const arm = prepared[index];
    const colour = " c" + arm.colour;
    draw(layer, "line", { class: "cross", x1: arm.px[at], x2: arm.px[at], y1: box[1], y2: box[1] + box[3] });
    arm.py.forEach((row, which) => draw(layer, "path", { class: "thread" + colour + (which === seed ? " near" : ""), d: path(arm.px, row) }));
    const spot = seed === null ? arm.pm[at] : arm.py[seed][at];
    if (spot !== null) draw(layer, "circle", { class: "spot" + colour, cx: arm.px[at], cy: spot, r: 4 });
    const lines = [arm.label + ", " + time(arm.x[at])];
    const interval = arm.low[at] === null ? "" : " [" + number(arm.low[at]) + ", " + number(arm.high[at]) + "]";
    lines.push("mean " + number(arm.mean[at]) + interval + ", n = " + arm.n[at]);
    if (seed !== null) lines.push("● seed " + arm.seeds[seed] + ": " + number(arm.values[seed][at]));
    const others = arm.seeds.map((s, which) => [s, which]).filter(([, which]) => which !== seed);
    if (others.length && others.length <= 30) lines.push(others.map(([s, which]) => s + ":\u00a0" + number(arm.values[which][at])).join(" · "));
    return lines.join("\n");
  }
  return {
    point(layer, x, y) {
      let best = null;
      prepared.forEach((arm, index) => {
        if (!arm.px.length) return;
        const at = nearest(arm.px, x);
        if (Math.abs(arm.px[at] - x) > 40) return;
        arm.py.forEach((row, seed) => {
          if (row[at] === null) return;
          const far = Math.abs(row[at] - y);
          if (!best || far < best.far) best = { far, index, at, seed };
        });
      });
      return best && paint(layer, best.index, best.at, best.seed);
    },
    start: () => ({ index: 0, at: 0 }),
    step(state, right, down) {
      state.index = (state.index + down + prepared.length) % prepared.length;
      state.at = Math.max(0, Math.min(prepared[state.index].x.length - 1, state.at + right));
      return state;
    },
    visit(layer, state) {
      const arm = prepared[state.index];
      if (!arm.px.length) return { text: arm.label + ": no value", x: 0, y: 0 };
      return { text: paint(layer, state.index, state.at, null), x: arm.px[state.at], y: arm.pm[state.at] === null ? box[1] : arm.pm[state.at] };
    },
  };
}

// --- Kymographs: the cell under the pointer ---------------------------------------------------------------------
function kymograph(data, panel) {
  const layout = data.layouts[panel.layout], left = layout.box[0];
  const rows = layout.maps.flatMap(([top, height, count]) => Array.from({ length: count }, (_, at) => ({ top: top + at * height / count, height: height / count })));
  const counted = (site, column) => [site, column].reduce((counts, at) => Array.isArray(counts) ? counts[at] : counts, panel.counts);
  function reading(values, column, count) {
    if (values === null) return data.states.absent;
    const value = values[column], start = values.find((one) => one !== null);
    if (value === null) return data.states.missing;
    const ratio = start ? "; " + number(value / start, 3) + " times the start value" : "";
    return (value === 0 ? data.states.zero : number(value)) + ratio + "\n" + data.unit + ", n = " + count;
  }
  function paint(layer, column, site) {
    const x1 = forward(panel.x, panel.edges[column]), x2 = forward(panel.x, panel.edges[column + 1]);
    const cell = { x: x1, y: rows[site].top, width: Math.max(x2 - x1, 1), height: rows[site].height };
    draw(layer, "rect", { class: "cell under", ...cell });
    draw(layer, "rect", { class: "cell", ...cell });
    return panel.title + "\n" + position(data, panel.steps[column]) + ", " + layout.sites[site]
      + ": " + reading(panel.values[site], column, counted(site, column));
  }
  const column = (value) => {
    let index = 0;
    while (index < panel.steps.length - 1 && panel.edges[index + 1] <= value) index++;
    return index;
  };
  return {
    point(layer, x, y) {
      const site = rows.findIndex((row) => y >= row.top && y < row.top + row.height);
      if (site < 0 || x < left || x > panel.x[3]) return null;
      return paint(layer, column(backward(panel.x, x)), site);
    },
    start: () => ({ at: 0, site: 0 }),
    step(state, right, down) {
      state.at = Math.max(0, Math.min(panel.steps.length - 1, state.at + right));
      state.site = Math.max(0, Math.min(rows.length - 1, state.site + down));
      return state;
    },
    visit(layer, state) {
      return { text: paint(layer, state.at, state.site), x: forward(panel.x, panel.steps[state.at]), y: rows[state.site].top };
    },
  };
}

// --- Every chart: pointer and arrow keys ------------------------------------------------------------------------
const parsed = new Map();
function dataOf(chart) {
  if (!parsed.has(chart)) parsed.set(chart, JSON.parse(chart.querySelector('script[type="application/json"]').textContent));
  return parsed.get(chart);
}
const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const readers = { curves, kymograph };  // other kinds of chart have data-tip attributes
function makeInteractive(chart, plot) {
  const svg = plot.querySelector("svg");
  const layer = draw(svg, "g", { class: "hover" });
  let reader = null, state = null;
  const ready = () => {
    const data = dataOf(chart);
    if (!reader) reader = readers[data.kind](data, data.panels[Number(plot.dataset.panel)]);
    return reader;
  };
  const clear = () => { layer.replaceChildren(); hide(); };
  const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const move = (event) => {
    if (!ready()) return;
    const frame = svg.getBoundingClientRect();
    layer.replaceChildren();
    const text = reader.point(layer, (event.clientX - frame.left) / scale(), (event.clientY - frame.top) / scale());
    if (text) show(text, event.clientX, event.clientY); else hide();
  };
  plot.addEventListener("pointermove", move);
  plot.addEventListener("pointerdown", move);
  plot.addEventListener("pointerleave", clear);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", svg.getAttribute("aria-label") + "; arrow keys read values");
  plot.addEventListener("blur", clear);
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { clear(); return; }
    if (!arrows[event.key] || !ready()) return;
    event.preventDefault();
    state = state ? reader.step(state, ...arrows[event.key]) : reader.start();
    layer.replaceChildren();
    const { text, x, y } = reader.visit(layer, state);
    const frame = svg.getBoundingClientRect();
    show(text, frame.left + x * scale(), frame.top + y * scale());
    readout.textContent = text;
  });
}
all("figure[data-chart]").forEach((chart) => {
  if (readers[chart.dataset.chart]) all(".plot", chart).forEach((plot) => makeInteractive(chart, plot));
});


// --- Kymographs as measured, or relative to their start -------------------------------------------------------------
all("button.relative").forEach((button) => button.addEventListener("click", () => {
  const relative = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(relative));
  button.closest("figure").dataset.view = relative ? "relative" : "as-measured";
}));
