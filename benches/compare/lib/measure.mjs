// The time and memory of the work on each peer, in alternating rounds: each peer runs a program once, then the next program.
import { HostFailed, proportional } from "./host.mjs";
import { resultOf, source, work, workLimits } from "./work.mjs";

const WARM_UPS = 2; // not counted, but their results are verified, too
const SLOW_MS = 2000; // a program that takes longer is measured once
const PAUSE_MS = 20; // between programs, for work that a peer does in advance
const SECONDS = 1; // of sequential runs, in each of THROUGHPUT_ROUNDS
const THROUGHPUT_ROUNDS = 3;
const COLD_STARTS = 5;
const HELD = 9; // sandboxes at once
const MAX_FAILURES = 3; // of the process of a peer, which is then not measured further

const language = ({ peer }) => peer.runs ?? "js";

/** Starts the hosts of the peers. Returns those that run, and functions that send a command to one, read its memory in MiB, and end all. */
export async function start(subjects, rows, { report }) {
  const hosts = new Map();
  for (const { peer, launch } of subjects) {
    const row = rows[peer.name];
    if (row.failure) continue;
    try {
      hosts.set(peer.name, await launch());
      const trial = { source: source("one-plus-one", peer.runs ?? "js"), limits: workLimits };
      const { error } = await hosts.get(peer.name).ask("run", trial, 20_000);
      if (error) throw new Error(error.message);
      row.version = hosts.get(peer.name).version;
    } catch (error) {
      row.failure = error.message.slice(0, 160);
      hosts.get(peer.name)?.kill();
      hosts.delete(peer.name);
      report(`${peer.name}: not measured: ${error.message}`);
    }
  }
  const running = subjects.filter(({ peer }) => hosts.has(peer.name));

  const failures = new Map();

  /** Sends a command to the host of a peer; starts another host after a failure. */
  const ask = async ({ peer, launch }, command, details, timeoutMs) => {
    if (failures.get(peer.name) >= MAX_FAILURES) throw new Error("given up: its process failed too often");
    try {
      const reply = await hosts.get(peer.name).ask(command, { limits: workLimits, ...details }, timeoutMs);
      if (reply.error) throw Object.assign(new Error(`${reply.error.label}: ${reply.error.message}`.slice(0, 120)), { ms: reply.ms });
      return reply;
    } catch (error) {
      if (error instanceof HostFailed) {
        failures.set(peer.name, (failures.get(peer.name) ?? 0) + 1);
        hosts.get(peer.name).kill();
        hosts.set(peer.name, await launch());
      }
      throw error;
    }
  };
  const memory = ({ peer }) => proportional(hosts.get(peer.name).child.pid);
  const stop = () => hosts.forEach((host) => host.kill());
  return { running, ask, memory, stop };
}

/** Times programs, `{ name, sourceIn(language) }`, in rounds, and writes the times to `rows`. */
export async function time({ running, ask }, rows, programs, { rounds, report }) {
  for (const { name, sourceIn } of programs) {
    report(`work: ${name}`);
    const wanted = JSON.stringify(await resultOf(sourceIn("js")));
    const times = new Map();
    for (const { peer } of running) {
      const reason = peer.unsupported?.[name];
      if (reason) rows[peer.name].work[name] = { unsupported: reason };
      else times.set(peer.name, []);
    }
    for (let round = -WARM_UPS; round < rounds; round++) {
      for (const subject of round % 2 ? running.toReversed() : running) {
        const { peer } = subject;
        const mine = times.get(peer.name);
        if (!mine || mine.done) continue;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        try {
          const { ms, result } = await ask(subject, "run", { source: sourceIn(language(subject)) }, workLimits.timeoutMs + 5000);
          if (JSON.stringify(result) !== wanted) throw new Error("the result is wrong");
          if (ms > SLOW_MS) mine.done = true;
          if (round >= 0 || mine.done) mine.push(ms);
        } catch (error) {
          mine.done = true;
          mine.failure = error.ms >= workLimits.timeoutMs || error.kind === "silent" ? `> ${workLimits.timeoutMs / 1000} s` : error.message;
          report(`${peer.name}: ${name}: ${error.message}`);
        }
      }
    }
    for (const [peer, mine] of times) rows[peer].work[name] = mine.failure ? { failure: mine.failure } : summary(mine);
  }
}

export async function measure(subjects, rows, { rounds, report }) {
  const hosts = await start(subjects, rows, { report });
  const { running, ask, memory } = hosts;
  await time(hosts, rows, work.map(({ name }) => ({ name, sourceIn: (language) => source(name, language) })), { rounds, report });

  const one = (subject) => source("one-plus-one", language(subject));
  const collect = async (name, count, sample) => {
    report(`work: ${name}`);
    const samples = new Map(running.map(({ peer }) => [peer.name, []]));
    for (let round = 0; round < count; round++) {
      for (const subject of running) {
        const mine = samples.get(subject.peer.name);
        const reason = subject.peer.unsupported?.[name];
        if (reason) rows[subject.peer.name].work[name] = { unsupported: reason };
        if (reason || mine.failure) continue;
        try {
          mine.push(await sample(subject));
        } catch (error) {
          mine.failure = error.message;
          report(`${subject.peer.name}: ${name}: ${error.message}`);
        }
      }
    }
    for (const [peer, mine] of samples) rows[peer].work[name] ??= mine.failure ? { failure: mine.failure } : summary(mine);
  };

  await collect("per-second", THROUGHPUT_ROUNDS, async (subject) => {
    return (await ask(subject, "count", { source: one(subject), seconds: SECONDS }, 30_000)).perSecond;
  });
  await collect("cold-start", COLD_STARTS, async (subject) => {
    if (subject.peer.ownProcess) return (await ask(subject, "cold", { source: one(subject) }, 30_000)).ms;
    const started = performance.now();
    const host = await subject.launch();
    try {
      await host.ask("run", { source: one(subject), limits: workLimits }, 30_000);
      return performance.now() - started;
    } finally {
      host.kill();
    }
  });
  await collect("wait", 1, async (subject) => {
    const held = async (count) => {
      await ask(subject, "hold", { source: source("wait", language(subject)), count }, 30_000);
      const mebibytes = memory(subject);
      await ask(subject, "release", {}, 30_000);
      return mebibytes;
    };
    const first = await held(1);
    return (await held(HELD) - first) / (HELD - 1);
  });
  hosts.stop();
}

function summary(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const round = (value) => Number(value.toPrecision(4));
  return { median: round(sorted[sorted.length >> 1]), min: round(sorted[0]), max: round(sorted.at(-1)), count: sorted.length };
}
