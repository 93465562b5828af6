// run, Vercel's package: QuickJS in WebAssembly in worker threads of this process; a fresh context for each program.
// Its limits on the number and the sizes of calls are raised so that the work fits; those on time and memory are those of the benchmark.
import { createRequire } from "node:module";
import { createRunner } from "run";

export function create() {
  return {
    version: createRequire(import.meta.url)("../node_modules/run/package.json").version,
    async start() {},
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const size = 16 * 1024 * 1024;
      const runner = createRunner({
        limits: {
          timeoutMs, memoryLimitBytes: memoryBytes, maxResultBytes: size, maxBridgeRequests: 2000, maxInFlightBridgeRequests: 1000,
          maxHostFunctionArgumentsBytes: size, maxHostFunctionOutputBytes: size,
        },
      });
      const { value } = await runner.run({ source: `const { ${Object.keys(tools)} } = tools; ${source}`, hostFunctions: { tools: { ...tools } } });
      return value;
    },
    async stop() {},
  };
}
