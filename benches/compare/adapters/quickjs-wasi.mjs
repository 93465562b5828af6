// quickjs-wasi: QuickJS in WebAssembly in this process; a fresh WebAssembly instance for each program, of a module that is compiled once.
// Values cross as JSON texts.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { QuickJS } from "quickjs-wasi";

class Timeout extends Error {
  code = "timeout (by the adapter)";
}

export function create() {
  let module;
  return {
    version: createRequire(import.meta.url)("../node_modules/quickjs-wasi/package.json").version,
    async start() {
      module = await WebAssembly.compile(await readFile(new URL(import.meta.resolve("quickjs-wasi/quickjs.wasm"))));
    },
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const deadline = Date.now() + timeoutMs;
      const vm = await QuickJS.create({ wasm: module, memoryLimit: memoryBytes, interruptHandler: () => Date.now() > deadline });
      let failed, timer, ended = false;
      const failure = new Promise((_, reject) => (failed = reject));
      failure.catch(() => {});
      const proceed = () => {
        try {
          vm.executePendingJobs();
        } catch (error) {
          failed(error);
        }
      };
      try {
        let prelude = "";
        for (const [name, tool] of Object.entries(tools)) {
          const call = vm.newFunction(name, (input) => {
            const deferred = vm.newPromise();
            tool(JSON.parse(input.toString())).then((answer) => {
              if (ended) return;
              deferred.resolve(vm.newString(JSON.stringify(answer)));
              proceed();
            });
            return deferred.handle;
          });
          vm.setProp(vm.global, `$${name}`, call);
          call.dispose();
          prelude += `const ${name} = async (input) => JSON.parse(await $${name}(JSON.stringify(input)));`;
        }
        const promise = vm.evalCode(`(async function () { ${prelude} ${source} \n}).call(globalThis).then(JSON.stringify)`);
        const settled = vm.resolvePromise(promise);
        proceed();
        const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Timeout("the program has not ended")), timeoutMs + 100)));
        const result = await Promise.race([settled, failure, late]);
        if ("error" in result) {
          const message = result.error.getProp("message").toString();
          throw Object.assign(new Error(message), { name: result.error.getProp("name").toString() });
        }
        return JSON.parse(result.value.toString());
      } finally {
        clearTimeout(timer);
        ended = true;
        vm.dispose();
      }
    },
    async stop() {},
  };
}
