/** The `execbox` binary that this package starts. */

import { accessSync, closeSync, constants, existsSync, openSync, readSync, statSync } from "node:fs";
import { delimiter, join, sep } from "node:path";

import { BinaryNotFoundError } from "./errors.js";

const VARIABLE = "EXECBOX_BIN";

/** The path of the binary: `$EXECBOX_BIN`, that of the package for this platform, or the one on the `PATH`. */
export function findBinary(): string {
  const chosen = process.env[VARIABLE];
  if (chosen) {
    const found = onPath(chosen);
    if (found) return found;
    throw new BinaryNotFoundError(`${VARIABLE} is "${chosen}", which is not a program; correct it, or unset it`);
  }
  const packages = platformPackages();
  const found = packages.map(binaryOf).find((path) => path !== undefined) ?? onPath("execbox");
  if (found) return found;
  throw new BinaryNotFoundError(
    `there is no binary for ${process.platform} on ${process.arch}: the package ${packages[0]} is not installed, which the ` +
      `package execbox depends on where it exists, and there is no execbox on the PATH; install without \`--omit=optional\`, or ` +
      `build it with \`cargo install execbox-cli\`, and set ${VARIABLE} to its path if it is elsewhere`,
  );
}

/** The packages whose binaries run here, the most likely one first: one that needs musl runs with glibc, too. */
function platformPackages(): string[] {
  const name = `@execbox/${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return [name];
  const machine = { x64: "x86_64", arm64: "aarch64" }[process.arch as string];
  return existsSync(`/lib/ld-musl-${machine}.so.1`) ? [`${name}-musl`, name] : [name, `${name}-musl`];
}

function binaryOf(packageName: string): string | undefined {
  try {
    return require.resolve(`${packageName}/execbox`);
  } catch {
    return undefined;
  }
}

function onPath(name: string): string | undefined {
  const folders = name.includes(sep) ? [""] : (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

/** Whether it can be started, and is no script: npm puts one that starts this package on the `PATH`. */
function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile() && (process.env[VARIABLE] === path || !isNodeScript(path));
  } catch {
    return false;
  }
}

function isNodeScript(path: string): boolean {
  const head = Buffer.alloc(64);
  const file = openSync(path, "r");
  try {
    const line = head.toString("latin1", 0, readSync(file, head)).split("\n", 1)[0]!;
    return line.startsWith("#!") && line.includes("node");
  } finally {
    closeSync(file);
  }
}
