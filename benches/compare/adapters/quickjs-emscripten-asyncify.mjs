// quickjs-emscripten with asyncify: the guest calls host functions synchronously, and WebAssembly is suspended meanwhile.
// Each program has a WebAssembly instance of its own, as the documentation recommends. Values cross as JSON texts.
import { createRequire } from "node:module";
import { newAsyncContext, shouldInterruptAfterDeadline } from "quickjs-emscripten";

export function create() {
  return {
    version: createRequire(import.meta.url)("quickjs-emscripten/package.json").version,
    async start() {},
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const vm = await newAsyncContext();
      vm.runtime.setMemoryLimit(memoryBytes);
      vm.runtime.setMaxStackSize(256 * 1024);
      vm.runtime.setInterruptHandler(shouldInterruptAfterDeadline(Date.now() + timeoutMs));
      try {
        let prelude = "";
        for (const [name, tool] of Object.entries(tools)) {
          const call = vm.newAsyncifiedFunction(name, async (input) => vm.newString(JSON.stringify(await tool(JSON.parse(vm.getString(input))))));
          call.consume((handle) => vm.setProp(vm.global, `$${name}`, handle));
          prelude += `const ${name} = (input) => JSON.parse($${name}(JSON.stringify(input)));`;
        }
        // `await` would continue in a job, where asyncify cannot suspend: calls are synchronous here.
        const code = `JSON.stringify((function () { ${prelude} ${source.replaceAll("await echo", "echo").replaceAll("await produce", "produce").replaceAll("await consume", "consume")} \n}).call(globalThis))`;
        const result = await vm.evalCodeAsync(code);
        if (result.error) {
          const { name, message } = result.error.consume(vm.dump);
          throw Object.assign(new Error(message), { name });
        }
        return JSON.parse(result.value.consume(vm.getString));
      } finally {
        try {
          vm.dispose();
        } catch {}
      }
    },
    async stop() {},
  };
}
