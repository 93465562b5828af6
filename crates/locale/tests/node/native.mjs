// Runs `src/intl.js` in node with the Rust functions: `lines` (examples/lines.rs) answers over two named pipes.
import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function start(lines) {
  const folder = mkdtempSync(join(tmpdir(), "locale-"));
  const [requests, answers] = [join(folder, "requests"), join(folder, "answers")];
  execFileSync("mkfifo", [requests, answers]);
  const child = spawn("sh", ["-c", 'exec "$0" < "$1" > "$2"', lines, requests, answers], { stdio: ["ignore", "ignore", "inherit"] });
  const input = openSync(requests, "w");
  const output = openSync(answers, "r");
  const buffer = Buffer.alloc(1 << 20);
  const call = (...request) => {
    writeSync(input, `${JSON.stringify(request)}\n`);
    let text = "";
    do {
      text += buffer.toString("utf8", 0, readSync(output, buffer));
    } while (!text.endsWith("\n"));
    const answer = JSON.parse(text);
    if ("error" in answer) throw new RangeError(answer.error);
    return answer.value;
  };
  const stop = () => {
    closeSync(input);
    closeSync(output);
    child.kill();
    rmSync(folder, { recursive: true });
  };
  return { call, stop };
}

export function intl(call) {
  const source = readFileSync(new URL("../../src/intl.js", import.meta.url), "utf8");
  return (0, eval)(source)(call, () => undefined);
}
