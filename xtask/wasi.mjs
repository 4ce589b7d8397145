// Runs a program for wasm32-wasip1 in node: `node --no-warnings wasi.mjs PROGRAM`.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", args: [], env: {}, returnOnExit: true });
const program = await WebAssembly.compile(await readFile(process.argv[2]));
const instance = await WebAssembly.instantiate(program, wasi.getImportObject());
process.exit(wasi.start(instance));
