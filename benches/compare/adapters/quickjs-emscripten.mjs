// quickjs-emscripten: QuickJS in WebAssembly in this process; a fresh runtime for each program in one WebAssembly instance.
// Host functions return promises of QuickJS. Values cross as JSON texts, which is faster than `dump` and handles.
import { getQuickJS, shouldInterruptAfterDeadline } from "quickjs-emscripten";
import { createRequire } from "node:module";

class Failure extends Error {
  constructor({ name, message }) {
    super(message);
    this.name = name;
  }
}

export function create() {
  let quickjs;
  return {
    version: createRequire(import.meta.url)("quickjs-emscripten/package.json").version,
    async start() {
      quickjs = await getQuickJS();
    },
    async run(source, tools, { timeoutMs, memoryBytes }) {
      const runtime = quickjs.newRuntime();
      const deadline = Date.now() + timeoutMs;
      runtime.setMemoryLimit(memoryBytes);
      runtime.setMaxStackSize(512 * 1024);
      runtime.setInterruptHandler(shouldInterruptAfterDeadline(deadline));
      const vm = runtime.newContext();
      let failed;
      const failure = new Promise((_, reject) => (failed = reject));
      failure.catch(() => {});
      const proceed = () => {
        if (!vm.alive) return;
        const jobs = runtime.executePendingJobs();
        if (jobs.error) failed(new Failure(jobs.error.consume(vm.dump)));
      };
      let timer;
      try {
        let prelude = "";
        for (const [name, tool] of Object.entries(tools)) {
          const call = vm.newFunction(name, (input) => {
            const deferred = vm.newPromise();
            tool(JSON.parse(vm.getString(input))).then((answer) => {
              if (!vm.alive) return;
              vm.newString(JSON.stringify(answer)).consume((handle) => deferred.resolve(handle));
              proceed();
            });
            return deferred.handle;
          });
          call.consume((handle) => vm.setProp(vm.global, `$${name}`, handle));
          prelude += `const ${name} = async (input) => JSON.parse(await $${name}(JSON.stringify(input)));`;
        }
        const started = vm.evalCode(`(async function () { ${prelude} ${source} \n}).call(globalThis).then(JSON.stringify)`);
        if (started.error) throw new Failure(started.error.consume(vm.dump));
        const promise = started.value;
        const settled = promise.consume((handle) => vm.resolvePromise(handle));
        proceed();
        const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Failure({ name: "timeout (by the adapter)", message: "the program has not ended" })), timeoutMs + 100)));
        const result = await Promise.race([settled, failure, late]);
        if (result.error) throw new Failure(result.error.consume(vm.dump));
        return JSON.parse(result.value.consume(vm.getString));
      } finally {
        clearTimeout(timer);
        release(vm, runtime);
      }
    },
    async stop() {},
  };
}

/** Disposing of a runtime with live handles aborts debug builds only; their memory then stays in the WebAssembly instance. */
function release(vm, runtime) {
  try {
    vm.dispose();
    runtime.dispose();
  } catch {}
}
