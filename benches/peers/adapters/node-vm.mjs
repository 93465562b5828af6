// node:vm: a fresh context in this process. The documentation of node says that it is not a security mechanism; it stands here as
// a reference. It has no limit of memory, and its `timeout` ends with the first `await`.
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
