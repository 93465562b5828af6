// A process that runs hosts/host.mjs or hosts/host.py with a peer. The process may block, die, or write anything: a command
// ends then.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

const all = new Set();
process.on("exit", () => all.forEach((host) => host.kill()));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(130));

/** The error of a process that ended, or did not answer in time. */
export class HostFailed extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind; // "died", "silent"
  }
}

export class Host {
  /** Starts the process. With `beatMs`, the process sends beats at this interval to show that it is not blocked. */
  constructor(command, args, { cwd, env, beatMs }) {
    const environment = { ...process.env, ...env, ...(beatMs ? { PEERS_BEAT: String(beatMs) } : {}) };
    this.child = spawn(command, args, { cwd, env: environment, detached: true, stdio: ["pipe", "ignore", "pipe", "pipe"] });
    this.stderr = "";
    this.lastBeat = performance.now();
    this.pending = [];
    this.child.stdin.on("error", () => {});
    this.child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr = (this.stderr + text).slice(-4000)));
    this.child.stdio[3].setEncoding("utf8").on("data", (text) => this.#read(text));
    this.child.stdio[3].on("error", () => {});
    this.child.on("error", (error) => this.#fail(new HostFailed("died", error.message)));
    this.child.on("exit", (status, signal) => {
      this.ended = true;
      this.#fail(new HostFailed("died", String(signal ?? `exit code ${status}`)));
    });
    all.add(this);
  }

  /** Sends a command and returns the reply. */
  ask(command, details, timeoutMs) {
    if (this.ended) return Promise.reject(new HostFailed("died", "the process has ended"));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail(new HostFailed("silent", `no answer within ${timeoutMs} ms`)), timeoutMs);
      this.settle = { resolve, reject, timer };
      this.id = (this.id ?? 0) + 1;
      this.child.stdin.write(`${JSON.stringify({ id: this.id, command, ...details })}\n`);
    });
  }

  /** Kills the process, its group, and its descendants in other groups. */
  kill() {
    all.delete(this);
    if (!this.child.pid) return;
    const descendants = this.ended ? [] : tree(this.child.pid);
    for (const pid of [-this.child.pid, ...descendants]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {}
    }
  }

  #read(text) {
    let start = 0;
    for (let end; (end = text.indexOf("\n", start)) >= 0; start = end + 1) {
      this.pending.push(text.slice(start, end));
      const line = this.pending.join("");
      this.pending = [];
      let message;
      try {
        message = JSON.parse(line);
      } catch {
        continue; // a guest has written to the descriptor
      }
      if (message?.beat) this.lastBeat = performance.now();
      else if (message?.id === this.id) this.#settle((settle) => settle.resolve(message));
    }
    if (start < text.length) this.pending.push(text.slice(start));
  }

  #fail(error) {
    this.#settle((settle) => settle.reject(error));
  }

  #settle(how) {
    const settle = this.settle;
    this.settle = undefined;
    clearTimeout(settle?.timer);
    if (settle) how(settle);
  }
}

/** A process and its descendants. */
export function tree(pid) {
  const children = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = /\) \S (\d+)/.exec(read(`/proc/${name}/stat`))?.[1];
    if (parent) children.set(parent, [...(children.get(parent) ?? []), name]);
  }
  const found = [String(pid)];
  for (let i = 0; i < found.length; i++) found.push(...(children.get(found[i]) ?? []));
  return found.map(Number);
}

/** Resident memory of a process and its descendants, in MiB. */
export function resident(pid) {
  return tree(pid).reduce((sum, each) => sum + kilobytes(`/proc/${each}/status`, "VmRSS"), 0) / 1024;
}

/** The memory of a process and its descendants, in MiB, where pages that processes share count once. */
export function proportional(pid) {
  return tree(pid).reduce((sum, each) => sum + kilobytes(`/proc/${each}/smaps_rollup`, "Pss"), 0) / 1024;
}

function kilobytes(path, field) {
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(read(path))?.[1] ?? 0);
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // the process has ended
  }
}
