/** What the pages show: the programs of the pages, of the README and of the examples print what stands below them. */

import { execFile, execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { assert } from "./support.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const pages = process.env.EXECBOX_PAGES!;
const examples = join(pages, "../examples/node");

/** A directory with packages. */
function project(packages: string[]): string {
  const place = mkdtempSync(join(tmpdir(), "execbox-"));
  after(() => rmSync(place, { recursive: true }));
  for (const name of packages) {
    const link = join(place, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(name === "execbox" ? root : join(root, "node_modules", name), link);
  }
  return place;
}

const BLOCK = /^```(\S+)(?: (\S+).*)?\n([\s\S]*?)^```$/gm;

/** Runs the commands of a page, and compares what they print; `...` stands for any text. */
function check(page: string, place: string, count: number): void {
  let commands = 0;
  for (const [, language, info = "", text = ""] of readFileSync(page, "utf8").matchAll(BLOCK)) {
    if (info.startsWith("file:")) {
      writeFileSync(join(place, info.slice("file:".length)), text);
    } else if (language === "console") {
      const [command = "", ...output] = text.split("\n");
      const shell = spawnSync("sh", ["-c", `${command.slice("$ ".length)} 2>&1`], { cwd: place, encoding: "utf8" });
      const [before = "", ...rest] = output.join("\n").split("...");
      const end = rest.join("...");
      const matches = rest.length > 0 && shell.stdout.startsWith(before) && shell.stdout.endsWith(end);
      if (!matches) assert.equal(shell.stdout, output.join("\n"), command);
      commands += 1;
    } else {
      assert.equal(info, "not-run:", `${language} ${info}: this test does not know it`);
    }
  }
  assert.equal(commands, count);
}

const place = project(["execbox", "@cloudflare", "ai", "zod"]);

for (const [name, count] of Object.entries({ "node.md": 4, "node-adapters.md": 3 })) {
  test(`the programs of ${name} print what it shows`, () => check(join(pages, name), place, count));
}

test("the example of the README", () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, , , text = ""] = [...readme.matchAll(BLOCK)][0] ?? [];
  writeFileSync(join(place, "readme.mjs"), text);
  assert.equal(execFileSync(process.execPath, ["readme.mjs"], { cwd: place, encoding: "utf8" }), "1 [] undefined\n");
});

const { dependencies } = JSON.parse(readFileSync(join(examples, "package.json"), "utf8"));
const copied = project(Object.keys(dependencies));
cpSync(examples, copied, { recursive: true, filter: (path) => !path.includes("node_modules") });

test("the examples print what their page shows", () => check(join(examples, "README.md"), copied, 5));

test("the examples need the versions that are tested", () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const [name, version] of Object.entries(dependencies)) {
    assert.equal(version, name === "execbox" ? "*" : `^${devDependencies[name]}`, name);
  }
});

test("the agent of the examples asks a model at a URL", async () => {
  const requests: unknown[] = [];
  const server = createServer(async (request, response) => {
    const { model, messages, tools } = JSON.parse(Buffer.concat(await request.toArray()).toString());
    requests.push([request.url, request.headers.authorization, model]);
    const { role, content } = messages.at(-1);
    const call = {
      name: tools[0].function.name,
      arguments: JSON.stringify({ code: "(await shop.getCustomer({ id: 2 })).name" }),
    };
    const tool_calls = [
      { id: "1", type: "function", function: call },
      { id: "2", type: "function", function: { arguments: "{" } },
    ];
    const last = { role: "assistant", content: `it says: ${content}` };
    const message = role === "tool" ? last : { role: "assistant", tool_calls };
    response.end(JSON.stringify({ choices: [{ message }] }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const env = { ...process.env, OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1/`, OPENAI_API_KEY: "key" };
  const { stdout } = await promisify(execFile)(process.execPath, ["agent.mjs", "--model", "a-model"], {
    cwd: copied,
    env,
  });
  server.close();
  server.closeAllConnections();
  assert.match(stdout, /--- and reads\nLin Wei\n--- the answer\nit says: The arguments must be a JSON object/);
  assert.deepEqual(requests, Array(2).fill(["/v1/chat/completions", "Bearer key", "a-model"]));
});
