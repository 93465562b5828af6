// @cloudflare/codemode in workerd: a process of Cloudflare's runtime, in which a Worker (codemode-worker.mjs) executes each program
// in a fresh dynamic Worker. The tools are in that Worker, where a user of codemode has them; only `wait` comes back to this process.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, "../node_modules");
const versionOf = (name) => JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;

export function create() {
  let child, address, back, directory;
  let tools = {};
  return {
    version: `${versionOf("@cloudflare/codemode")}, workerd ${versionOf("@cloudflare/workerd-linux-64")}`,
    async start() {
      back = createServer((_request, response) => tools.wait(1).then((answer) => response.end(JSON.stringify(answer))));
      await new Promise((resolve) => back.listen(0, "127.0.0.1", resolve));
      directory = mkdtempSync(join(tmpdir(), "codemode-"));
      writeFileSync(join(directory, "config.capnp"), configuration(back.address().port));
      const arguments_ = ["serve", "--experimental", "--control-fd=3", "--import-path=/", join(directory, "config.capnp")];
      child = spawn(join(modules, "@cloudflare/workerd-linux-64/bin/workerd"), arguments_, { stdio: ["ignore", "ignore", process.env.PEERS_DEBUG ? "inherit" : "ignore", "pipe"] });
      address = await new Promise((resolve, reject) => {
        let text = "";
        child.stdio[3].setEncoding("utf8").on("data", (more) => {
          text += more;
          const port = /"event":"listen","socket":"http","port":(\d+)/.exec(text)?.[1];
          if (port) resolve(`http://127.0.0.1:${port}/`);
        });
        child.on("exit", (status, signal) => reject(new Error(`workerd ended: ${signal ?? status}`)));
      });
    },
    async run(source, given, { timeoutMs }) {
      tools = given;
      const body = JSON.stringify({ source, timeoutMs });
      const { result, error } = await (await fetch(address, { method: "POST", body })).json();
      if (error !== undefined) throw Object.assign(new Error(error), { name: /^(\w*Error|Execution timed out)/.exec(error)?.[0] ?? "Error" });
      return result;
    },
    async stop() {
      back?.close();
      child?.kill("SIGKILL");
      if (directory) rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The configuration of workerd: the Worker, codemode's modules as they are in its package, and this process as a service. */
function configuration(port) {
  const files = [["worker", join(here, "codemode-worker.mjs")], ["@cloudflare/acorn", join(modules, "acorn/dist/acorn.mjs")]];
  const dist = join(modules, "@cloudflare/codemode/dist");
  const collect = (name) => {
    if (files.some(([, file]) => file === join(dist, name))) return;
    files.push([name === "index.js" ? "@cloudflare/codemode" : `@cloudflare/${name}`, join(dist, name)]);
    for (const [, other] of readFileSync(join(dist, name), "utf8").matchAll(/from "\.\/([^"]+)"/g)) collect(other);
  };
  collect("index.js");
  const list = files.map(([name, file]) => `(name = ${JSON.stringify(name)}, esModule = embed ${JSON.stringify(file)})`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "back", external = (address = "127.0.0.1:${port}", http = ()))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [${list.join(",\n    ")}],
  compatibilityDate = "2026-06-01",
  bindings = [(name = "LOADER", workerLoader = ()), (name = "BACK", service = "back")],
);
`;
}
