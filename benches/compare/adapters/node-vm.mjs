// node:vm: a fresh context in this process, as a reference: node's documentation states that it is not a security mechanism. It
// has no memory limit, and its `timeout` ends with the first `await`.
import vm from "node:vm";

export function create() {
  return {
    version: process.version,
    async start() {},
    async run(source, tools, { timeoutMs }) {
      const context = vm.createContext({ ...tools, console });
      return await vm.runInContext(`(async function () { ${source} \n}).call(globalThis)`, context, { timeout: timeoutMs });
    },
    async stop() {},
  };
}
