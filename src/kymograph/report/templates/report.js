"use strict";
(function () {
  const root = document.documentElement;
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const tip = document.getElementById("tip"), readout = document.getElementById("readout");

  // --- Theme ------------------------------------------------------------------------------------------------------
  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = dark() ? "Light theme" : "Dark theme"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("kymograph-theme", root.dataset.theme); } catch (error) { /* not remembered, which is harmless */ }
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();

  // --- Verdicts: unfolding and filtering --------------------------------------------------------------------------
  const claims = all(".claim");
  const below = (claim) => document.getElementById(claim.id + "-evidence");
  function unfold(claim, open) {
    below(claim).classList.toggle("open", open);
    claim.querySelector(".unfold").setAttribute("aria-expanded", String(open));
  }
  claims.forEach((claim) => claim.addEventListener("click", (event) => {
    if (String(getSelection())) return;  // the reader is selecting text
    if (event.target.closest("a")) return;
    unfold(claim, !below(claim).classList.contains("open"));
  }));
  const everything = document.getElementById("unfold");
  if (everything) {
    const study = document.getElementById("by-study"), verdict = document.getElementById("by-verdict");
    everything.addEventListener("click", () => {
      const open = everything.getAttribute("aria-expanded") !== "true";
      everything.setAttribute("aria-expanded", String(open));
      everything.textContent = open ? "Hide all evidence" : "Show all evidence";
      claims.forEach((claim) => unfold(claim, open));
    });
    const filter = () => {
      let shown = 0;
      claims.forEach((claim) => {
        const passes = (!study.value || claim.dataset.study === study.value)
          && (!verdict.value || claim.dataset.verdict === verdict.value);
        claim.hidden = below(claim).hidden = !passes;
        claim.style.display = below(claim).style.display = passes ? "" : "none";
        shown += passes;
      });
      document.getElementById("shown").textContent = shown + " of " + claims.length + (claims.length === 1 ? " claim" : " claims");
      document.getElementById("none-shown").hidden = shown > 0;
    };
    study.addEventListener("change", filter);
    verdict.addEventListener("change", filter);
    filter();  // a browser may restore the choice of the last visit
  }

  // --- Numbers and the tip ----------------------------------------------------------------------------------------
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function number(value) {
    if (value === null || value === undefined) return "missing";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e-4 && size < 1e6) return String(Number(value.toPrecision(5))).replace("-", "−");
    const [mantissa, power] = value.toExponential(3).split("e");
    const exponent = String(Number(power)).split("").map((c) => raised[c]).join("");
    return String(Number(mantissa)).replace("-", "−") + "×10" + exponent;
  }
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - width - 8)) + "px";
    tip.style.top = (y + 16 + height > innerHeight ? Math.max(8, y - height - 12) : y + 16) + "px";
  }
  const hide = () => { tip.hidden = true; };
  document.addEventListener("pointerover", (event) => {
    const target = event.target.closest && event.target.closest("[data-tip]");
    if (target) show(target.dataset.tip, event.clientX, event.clientY);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.target.closest && event.target.closest("[data-tip]")) hide();
  });
  document.addEventListener("scroll", hide, { passive: true });

  // --- The scales that the pictures were drawn with ---------------------------------------------------------------
  function forward([low, high, start, end, log], value) {
    if (value === null || (log && value <= 0)) return null;
    const part = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return start + part * (end - start);
  }
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

  // --- Curves: the nearest arm's seeds as threads, and the nearest seed marked --------------------------------------
  function curves(data, panel) {
    const time = (x) => data.names ? data.names[x] : data.time + " " + Math.round(x).toLocaleString("en");
    const prepared = panel.arms.map((arm) => ({
      ...arm,
      px: arm.x.map((x) => forward(panel.x, x)),
      py: arm.values.map((row) => row.map((value) => forward(data.y, value))),
      pm: arm.mean.map((value) => forward(data.y, value)),
    }));
    function paint(layer, index, at, seed) {
      const arm = prepared[index], box = data.box;
      const colour = " c" + arm.colour;
      draw(layer, "line", { class: "cross", x1: arm.px[at], x2: arm.px[at], y1: box[1], y2: box[1] + box[3] });
      arm.py.forEach((row, which) => draw(layer, "path", { class: "thread" + colour + (which === seed ? " near" : ""), d: path(arm.px, row) }));
      const spot = seed === null ? arm.pm[at] : arm.py[seed][at];
      if (spot !== null) draw(layer, "circle", { class: "spot" + colour, cx: arm.px[at], cy: spot, r: 4 });
      const lines = [arm.name + ", " + time(arm.x[at])];
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
        if (!arm.px.length) return { text: arm.name + ": no value", x: 0, y: 0 };
        return { text: paint(layer, state.index, state.at, null), x: arm.px[state.at], y: arm.pm[state.at] === null ? data.box[1] : arm.pm[state.at] };
      },
    };
  }

  // --- Kymographs: the cell under the pointer ---------------------------------------------------------------------
  function kymograph(data, panel) {
    const [left, top, , height] = data.box;
    const row = height / data.sites.length;
    function paint(layer, column, site) {
      const x1 = forward(panel.x, panel.edges[column]), x2 = forward(panel.x, panel.edges[column + 1]);
      const cell = { x: x1, y: top + site * row, width: Math.max(x2 - x1, 1), height: row };
      draw(layer, "rect", { class: "cell under", ...cell });
      draw(layer, "rect", { class: "cell", ...cell });
      return panel.title + "\n" + data.time + " " + Math.round(panel.steps[column]).toLocaleString("en") + ", " + data.sites[site]
        + ": " + number(panel.values[site][column]) + "\n" + data.unit + ", n = " + panel.counts[site][column];
    }
    const column = (value) => {
      let index = 0;
      while (index < panel.steps.length - 1 && panel.edges[index + 1] <= value) index++;
      return index;
    };
    return {
      point(layer, x, y) {
        const site = Math.floor((y - top) / row);
        if (site < 0 || site >= data.sites.length || x < left || x > panel.x[3]) return null;
        return paint(layer, column(backward(panel.x, x)), site);
      },
      start: () => ({ at: 0, site: 0 }),
      step(state, right, down) {
        state.at = Math.max(0, Math.min(panel.steps.length - 1, state.at + right));
        state.site = Math.max(0, Math.min(data.sites.length - 1, state.site + down));
        return state;
      },
      visit(layer, state) {
        return { text: paint(layer, state.at, state.site), x: forward(panel.x, panel.steps[state.at]), y: top + state.site * row };
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
  const readers = { curves, kymograph };  // other kinds of chart put what they have to say into data-tip attributes
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

  // --- CSV --------------------------------------------------------------------------------------------------------
  function* rows(data) {
    if (data.kind === "table") {
      yield data.columns;
      yield* data.rows;
    } else if (data.kind === "curves") {
      yield ["panel", "arm", "seed", data.names ? "site" : data.time, "value"];
      for (const panel of data.panels) for (const arm of panel.arms) {
        const lines = arm.seeds.map((seed, index) => [seed, arm.values[index]]);
        for (const [seed, values] of [...lines, ["mean", arm.mean], ["low", arm.low], ["high", arm.high]])
          for (let at = 0; at < arm.x.length; at++)
            yield [panel.title, arm.name, seed, data.names ? data.names[arm.x[at]] : arm.x[at], values[at]];
      }
    } else {
      yield ["arm", data.time, "site", "value"];
      for (const panel of data.panels) for (let at = 0; at < panel.steps.length; at++)
        for (let site = 0; site < data.sites.length; site++)
          yield [panel.title, panel.steps[at], data.sites[site], panel.values[site][at]];
    }
  }
  function quoted(cell) {
    if (cell === null || cell === undefined) return "";
    if (typeof cell === "number") return String(cell);
    const formula = /^[=+\-@\t\r]/.test(cell) && Number.isNaN(Number(cell));
    const text = formula ? "'" + cell : String(cell);  // a spreadsheet must not read a name as a formula
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }
  all("button.csv").forEach((button) => button.addEventListener("click", (event) => {
    event.stopPropagation();
    const lines = Array.from(rows(dataOf(button.closest("[data-chart]"))), (row) => row.map(quoted).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = button.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }));

  // --- Paper: everything that can be folded is open ---------------------------------------------------------------
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])").filter((part) => part.closest(".evidence") || part.closest("section:not(#provenance)"));
    folded.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
