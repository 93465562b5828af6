// @sebastianwessel/quickjs: QuickJS in WebAssembly in this process, with parts of node's modules. Host functions are given by `env`.
import { createRequire } from "node:module";
import variant from "@jitl/quickjs-ng-wasmfile-release-sync";
import { loadQuickJs } from "@sebastianwessel/quickjs";

export function create() {
  let runSandboxed;
  return {
    version: createRequire(import.meta.url)("../node_modules/@sebastianwessel/quickjs/package.json").version,
    async start() {
      ({ runSandboxed } = await loadQuickJs(variant));
    },
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const code = `export default await (async function () { const { ${Object.keys(tools)} } = env; ${source} \n}).call(globalThis)`;
      const options = { executionTimeout: timeoutMs, memoryLimit: memoryBytes, maxStackSize: 512 * 1024, env: { ...tools } };
      const { ok, data, error } = await runSandboxed(({ evalCode }) => evalCode(code), options);
      if (!ok) throw Object.assign(new Error(error.message), { name: error.name });
      return data;
    },
    async stop() {},
  };
}
