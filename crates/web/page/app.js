"use strict";

// The page: shows, asks its workers, and never computes on anything itself. views.js and front.js show the rest.

const HEADER_BYTES = 32;
// What of the server's bytes may wait for the client; a power of two.
const RING_BYTES = 4 << 20;
// The client's questions, as its module numbers them.
const CONNECT = 0, LOOK = 1, PREPARE = 2, CLASSIFY = 3;
// How many classes are shown.
const SHOWN = 5;

const part = (id) => document.getElementById(id);
let language = "en";
let files;
let settings = { fingerprint: "", models: [], socket: "socket", plain: null };
let link = null;
let model = null;
let file = null;
let hasImage = false;
let ready = 0;
let layers = 0;
// Whether this session has prepared before: the first time costs more.
let hasPrepared = false;
// Bytes that crossed the socket.
let moved = 0;
// What the network sees.
let looked = null;
let isBusy = false;

// ---- texts

function word(key, values = {}) {
  return WORDS[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function speak(chosen) {
  language = chosen;
  document.documentElement.lang = chosen;
  document.title = word("title");
  part("language").value = chosen;
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = word(element.dataset.text);
  for (const element of document.querySelectorAll("[data-said]")) repeat(element);
  drawFront();
}

// Texts that change are said again when the language does.
const said = new Map();

function say(id, key, values = {}, isWrong = false) {
  const element = part(id);
  element.dataset.said = "";
  said.set(element, [key, values]);
  element.classList.toggle("wrong", isWrong);
  repeat(element);
}

function repeat(element) {
  const [key, values] = said.get(element);
  const number = (value) => (typeof value === "function" ? value() : value);
  const spelled = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, number(value)]));
  element.textContent = word(key, spelled) + (spelled.more ? ` ${word("details", { text: spelled.more })}` : "");
}

function bytes(count) {
  const [value, unit] = count < 1e6 ? [count / 1e3, "kB"] : [count / 1e6, "MB"];
  return `${value.toLocaleString(language, { maximumFractionDigits: 1 })} ${unit}`;
}

