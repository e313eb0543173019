"use strict";

// The worker that owns the WebSocket. What comes goes into memory that the client's worker shares; what that worker sends
// goes out. All of it is TLS: this worker can read none of it.

// Places in the shared header; client.js has the same.
const BELL = 0, WRITTEN = 1, READ = 2, CLOSED = 3, HAS_MORE = 4;
const HEADER_BYTES = 32;
// How often the page hears of bytes, in milliseconds, and how many of them it sees.
const PAUSE = 100, SAMPLE = 1536;

let header, ring, socket;
let queue = [];
let unsent = [];
let sample = new Uint8Array(0);
let up = 0, down = 0, lastTold = 0;

self.onmessage = ({ data }) => {
  header = new Int32Array(data.shared, 0, HEADER_BYTES / 4);
  ring = new Uint8Array(data.shared, HEADER_BYTES);
  data.port.onmessage = ({ data }) => (data === "more" ? fill() : send(data));
  try {
    socket = new WebSocket(data.url, "sordino");
  } catch (error) {
    return end(String(error.message));
  }
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    for (const bytes of unsent) socket.send(bytes);
    unsent = [];
  };
  socket.onmessage = ({ data }) => {
    down += data.byteLength;
    queue.push(new Uint8Array(data));
    fill();
    tell();
  };
  socket.onclose = ({ reason }) => end(reason);
};

function send(bytes) {
  up += bytes.byteLength;
  const last = bytes.subarray(Math.max(0, bytes.length - SAMPLE));
  const before = sample.subarray(Math.max(0, sample.length + last.length - SAMPLE));
  const joined = new Uint8Array(before.length + last.length);
  joined.set(before);
  joined.set(last, before.length);
  sample = joined;
  if (socket.readyState === WebSocket.CONNECTING) unsent.push(bytes);
  else if (socket.readyState === WebSocket.OPEN) socket.send(bytes);
  tell();
}

// Moves what waits into the ring, as far as there is room.
function fill() {
  while (queue.length > 0) {
    const written = Atomics.load(header, WRITTEN);
    const room = ring.length - ((written - Atomics.load(header, READ)) >>> 0);
    if (room === 0) break;
    const bytes = queue[0].subarray(0, room);
    const start = (written >>> 0) % ring.length;
    const first = bytes.subarray(0, ring.length - start);
    ring.set(first, start);
    ring.set(bytes.subarray(first.length), 0);
    Atomics.store(header, WRITTEN, (written + bytes.length) | 0);
    if (bytes.length === queue[0].length) queue.shift();
    else queue[0] = queue[0].subarray(bytes.length);
  }
  Atomics.store(header, HAS_MORE, queue.length > 0 ? 1 : 0);
  wake();
}

function end(reason) {
  // What came before the end is still read.
  const finish = () => {
    fill();
    if (queue.length > 0) return setTimeout(finish, 20);
    Atomics.store(header, CLOSED, 1);
    wake();
    tell(true);
    self.postMessage({ closed: reason || "" });
  };
  finish();
}

function wake() {
  Atomics.add(header, BELL, 1);
  Atomics.notify(header, BELL);
}

function tell(always = false) {
  const now = performance.now();
  if (!always && now - lastTold < PAUSE) return;
  lastTold = now;
  self.postMessage({ up, down, sample });
}
