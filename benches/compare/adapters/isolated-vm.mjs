// isolated-vm: an isolate of V8 of its own for each program, in this process.
//
// `timeout` ends code that runs without a pause; code after an `await` is ended by disposing of the isolate.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

class Timeout extends Error {
  code = "timeout (by the adapter)";
}

export function create() {
  const ivm = require("isolated-vm");
  return {
    version: require("isolated-vm/package.json").version,
    async start() {},
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const isolate = new ivm.Isolate({ memoryLimit: memoryBytes / 1024 / 1024 });
      let timer;
      try {
        const context = await isolate.createContext();
        let prelude = "";
        for (const [name, tool] of Object.entries(tools)) {
          await context.global.set(`$${name}`, new ivm.Reference(tool));
          prelude += `const ${name} = (input) => $${name}.apply(undefined, [input], { arguments: { copy: true }, result: { promise: true, copy: true } });`;
        }
        const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Timeout("the program has not ended")), timeoutMs + 100)));
        const program = context.eval(`(async function () { ${prelude} ${source} }).call(globalThis)`, { promise: true, copy: true, timeout: timeoutMs });
        program.catch(() => {});
        return await Promise.race([program, late]);
      } finally {
        clearTimeout(timer);
        if (!isolate.isDisposed) isolate.dispose();
      }
    },
    async stop() {},
  };
}
