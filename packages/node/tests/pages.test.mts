/** What the pages show: the programs of the pages and of the README print what stands below them. */

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { assert } from "./support.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const place = mkdtempSync(join(tmpdir(), "execbox-"));
mkdirSync(join(place, "node_modules"));
symlinkSync(root, join(place, "node_modules/execbox"));
for (const name of ["@cloudflare", "ai", "zod"]) {
  symlinkSync(join(root, "node_modules", name), join(place, "node_modules", name));
}
after(() => rmSync(place, { recursive: true }));

/** The pages with programs in JavaScript, and how many they run. */
const PAGES = { "node.md": 4, "node-adapters.md": 3 };

const BLOCK = /^```(\S+)(?: (\S+).*)?\n([\s\S]*?)^```$/gm;

for (const [name, count] of Object.entries(PAGES)) {
  test(`the programs of ${name} print what it shows`, () => {
    const page = readFileSync(join(process.env.EXECBOX_PAGES!, name), "utf8");
    let commands = 0;
    for (const [, language, info = "", text = ""] of page.matchAll(BLOCK)) {
      if (info.startsWith("file:")) {
        writeFileSync(join(place, info.slice("file:".length)), text);
      } else if (language === "console") {
        const [command = "", ...output] = text.split("\n");
        const shell = spawnSync("sh", ["-c", `${command.slice("$ ".length)} 2>&1`], { cwd: place, encoding: "utf8" });
        assert.equal(shell.stdout, output.join("\n"), command);
        commands += 1;
      } else {
        assert.equal(info, "not-run:", `${language} ${info}: this test does not know it`);
      }
    }
    assert.equal(commands, count);
  });
}

test("the example of the README", () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [, , , text = ""] = [...readme.matchAll(BLOCK)][0] ?? [];
  writeFileSync(join(place, "readme.mjs"), text);
  assert.equal(execFileSync(process.execPath, ["readme.mjs"], { cwd: place, encoding: "utf8" }), "1 [] undefined\n");
});
