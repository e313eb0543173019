"use strict";

// The second tab: accuracy against what users pay, ours beside the papers' points. Everything shown is in front.json, which is
// made of the records.

const CHART = { most: 640, least: 280, left: 44, right: 16, top: 12, bottom: 40 };

let front = null;

async function openFront() {
  if (front) return;
  try {
    const response = await fetch("front.json", { integrity: document.body.dataset.front, credentials: "omit" });
    if (!response.ok) throw new Error(`front.json: ${response.status}`);
    front = await response.json();
  } catch (error) {
    return say("front-status", "noFront", { text: error.message }, true);
  }
  for (const [index, group] of front.groups.entries()) part("front-group").add(new Option(group.title, index));
  part("front-group").parentElement.hidden = front.groups.length < 2;
  part("front-group").onchange = chooseGroup;
  part("front-axis").onchange = drawFront;
  part("front-setting").onchange = drawFront;
  window.onresize = drawFront;
  chooseGroup();
}

function chooseGroup() {
  const group = shownGroup();
  const count = (index) => group.ours.filter(({ measured }) => measured.some(({ setting }) => setting === index)).length;
  const places = group.settings.map((text, index) => ({ text, index })).sort((one, other) => count(other.index) - count(one.index));
  part("front-setting").replaceChildren(...places.map(({ text, index }) => new Option(text, index)));
  drawFront();
}

const shownGroup = () => front.groups[Number(part("front-group").value) || 0];

// ---- what is drawn

// For each axis: where a point of ours and one of a paper stand, and whether ours is on the front.
function axes() {
  const setting = Number(part("front-setting").value);
  const measured = (point) => point.measured.find((measurement) => measurement.setting === setting);
  return {
    comparisons: {
      ours: (point) => [point.comparisons, point.on_front],
      papers: (point) => point.relus,
      exact: (value) => value.toLocaleString(language),
      text: (value) => (value < 1000 ? String(value) : `${(value / 1000).toLocaleString(language)}K`),
    },
    time: {
      ours: (point) => [measured(point)?.online_s, measured(point)?.on_time_front],
      papers: (point) => point.online_s,
      text: (value) => (value < 1 ? `${(value * 1000).toLocaleString(language, { maximumFractionDigits: 1 })} ms` : `${value.toLocaleString(language)} s`),
    },
    bytes: {
      ours: (point) => [measured(point)?.bytes, measured(point)?.on_bytes_front],
      papers: () => undefined,
      text: (value) => bytes(value),
    },
  };
}

function drawFront() {
  if (!front) return;
  const [group, name] = [shownGroup(), part("front-axis").value];
  const axis = axes()[name];
  const link = Object.fromEntries(front.papers.map(({ paper, link }) => [paper, link]));
  const ours = group.ours.map((point) => ({ point, x: axis.ours(point)[0], isFront: axis.ours(point)[1], y: point.accuracy, href: `#result-${point.number}` }));
  const papers = group.papers.map((point) => ({ point, x: axis.papers(point), y: point.accuracy, href: link[point.paper] }));
  const marks = { ours: ours.filter(({ x }) => x > 0), papers: papers.filter(({ x }) => x > 0) };
  part("front-setting").parentElement.hidden = name === "comparisons";
  drawChart(marks, axis, word(`axis-${name}`));
  say("front-status", "frontHelp", { ours: marks.ours.length, papers: marks.papers.length });
  fillResults(group);
  fillPapers(group, link);
}

function drawChart({ ours, papers }, axis, title) {
  const { most, least, left, right, top, bottom } = CHART;
  // On a phone the picture is narrower, and its letters stay as large.
  const width = Math.min(Math.max(part("chart").clientWidth, least), most);
  const height = 200 + width / 4;
  const all = [...ours, ...papers];
  const logs = all.map(({ x }) => Math.log10(x));
  const [first, last] = [Math.min(...logs) - 0.08, Math.max(...logs) + 0.08];
  const [low, high] = [Math.floor(Math.min(...all.map(({ y }) => y)) / 5) * 5, Math.ceil(Math.max(...all.map(({ y }) => y)) / 5) * 5];
  const place = ({ x, y }) => [
    left + ((width - left - right) * (Math.log10(x) - first)) / (last - first),
    height - bottom - ((height - bottom - top) * (y - low)) / (high - low),
  ];
  const svg = part("chart");
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", `${word("accuracy")} / ${title}`);
  for (let level = low; level <= high; level += 5) {
    const y = place({ x: 10 ** first, y: level })[1];
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }));
    svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, `${level}%`));
  }
  for (const value of roundNumbers(first, last)) {
    const x = place({ x: value, y: low })[0];
    svg.append(shape("line", { class: "grid", x1: x, x2: x, y1: top, y2: height - bottom }));
    svg.append(shape("text", { x, y: height - bottom + 16, "text-anchor": "middle" }, axis.text(value)));
  }
  svg.append(shape("text", { x: width - right, y: height - 6, "text-anchor": "end" }, title));
  const line = ours.filter(({ isFront }) => isFront).sort((one, other) => one.x - other.x).map((mark) => place(mark).join(","));
  svg.append(shape("polyline", { class: "front", points: line.join(" ") }));
  for (const mark of papers) svg.append(dot(mark, place(mark), paperText(mark, axis), "theirs"));
  for (const mark of ours) svg.append(dot(mark, place(mark), ourText(mark, axis), mark.isFront ? "ours" : "ours beaten"));
}

