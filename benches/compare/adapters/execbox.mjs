// Execbox: `execbox runner`, a jailed child process that executes one program at a time over standard input and output.
//
// As the hosts of Execbox's library do, this one keeps idle runners, and kills a runner that has not answered 100 ms after the
// timeout. A runner that ended with the status 86 reached the memory limit in V8.
import { execFileSync, spawn } from "node:child_process";

const NAMES = ["echo", "produce", "consume", "wait"];
const MANIFEST = [{ name: "tools", tools: Object.fromEntries(NAMES.map((name) => [name, { safeName: name, originalName: name }])), types: "" }];

class Failure extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

/** A runner process. */
class Runner {
  constructor(command, args) {
    this.child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    let stderr = "";
    this.child.stderr.setEncoding("utf8").on("data", (text) => (stderr = (stderr + text).slice(-500)));
    this.pending = [];
    this.child.stdin.on("error", () => {});
    this.child.stdout.setEncoding("utf8").on("data", (text) => this.read(text));
    this.child.on("error", (error) => this.end(new Failure({ code: "runner_failed", message: error.message })));
    this.child.on("close", (status, signal) => {
      this.ended = true;
      const code = this.killed ? "timeout" : status === 86 ? "memory_limit" : "runner_ended";
      this.end(new Failure({ code, message: `the runner ended: ${stderr.trim() || (signal ?? status)}` }));
    });
  }

  execute(code, tools, { timeoutMs, memoryBytes }) {
    return new Promise((resolve, reject) => {
      this.tools = tools;
      this.settle = { resolve, reject };
      this.timer = setTimeout(() => { this.killed = true; this.child.kill("SIGKILL"); }, timeoutMs + 100);
      const options = { timeoutMs, memoryLimitBytes: memoryBytes, maxLogLines: 100, maxLogChars: 64000 };
      this.send({ type: "execute", id: "1", code, options, providers: MANIFEST });
    });
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Collects pieces of lines: a long line is joined once. */
  read(text) {
    let start = 0;
    for (let end; (end = text.indexOf("\n", start)) >= 0; start = end + 1) {
      this.pending.push(text.slice(start, end));
      this.receive(JSON.parse(this.pending.join("")));
      this.pending = [];
    }
    if (start < text.length) this.pending.push(text.slice(start));
  }

  async receive(message) {
    if (message.type === "tool_call") {
      const { callId, safeToolName, input } = message;
      try {
        this.send({ type: "tool_result", callId, ok: true, result: await this.tools[safeToolName](input) });
      } catch (error) {
        this.send({ type: "tool_result", callId, ok: false, error: { code: "tool_error", message: error.message } });
      }
    } else if (message.type === "done") {
      this.end(message.ok ? undefined : new Failure(message.error), message.result);
    }
  }

  end(error, result) {
    clearTimeout(this.timer);
    const settle = this.settle;
    this.settle = undefined;
    if (error) settle?.reject(error);
    else settle?.resolve(result);
  }
}

export function create(engine) {
  const command = engine === "v8" ? process.env.EXECBOX_V8 : process.env.EXECBOX;
  const args = engine === "v8" ? ["runner", "--engine", "v8"] : ["runner"];
  const all = new Set();
  const idle = [];
  const make = () => {
    const runner = new Runner(command, args);
    all.add(runner);
    runner.child.on("exit", () => all.delete(runner));
    return runner;
  };
  return {
    version: execFileSync(command, ["--version"], { encoding: "utf8" }).trim().replace(/^\S+ /, ""),
    async start() {
      idle.push(make());
    },
    async run(source, tools, limits) {
      let runner;
      do runner = idle.pop() ?? make();
      while (runner.ended);
      try {
        return await runner.execute(`const { ${NAMES} } = tools; ${source}`, tools, limits);
      } finally {
        if (!runner.killed) idle.push(runner);
      }
    },
    async stop() {
      for (const runner of all) runner.child.kill();
    },
  };
}
