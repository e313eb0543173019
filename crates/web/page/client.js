"use strict";

// The worker in which the client computes. It may wait: for bytes of the server it sleeps until socket.js rings.

// Places in the shared header; socket.js has the same.
const BELL = 0, WRITTEN = 1, READ = 2, CLOSED = 3, HAS_MORE = 4;
const HEADER_BYTES = 32;
// How long the server may be silent, in milliseconds.
const SILENCE = 60_000;
// As many random bytes as a browser gives at once.
const RANDOM_BYTES = 65_536;

let header, ring, port, exports;

self.onmessage = ({ data }) => (data.start ? start(data.start) : ask(data));

function start({ module, shared, socket }) {
  header = new Int32Array(shared, 0, HEADER_BYTES / 4);
  ring = new Uint8Array(shared, HEADER_BYTES);
  port = socket;
  const page = {
    receive,
    send,
    random,
    now: () => performance.now(),
    tell: (start, length) => self.postMessage({ event: JSON.parse(text(start, length)) }),
  };
  exports = new WebAssembly.Instance(module, { page }).exports;
}

function ask({ number, question, bytes }) {
  const start = performance.now();
  try {
    const given = new Uint8Array(bytes ?? 0);
    const place = exports.input(given.length);
    memory(place, given.length).set(given);
    const length = exports.ask(question);
    const reply = JSON.parse(text(exports.reply(), length));
    self.postMessage({ number, reply, milliseconds: performance.now() - start });
  } catch (error) {
    const reply = { error: { kind: "crashed", text: String(error) } };
    self.postMessage({ number, reply, milliseconds: performance.now() - start });
  }
}

// Memory moves when it grows: every look at it is a fresh one.
function memory(start, length) {
  return new Uint8Array(exports.memory.buffer, start, length);
}

function text(start, length) {
  return new TextDecoder().decode(memory(start, length));
}

function receive(place, length) {
  for (;;) {
    const bell = Atomics.load(header, BELL);
    const read = Atomics.load(header, READ);
    const there = (Atomics.load(header, WRITTEN) - read) >>> 0;
    if (there > 0) {
      const count = Math.min(there, length);
      const start = (read >>> 0) % ring.length;
      const first = Math.min(count, ring.length - start);
      const target = memory(place, count);
      target.set(ring.subarray(start, start + first));
      target.set(ring.subarray(0, count - first), first);
      Atomics.store(header, READ, (read + count) | 0);
      if (Atomics.load(header, HAS_MORE) && there - count < ring.length / 2) port.postMessage("more");
      return count;
    }
    if (Atomics.load(header, CLOSED)) return 0;
    if (Atomics.wait(header, BELL, bell, SILENCE) === "timed-out") return -1;
  }
}

function send(start, length) {
  if (Atomics.load(header, CLOSED)) return -1;
  const bytes = memory(start, length).slice();
  port.postMessage(bytes, [bytes.buffer]);
  return 0;
}

function random(place, length) {
  for (let done = 0; done < length; done += RANDOM_BYTES) {
    crypto.getRandomValues(memory(place + done, Math.min(RANDOM_BYTES, length - done)));
  }
}