// Numbers whose first digit is 1, 2 or 5, fewer where many would fit.
function roundNumbers(first, last) {
  const digits = last - first > 3 ? [1] : part("chart").clientWidth < 400 ? [1, 5] : [1, 2, 5];
  const powers = Array.from({ length: 20 }, (_, at) => at - 6);
  const numbers = powers.flatMap((power) => digits.map((digit) => Number(`${digit}e${power}`)));
  return numbers.filter((value) => Math.log10(value) >= first && Math.log10(value) <= last);
}

function dot({ href }, [x, y], text, kind) {
  const mark = shape("circle", { cx: x, cy: y, r: kind === "theirs" ? 4 : 6, class: kind });
  mark.append(shape("title", {}, text));
  if (!href) {
    mark.onpointerenter = () => (part("point").textContent = text);
    return mark;
  }
  const isOurs = href.startsWith("#");
  // The papers' points can be reached in their table; here the keyboard goes through ours alone.
  const anchor = shape("a", { href, "aria-label": text, tabindex: isOurs ? 0 : -1, ...(isOurs ? {} : { target: "_blank", rel: "noreferrer noopener" }) });
  anchor.append(mark);
  anchor.onpointerenter = anchor.onfocus = () => (part("point").textContent = text);
  if (isOurs) anchor.onclick = () => (document.querySelector(`${href} details`).open = true);
  return anchor;
}

const percent = (value) => `${value.toLocaleString(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 })}%`;

function ourText({ point, x }, axis) {
  return `${point.number}. ${point.title}: ${percent(point.accuracy)}, ${(axis.exact ?? axis.text)(x)}`;
}

function paperText({ point, x }, axis) {
  return `${point.paper}, ${point.place}: ${point.row}, ${percent(point.accuracy)}, ${axis.text(x)}${point.has_polynomials ? `, ${word("polynomials")}` : ""}`;
}

function shape(name, attributes, text) {
  const element = document.createElementNS(part("chart").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// ---- the tables

function cell(kind, content) {
  const element = document.createElement(kind);
  element.append(content);
  return element;
}

function fillResults(group) {
  const setting = Number(part("front-setting").value);
  const rows = group.ours.map((point) => {
    const row = document.createElement("tr");
    row.id = `result-${point.number}`;
    const measured = point.measured.find((measurement) => measurement.setting === setting);
    const head = cell("th", layersOf(point));
    head.scope = "row";
    const time = measured ? axes().time.text(measured.online_s) : word("notMeasured");
    row.append(cell("td", String(point.number)), head, cell("td", percent(point.accuracy)));
    row.append(cell("td", point.comparisons.toLocaleString(language)), cell("td", point.gated_values.toLocaleString(language)));
    row.append(cell("td", time), cell("td", measured ? bytes(measured.bytes) : word("notMeasured")));
    return row;
  });
  part("results").replaceChildren(...rows);
}

function layersOf({ title, network, method, seed, layers }) {
  const details = document.createElement("details");
  const summary = cell("summary", title);
  summary.lang = "en";
  details.append(summary, cell("p", `${network}; ${method}, ${word("seed")} ${seed}`));
  if (layers.length === 0) {
    details.append(cell("p", word("noLayers")));
    return details;
  }
  const list = document.createElement("ul");
  for (const [name, before, after] of layers) {
    const item = cell("li", `${name}: ${after.toLocaleString(language)} / ${before.toLocaleString(language)} `);
    const meter = document.createElement("meter");
    [meter.max, meter.value] = [Math.max(before, after, 1), after];
    meter.setAttribute("aria-label", name);
    item.append(meter);
    list.append(item);
  }
  details.append(cell("p", word("layersHelp")), list);
  return details;
}

function fillPapers(group, links) {
  const rows = group.papers.map((point) => {
    const row = document.createElement("tr");
    const head = cell("th", paperLink(point, links[point.paper]));
    head.scope = "row";
    const time = point.online_s ? axes().time.text(point.online_s) : "";
    row.append(head, cell("td", `${point.place}: ${point.row}`), cell("td", percent(point.accuracy)));
    row.append(cell("td", point.relus.toLocaleString(language)), cell("td", time));
    return row;
  });
  part("papers").replaceChildren(...rows);
  const notes = front.papers.map(({ paper, latency }) => cell("li", `${paper}: ${latency}`));
  part("paper-notes").replaceChildren(...notes);
}

function paperLink({ paper }, href) {
  if (!href) return paper;
  const anchor = cell("a", paper);
  Object.assign(anchor, { href, target: "_blank", rel: "noreferrer noopener" });
  return anchor;
}

// ---- the tabs

function listenToTabs() {
  const tabs = [part("tab-ask"), part("tab-front")];
  for (const [at, tab] of tabs.entries()) {
    tab.onclick = () => showTab(tabs, at);
    tab.onkeydown = ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step) showTab(tabs, (at + step + tabs.length) % tabs.length, true);
    };
  }
}

function showTab(tabs, chosen, moves = false) {
  for (const [at, tab] of tabs.entries()) {
    tab.setAttribute("aria-selected", String(at === chosen));
    tab.tabIndex = at === chosen ? 0 : -1;
    part(tab.getAttribute("aria-controls")).hidden = at !== chosen;
  }
  if (moves) tabs[chosen].focus();
  if (tabs[chosen].id === "tab-front") openFront();
}
