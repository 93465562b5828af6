// The effects of hostile programs on each peer and its host: each program runs in a new host process.
import { HostFailed, resident } from "./host.mjs";
import { HOSTILE_PATIENCE_MS, hostile, hostileLimits, source, workLimits } from "./work.mjs";

const BEAT_MS = 50;
const SAMPLE_MS = 25;
const BLOCKED_MS = 500; // a host without a beat for so long is blocked
const MAX_GROWTH_MIB = 8192; // beyond that the host is killed at once, to protect this machine

export async function attack(subjects, rows, { report }) {
  for (const { peer, launch } of subjects) {
    const row = rows[peer.name];
    if (row.failure) continue;
    for (const { name } of hostile) {
      const reason = peer.unsupported?.[name];
      row.hostile[name] = reason ? { outcome: "unsupported", reason } : await once(peer, launch, name);
      report(`hostile: ${peer.name}: ${name}: ${JSON.stringify(row.hostile[name])}`);
    }
  }
}

/** The outcome of one program: the host's reply, how long the host was blocked, and by how much its memory grew. */
async function once(peer, launch, name) {
  const language = peer.runs ?? "js";
  let host;
  try {
    host = await launch({ beatMs: BEAT_MS });
  } catch (error) {
    return { outcome: "failed", reason: error.message };
  }
  try {
    await host.ask("run", { source: source("one-plus-one", language), limits: workLimits }, HOSTILE_PATIENCE_MS);
    const before = resident(host.child.pid);
    let peak = before;
    const sampler = setInterval(() => {
      peak = Math.max(peak, resident(host.child.pid));
      if (peak - before > MAX_GROWTH_MIB) host.kill();
    }, SAMPLE_MS);
    const started = performance.now();
    const found = await judge(host, peer, name, language);
    clearInterval(sampler);
    const silent = found.gapMs ?? (host.ended ? 0 : performance.now() - host.lastBeat);
    delete found.gapMs;
    return {
      ...found,
      ms: Math.round(found.ms ?? performance.now() - started),
      blockedMs: silent > BLOCKED_MS ? Math.round(silent) : 0,
      grewMiB: Math.max(0, Math.round(peak - before)),
    };
  } catch (error) {
    return { outcome: "failed", reason: error.message };
  } finally {
    host.kill();
  }
}

async function judge(host, peer, name, language) {
  let reply;
  try {
    reply = await host.ask("run", { source: source(`hostile/${name}`, language), limits: hostileLimits }, HOSTILE_PATIENCE_MS);
  } catch (error) {
    if (!(error instanceof HostFailed)) throw error;
    if (error.kind === "died") return { outcome: "died", reason: error.message };
    return { outcome: performance.now() - host.lastBeat > BLOCKED_MS ? "blocked" : "unstopped" };
  }
  const { ms, result, error, gapMs } = reply;
  if (name === "escape" && result === host.child.pid) return { outcome: "escaped", ms, gapMs };
  const after = await usable(host, language);
  if (after) return { outcome: after === "died" ? "died" : "unusable", reason: `after ${error?.label ?? "the end"}`, ms, gapMs };
  if (/^Aborted\(|unreachable|out of bounds/.test(error?.message)) return { outcome: "aborted", error: error.label, message: error.message.slice(0, 60), ms, gapMs };
  return error ? { outcome: "stopped", error: error.label, message: error.message, ms, gapMs } : { outcome: "ended", ms, gapMs };
}

/** Checks whether the next program works. Returns the failure, if any. */
async function usable(host, language) {
  try {
    const { result } = await host.ask("run", { source: source("one-plus-one", language), limits: workLimits }, HOSTILE_PATIENCE_MS);
    return result === 2 ? undefined : "wrong";
  } catch (error) {
    return error.kind ?? "wrong";
  }
}
