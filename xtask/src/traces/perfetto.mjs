// Reads a trace with Perfetto's own reader, and prints what queries find in it:
// `node perfetto.mjs DIRECTORY TRACE QUERY...` prints one line for each query, a JSON list of the values of its rows.
//
// DIRECTORY has `engine_bundle.js` and the WebAssembly of a release of Perfetto's page. There a worker runs it; here the
// script gets what it expects to find in one. It talks the protocol of Perfetto's `trace_processor.proto`: a stream of
// messages, of which a few fields are written and read by hand below.
import { readFileSync } from "node:fs";

const [directory, trace, ...queries] = process.argv.slice(2);
const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;

const varint = (value) => {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
};
const number = (field, value) => Buffer.from([...varint(field << 3), ...varint(value)]);
const bytes = (field, value) => {
  const content = Buffer.from(value);
  return Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(content.length)]), content]);
};

// The fields of a message: each its number and its value, a BigInt, a Number or bytes.
function* fields(message) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  while (at < message.length) {
    const tag = Number(read());
    const kind = tag & 7;
    if (kind === 0) yield [tag >> 3, read()];
    else if (kind === 1) yield [tag >> 3, view.getFloat64((at += 8) - 8, true)];
    else if (kind === 2) {
      const length = Number(read());
      yield [tag >> 3, message.subarray(at, (at += length))];
    } else throw new Error(`a field of an unknown kind ${kind}`);
  }
}
function* varints(packed) {
  let value = 0n;
  let shift = 0n;
  for (const byte of packed) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      yield Number(BigInt.asIntN(64, value));
      value = shift = 0n;
    }
  }
}

// The cells of a result, as they come.
function* cells(batch) {
  const of = { kinds: [], numbers: [], floats: [], texts: [] };
  for (const [field, value] of fields(batch)) {
    if (field === 1) of.kinds.push(...varints(value));
    else if (field === 2) of.numbers.push(...varints(value));
    else if (field === 3) for (let at = 0; at < value.length; at += 8) of.floats.push(value.readDoubleLE(at));
    else if (field === 5) of.texts.push(...value.toString().split("\0"));
  }
  for (const kind of of.kinds) {
    if (kind === 1) yield null;
    else if (kind === 2) yield of.numbers.shift();
    else if (kind === 3) yield of.floats.shift();
    else if (kind === 4) yield of.texts.shift();
    else throw new Error(`a cell of an unknown kind ${kind}`);
  }
}

// What a worker of a page has: its place, and a way to fetch the program.
class XMLHttpRequest {
  open(_, name) { this.name = name; }
  send() { this.response = new Uint8Array(readFileSync(`${directory}/${this.name}`)).buffer; }
}
const self = { location: { href: "https://localhost/" } };
const quiet = { ...console, log() {}, warn() {} };
const script = readFileSync(`${directory}/engine_bundle.js`, "utf8");
const worker = new Function("self", "process", "WorkerGlobalScope", "XMLHttpRequest", "console", script);
worker(self, undefined, Object, XMLHttpRequest, quiet);
// Its answers come before the call that asks returns.
const answers = [];
const port = {
  postMessage(data) {
    for (const [field, message] of fields(Buffer.from(data))) if (field === 1) answers.push(message);
  },
};
self.onmessage({ data: port });
// It takes its buffer a moment after it was compiled.
await new Promise((resolve) => setImmediate(resolve));

let sequence = 0;
const ask = (kind, argument = Buffer.alloc(0)) => {
  const message = Buffer.concat([number(1, ++sequence), number(2, kind), argument]);
  port.onmessage({ data: new Uint8Array(bytes(1, message)) });
};
const failed = (message) => {
  for (const [field, value] of fields(message)) {
    if (field === 5 || (field === 4 && typeof value !== "bigint")) throw new Error(value.toString());
    if (field === 201) for (const [inner, text] of fields(value)) if (inner === 2) throw new Error(text.toString());
  }
};

const loaded = (kind, argument) => {
  ask(kind, argument);
  for (const message of answers.splice(0)) failed(message);
};

loaded(APPEND, bytes(101, readFileSync(trace)));
loaded(FINALIZE);
for (const query of queries) {
  ask(QUERY, bytes(103, bytes(1, query)));
  const row = [];
  for (const message of answers.splice(0)) {
    failed(message);
    for (const [field, result] of fields(message)) {
      if (field !== 203) continue;
      for (const [inner, value] of fields(result)) {
        if (inner === 2) throw new Error(`${query}: ${value}`);
        if (inner === 3) row.push(...cells(value));
      }
    }
  }
  console.log(JSON.stringify(row));
}
