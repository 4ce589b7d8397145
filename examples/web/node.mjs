// Runs the example in node: `node node.mjs DIRECTORY`, which holds what wasm-bindgen made for node.
import { createRequire } from "node:module";
import { resolve } from "node:path";

const { run } = createRequire(import.meta.url)(resolve(process.argv[2], "tickless_web.js"));
console.log(await run() + "no sleep was early, and none was lost");
