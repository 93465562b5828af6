// The Worker of codemode.mjs: executes the program of each request by codemode's executor.
import { DynamicWorkerExecutor } from "@cloudflare/codemode";

export default {
  async fetch(request, env) {
    const { source, timeoutMs } = await request.json();
    const executor = new DynamicWorkerExecutor({ loader: env.LOADER, timeout: timeoutMs });
    const tools = {
      echo: async (input) => input,
      produce: async (count) =>
        Array.from({ length: count }, (_, i) => ({ id: i, name: `item ${i}`, values: [i, i * 2, i * 3], even: i % 2 === 0 })),
      consume: async (rows) => rows.length + rows.at(-1).id,
      wait: async () => (await env.BACK.fetch("http://back/")).json(),
    };
    const code = `async () => { const { ${Object.keys(tools)} } = codemode; ${source} \n}`;
    return Response.json(await executor.execute(code, [{ name: "codemode", fns: tools }]));
  },
};
