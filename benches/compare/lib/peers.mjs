// The peers that are measured: one entry per row of the tables.

/** Adapters for Python run in hosts/host.py, others in hosts/host.mjs. `compiles` marks peers that compile to machine code. */
export const peers = [
  { name: "execbox", label: "**Execbox**, QuickJS", adapter: "execbox", option: "quickjs", ownProcess: true, where: "jailed process" },
  { name: "execbox-v8", label: "**Execbox**, V8", adapter: "execbox", option: "v8", ownProcess: true, where: "jailed process" },
  { name: "quickjs-emscripten", label: "quickjs-emscripten", adapter: "quickjs-emscripten", where: "in node" },
  { name: "quickjs-emscripten-asyncify", label: "quickjs-emscripten, asyncify", adapter: "quickjs-emscripten-asyncify", where: "in node",
    unsupported: { "calls-at-once": "one call at a time", wait: "one call at a time", "flood-of-calls": "one call at a time", "endless-promises": "no promises" } },
  { name: "quickjs-wasi", label: "quickjs-wasi", adapter: "quickjs-wasi", where: "in node" },
  { name: "sebastianwessel-quickjs", label: "@sebastianwessel/quickjs", adapter: "sebastianwessel-quickjs", where: "in node" },
  { name: "run", label: "run (Vercel)", adapter: "run", where: "threads of node" },
  { name: "codemode", label: "@cloudflare/codemode", adapter: "codemode", compiles: true, ownProcess: true, where: "workerd" },
  { name: "isolated-vm", label: "isolated-vm", adapter: "isolated-vm", compiles: true, where: "in node" },
  { name: "node-vm", label: "node:vm (not a sandbox)", adapter: "node-vm", where: "in node" },
  { name: "mini-racer", label: "mini-racer", adapter: "mini_racer_v8", compiles: true, python: true, where: "in Python" },
  { name: "monty", label: "pydantic-monty (runs Python)", adapter: "monty", python: true, runs: "py", ownProcess: true, where: "process" },
];

/** The peers that were considered and cannot be measured on one machine. */
export const absent = [
  { label: "@vercel/sandbox", reason: "runs code in Vercel's cloud only; the package of theirs that runs code locally is `run`" },
];
