"use strict";

// What the server got of the picture; how long preparing will still take; and, in demos, the answer in plain.

// How many of the server's numbers are written out.
const NUMBERS = 24;
// Which part of the bytes has come before the rate of the others is told.
const KNOWN_AFTER = 10;

// ---- the server's view

function forgetView() {
  part("view").hidden = true;
}

// Each number as its upper eight bits, where the picture has the same point.
function showView({ bits, values }, [channels, height, width]) {
  const shade = 2 ** (bits - 8);
  const pixels = values.map((value) => Math.floor(value / shade));
  paint(part("view-pixels"), { shape: [channels, height, width], pixels });
  part("view-numbers").textContent = values.slice(0, NUMBERS).join(" ") + " …";
  const count = () => values.length.toLocaleString(language);
  say("view-text", "view", { count, bits });
  part("view-pixels").setAttribute("aria-label", part("view-text").textContent);
  part("view").hidden = false;
}

// ---- how long it will still take

let preparing = null;

function beginPreparing() {
  const expected = hasPrepared ? model.later_offline_bytes : model.offline_bytes;
  preparing = { expected, before: moved, start: performance.now() };
  part("progress").max = expected;
  part("progress").value = 0;
  part("progress").hidden = false;
  showLeft();
}

function endPreparing() {
  preparing = null;
  part("progress").hidden = true;
  part("work-left").textContent = "";
}

// Bytes to come at the rate of those that came.
function showLeft() {
  if (!preparing) return;
  const { expected, before, start } = preparing;
  const done = Math.min(moved - before, expected);
  part("progress").value = done;
  const left = ((performance.now() - start) * (expected - done)) / done;
  // The first bytes come with the work that precedes them, and tell little of the rate.
  const isKnown = done > expected / KNOWN_AFTER;
  const whole = () => Math.ceil(left / 1000).toLocaleString(language);
  say("work-left", isKnown ? "left" : "toCome", { seconds: whole, bytes: () => bytes(expected - done) });
}

// ---- in plain, for demos

function offerPlain() {
  part("compare").hidden = !settings.plain;
  part("compare-on").checked = false;
  forgetPlain();
}

const comparesWithPlain = () => Boolean(settings.plain) && part("compare-on").checked;

function forgetPlain() {
  part("plain").hidden = true;
  part("plain-answer").replaceChildren();
}

// Shows the server the picture. Only who pressed the switch gets here.
async function comparePlain(pixels, privateLogits) {
  if (!comparesWithPlain()) return;
  part("plain").hidden = false;
  const start = performance.now();
  try {
    // A server that tells the class alone does so here, too.
    const { logits, class: only } = await askPlain(pixels);
    const milliseconds = performance.now() - start;
    const best = logits ? logits.indexOf(Math.max(...logits)) : only;
    fillAnswer(part("plain-answer"), best, logits ?? null);
    const off = privateLogits && logits && Math.max(...logits.map((logit, at) => Math.abs(logit - privateLogits[at])));
    const difference = () => (off * 2 ** -model.logit_fraction).toLocaleString(language, { maximumFractionDigits: 3 });
    const key = privateLogits && logits ? "plainCompared" : "plainAnswered";
    say("plain-status", key, { seconds: () => seconds(milliseconds), difference });
  } catch (error) {
    say("plain-status", "plainFailed", { more: error.message }, true);
  }
}

function askPlain(pixels) {
  const url = new URL(settings.plain, new URL(part("address").value, location.href));
  url.protocol = url.protocol.replace("http", "ws");
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url.href, "sordino");
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(new TextEncoder().encode(`${JSON.stringify({ model: model.model, pixels })}\n`));
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(new TextDecoder().decode(data));
      if (answer.error) reject(new Error(answer.error));
      else resolve(answer);
    };
    socket.onclose = () => reject(new Error(word("noPlain")));
  });
}