function seconds(milliseconds) {
  return (milliseconds / 1000).toLocaleString(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

// ---- the client and its socket

async function load() {
  say("connection-status", "loading");
  const fetched = async (name, integrity) => {
    const response = await fetch(name, { integrity, credentials: "omit" });
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    return response.arrayBuffer();
  };
  const { client, socket, module } = document.body.dataset;
  const script = async (name, integrity) =>
    URL.createObjectURL(new Blob([await fetched(name, integrity)], { type: "text/javascript" }));
  const [clientScript, socketScript, code] = await Promise.all([
    script("client.js", client),
    script("socket.js", socket),
    fetched("client.wasm", module),
  ]);
  files = { client: clientScript, socket: socketScript, module: await WebAssembly.compile(code) };
}

// A connection: two workers, and memory that they share.
class Link {
  constructor(url) {
    const shared = new SharedArrayBuffer(HEADER_BYTES + RING_BYTES);
    const { port1, port2 } = new MessageChannel();
    this.waiting = new Map();
    this.numbers = 0;
    this.socket = new Worker(files.socket);
    this.socket.onmessage = ({ data }) => (data.closed === undefined ? showTravel(data) : this.lost());
    this.socket.postMessage({ url, shared, port: port1 }, [port1]);
    this.client = new Worker(files.client);
    this.client.onmessage = ({ data }) => this.hear(data);
    this.client.onerror = (event) => this.fail(event.message);
    this.client.postMessage({ start: { module: files.module, shared, socket: port2 } }, [port2]);
  }

  // The reply, and how long it took; an error of the client is thrown.
  async ask(question, given) {
    const number = this.numbers++;
    const { reply, milliseconds } = await new Promise((resolve) => {
      this.waiting.set(number, resolve);
      this.client.postMessage({ number, question, bytes: given }, given ? [given] : []);
    });
    if (reply.error) throw reply.error;
    return { ...reply.done, milliseconds };
  }

  hear(data) {
    if (data.event?.ready) return showLayer(data.event.ready);
    if (data.event?.fault) return console.error(data.event.fault);
    this.waiting.get(data.number)(data);
    this.waiting.delete(data.number);
  }

  fail(text) {
    const reply = { error: { kind: "crashed", text } };
    for (const resolve of this.waiting.values()) resolve({ reply, milliseconds: 0 });
    this.waiting.clear();
  }

  // The socket has ended; whoever waits for an answer hears it from the client.
  lost() {
    if (link === this && this.waiting.size === 0) disconnect("connection", "");
  }

  end() {
    this.client.terminate();
    this.socket.terminate();
  }
}

function disconnect(kind, text) {
  link?.end();
  link = null;
  model = null;
  ready = 0;
  say("connection-status", kind, { more: text }, true);
  enable();
}

async function connect() {
  link?.end();
  [link, model, ready, hasImage, hasPrepared, moved] = [null, null, 0, false, false, 0];
  forgetView();
  forgetPlain();
  enable();
  say("connection-status", "connecting");
  const url = socketAddress(part("address").value);
  if (!url) return disconnect("unreachable", "");
  const opened = new Link(url.href);
  link = opened;
  const isNear = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  const wanted = { fingerprint: part("fingerprint").value.trim(), model: part("model").value, is_near: isNear };
  try {
    model = await opened.ask(CONNECT, new TextEncoder().encode(JSON.stringify(wanted)).buffer);
  } catch (error) {
    // What was never there is not lost.
    if (link === opened) disconnect(error.kind === "connection" ? "unreachable" : error.kind, error.text);
    return;
  }
  const { offline_bytes: offline, online_bytes: online } = model;
  say("connection-status", "connected", { offline: () => bytes(offline), online: () => bytes(online) });
  enable();
  if (file) await look();
}

// Where a WebSocket can go, or null.
function socketAddress(text) {
  const address = text.trim();
  if (!URL.canParse(address, location.href)) return null;
  const url = new URL(address, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  return ["ws:", "wss:"].includes(url.protocol) ? url : null;
}

// ---- the picture

async function take(blob) {
  file = blob;
  if (model) await look();
}

async function look() {
  hasImage = false;
  enable();
  say("image-status", "looking");
  try {
    let seen;
    try {
      seen = await link.ask(LOOK, await file.arrayBuffer());
    } catch (error) {
      if (error.kind !== "image") throw error;
      // The browser may know kinds of files that the client does not.
      const png = await decoded(file).catch(() => Promise.reject(error));
      seen = await link.ask(LOOK, await png.arrayBuffer());
    }
    looked = seen;
    draw(seen);
    hasImage = true;
    part("image-status").textContent = "";
  } catch (error) {
    file = null;
    part("seen").hidden = true;
    say("image-status", error.kind ?? "image", { more: error.text }, true);
  }
  enable();
}

async function decoded(blob) {
  const bitmap = await createImageBitmap(blob);
  return capture(bitmap, bitmap.width, bitmap.height);
}

function capture(source, width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d").drawImage(source, 0, 0);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error())), "image/png"));
}

function draw(seen) {
  paint(part("pixels"), seen);
  part("seen").hidden = false;
  sayWhoSees();
}

function sayWhoSees() {
  if (!looked) return;
  const [, height, width] = looked.shape;
  say("pixels-text", comparesWithPlain() ? "seenInPlain" : "seen", { width, height });
  part("pixels").setAttribute("aria-label", part("pixels-text").textContent);
}

function paint(canvas, { shape: [channels, height, width], pixels }) {
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const plane = width * height;
  for (let at = 0; at < plane; at++) {
    for (let color = 0; color < 3; color++) image.data[4 * at + color] = pixels[(channels === 1 ? 0 : color) * plane + at];
    image.data[4 * at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

async function openCamera() {
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    const video = part("video");
    video.srcObject = stream;
    part("viewfinder").hidden = false;
    await video.play();
    part("shoot").focus();
  } catch {
    say("image-status", "noCamera", {}, true);
  }
}

function closeCamera() {
  const video = part("video");
  for (const track of video.srcObject?.getTracks() ?? []) track.stop();
  video.srcObject = null;
  part("viewfinder").hidden = true;
  part("camera").focus();
}

async function shoot() {
  const video = part("video");
  const picture = await capture(video, video.videoWidth, video.videoHeight);
  closeCamera();
  part("file").value = "";
  await take(picture);
}

// ---- preparing and classifying

async function work(run) {
  isBusy = true;
  enable();
  const used = link;
  try {
    await run(used);
  } catch (error) {
    if (error.kind === "image") say("work-status", error.kind, { more: error.text }, true);
    else if (link === used) {
      part("work-status").textContent = "";
      disconnect(error.kind ?? "crashed", error.text ?? String(error));
    }
  }
  isBusy = false;
  endPreparing();
  enable();
}

function prepare() {
  return work(prepareOne);
}

async function prepareOne(link) {
  layers = 0;
  beginPreparing();
  const counted = await link.ask(PREPARE);
  hasPrepared = true;
  ready += 1;
  endPreparing();
  showPrepared(counted);
}

function showPrepared({ bytes_up: up, bytes_down: down, milliseconds }) {
  const count = ready;
  say("work-status", "prepared", { seconds: () => seconds(milliseconds), bytes: () => bytes(up + down), count });
}

function showLayer() {
  layers += 1;
  const [done, all] = [layers, model.layers];
  say("work-status", "preparing", { done, all });
  showLeft();
}

function classify() {
  return work(async (link) => {
    forgetView();
    forgetPlain();
    if (ready === 0) await prepareOne(link);
    const { pixels } = looked;
    say("work-status", "classifying");
    const answer = await link.ask(CLASSIFY);
    ready -= 1;
    const { bytes_up: up, bytes_down: down } = answer.counted;
    say("work-status", "classified", { seconds: () => seconds(answer.milliseconds), bytes: () => bytes(up + down) });
    showAnswer(answer);
    if (answer.server_view) showView(answer.server_view, looked.shape);
    await comparePlain(pixels, answer.logits);
    // The picture stays on the page, and may be asked about again.
    await look();
  });
}

function showAnswer({ class: best, logits }) {
  const list = part("answer");
  if (logits) list.dataset.logits = logits.join(" ");
  fillAnswer(list, best, logits);
}

function fillAnswer(list, best, logits) {
  const name = (number) => model.class_names[number] ?? String(number);
  list.replaceChildren();
  list.dataset.class = name(best);
  if (!logits) return list.append(row(name(best)));
  const unit = 2 ** -model.logit_fraction;
  const weights = logits.map((logit) => Math.exp((logit - logits[best]) * unit));
  const sum = weights.reduce((sum, weight) => sum + weight, 0);
  const order = logits.map((_, number) => number).sort((first, second) => logits[second] - logits[first]);
  for (const number of order.slice(0, SHOWN)) list.append(row(name(number), weights[number] / sum));
}

function row(name, part) {
  const item = document.createElement("li");
  const label = document.createElement("span");
  label.textContent = name.replaceAll("_", " ");
  item.append(label);
  if (part !== undefined) {
    const percent = document.createElement("span");
    percent.textContent = part.toLocaleString(language, { style: "percent", maximumFractionDigits: 1 });
    const meter = document.createElement("meter");
    meter.value = part;
    meter.setAttribute("aria-label", label.textContent);
    item.append(percent, meter);
  }
  return item;
}

// ---- what travels

function showTravel({ up, down, sample }) {
  moved = up + down;
  showLeft();
  part("bytes-up").textContent = bytes(up);
  part("bytes-down").textContent = bytes(down);
  const canvas = part("noise");
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < canvas.width * canvas.height; at++) {
    image.data.fill(sample[at] ?? 0, 4 * at, 4 * at + 3);
    image.data[4 * at + 3] = at < sample.length ? 255 : 0;
  }
  context.putImageData(image, 0, 0);
}

// ---- the page

function enable() {
  part("prepare").disabled = isBusy || !model;
  part("classify").disabled = isBusy || !model || !hasImage;
  part("model").disabled = isBusy || settings.models.length < 2;
  part("reconnect").disabled = isBusy;
}

async function readSettings() {
  const response = await fetch("settings.json", { credentials: "omit", cache: "no-store" });
  if (!response.ok) throw new Error(`settings.json: ${response.status}`);
  settings = { ...settings, ...(await response.json()) };
  part("address").value = settings.socket;
  part("fingerprint").value = settings.fingerprint;
  for (const name of settings.models) part("model").add(new Option(name, name));
  offerPlain();
}

function listen() {
  part("language").onchange = ({ target }) => speak(target.value);
  part("reconnect").onclick = connect;
  part("model").onchange = connect;
  part("file").onchange = ({ target }) => target.files[0] && take(target.files[0]);
  part("prepare").onclick = prepare;
  part("classify").onclick = classify;
  part("camera").onclick = openCamera;
  part("shoot").onclick = shoot;
  part("cancel").onclick = closeCamera;
  part("compare-on").onchange = sayWhoSees;
  listenToTabs();
  const drop = part("drop");
  // A picture that misses the field must not replace the page.
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = (event) => event.preventDefault();
  drop.ondragenter = () => drop.classList.add("over");
  drop.ondragleave = () => drop.classList.remove("over");
  drop.ondrop = (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (!event.dataTransfer.files[0]) return;
    // The field names the picture that is shown.
    part("file").files = event.dataTransfer.files;
    take(event.dataTransfer.files[0]);
  };
}

async function main() {
  speak(navigator.language.startsWith("de") ? "de" : "en");
  listen();
  if (!self.crossOriginIsolated) return say("connection-status", "alone", {}, true);
  try {
    await Promise.all([readSettings(), load()]);
  } catch (error) {
    return say("connection-status", "noModule", { text: error.message }, true);
  }
  enable();
  await connect();
}

main();
