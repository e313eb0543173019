"use strict";

// Reads /metrics again and again, and shows what an operator asks first.

const PAUSE = 2000;
// Over how long images a minute are counted, in milliseconds.
const WINDOW = 60_000;

const part = (id) => document.getElementById(id);
const counts = [];

// `sordino_name{model="x"} 3` as { name, model, value }; other labels are of no interest here.
function samples(text) {
  const line = /^sordino_(\w+)(?:\{(.*)\})? (\S+)$/;
  const found = text.split("\n").map((row) => line.exec(row)).filter(Boolean);
  return found.map(([, name, labels = "", value]) => {
    const model = /model="((?:[^"\\]|\\.)*)"/.exec(labels);
    return { name, model: model ? JSON.parse(`"${model[1]}"`) : null, value: Number(value) };
  });
}

function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)));
  return `${(count / 1000 ** power).toLocaleString("en", { maximumFractionDigits: 1 })} ${units[power]}`;
}

// Images since the oldest count of the last minute, for a whole minute.
function perMinute(images) {
  const now = performance.now();
  counts.push([now, images]);
  while (now - counts[0][0] > WINDOW) counts.shift();
  const [then, before] = counts[0];
  return now > then ? Math.round(((images - before) * WINDOW) / (now - then)) : 0;
}

function show(all) {
  const value = (name, model = null) => all.find((one) => one.name === name && one.model === model)?.value ?? 0;
  const texts = {
    clients: value("clients"),
    running: value("running"),
    waiting: value("waiting"),
    rate: perMinute(value("classified_total")),
    memory: bytes(value("promised_memory_bytes")),
    received: bytes(value("received_bytes_total")),
    sent: bytes(value("sent_bytes_total")),
    refused: value("refusals_total"),
    failed: value("failures_total"),
  };
  for (const [id, text] of Object.entries(texts)) part(id).textContent = text;
  const models = [...new Set(all.map((one) => one.model).filter((model) => model !== null))].sort();
  const mean = (phase, model) => {
    const count = value(`${phase}_seconds_count`, model);
    return count ? (value(`${phase}_seconds_sum`, model) / count).toFixed(3) : "";
  };
  const row = (model) => {
    const cells = [
      model,
      value("offline_phase_seconds_count", model),
      mean("offline_phase", model),
      value("model_images_total", model),
      mean("online_phase", model),
    ];
    const line = document.createElement("tr");
    line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return line;
  };
  part("models").replaceChildren(...models.map(row));
}

async function look() {
  try {
    const answer = await fetch("metrics", { cache: "no-store" });
    show(samples(await answer.text()));
    const health = await fetch("healthz", { cache: "no-store" });
    part("state").textContent = health.ok ? "It takes clients." : "It is shutting down.";
  } catch {
    part("state").textContent = "It does not answer.";
  }
  setTimeout(look, PAUSE);
}

look();
