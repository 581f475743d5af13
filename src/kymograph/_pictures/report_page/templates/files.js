// --- CSV --------------------------------------------------------------------------------------------------------
function* rows(data) {
  if (data.kind === "table") {
    yield data.columns;
    yield* data.rows;
  } else if (data.kind === "curves") {
    const plots = data.plots || [data];
    yield ["arm", "label", "seed", plots[0].names ? "site" : data.time, "value"];
    for (const plot of plots) for (const arm of plot.arms) {
      const lines = arm.seeds.map((seed, index) => [seed, arm.values[index]]);
      for (const [seed, values] of [...lines, ["mean", arm.mean], ["low", arm.low], ["high", arm.high]])
        for (let at = 0; at < arm.x.length; at++)
          yield [arm.name, arm.label, seed, plot.names ? plot.names[arm.x[at]] : arm.x[at], values[at]];
    }
  } else {
    yield ["arm", data.time, "site", "value"];
    for (const panel of data.panels) for (let at = 0; at < panel.steps.length; at++)
      for (const [row, site] of data.layouts[panel.layout].sites.entries())
        if (panel.values[row]) yield [panel.title, panel.steps[at], site, panel.values[row][at]];
  }
}
function quoted(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const formula = /^[=+\-@\t\r]/.test(cell) && Number.isNaN(Number(cell));
  const text = formula ? "'" + cell : String(cell);  // a spreadsheet must not read a name as a formula
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}
const csvOf = (chart) => Array.from(rows(dataOf(chart)), (row) => row.map(quoted).join(",")).join("\n") + "\n";
function save(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const onClick = (selector, action) => all(selector).forEach((button) => button.addEventListener("click", (event) => {
  event.stopPropagation();
  action(button);
}));
onClick("button.csv", (button) => save(csvOf(button.closest("[data-chart]")), button.dataset.file, "text/csv"));

// --- Pictures as SVG files, with their style included -------------------------------------------------------------
const styled = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "text-anchor", "display", "image-rendering"];
function drawn(svg) {
  const copy = svg.cloneNode(true), from = all("*", svg), to = all("*", copy);
  from.forEach((part, index) => {
    const computed = getComputedStyle(part);
    for (const name of styled) if (computed.getPropertyValue(name)) to[index].setAttribute(name, computed.getPropertyValue(name));
  });
  all(".hover,.hit,[display=none]", copy).forEach((part) => part.remove());
  return copy;
}
function picture(chart) {
  const pictures = all("svg", chart).filter((svg) => svg.getBoundingClientRect().width && !svg.closest("button,.legend"));
  const legend = chart.closest(".setting-body") && chart.closest(".setting-body").querySelector(".arms-legend");
  const names = [...(legend && chart.querySelector(".mean") ? all("li", legend) : []), ...all(".legend li", chart)];
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "svg"), ink = getComputedStyle(document.body).color;
  const text = (content, x, y, size) => {
    const made = draw(sheet, "text", { x, y, "font-size": size, "font-family": "sans-serif", fill: ink });
    made.textContent = content;
  };
  const head = chart.querySelector("h3,h4");
  let top = 10, widest = 460;
  if (head) { text(head.textContent, 10, 26, 16); top = 40; }
  names.forEach((name) => {
    const sample = drawn(name.querySelector("svg"));
    for (const [key, value] of Object.entries({ x: 10, y: top - 2, width: 30, height: 10 })) sample.setAttribute(key, value);
    sheet.append(sample);
    text(name.querySelector("span").textContent, 48, top + 7, 12);
    top += 18;
  });
  const columns = pictures.length > 2 ? 2 : pictures.length;
  let left = 10, lowest = top;
  pictures.forEach((svg, index) => {
    const { width, height } = svg.viewBox.baseVal, title = svg.closest(".panel") && svg.closest(".panel").querySelector(".panel-title");
    if (index && index % columns === 0) { left = 10; top = lowest; }
    if (title) text(title.textContent, left, top + 16, 13);
    const copy = drawn(svg);
    for (const [key, value] of Object.entries({ x: left, y: top + (title ? 24 : 0), width, height })) copy.setAttribute(key, value);
    sheet.append(copy);
    lowest = Math.max(lowest, top + height + 36);
    left += width + 20;
    widest = Math.max(widest, left);
  });
  sheet.setAttribute("viewBox", "0 0 " + widest + " " + lowest);
  sheet.setAttribute("width", widest);
  sheet.setAttribute("height", lowest);
  sheet.setAttribute("style", "background:" + getComputedStyle(document.body).backgroundColor);
  return new XMLSerializer().serializeToString(sheet);
}
onClick("button.svg", (button) => save(picture(button.closest("[data-chart]")), button.dataset.file, "image/svg+xml"));

// --- Everything at once -------------------------------------------------------------------------------------------
const verdictRows = () => JSON.stringify(JSON.parse(document.getElementById("verdict-rows").textContent), null, 1) + "\n";
onClick("#all-verdicts", () => save(verdictRows(), "verdicts.json", "application/json"));
const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});
function crc(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = crcTable[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}
const little = (...fields) => fields.flatMap(([value, size]) => Array.from({ length: size }, (_, at) => (value >>> (8 * at)) & 255));
function zip(entries) {  // without compression
  const parts = [], directory = [], encode = new TextEncoder();
  let offset = 0, listed = 0;
  for (const [name, content] of entries) {
    const path = encode.encode(name), bytes = encode.encode(content);
    const fields = [[20, 2], [0x0800, 2], [0, 2], [0, 2], [0x21, 2], [crc(bytes), 4], [bytes.length, 4], [bytes.length, 4], [path.length, 2], [0, 2]];
    const head = Uint8Array.from(little([0x04034b50, 4], ...fields));
    const entry = Uint8Array.from(little([0x02014b50, 4], [20, 2], ...fields, [0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]));
    parts.push(head, path, bytes);
    directory.push(entry, path);
    offset += head.length + path.length + bytes.length;
    listed += entry.length + path.length;
  }
  const end = Uint8Array.from(little([0x06054b50, 4], [0, 2], [0, 2], [entries.length, 2], [entries.length, 2], [listed, 4], [offset, 4], [0, 2]));
  return new Blob([...parts, ...directory, end]);
}
onClick("#all-data", () => {
  const files = all("button.csv").map((button) => [button.dataset.file, csvOf(button.closest("[data-chart]"))]);
  save(zip([["verdicts.json", verdictRows()], ...files]), "report-data.zip", "application/zip");
});

// --- Copying ------------------------------------------------------------------------------------------------------
onClick("button.copy", async (button) => {
  const link = button.dataset.link ? " " + location.href.split("#")[0] + "#" + button.dataset.link : "";
  const text = button.dataset.copy + link;
  try { await navigator.clipboard.writeText(text); } catch (error) {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  const before = button.textContent;
  button.textContent = readout.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});
