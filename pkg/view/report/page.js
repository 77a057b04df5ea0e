"use strict";
// The figures. Each <figure> holds its values as JSON, see figures.go.
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const short = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 3}), exact = new Intl.NumberFormat("en", {maximumSignificantDigits: 3}), whole = new Intl.NumberFormat("en");
const decades = [...Array(30).keys()].flatMap(i => [1, 2, 5].map(n => Number(n + "e" + (i - 12))));
const utc = (t, from, to) => new Date(t * 1000).toISOString().slice(from, to).replace("T", " ");
const plots = [];

function draw(figure) {
  const f = JSON.parse(figure.querySelector("script").textContent), font = "12px system-ui, sans-serif";
  const data = [f.x], list = [];
  let below = f.x.map(() => 0);
  for (const s of f.series) {
    const stroke = color(s.color), value = (u, v, si, i) => i == null ? "–" : (f.whole ? whole : exact).format(s.values[i]) + f.unit;
    below = f.bar ? s.values.map((v, i) => v + below[i]) : s.values;
    data.push(below);
    list.push(f.bar ? {label: s.name, value, stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({size: [0.9, 60]}), points: {show: false}}
      : {label: s.name, value, stroke, width: 2, dash: s.color === "b" ? [4, 3] : undefined, points: {show: false}});
  }
  if (f.bar) { data.push(...data.splice(1).reverse()); list.reverse(); } // a part is drawn over those that reach higher
  const x = (u, t, incr) => f.labels ? f.labels[t - f.xmin] ?? "" : !f.time ? short.format(t) : incr < 1 ? utc(t, 11, 21) : incr < 60 ? utc(t, 11, 19) : incr < 86400 ? utc(t, f.xmax - f.xmin < 86400 ? 11 : 5, 16) : utc(t, 0, 10);
  const axis = {font, labelFont: font, labelSize: 20, stroke: color("soft"), grid: {stroke: color("line"), width: 1}, ticks: {stroke: color("line"), width: 1}};
  const numbers = decades.filter(n => n >= 1);
  plots.push(new uPlot({
    width: figure.querySelector(".plot").clientWidth, height: 240, padding: [12, 16, 0, 0], cursor: {y: false, drag: {x: false}, points: {show: !f.bar}}, legend: {markers: {width: 0, fill: (u, i) => u.series[i].stroke()}},
    scales: {x: {time: f.time, range: [f.xmin - f.bar / 2, f.xmax + f.bar / 2]}, y: {range: [0, f.ymax === 100 ? 100 : f.ymax * 1.05 || 1]}},
    axes: [{...axis, label: f.xtitle, size: 32, space: f.labels ? 48 : f.time ? 96 : 40, values: (u, ticks, i, space, incr) => ticks.map(t => x(u, t, incr)), ...(f.time ? {} : {incrs: numbers})},
      {...axis, label: f.ytitle, size: 44, incrs: f.whole ? numbers : decades, values: (u, ticks) => ticks.map(t => short.format(t))}],
    series: [{label: f.xtitle, value: (u, t) => t == null ? "–" : f.time ? (f.xmax - f.xmin < 86400 ? utc(t, 11, 19) : utc(t, 0, 16)) : x(u, t)}, ...list],
  }, data, figure.querySelector(".plot")));
}
function drawAll() {
  for (const u of plots.splice(0)) u.destroy();
  document.querySelectorAll("figure").forEach(draw);
}
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("resize", () => { for (const u of plots) u.setSize({width: u.root.parentElement.clientWidth, height: u.height}); });

// The tables. Their headings become buttons that sort: numbers from the largest, text from the first.
const value = (row, i) => {
  const cell = row.cells[i];
  return "v" in cell.dataset ? Number(cell.dataset.v) : cell.classList.contains("n") ? parseFloat(cell.textContent.replace(/\s/g, "")) || 0 : cell.textContent;
};
for (const head of document.querySelectorAll("main th, #compare th")) {
  const table = head.closest("table"), body = table.tBodies[0], i = head.cellIndex, button = document.createElement("button");
  if (table.classList.contains("u-legend") || !head.textContent || body.rows.length < 2) continue;
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const rows = [...body.rows], was = head.ariaSort;
    const order = was ? {ascending: "descending", descending: "ascending"}[was] : head.classList.contains("n") ? "descending" : "ascending";
    for (const h of table.tHead.rows[0].cells) h.ariaSort = null;
    head.ariaSort = order;
    rows.sort((x, y) => { const a = value(x, i), b = value(y, i); return typeof a === "number" ? a - b : a.localeCompare(b); });
    body.append(...(order === "ascending" ? rows : rows.reverse()));
  });
}
for (const input of document.querySelectorAll("input[type=search]")) {
  input.addEventListener("input", () => {
    const want = input.value.toLowerCase();
    for (const row of input.parentElement.querySelectorAll("tbody tr")) row.hidden = !row.cells[0].textContent.toLowerCase().includes(want);
  });
}
